"""A whole table at once: the same buckets, without state that outlives the call."""

from __future__ import annotations

import pyarrow as pa

from antecede.pipeline.streams.bucket import Bucket, Policy
from antecede.pipeline.streams.hashing import with_causes


def order_table(
    table: pa.Table, policy: Policy, *, releases: bool, words: str | None = None
) -> pa.Table:
    """Return a bucket's rows in causal order; at the end release what is held, if asked.

    ``words`` is the column of causes that are not hashed yet.
    """
    bucket = Bucket(policy)
    found = bucket.offer(with_causes(table, words), 0)
    rest = bucket.flush(0) if releases else None
    return found if rest is None else pa.concat_tables([found, rest])
