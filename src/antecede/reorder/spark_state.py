"""A bucket inside Spark: ``transformWithState`` gets packed rows, and the state store its state.

Each call into Spark's state store is expensive, and so is each row that crosses to Python. So rows
are packed into one Arrow stream per bucket before the shuffle, and unpacked after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from antecede.reorder.bucket import Bucket, Policy, check_head
from antecede.reorder.columns import ACTION, BUCKET, KEY, Number, numbered
from antecede.reorder.store import (
    STATE,
    Part,
    Parts,
    pack_table,
    read_head,
    sorted_parts,
    unpack_table,
    write_head,
)
from antecede.spark.tasks import spare_what_is_loaded

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )

PACKED = "bucket int, rows binary"
#: Of a bucket's rows in a batch, one has the figures; the others have packed rows.
EMITTED = (
    "bucket int, rows binary, came long, went long, duplicates long, rejected long, held long, "
    "oldest long"
)
#: The most rows of a packed value on the way out, and about how many bytes.
ROWS_MAX, BYTES_MAX = 50_000, 32 << 20
#: How many buckets a Python worker remembers between batches.
CACHED_MAX = 256

#: The bucket without rows that records what a checkpoint fixes, such as the number of buckets.
#: Every batch checks it; other buckets might not have had their destinations before.
EVERY_QUERY = -1

# Spark would parse a schema given as a string in every batch.
_KEY = StructType().add("part", StringType()).add("number", LongType())
_VALUE = StructType().add("value", BinaryType())

_buckets_kept: dict[str, Bucket] = {}


def pack(
    batches: Iterable[pa.RecordBatch], number: Number, *, keeps_rejected: bool
) -> Iterator[pa.RecordBatch]:
    """Add numbers to rows and pack them into one value per bucket, for ``mapInArrow``."""
    is_marked = False
    for batch in batches:
        if not batch.num_rows:
            continue
        if not is_marked:
            is_marked = True
            yield _packed([EVERY_QUERY], [None])
        table = numbered(batch, number, keeps_rejected=keeps_rejected)
        buckets = np.asarray(table.column(BUCKET).combine_chunks())
        order = np.argsort(buckets, kind="stable")
        table = table.drop_columns([BUCKET]).take(pa.array(order))
        ends = np.flatnonzero(np.diff(buckets[order], append=-1)) + 1
        start, found, packed = 0, [], []
        for end in ends.tolist():
            for part in _parts_of(table.slice(start, end - start)):
                found.append(int(buckets[order[start]]))
                packed.append(pack_table(part))
            start = end
        yield _packed(found, packed)
    spare_what_is_loaded()


def pack_commands(batches: Iterable[pa.RecordBatch], number: Number) -> Iterator[pa.RecordBatch]:
    """Pack commands in the same way as rows, for ``mapInArrow``."""
    for batch in batches:
        table = number(pa.Table.from_batches([batch]))
        for at, bucket in enumerate(table.column(BUCKET).to_pylist()):
            one = table.slice(at, 1).drop_columns([BUCKET])
            yield _packed([bucket], [pack_table(one)])


def _packed(buckets: list[int], rows: Sequence[bytes | None]) -> pa.RecordBatch:
    arrays = [pa.array(buckets, pa.int32()), pa.array(rows, pa.binary())]
    return pa.record_batch(arrays, names=["bucket", "rows"])


def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows that were packed, for ``mapInArrow``."""
    for batch in batches:
        for packed in batch.column(0):
            if packed.is_valid:
                yield from unpack_table(packed.as_buffer()).to_batches()
    spare_what_is_loaded()


class SparkStore:
    """One bucket's state in Spark's state store: that of the bucket whose key is current.

    It is a single variable, because Spark sets up every variable in each batch and partition. In
    version 1 of the layout ``STATE`` was another kind of variable, so Spark refuses those
    checkpoints before a batch runs.
    """

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._map = handle.getMapState(STATE, _KEY, _VALUE)

    def get(self, part: Part, number: int) -> bytes | None:
        found = self._map.getValue((part, number))
        return None if found is None else bytes(found[0])

    def parts(self) -> Parts:
        return sorted_parts((*key, bytes(value[0])) for key, value in self._map.iterator())

    def put(self, part: Part, number: int, value: bytes) -> None:
        self._map.updateValue((part, number), (value,))

    def remove(self, part: Part, number: int) -> None:
        self._map.removeKey((part, number))


