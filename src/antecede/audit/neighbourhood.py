"""The events around a few messages of a log: enough to draw them, never all of a large log."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.arrays import Column, Ints
from antecede.events import Event
from antecede.events.hashing import hash_names
from antecede.events.tables import CLOCK, DELIVER, EVENT_COLUMNS, SEND
from antecede.report.diagrams import ClockedEvent
from antecede.spark.frames import frame_of
from antecede.spark.tasks import RESULT_SQL, Batches, on_batches, result, results_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
_COLUMNS = (*EVENT_COLUMNS, CLOCK)
#: How many events before and after a place are shown with it.
CONTEXT = 3
#: If at most this many events lie between two places of a process, they are shown as well.
JOINED = 12
#: How many events on each side of a place are needed for that.
REACH = CONTEXT + JOINED // 2

#: So many places are sent to every task; more are joined by a shuffle.
BROADCAST_MAX = 200_000

Points = dict[str, list[int]]  # process -> seqs
Near = dict[tuple[int, int], tuple[int, list[int]]]
"""(process as a number, seq) -> how many of its events come before it, and the seqs around it."""
Lines = dict[str, dict[int, Event]]  # process -> place in its order -> event


class Rows(Protocol):
    """A log that can be asked for some of its events."""

    def __len__(self) -> int:
        """Return how many events it has."""

    def some_message(self) -> str:
        """Return the id of some message, as an example."""

    def beginning(self, count: int) -> list[Event]:
        """Return ``count`` events: the first of each process in turn, causes before effects."""

    def of_messages(self, messages: Iterable[str]) -> list[Event]:
        """Return all events of messages."""

    def near(self, points: Points) -> Lines:
        """Return the events around some places of processes' orders, ``REACH`` on each side."""

    def deliveries_at(self, places: Sequence[tuple[str, int]]) -> list[Event]:
        """Return the deliveries with these processes and seqs, and possibly others."""


def seqs_near(process: Ints, seq: Ints, points: Mapping[int, Sequence[int]]) -> Near:
    """Return the seqs that a part of a log has around ``points``; processes are numbers here."""
    found: Near = {}
    for key, places in points.items():
        mine = np.sort(seq[process == key])
        for place, at in zip(places, np.searchsorted(mine, places).tolist(), strict=True):
            found[key, place] = at, mine[max(0, at - REACH) : at + REACH + 1].tolist()
    return found


def together(parts: Sequence[Near]) -> Near:
    """Return the seqs around the points, merged from all parts of a log."""
    found: Near = {}
    for key in parts[0] if parts else ():
        seqs = sorted(seq for part in parts for seq in part[key][1])
        at = bisect_left(seqs, key[1])
        count = sum(part[key][0] for part in parts)
        found[key] = count, seqs[max(0, at - REACH) : at + REACH + 1]
    return found


def look_around(batches: Batches, points: Mapping[int, Sequence[int]]) -> Batches:
    """Find the seqs around ``points`` in a partition of (process, seq)."""
    from pyspark import TaskContext

    parts = [
        seqs_near(batch.column(0).to_numpy(), batch.column(1).to_numpy(), points)
        for batch in batches
    ]
    context = TaskContext.get()
    if parts and context is not None:
        yield result(context.partitionId(), together(parts))


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
        return _in_turn(lines, count)

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
        wanted = np.zeros(len(seq), np.bool_)
        for (name, _), (_, seqs) in near.items():
            wanted |= (process == number[name]) & (seqs[0] <= seq) & (seq <= seqs[-1])
        return _lines(_events(self._table.filter(pa.array(wanted))), near)

    def deliveries_at(self, places: Sequence[tuple[str, int]]) -> list[Event]:
        """Return the deliveries with these processes and seqs, and possibly others."""
        wanted = pc.equal(self._table.column("kind"), DELIVER)
        for name, some in zip(("process", "seq"), zip(*places, strict=True), strict=True):
            wanted = pc.and_(wanted, pc.is_in(self._table.column(name), pa.array(set(some))))
        return _events(self._table.filter(wanted))


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
        """Return the events around some places: one job finds their seqs, another reads them."""
        from pyspark.sql import functions as F

        number = dict(zip(points, hash_names(list(points)).tolist(), strict=True))
        task = on_batches(look_around, {number[name]: seqs for name, seqs in points.items()})
        small = self._frame.select(F.xxhash64("process").alias("process"), "seq")
        found = together(list(results_of(small.mapInArrow(task, RESULT_SQL)).values()))
        near = {(name, s): found[number[name], s] for name, seqs in points.items() for s in seqs}
        wanted = F.lit(0)
        for (name, _), (_, seqs) in near.items():
            here = (F.col("process") == name) & F.col("seq").between(seqs[0], seqs[-1])
            wanted = wanted + here.cast("int")
        return _lines(_events(self._frame.filter(wanted > 0).toArrow()), near)

    def deliveries_at(self, places: Sequence[tuple[str, int]]) -> list[Event]:
        """Return the deliveries with these processes and seqs: one job."""
        from pyspark.sql import functions as F

        columns = {"process": [name for name, _ in places], "seq": [seq for _, seq in places]}
        wanted = frame_of(self._frame.sparkSession, pa.table(columns))
        few = F.broadcast(wanted) if len(places) <= BROADCAST_MAX else wanted
        found = self._frame.filter(F.col("kind") == DELIVER).join(few, ["process", "seq"])
        return _events(found.toArrow())


