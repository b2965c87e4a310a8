"""Logs in Arrow tables and in Spark frames that can be asked for some of their events."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.arrays import Column, Ints
from antecede.audit.around import REACH, Lines, Points, in_turn
from antecede.events import Event
from antecede.events.tables import CLOCK, DELIVER, EVENT_COLUMNS, SEND
from antecede.report.diagrams import ClockedEvent
from antecede.spark.frames import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
_COLUMNS = (*EVENT_COLUMNS, CLOCK)
#: How often the search for events around a place is widened.
_TRIES = 5
#: So many places are sent to every task; more are joined by a shuffle.
BROADCAST_MAX = 200_000

Near = dict[tuple[int, int], tuple[int, list[int]]]
"""(process as a number, seq) -> how many of its events come before it, and the seqs around it."""


def seqs_near(process: Ints, seq: Ints, points: Mapping[int, Sequence[int]]) -> Near:
    """Return the seqs that a part of a log has around ``points``; processes are numbers here."""
    found: Near = {}
    for key, places in points.items():
        mine = np.sort(seq[process == key])
        for place, at in zip(places, np.searchsorted(mine, places).tolist(), strict=True):
            found[key, place] = at, mine[max(0, at - REACH) : at + REACH + 1].tolist()
    return found


def _is_enough(seq: int, near: tuple[int, list[int]], events: int) -> bool:
    """Return whether the seqs around a place are all that are to be shown."""
    count, seqs = near
    before = bisect_left(seqs, seq)
    return before >= min(REACH, count) and len(seqs) - before > min(REACH, events - count - 1)


def _lines(events: Sequence[Event], near: Mapping[tuple[str, int], tuple[int, list[int]]]) -> Lines:
    """Return the events around some places, by their place in the process's order."""
    lines: Lines = {}
    ordered = sorted(events, key=lambda e: (e.process, e.seq, e.kind, e.message or ""))
    for (name, seq), (count, seqs) in near.items():
        mine = [event for event in ordered if event.process == name]
        low = bisect_left(mine, seq, key=lambda e: e.seq) - bisect_left(seqs, seq)
        first = count - bisect_left(seqs, seq)
        shown = mine[low : low + len(seqs)]
        lines.setdefault(name, {}).update(enumerate(shown, start=first))
    return lines


