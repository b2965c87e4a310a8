"""A whole table at once: the same buckets, without state that outlives the call."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from antecede.pipeline.streams.bucket import Bucket, Policy
from antecede.pipeline.streams.layout import TIME


def order_table(table: pa.Table, policy: Policy, *, releases: bool) -> pa.Table:
    """Return a bucket's rows in causal order; at the end release what is held, if asked."""
    bucket = Bucket(policy)
    now = int(np.asarray(table.column(TIME).combine_chunks()).max())
    found = bucket.offer(table, now)
    rest = bucket.flush(now) if releases else None
    return found if rest is None else pa.concat_tables([found, rest])
