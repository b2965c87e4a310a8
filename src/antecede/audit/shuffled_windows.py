"""The arrangement for any DataFrame: hash in SQL, pack each window's rows into bytes, shuffle them.

Events are packed as four longs each, cuts are proposed by time and lowered by the events around
them, and each window travels to its task as one value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add, or_
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecede.arrays import Flags, Ints
from antecede.audit.local_windows import copies_of
from antecede.audit.windows.columns import to_events
from antecede.audit.windows.copies import Copies
from antecede.audit.windows.cuts import (
    NO_SEQ,
    lower,
    offsets,
    pairs_of,
    propose,
    rising,
    windows_of,
)
from antecede.audit.windows.edges import SIGNAL
from antecede.audit.windows.join import Open
from antecede.audit.windows.matching import Events, joined
from antecede.audit.windows.rounds import (
    Arrangement,
    Group,
    HashCollisionError,
    IncompleteError,
)
from antecede.audit.windows.window import Request, Window, run_window
from antecede.events import arrow_schemas
from antecede.events.hashing import hash_lists, hash_names
from antecede.spark.frames import frame_of, validity
from antecede.spark.tasks import (
    RESULT_SQL,
    Batches,
    by_number,
    on_batches,
    result,
    results_of,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


#: The low bits of a process's hash, which are replaced by the kind of event.
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
    """The hashes of processes' names without their low bits, and their inverse."""

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
    """Return the events packed as longs in the first four columns of a table."""
    marked, seq, key, need = (np.array(table.column(c)) for c in range(4))
    process, kind = processes.decode(marked)
    return Events(process.astype(np.int32), seq, kind, key, need)


def packed_table(events: Events, processes: ProcessCodes) -> pa.Table:
    """Return events as a table of packed longs."""
    marked = processes.encode(events.process, events.kind)
    columns = {"process": marked, "seq": events.seq, "key": events.key, "need": events.need}
    return pa.table(columns)


def pack(batches: Batches, spec: dict[str, Any]) -> Batches:
    """Sort rows of four longs into blobs, one for each wanted group of windows."""
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


#: How many times are sampled to cut the log into equal parts.
SAMPLE_ROWS = 100_000
#: The width of the band collected around each cut, as a fraction of the distance between cuts.
BAND = 0.01
#: Spark quickly optimises a disjunction of this many places; one of 64 took minutes.
DISJUNCTION_MAX = 12
#: How often to widen the band if clocks turn out to be further apart.
WIDENINGS = 3


@dataclass
class Stats:
    """What the survey of a log found; ``low`` and ``high`` are each process's extreme seqs."""

    names: list[str]
    events: int
    rejected: int
    low: Ints
    high: Ints
    timed: bool
    early: float
    late: float


def survey(frame: DataFrame) -> Stats:
    """Count the events and list the processes with their seqs and times."""
    from pyspark.sql import functions as F

    good = validity(frame)
    has_time = "time" in frame.columns
    when = F.col("time").cast("double") if has_time else F.lit(None).cast("double")
    rows = (
        frame.select(F.when(good, F.col("process")).alias("process"), "seq", when.alias("time"))
        .groupBy("process")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.min("seq").alias("low"),
            F.max("seq").alias("high"),
            F.count("time").alias("timed"),
            F.min("time").alias("early"),
            F.max("time").alias("late"),
        )
        .collect()
    )
    known = sorted((row for row in rows if row["process"] is not None), key=lambda r: r["process"])
    rejected = sum(row["rows"] for row in rows if row["process"] is None)
    timed = has_time and all(
        row["timed"] == row["rows"] and np.isfinite([row["early"], row["late"]]).all()
        for row in known
    )
    return Stats(
        [row["process"] for row in known],
        sum(row["rows"] for row in known),
        rejected,
        np.array([row["low"] for row in known], np.int64),
        np.array([row["high"] for row in known], np.int64),
        timed,
        min((row["early"] for row in known), default=0.0) if timed else 0.0,
        max((row["late"] for row in known), default=0.0) if timed else 1.0,
    )


def with_hint(frame: DataFrame, stats: Stats) -> DataFrame:
    """Add ``hint``: the time, or the fraction of its own events that a process has behind it."""
    from pyspark.sql import functions as F

    if stats.timed:
        return frame.withColumn("hint", F.col("time").cast("double"))
    import pyarrow as pa

    span = np.maximum(stats.high.astype(float) - stats.low.astype(float), 1.0)
    table = pa.table({"process": stats.names, "low": stats.low, "span": span})
    ends = frame_of(frame.sparkSession, table)
    joined = frame.join(F.broadcast(ends), "process", how="inner")
    return joined.withColumn("hint", (F.col("seq").cast("double") - F.col("low")) / F.col("span"))