class Reorder(StatefulProcessor):
    """Runs the buckets of a partition."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state."""
        self.handle = handle
        self.store = SparkStore(handle)

    def handleInputRows(
        self, key: Any, rows: Iterator[Any], timerValues: TimerValues
    ) -> Iterator[Row]:
        """Take a batch's rows of one bucket."""
        if key[0] == EVERY_QUERY:
            self._check_query()
            return
        packed = list(rows)
        now = int(packed[0].now)
        tables = [unpack_table(row.rows) for row in packed]
        offered = [table for table in tables if ACTION not in table.column_names]
        told = [table for table in tables if ACTION in table.column_names]
        bucket = self._load()
        before = bucket.machine.deadline()
        came, results = 0, list[pa.Table | None]()
        if offered:
            table = pa.concat_tables(offered)
            came = len(table)
            results.append(bucket.offer(table, now))
        if told:
            columns = (pa.concat_tables(told).column(name).to_pylist() for name in (ACTION, KEY))
            results.append(bucket.obey(zip(*columns, strict=True), now))
        yield from self._finish(key[0], bucket, results, before, came=came)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Row]:
        """Release what has been held too long."""
        now = 1000 * timerValues.getCurrentProcessingTimeInMs()
        bucket = self._load()
        yield from self._finish(key[0], bucket, [bucket.expire(now)], None, came=0)

    def _check_query(self) -> None:
        """Refuse a checkpoint of another query or another version; mark a new one."""
        head = read_head(self.store)
        if head:
            check_head(head, self.policy)
        else:
            write_head(self.store, Bucket(self.policy).head())

    def _load(self) -> Bucket:
        """Return the bucket: this worker's copy brought up to date, or all of it from the store."""
        head = read_head(self.store)
        for token in reversed(head.get("trail", [])):
            cached = _buckets_kept.pop(token, None)
            if cached is not None and cached.policy == self.policy:
                if cached.catch_up(self.store, head):
                    return cached
                break
        return Bucket.load(self.policy, self.store)

    def _finish(
        self,
        number: int,
        bucket: Bucket,
        results: list[pa.Table | None],
        before: int | None,
        came: int,
    ) -> Iterator[Row]:
        machine = bucket.machine
        bucket.save(self.store)
        duplicates, machine.duplicates = machine.duplicates, 0
        rejected, bucket.rejected = bucket.rejected, 0
        set_timer(self.handle, before, machine.deadline())
        _keep(bucket)
        went = 0
        for result in filter(None, results):
            went += len(result) - result.column("position").null_count
            for part in _parts_of(result):
                yield _emitted(number, rows=pack_table(part))
        figures = {"came": came, "went": went, "duplicates": duplicates, "rejected": rejected}
        yield _emitted(number, **figures, held=len(machine.held), oldest=machine.oldest())
        spare_what_is_loaded()

    def close(self) -> None:
        """Spark closes the state itself."""


def order_stream(packed: DataFrame, policy: Policy, mode: str) -> DataFrame:
    """Return the results of the buckets for packed rows, which first get the time of the batch."""
    grouped = packed.select("*", _time_of_batch().alias("now")).groupBy("bucket")
    if hasattr(grouped, "transformWithState"):
        return grouped.transformWithState(Reorder(policy), EMITTED, "append", mode)
    # Spark 4.0 supports this only with pandas.
    return grouped.transformWithStateInPandas(ReorderInPandas(policy), EMITTED, "append", mode)


def _time_of_batch() -> Column:
    """Return the time of the batch in microseconds, the same if the batch is repeated.

    Spark writes the time into the code that it generates, and would compile that code again for
    each batch, on the driver and in the tasks. It generates none for ``array_sort`` and its
    operands.
    """
    from pyspark.sql import functions as F

    now = F.unix_micros(F.current_timestamp())
    return F.array_sort(F.array(now))[0]


class ReorderInPandas(Reorder):
    """The same for Spark 4.0, which passes frames of pandas in and out."""

    def handleInputRows(
        self, key: Any, rows: Iterator[Any], timerValues: TimerValues
    ) -> Iterator[Any]:
        """Take a batch's rows of one bucket."""
        found = (row for frame in rows for row in frame.itertuples(index=False))
        return map(_frame, super().handleInputRows(key, found, timerValues))

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Any]:
        """Release what has been held too long."""
        return map(_frame, super().handleExpiredTimer(key, timerValues, expiredTimerInfo))


def _frame(row: Row) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame([tuple(row)], columns=_NAMES, dtype=object)


def _keep(bucket: Bucket) -> None:
    """Cache a bucket for its next batch, and other buckets up to the bytes it may hold itself."""
    kept, most = _buckets_kept, bucket.policy.held_bytes_max
    while kept and (len(kept) >= CACHED_MAX or sum(map(Bucket.held_bytes, kept.values())) > most):
        del kept[next(iter(kept))]
    kept[bucket.trail[-1]] = bucket


_NAMES = [word.split()[0] for word in EMITTED.split(", ")]


def _parts_of(table: pa.Table) -> Iterator[pa.Table]:
    """Split rows into parts that are neither too long nor too large for one value."""
    parts = max(-(-len(table) // ROWS_MAX), -(-table.nbytes // BYTES_MAX))
    step = max(1, -(-len(table) // parts)) if parts else 1
    return (table.slice(start, step) for start in range(0, len(table), step))


def _emitted(bucket: int, **values: object) -> Row:
    return Row(**(dict.fromkeys(_NAMES) | values | {"bucket": bucket}))


def set_timer(handle: StatefulProcessorHandle, before: int | None, after: int | None) -> None:
    """Keep one timer, at the earliest deadline; deadlines are in microseconds."""
    if before != after:
        if before is not None:
            handle.deleteTimer(-(-before // 1000))
        if after is not None:
            handle.registerTimer(-(-after // 1000))