def _in_turn(lines: Mapping[str, deque[tuple[Event, bool]]], count: int) -> list[Event]:
    """Take events from the lines in turn; a delivery that waits comes only after its send."""
    found: list[Event] = []
    sent: set[str | None] = set()
    while len(found) < count and any(lines.values()):
        some = [line for line in lines.values() if line]
        ready = [line for line in some if not line[0][1] or line[0][0].message in sent]
        for line in ready or some[:1]:  # A log with a cycle has to be entered somewhere.
            event, _ = line.popleft()
            found.append(event)
            if event.kind == SEND:
                sent.add(event.message)
    return found[:count]


def _events(table: pa.Table) -> list[Event]:
    rows = table.to_pylist()
    for row in rows:
        if row.get("dests") is not None:
            row["dests"] = tuple(row["dests"])
        if CLOCK in row:
            row[CLOCK] = tuple(dict(row[CLOCK] or ()).items())
    return [ClockedEvent(**row) if CLOCK in row else Event(**row) for row in rows]


@dataclass(frozen=True)
class Neighbourhood:
    """A violation or message, and the events around it."""

    row: Mapping[str, Any]
    """The violation, as a row of its table (or only ``message``)."""
    events: Sequence[Event]
    places: Sequence[int]
    """Each event's place among all events of its process."""


def neighbourhoods(rows: Rows, violations: Sequence[Mapping[str, Any]]) -> list[Neighbourhood]:
    """Return the neighbourhood of each violation, with two queries to the log."""
    if not violations:
        return []
    events = rows.of_messages({m for row in violations for m in _messages(row)})
    keys = [_key_events(events, row) for row in violations]
    points: dict[str, set[int]] = {}
    for event in (event for some in keys for event in some):
        points.setdefault(event.process, set()).add(event.seq)
    lines = rows.near({process: sorted(seqs) for process, seqs in points.items()})
    return [_neighbourhood(row, some, lines) for row, some in zip(violations, keys, strict=True)]


def _neighbourhood(row: Mapping[str, Any], keys: Sequence[Event], lines: Lines) -> Neighbourhood:
    events, places = [], []
    for process in sorted({event.process for event in keys}):
        line = lines[process]
        wanted = {event for event in keys if event.process == process}
        shown = _joined([place for place, event in line.items() if event in wanted])
        for place in sorted(shown & line.keys()):
            events.append(line[place])
            places.append(place)
    return Neighbourhood(row, events, places)


def _joined(places: Iterable[int]) -> set[int]:
    """Return places with those around them, and with those between two that are near."""
    shown: set[int] = set()
    last = None
    for place in sorted(places):
        near = last is not None and place - last - 1 <= JOINED
        low = last if near and last is not None else place - CONTEXT
        shown.update(range(low, place + CONTEXT + 1))
        last = place
    return shown


def _messages(row: Mapping[str, Any]) -> set[str]:
    named = {row["message"], row.get("overtaker"), *(row.get("chain") or ())}
    return {name for name in named if name}


def _key_events(events: Sequence[Event], row: Mapping[str, Any]) -> list[Event]:
    """Return the events to show: sends, and the deliveries that matter.

    For a message on the chain, these are the deliveries at processes that sent the next one.
    """
    names = _messages(row)
    senders = {e.process for e in events if e.kind == SEND and e.message in names}
    wanted = senders | {row.get("process")}
    ends = {row["message"], row.get("overtaker")}
    alone = row.get("process") is None
    found = []
    for event in events:
        if event.message not in names:
            continue
        here = event.process == row.get("process") if event.message in ends else True
        told = event.process in wanted and (here or event.process in senders)
        if event.kind == SEND or alone or told:
            found.append(event)
    return [e for e in found if alone or e.kind in {SEND, DELIVER}]