def find_cuts(
    frame: DataFrame, stats: Stats, windows: int, salt: int, edges: Events | None = None
) -> Ints:
    """Return cuts, one row of seqs each, made consistent with nearby events and edges."""
    n = len(stats.names)
    hinted = with_hint(frame, stats)
    places = _places(hinted, stats, windows)
    if not places.size:
        return np.empty((0, n), np.int64)
    gap = float(np.min(np.diff(np.append(places, 2 * places[-1] - places[0])), initial=np.inf))
    width = BAND * (gap if np.isfinite(gap) and gap > 0 else 1.0)
    events, hint = _band(hinted, stats, places, width, salt)
    ahead = offsets(events, pairs_of(events), hint, n) if stats.timed else np.zeros(n)
    for _ in range(WIDENINGS):
        most = float(np.abs(ahead).max(initial=0.0))
        if most < width / 2:
            break
        width = max(4 * most, 4 * width)
        events, hint = _band(hinted, stats, places, width, salt)
        ahead = offsets(events, pairs_of(events), hint, n)
    found = []
    for place in places:
        near = np.flatnonzero(np.abs(hint - place) <= width)
        around = events.take(near)
        proposed = propose(around, hint[near], place + ahead)
        bound = around if edges is None else joined([around, edges])
        found.append(lower(proposed, bound, pairs_of(bound)))
    return np.array(rising(_with_silent(hinted, stats, found, places, ahead)))


def _places(hinted: DataFrame, stats: Stats, windows: int) -> NDArray[np.float64]:
    """Return the hints that cut the log into equal parts."""
    parts = np.arange(1, windows) / windows
    if not stats.timed:
        return parts
    fraction = min(1.0, SAMPLE_ROWS / stats.events)
    rows = hinted.select("hint")
    sampled = rows.sample(fraction=fraction, seed=0) if fraction < 1.0 else rows
    times = np.asarray(sampled.toArrow().column("hint").combine_chunks())
    return np.unique(np.quantile(times, parts)) if times.size else np.empty(0)


def _around(places: NDArray[np.float64], width: float) -> Column:
    """Return whether a hint is near one of ``places``.

    With a disjunction, Spark can skip files by their statistics, but its optimiser expands it, so
    with many places a sum is quicker.
    """
    from pyspark.sql import functions as F

    near = [F.col("hint").between(place - width, place + width) for place in places.tolist()]
    if len(near) <= DISJUNCTION_MAX:
        return reduce(or_, near)
    return reduce(add, [inside.cast("int") for inside in near]) > 0


def _band(
    hinted: DataFrame, stats: Stats, places: NDArray[np.float64], width: float, salt: int
) -> tuple[Events, NDArray[np.float64]]:
    """Collect the events around all places."""
    near = hinted.filter(_around(places, width))
    table = near.select(*packed_columns(hinted, salt), "hint").toArrow().combine_chunks()
    events = events_in(table, ProcessCodes(hash_names(stats.names)))
    return events, np.array(table.column("hint"))


def _with_silent(
    hinted: DataFrame,
    stats: Stats,
    cuts: list[Ints],
    places: NDArray[np.float64],
    ahead: NDArray[np.float64],
) -> list[Ints]:
    """Fill in the seqs of processes that have no event near a cut."""
    from pyspark.sql import functions as F

    silent = sorted({int(p) for cut in cuts for p in np.flatnonzero(cut == NO_SEQ)})
    if not silent:
        return cuts
    offset = F.create_map(*[F.lit(x) for p in silent for x in (stats.names[p], float(ahead[p]))])
    own = F.col("hint") - offset[F.col("process")]
    last = [
        F.max(F.when(own <= F.lit(place), F.col("seq"))).alias(f"cut{k}")
        for k, place in enumerate(places.tolist())
    ]
    names = [stats.names[p] for p in silent]
    rows = hinted.filter(F.col("process").isin(names)).groupBy("process").agg(*last).collect()
    found = {row["process"]: row for row in rows}
    for k, cut in enumerate(cuts):
        for p in np.flatnonzero(cut == NO_SEQ):
            value = found[stats.names[p]][f"cut{k}"]
            cut[p] = max(stats.low[p], NO_SEQ + 2) - 1 if value is None else value
    return cuts