class TableRows:
    """A log in an Arrow table."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table.select([name for name in _COLUMNS if name in table.column_names])

    def __len__(self) -> int:
        return len(self._table)

    def some_message(self) -> str:
        """Return the id of some message, as an example."""
        names = self._table.column("message").drop_null()
        return str(names[0]) if len(names) else ""

    def beginning(self, count: int) -> list[Event]:
        """Return ``count`` events: the first of each process in turn, causes before effects."""
        table = self._table.sort_by([("process", "ascending"), ("seq", "ascending")])
        process = table.column("process").combine_chunks().dictionary_encode()
        codes = np.asarray(process.indices)
        place = np.arange(codes.size) - np.searchsorted(codes, codes)
        first = table.filter(pa.array(place < count))
        sent = self._table.filter(pc.equal(self._table.column("kind"), SEND)).column("message")
        comes = pc.is_in(first.column("message"), sent).to_pylist()
        lines: dict[str, deque[tuple[Event, bool]]] = {}
        for event, has_send in zip(_events(first), comes, strict=True):
            waits = event.kind == DELIVER and bool(has_send)
            lines.setdefault(event.process, deque()).append((event, waits))
        return in_turn(lines, count)

    def of_messages(self, messages: Iterable[str]) -> list[Event]:
        """Return all events of messages."""
        wanted = pa.array(sorted(messages), pa.string())
        return _events(self._table.filter(pc.is_in(self._table.column("message"), wanted)))

    def near(self, points: Points) -> Lines:
        """Return the events around some places."""
        names: Column = self._table.column("process").combine_chunks().dictionary_encode()
        number = {name: k for k, name in enumerate(names.dictionary.to_pylist())}
        process, seq = np.asarray(names.indices), self._table.column("seq").to_numpy()
        found = seqs_near(process, seq, {number[name]: seqs for name, seqs in points.items()})
        near = {(name, s): found[number[name], s] for name, seqs in points.items() for s in seqs}
        rows = []
        for name in points:
            mine = np.flatnonzero(process == number[name])
            own = seq[mine]
            for s in points[name]:
                seqs = near[name, s][1]
                rows.append(mine[(seqs[0] <= own) & (own <= seqs[-1])])
        wanted = np.unique(np.concatenate(rows))
        return _lines(_events(self._table.take(pa.array(wanted))), near)

    def deliveries_at(self, places: Sequence[tuple[str, int]]) -> list[Event]:
        """Return the deliveries with these processes and seqs."""
        names: Column = self._table.column("process").combine_chunks().dictionary_encode()
        number = {name: k for k, name in enumerate(names.dictionary.to_pylist())}
        wanted = {(number[name], seq) for name, seq in places}
        seq = self._table.column("seq").to_numpy()
        kinds = pc.equal(self._table.column("kind"), DELIVER).to_numpy()
        near = np.flatnonzero(np.isin(seq, [s for _, s in wanted]) & kinds)
        found = zip(np.asarray(names.indices)[near].tolist(), seq[near].tolist(), strict=True)
        rows = [row for row, place in zip(near.tolist(), found, strict=True) if place in wanted]
        return _events(self._table.take(pa.array(rows, pa.int64())))


class FrameRows:
    """A log in a Spark frame; each question is one job."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame.select(*[name for name in _COLUMNS if name in frame.columns])

    def __len__(self) -> int:
        return self._frame.count()

    def some_message(self) -> str:
        """Return the id of some message, as an example."""
        row = self._frame.select("message").dropna().first()
        return str(row["message"]) if row else ""

    def beginning(self, count: int) -> list[Event]:
        """Return ``count`` events: the first of each process in turn, causes before effects."""
        from pyspark.sql import Window
        from pyspark.sql import functions as F

        place = F.row_number().over(Window.partitionBy("process").orderBy("seq"))
        first = self._frame.withColumn("place", place).filter(F.col("place") <= count)
        return TableRows(first.drop("place").toArrow()).beginning(count)

    def of_messages(self, messages: Iterable[str]) -> list[Event]:
        """Return all events of messages."""
        from pyspark.sql import functions as F

        return _events(self._frame.filter(F.col("message").isin(sorted(messages))).toArrow())

    def near(self, points: Points) -> Lines:
        """Return the events around some places: one job counts, others read what is near."""
        counts, spans = self._counts(points)
        places = [(name, seq) for name, seqs in points.items() for seq in seqs]
        wide = {
            n: REACH + 4 * REACH * (high - low) // size for n, (size, low, high) in spans.items()
        }
        near: dict[tuple[str, int], tuple[int, list[int]]] = {}
        events: list[Event] = []
        for _ in range(_TRIES):
            events = self._around(places, wide)
            for name, seq in places:
                seqs = sorted(event.seq for event in events if event.process == name)
                at = bisect_left(seqs, seq)
                near[name, seq] = counts[name, seq], seqs[max(0, at - REACH) : at + REACH + 1]
            few = [n for n, s in places if not _is_enough(s, near[n, s], spans[n][0])]
            if not few:
                break
            wide |= {name: 16 * wide[name] for name in few}
        return _lines(events, near)

    def _counts(
        self, points: Points
    ) -> tuple[dict[tuple[str, int], int], dict[str, tuple[int, int, int]]]:
        """Return how many events precede each place; and each process's events, first, last seq."""
        from pyspark.sql import functions as F

        places = [(name, seq) for name, seqs in points.items() for seq in seqs]
        asked = {"process": [name for name, _ in places], "at": [seq for _, seq in places]}
        before = F.count(F.when(F.col("seq") < F.col("at"), 1))
        rows = (
            self._frame.select("process", "seq")
            .join(self._few(asked), "process")
            .groupBy("process", "at")
            .agg(before, F.count("seq"), F.min("seq"), F.max("seq"))
            .collect()
        )
        counts = {(name, at): before for name, at, before, *_ in rows}
        return counts, {name: (size, low, high) for name, _, _, size, low, high in rows}

    def _few(self, columns: Mapping[str, object]) -> DataFrame:
        from pyspark.sql import functions as F

        return F.broadcast(frame_of(self._frame.sparkSession, pa.table(dict(columns))))

    def _around(self, places: Sequence[tuple[str, int]], width: Mapping[str, int]) -> list[Event]:
        """Return the events of processes whose seqs are near some places."""
        from pyspark.sql import functions as F

        wanted = {
            "process": [name for name, _ in places],
            "low": [max(seq - width[name], -(2**63)) for name, seq in places],
            "high": [min(seq + width[name], 2**63 - 1) for name, seq in places],
        }
        few = self._few(wanted).withColumnRenamed("process", "name")
        near = (F.col("process") == F.col("name")) & F.col("seq").between(
            F.col("low"), F.col("high")
        )
        return _events(self._frame.join(few, near, "leftsemi").toArrow())

    def deliveries_at(self, places: Sequence[tuple[str, int]]) -> list[Event]:
        """Return the deliveries with these processes and seqs: one job."""
        from pyspark.sql import functions as F

        columns = {"process": [name for name, _ in places], "seq": [seq for _, seq in places]}
        wanted = frame_of(self._frame.sparkSession, pa.table(columns))
        few = F.broadcast(wanted) if len(places) <= BROADCAST_MAX else wanted
        found = self._frame.filter(F.col("kind") == DELIVER).join(few, ["process", "seq"])
        return _events(found.toArrow())


def _events(table: pa.Table) -> list[Event]:
    rows = table.to_pylist()
    for row in rows:
        if row.get("dests") is not None:
            row["dests"] = tuple(row["dests"])
        if CLOCK in row:
            row[CLOCK] = tuple(dict(row[CLOCK] or ()).items())
    return [ClockedEvent(**row) if CLOCK in row else Event(**row) for row in rows]
