"""Pack the events of any DataFrame: four longs each in SQL, then one blob of bytes per window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecede.arrays import Flags, Ints
from antecede.pipeline.audits.windows.cuts import windows_of
from antecede.pipeline.audits.windows.edges import SIGNAL
from antecede.pipeline.audits.windows.matching import Events
from antecede.pipeline.spark.tasks import Batches

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: The low bits of a process's hash, which hold the kind of event instead.
KIND_BITS = 7
#: Rows packed at a time: large enough to be few, small enough for any worker.
PACK_ROWS = 1 << 20
BLOB_SQL = "id long, blob binary"


def message_key(salt: int) -> Column:
    """Return the hash of a message's name, as ``hashing`` computes it."""
    from pyspark.sql import functions as F

    return F.xxhash64("message") if salt == 0 else F.xxhash64(F.lit(str(salt)), "message")


def packed_columns(frame: DataFrame, salt: int) -> list[Column]:
    """Return the four longs of an event: process and kind, seq, message, destinations."""
    from pyspark.sql import functions as F

    is_send = F.col("kind") == "send"
    need, known = F.lit(0).cast("long"), F.lit(0).cast("long")
    if "dests" in frame.columns:
        one = F.xxhash64(F.element_at("dests", 1))
        many = F.aggregate(
            F.array_distinct("dests"),
            F.lit(0).cast("long"),
            lambda total, dest: total.bitwiseXOR(F.xxhash64(dest)),
        )
        stated = F.when(F.size("dests") == 1, one).otherwise(many)
        has = is_send & F.col("dests").isNotNull()
        need = F.when(has, stated).otherwise(F.lit(0).cast("long"))
        known = F.when(has, F.lit(4)).otherwise(F.lit(0)).cast("long")
    kind = F.when(is_send, F.lit(0)).when(F.col("kind") == "deliver", F.lit(1)).otherwise(F.lit(2))
    process = F.xxhash64("process").bitwiseAND(F.lit(~KIND_BITS).cast("long"))
    return [
        process.bitwiseOR(kind.cast("long")).bitwiseOR(known).alias("process"),
        F.col("seq").cast("long").alias("seq"),
        message_key(salt).alias("key"),
        need.alias("need"),
    ]


class ProcessCodes:
    """The hashes of processes' names without their low bits, and back to the processes."""

    def __init__(self, hashes: Ints) -> None:
        masked = hashes & ~KIND_BITS
        self._codes = masked
        self._order = np.argsort(masked)
        self._sorted = masked[self._order]

    @property
    def collide(self) -> bool:
        """Whether two processes have the same code."""
        return bool((self._sorted[1:] == self._sorted[:-1]).any())

    def encode(self, process: NDArray[Any], kind: NDArray[np.int8]) -> Ints:
        """Return the first of an event's four longs."""
        return np.asarray(self._codes[process] | kind)

    def decode(self, marked: Ints) -> tuple[Ints, NDArray[np.int8]]:
        """Return (process, kind) of the first of an event's four longs."""
        process = self._order[np.searchsorted(self._sorted, marked & ~KIND_BITS)]
        return process, (marked & KIND_BITS).astype(np.int8)


def events_in(table: pa.Table, processes: ProcessCodes) -> Events:
    """Return the events that the first four columns of a table hold as packed longs."""
    marked, seq, key, need = (np.array(table.column(c)) for c in range(4))
    process, kind = processes.decode(marked)
    return Events(process.astype(np.int32), seq, kind, key, need)


def packed_table(events: Events, processes: ProcessCodes) -> pa.Table:
    """Return events as a table of packed longs."""
    marked = processes.encode(events.process, events.kind)
    columns = {"process": marked, "seq": events.seq, "key": events.key, "need": events.need}
    return pa.table(columns)


def pack(batches: Batches, spec: dict[str, Any]) -> Batches:
    """Sort rows of four longs into blobs, one for each group of windows that is asked for."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= PACK_ROWS:
            yield _pack_rows(held, spec)
            held, rows = [], 0
    if held:
        yield _pack_rows(held, spec)


def _pack_rows(batches: list[pa.RecordBatch], spec: dict[str, Any]) -> pa.RecordBatch:
    columns = [np.concatenate([np.asarray(b.column(c)) for b in batches]) for c in range(4)]
    marked, seq, key, need = columns
    process, kind = spec["processes"].decode(marked)
    group = spec["group_of"][windows_of(process, seq, spec["cuts"])]
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(spec["groups"] + 1))
    numbers, blobs = [], []
    for number in range(spec["groups"]):
        rows = order[bounds[number] : bounds[number + 1]]
        if rows.size:
            numbers.append(number)
            blobs.append(_blob(process[rows], seq[rows], kind[rows], key[rows], need[rows]))
    arrays = [pa.array(numbers, pa.int64()), pa.array(blobs, pa.binary())]
    return pa.record_batch(arrays, names=["id", "blob"])


def _blob(process: Ints, seq: Ints, kind: NDArray[np.int8], key: Ints, need: Ints) -> bytes:
    """Return columns as bytes; destinations only for rows that have them."""
    stated = need[_has_need(kind)]
    parts = (
        np.array([process.size, stated.size]),
        seq,
        key,
        stated,
        process.astype(np.int32),
        kind,
    )
    return b"".join(part.tobytes() for part in parts)


def _has_need(kind: NDArray[Any]) -> Flags:
    """Return which rows use the column ``need``: sends with destinations, and ends of edges."""
    return np.asarray(kind >= SIGNAL)


def unpack(blobs: Sequence[Any]) -> Events:
    """Return the events of several blobs, in writable arrays."""
    parts: list[list[Ints]] = [[], [], [], [], []]
    for blob in blobs:
        rows, stated = np.frombuffer(blob, np.int64, 2).tolist()
        at = 16
        shapes = ((np.int64, rows), (np.int64, rows), (np.int64, stated), (np.int32, rows))
        for part, (kind, count) in zip(parts, (*shapes, (np.int8, rows)), strict=True):
            part.append(np.frombuffer(blob, kind, count, at))
            at += count * np.dtype(kind).itemsize
    seq, key, stated_need, process, kind_ = (np.concatenate(part) for part in parts)
    need = np.zeros(seq.size, np.int64)
    need[_has_need(kind_)] = stated_need
    return Events(process.astype(np.int32), seq, kind_.astype(np.int8), key, need)
