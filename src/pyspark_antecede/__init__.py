"""Lets Spark find the format ``antecede.nats`` by itself.

Spark looks for modules named ``pyspark_*`` and takes their ``DefaultSource``. On versions of Spark
that lack what the source needs there is none, and nothing else is disturbed.
"""

import contextlib

with contextlib.suppress(ImportError):
    from antecede.reorder.nats_source import NatsSource as DefaultSource

__all__ = ["DefaultSource"]