class ShuffledWindows(Arrangement):
    """A log in a DataFrame, cut by ``cuts``."""

    facts = MappingProxyType({"engine": "spark", "arrangement": "blobs"})

    def __init__(
        self,
        frame: DataFrame,
        stats: Stats,
        cuts: Ints,
        salt: int,
        edges: Events | None = None,
        ahead: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        self.frame = frame  # valid events only
        self.ahead = ahead
        self.has_clocks = edges is not None
        self.names = stats.names
        self.hashes = hash_names(stats.names)
        self.windows = len(cuts) + 1
        self.rejected = stats.rejected
        self._events = stats.events
        self._cuts = cuts
        self._salt = salt
        self._processes = ProcessCodes(self.hashes)
        if self._processes.collide:
            raise HashCollisionError
        self._edges: DataFrame | None = None
        if edges is not None and len(edges):
            table = packed_table(edges, self._processes)
            self._edges = frame_of(frame.sparkSession, table)

    def _packed(self, groups: Sequence[Group]) -> DataFrame:
        group_of = np.full(self.windows, len(groups), np.int64)
        for number, (first, last) in enumerate(groups):
            group_of[first : last + 1] = number
        spec = {
            "processes": self._processes,
            "cuts": self._cuts,
            "group_of": group_of,
            "groups": len(groups),
        }
        rows = self.frame.select(*packed_columns(self.frame, self._salt))
        if self._edges is not None:
            rows = rows.unionByName(self._edges)
        return rows.mapInArrow(on_batches(pack, spec), BLOB_SQL)

    def run(self, work: Sequence[tuple[Group, Request]]) -> list[Window]:
        """Run each group of windows as one window."""
        blobs = self._packed([group for group, _ in work])
        spec = {"hashes": self.hashes, "requests": [request for _, request in work]}
        spread = by_number(blobs, len(work))
        found = results_of(spread.mapInArrow(on_batches(run_shuffled, spec), RESULT_SQL))
        return [
            found.get(number) or _empty(self.hashes, work[number][1]) for number in range(len(work))
        ]

    def confirm(self, windows: Sequence[Window]) -> None:
        """Check that every event is in exactly one window."""
        if sum(window.events for window in windows) != self._events:
            raise IncompleteError

    def _rows_of(self, keys: Sequence[int], *columns: str) -> list[Any]:
        from pyspark.sql import functions as F

        spark = self.frame.sparkSession
        wanted = frame_of(spark, pa.table({"key": pa.array(keys, pa.int64())}))
        rows = self.frame.select(message_key(self._salt).alias("key"), "kind", "message", *columns)
        table = rows.join(F.broadcast(wanted), "key", how="inner").toArrow()
        return list(table.to_pylist())

    def names_of(self, keys: Sequence[int]) -> Mapping[int, str]:
        """Return the names of messages that no window has named, by key."""
        found: dict[int, str] = {}
        for row in self._rows_of(keys):
            if (
                row["kind"] != "local"
                and found.setdefault(row["key"], row["message"]) != row["message"]
            ):
                raise HashCollisionError
        return found

    def dests(self, messages: Sequence[Open]) -> Mapping[int, tuple[str, ...] | None]:
        """Return the destinations of messages for which no window gave them, by key."""
        if "dests" not in self.frame.columns:
            return {}
        names = {m.key: self.alias.get(m.key, m.key) for m in messages}
        owners = {(names[m.key], self.names[m.sender], m.seq): m.key for m in messages}
        rows = self._rows_of(sorted(set(names.values())), "dests", "process", "seq")
        stated: dict[int, list[tuple[str, ...]]] = {}
        for row in rows:
            key = owners.get((row["key"], row["process"], row["seq"]))
            if row["kind"] == "send" and row["dests"] is not None and key is not None:
                stated.setdefault(key, []).append(tuple(row["dests"]))
        # If rows contradict each other, take the one that the windows take.
        return {key: min(several, key=_need) for key, several in stated.items()}

    def copies(self, keys: Ints) -> Copies:
        """Return all sends and deliveries of some messages."""
        has_dests = "dests" in self.frame.columns
        columns = ["process", "seq", "dests"] if has_dests else ["process", "seq"]
        table = pa.Table.from_pylist(
            [row for row in self._rows_of(keys.tolist(), *columns) if row["kind"] != "local"],
            pa.schema(
                [("key", pa.int64()), *((c, arrow_schemas.EVENTS.field(c).type) for c in columns)]
            )
            .append(arrow_schemas.EVENTS.field("kind"))
            .append(arrow_schemas.EVENTS.field("message")),
        )
        events = to_events(table, self.names, self._salt)
        dests = table.column("dests").to_pylist() if has_dests else [None] * len(table)
        return copies_of(events, dests, self.names)

    def events_of(self, group: Group) -> Events:
        """Return the events of a group of windows."""
        table = self._packed([group]).toArrow()
        return unpack([blob.as_buffer() for blob in table.column("blob")])


def run_shuffled(batches: Batches, spec: dict[str, Any]) -> Batches:
    """Combine the blobs of each window in a partition, and run the window."""
    blobs: dict[int, list[Any]] = {}
    for batch in batches:
        for number, blob in zip(batch.column(0).to_numpy(), batch.column(1), strict=True):
            blobs.setdefault(int(number), []).append(blob.as_buffer())
    for number in sorted(blobs):
        events = unpack(blobs.pop(number))
        yield result(number, run_window(events, spec["hashes"], spec["requests"][number]))


def _need(dests: tuple[str, ...]) -> int:
    return int(hash_lists(pa.chunked_array([pa.array([dests], pa.list_(pa.string()))]))[0])


def _empty(hashes: Ints, request: Request) -> Window:
    """Return the result of a window without events."""
    none = np.empty(0, np.int64)
    events = Events(none.astype(np.int32), none, none.astype(np.int8), none, none)
    return run_window(events, hashes, request)
