"""Any DataFrame: ids hashed in SQL, rows packed into one blob per window, blobs shuffled.

Rows are never shuffled as rows, and sends are never joined with deliveries: on two cores that
alone would take longer than everything done here.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from antecede.pipeline.audits.windows.cuts import windows_of
from antecede.pipeline.audits.windows.hashing import hash_lists, hash_names
from antecede.pipeline.audits.windows.matching import Events
from antecede.pipeline.audits.windows.rounds import HashCollision, Incomplete
from antecede.pipeline.audits.windows.window import Request, find_chains
from antecede.pipeline.spark import tasks as audit_tasks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame

    from antecede.pipeline.audits.frame_cuts import Cuts
    from antecede.pipeline.audits.windows.jit import Ints
    from antecede.pipeline.audits.windows.join import Open
    from antecede.pipeline.audits.windows.rounds import Group
    from antecede.pipeline.audits.windows.window import Window

#: The low bits of a process's hash make room for the kind of event.
KIND_BITS = 7


def message_key(salt: int) -> Column:
    """Return the hash of a message's name, the same that ``hashing`` computes."""
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


def pack_rows(batches: list[pa.RecordBatch], spec: dict[str, Any]) -> pa.RecordBatch:
    """Sort rows into the groups of windows that are asked for; one blob each."""
    columns = [np.concatenate([np.asarray(b.column(c)) for b in batches]) for c in range(4)]
    marked, seq, key, need = columns
    hashes = spec["process_hashes"]
    process = spec["process_order"][np.searchsorted(hashes, marked & ~KIND_BITS)]
    kind = (marked & KIND_BITS).astype(np.int8)
    window = windows_of(process, seq, spec["cuts"])
    group = spec["group_of"][window]
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(spec["groups"] + 1))
    numbers, blobs = [], []
    for number in range(spec["groups"]):
        rows = order[bounds[number] : bounds[number + 1]]
        if rows.size:
            numbers.append(number)
            blobs.append(_blob(process[rows], seq[rows], kind[rows], key[rows], need[rows]))
    arrays = [pa.array(numbers, pa.int64()), pa.array(blobs, pa.binary())]
    return pa.record_batch(arrays, schema=audit_tasks.BLOB)


def _blob(process: Ints, seq: Ints, kind: NDArray[np.int8], key: Ints, need: Ints) -> bytes:
    """Put columns into bytes; destinations only of sends, for nothing else has them."""
    stated = need[kind == 4]
    parts = (
        np.array([process.size, stated.size]),
        seq,
        key,
        stated,
        process.astype(np.int32),
        kind,
    )
    return b"".join(part.tobytes() for part in parts)


def unpack(blobs: Sequence[Any]) -> Events:
    """Return the events of several blobs, in arrays that may be written."""
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
    need[kind_ == 4] = stated_need
    return Events(process.astype(np.int32), seq, kind_.astype(np.int8), key, need)


