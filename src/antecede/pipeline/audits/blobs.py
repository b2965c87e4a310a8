"""The arrangement for any DataFrame: hash in SQL, pack rows into blobs per window, shuffle these.

Rows are never shuffled as rows, and sends are never joined with deliveries. On two cores, either
alone would take longer than everything done here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from antecede.arrays import Ints
from antecede.events import arrow_schemas
from antecede.events.hashing import hash_lists, hash_names
from antecede.pipeline.audits.frame_cuts import Stats
from antecede.pipeline.audits.local import copies_of
from antecede.pipeline.audits.packing import (
    BLOB_SQL,
    ProcessCodes,
    message_key,
    pack,
    packed_columns,
    packed_table,
    unpack,
)
from antecede.pipeline.audits.windows.columns import to_events
from antecede.pipeline.audits.windows.copies import Copies
from antecede.pipeline.audits.windows.join import Open
from antecede.pipeline.audits.windows.matching import Events
from antecede.pipeline.audits.windows.rounds import (
    Arrangement,
    Group,
    HashCollisionError,
    IncompleteError,
)
from antecede.pipeline.audits.windows.window import Request, Window, run_window
from antecede.pipeline.spark.tasks import (
    RESULT_SQL,
    Batches,
    by_number,
    on_batches,
    result,
    results_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Blobs(Arrangement):
    """A log in a DataFrame, cut by ``cuts``."""

    facts: ClassVar = {"engine": "spark", "arrangement": "blobs"}

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
            self._edges = frame.sparkSession.createDataFrame(table)

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
        found = results_of(spread.mapInArrow(on_batches(run_blobs, spec), RESULT_SQL))
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
        wanted = spark.createDataFrame(pa.table({"key": pa.array(keys, pa.int64())}))
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


def run_blobs(batches: Batches, spec: dict[str, Any]) -> Batches:
    """Put the blobs of each window of a partition together and run it."""
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
