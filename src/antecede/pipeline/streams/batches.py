"""A whole table at once: the same buckets, without state that outlives the call."""

from __future__ import annotations

import pyarrow as pa

from antecede.pipeline.streams.bucket import Bucket, Policy


def order_table(table: pa.Table, policy: Policy, *, releases: bool) -> pa.Table:
    """Return a bucket's rows in causal order; at the end release what is held, if asked."""
    bucket = Bucket(policy)
    found = bucket.offer(table, 0)
    rest = bucket.flush(0) if releases else None
    return found if rest is None else pa.concat_tables([found, rest])