class Blobs:
    """A log in a DataFrame, cut by ``cuts``."""

    def __init__(self, frame: DataFrame, cuts: Cuts, salt: int) -> None:
        self.frame = frame  # valid events only
        self.names = cuts.names
        self.hashes = hash_names(cuts.names)
        self.windows = len(cuts.seqs) + 1
        self._cuts = cuts
        self._salt = salt
        masked = self.hashes & ~KIND_BITS
        self._order = np.argsort(masked)
        self._masked = masked[self._order]
        if (self._masked[1:] == self._masked[:-1]).any():
            raise HashCollision

    def _packed(self, groups: Sequence[Group]) -> DataFrame:
        group_of = np.full(self.windows, len(groups), np.int64)
        for number, (first, last) in enumerate(groups):
            group_of[first : last + 1] = number
        spec = {
            "process_hashes": self._masked,
            "process_order": self._order,
            "cuts": self._cuts.seqs,
            "group_of": group_of,
            "groups": len(groups),
        }
        rows = self.frame.select(*packed_columns(self.frame, self._salt))
        return rows.mapInArrow(audit_tasks.pack(spec), audit_tasks.BLOB_SQL)

    def run(self, work: Sequence[tuple[Group, Request]]) -> list[Window]:
        """Run each group of windows as one window."""
        blobs = self._packed([group for group, _ in work])
        spec = {"hashes": self.hashes, "requests": [request for _, request in work]}
        spread = by_number(blobs, len(work))
        frame = spread.mapInArrow(audit_tasks.run_blobs(spec), audit_tasks.RESULT_SQL)
        found = results_of(frame)
        empty = self.frame.sparkSession  # Keeps the session alive for the length of the call.
        assert empty is not None
        return [
            found.get(number) or _empty(self.hashes, work[number][1]) for number in range(len(work))
        ]

    def confirm(self, windows: Sequence[Window]) -> None:
        """Check that every event is in exactly one window."""
        if sum(window.events for window in windows) != self._cuts.events:
            raise Incomplete

    def _rows_of(self, keys: Sequence[int], *columns: str) -> list[Any]:
        from pyspark.sql import functions as F

        spark = self.frame.sparkSession
        wanted = spark.createDataFrame(pa.table({"key": pa.array(keys, pa.int64())}))
        rows = self.frame.select(message_key(self._salt).alias("key"), "kind", "message", *columns)
        table = rows.join(F.broadcast(wanted), "key", how="inner").toArrow()
        return list(table.to_pylist())

    def spell(self, keys: Sequence[int]) -> Mapping[int, str]:
        """Return the names of messages that no window has named."""
        found: dict[int, str] = {}
        for row in self._rows_of(keys):
            if (
                row["kind"] != "local"
                and found.setdefault(row["key"], row["message"]) != row["message"]
            ):
                raise HashCollision
        return found

    def dests(self, messages: Sequence[Open]) -> Mapping[int, tuple[str, ...] | None]:
        """Return the stated destinations of messages of which no window told them."""
        if "dests" not in self.frame.columns:
            return {}
        owners = {(m.key, self.names[m.sender], m.seq) for m in messages}
        rows = self._rows_of(sorted(m.key for m in messages), "dests", "process", "seq")
        stated: dict[int, list[tuple[str, ...]]] = {}
        for row in rows:
            place = (row["key"], row["process"], row["seq"])
            if row["kind"] == "send" and row["dests"] is not None and place in owners:
                stated.setdefault(row["key"], []).append(tuple(row["dests"]))
        # Where rows contradict each other, the one that comes first for the windows.
        return {key: min(several, key=_need) for key, several in stated.items()}

    def chains(
        self, group: Group, settled: tuple[Ints, Ints, Ints], pairs: Sequence[tuple[int, int]]
    ) -> list[list[int]]:
        """Return shortest chains between keys sent within a group of windows."""
        table = self._packed([group]).toArrow()
        events = unpack([blob.as_buffer() for blob in table.column("blob")])
        return find_chains(events, self.hashes, settled, pairs)


def _need(dests: tuple[str, ...]) -> int:
    return int(hash_lists(pa.chunked_array([pa.array([dests], pa.list_(pa.string()))]))[0])


def _empty(hashes: Ints, request: Request) -> Window:
    """Return the result of a window that got no events."""
    from antecede.pipeline.audits.windows.window import run_window

    none = np.empty(0, np.int64)
    events = Events(none.astype(np.int32), none, none.astype(np.int8), none, none)
    return run_window(events, hashes, request)


def by_number(frame: DataFrame, count: int) -> DataFrame:
    """Spread rows over ``count`` partitions by ``id``: a partition each, where Spark can."""
    from pyspark.sql import functions as F

    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(count, F.col("id").cast("int"))
    return frame.repartition(count, "id")


def results_of(frame: DataFrame) -> dict[int, Any]:
    """Run the tasks and return what they pickled, by number."""
    table = frame.toArrow()
    numbers = np.asarray(table.column("id").combine_chunks()).tolist()
    data = (result.as_buffer() for result in table.column("result"))
    return {number: pickle.loads(blob) for number, blob in zip(numbers, data, strict=True)}  # noqa: S301  (our tasks' own)
