"""Logs in Arrow tables and in Spark frames, of which some events can be queried."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.arrays import Column, Ints
from antecede.audit.neighbourhood import REACH, Lines, Points, in_turn
from antecede.audit.row_group_windows import in_threads
from antecede.events import Event
from antecede.events.tables import CLOCK, DELIVER, EVENT_COLUMNS, SEND
from antecede.report.diagrams import ClockedEvent
from antecede.spark.frames import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
_COLUMNS = (*EVENT_COLUMNS, CLOCK)
#: How often to widen the search for events around a place.
_TRIES = 5
#: Up to this many places are sent to every task; more are joined by a shuffle.
BROADCAST_MAX = 200_000

#: A table, or a function that reads the columns it has of those named.
Part: TypeAlias = pa.Table | Callable[[Sequence[str]], pa.Table]
Near = dict[tuple[int, int], tuple[int, list[int]]]
"""(process as a number, seq) -> how many of its events come before, and the seqs around it."""


def seqs_near(process: Ints, seq: Ints, points: Mapping[int, Sequence[int]]) -> Near:
    """Return the seqs that a part of a log has around ``points``; processes are numbers here."""
    found: Near = {}
    for key, places in points.items():
        mine = np.sort(seq[process == key])
        for place, at in zip(places, np.searchsorted(mine, places).tolist(), strict=True):
            found[key, place] = at, mine[max(0, at - REACH) : at + REACH + 1].tolist()
    return found


def _is_enough(seq: int, near: tuple[int, list[int]], events: int) -> bool:
    """Return whether the seqs around a place suffice for what is shown."""
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
    """A log in Arrow tables, of which each thread reads one at a time."""

    def __init__(self, *tables: Part) -> None:
        self._tables = tables

    def _parts(self, columns: Sequence[str] = _COLUMNS) -> Iterator[pa.Table]:
        return (_read(table, columns) for table in self._tables)

    def _picked(
        self,
        columns: Sequence[str],
        pick: Callable[[pa.Table], Ints],
        shown: Sequence[str] = _COLUMNS,
    ) -> list[Event]:
        """Return the events that ``pick`` finds by some columns of each part."""

        def picked(table: Part) -> list[Event]:
            part = _read(table, columns)
            rows = pick(part)
            if not rows.size:
                return []
            whole = part if shown is columns else _read(table, shown)
            return _events(whole.take(pa.array(rows)))

        return [event for some in in_threads(picked, self._tables) for event in some]

    def __len__(self) -> int:
        return sum(map(len, self._parts(["seq"])))

    def some_message(self) -> str:
        """Return the id of some message, as an example."""
        for part in self._parts(["message"]):
            if len(names := part.column("message").drop_null()):
                return str(names[0])
        return ""

    def beginning(self, count: int) -> list[Event]:
        """Return ``count`` events: the first of each process in turn, causes before effects."""
        first = _first(pa.concat_tables(_first(part, count) for part in self._parts()), count)
        sent: set[str] = set()
        for part in self._parts(["kind", "message"]):
            names = part.filter(pc.equal(part.column("kind"), SEND)).column("message")
            sent.update(names.filter(pc.is_in(names, first.column("message"))).to_pylist())
        lines: dict[str, deque[tuple[Event, bool]]] = {}
        for event in _events(first):
            waits = event.kind == DELIVER and event.message in sent
            lines.setdefault(event.process, deque()).append((event, waits))
        return in_turn(lines, count)

    def of_messages(self, messages: Iterable[str]) -> list[Event]:
        """Return all events of messages."""
        wanted = pa.array(sorted(messages), pa.string())

        def pick(part: pa.Table) -> Ints:
            return np.flatnonzero(pc.is_in(part.column("message"), wanted).to_numpy())

        return self._picked(["message"], pick)

    def near(self, points: Points) -> Lines:
        """Return the events around some places."""
        near: dict[tuple[str, int], tuple[int, list[int]]] = {}

        def seen(table: Part) -> tuple[Near, dict[str, int]]:
            part = _read(table, ["process", "seq"])
            process, number = _numbered(part)
            mine = {number[name]: seqs for name, seqs in points.items() if name in number}
            return seqs_near(process, part.column("seq").to_numpy(), mine), number

        for found, number in in_threads(seen, self._tables):
            for name in points.keys() & number.keys():
                for seq in points[name]:
                    count, seqs = found[number[name], seq]
                    before, others = near.get((name, seq), (0, []))
                    near[name, seq] = before + count, _nearest(seq, others + seqs)

        def pick(part: pa.Table) -> Ints:
            process, number = _numbered(part)
            seq = part.column("seq").to_numpy()
            rows = [np.empty(0, np.int64)]
            for name in points.keys() & number.keys():
                mine = np.flatnonzero(process == number[name])
                own = seq[mine]
                for place in points[name]:
                    seqs = near[name, place][1]
                    rows.append(mine[(seqs[0] <= own) & (own <= seqs[-1])])
            return np.unique(np.concatenate(rows))

        return _lines(self._picked(["process", "seq"], pick), near)

    def deliveries_at(self, places: Sequence[tuple[str, int]]) -> list[Event]:
        """Return the deliveries with these processes and seqs, possibly with others."""
        code = {name: k for k, name in enumerate(dict(places))}
        wanted = np.array([(seq, code[name]) for name, seq in places], np.int64)
        wanted = wanted[np.argsort(wanted[:, 0])]

        def pick(part: pa.Table) -> Ints:
            process, number = _numbered(part)
            is_delivery = pc.equal(part.column("kind"), DELIVER).to_numpy()
            codes = np.array([code.get(name, -1) for name in number], np.int64)[process]
            rows = np.flatnonzero(is_delivery & (codes >= 0))
            seq = part.column("seq").to_numpy()[rows]
            if not rows.size:
                return rows
            low = np.searchsorted(wanted[:, 0], seq.min())
            near = wanted[low : np.searchsorted(wanted[:, 0], seq.max(), "right")]
            # Numbers this large rarely collide; a collision only adds other events.
            mixed = near[:, 0] * len(code) + near[:, 1]
            return rows[np.isin(seq * len(code) + codes[rows], mixed)]

        timed = ["process", "seq", "kind", "message", "time"]
        return self._picked(timed, pick, timed)


def _read(table: Part, columns: Sequence[str]) -> pa.Table:
    if not isinstance(table, pa.Table):
        return table(columns)
    return table.select([name for name in columns if name in table.column_names])


def _first(table: pa.Table, count: int) -> pa.Table:
    """Return the first events of each process."""
    names = table.column("process").cast(pa.string())
    table = table.set_column(table.column_names.index("process"), "process", names)
    table = table.sort_by([("process", "ascending"), ("seq", "ascending")])
    codes = _numbered(table)[0]
    place = np.arange(codes.size) - np.searchsorted(codes, codes)
    return table.filter(pa.array(place < count))


def _numbered(table: pa.Table) -> tuple[Ints, dict[str, int]]:
    """Return the process of each row as a number, and the numbers by name."""
    names: Column = table.column("process").combine_chunks().dictionary_encode()
    return np.asarray(names.indices), {
        name: k for k, name in enumerate(names.dictionary.to_pylist())
    }


def _nearest(seq: int, seqs: list[int]) -> list[int]:
    """Return the seqs around a place, among known ones."""
    seqs = sorted(seqs)
    at = bisect_left(seqs, seq)
    return seqs[max(0, at - REACH) : at + REACH + 1]


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
        """Return the events around some places: one job counts, the others read nearby events."""
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
                seqs = [event.seq for event in events if event.process == name]
                near[name, seq] = counts[name, seq], _nearest(seq, seqs)
            few = [n for n, s in places if not _is_enough(s, near[n, s], spans[n][0])]
            if not few:
                break
            wide |= {name: 16 * wide[name] for name in few}
        return _lines(events, near)

    def _counts(
        self, points: Points
    ) -> tuple[dict[tuple[str, int], int], dict[str, tuple[int, int, int]]]:
        """Return how many events precede each place; and each process's count and extreme seqs."""
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
