"""Causal order for streams: the state machine, its state in Spark, and the function ``reorder``.

Spark imports the classes of this package by name. So the import switches here, on executors that
got the package as a zip file, to their unpacked copy of it.
"""

from antecede.spark.ship import use_unpacked

use_unpacked()
