"""Causal order for streams: the state machine, its state in Spark, and the function ``reorder``.

Spark finds the classes of this package by name. So here, where their import begins, executors that
got the package as a zip file turn to their unpacked copy of it.
"""

from antecede.spark.ship import use_unpacked

use_unpacked()
