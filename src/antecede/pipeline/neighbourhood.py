"""The part of a log around a few messages: enough to draw them, never all of a large log."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.core.tables import DELIVER, EVENT_COLUMNS, SEND
from antecede.eventlog import Event

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from antecede.pipeline.windows.jit import Column

#: Seqs before and after an event that are shown with it.
CONTEXT = 3
#: Two shown places of a process this close are joined by what lies between.
JOINED = 12

Ranges = dict[str, list[tuple[int, int]]]


class Rows(Protocol):
    """A log that can be asked for some of its events."""

    def of_messages(self, messages: Iterable[str]) -> list[Event]:
        """Return all events of messages."""
        ...

    def of_ranges(self, ranges: Ranges) -> list[Event]:
        """Return the events of processes in ranges of seq, both ends included."""
        ...


class TableRows:
    """A log in an Arrow table."""

    def __init__(self, table: pa.Table) -> None:
        names = [name for name in EVENT_COLUMNS if name in table.column_names]
        self._table = table.select(names)

    def beginning(self, count: int) -> list[Event]:
        """Return the first ``count`` events: all processes in turn, causes before effects."""
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

    def of_ranges(self, ranges: Ranges) -> list[Event]:
        """Return the events of processes in ranges of seq."""
        process: Column = self._table.column("process")
        near = self._table.slice(0, 0)
        for name, spans in ranges.items():
            mine = self._table.filter(pc.equal(process, name))
            seqs = mine.column("seq").to_numpy()
            wanted = np.zeros(len(mine), np.bool_)
            for low, high in spans:
                wanted |= (low <= seqs) & (seqs <= high)
            near = pa.concat_tables([near, mine.filter(pa.array(wanted))])
        return _events(near)


class FrameRows:
    """A log in a Spark frame; each question is one job."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame.select(*[n for n in EVENT_COLUMNS if n in frame.columns])

    def of_messages(self, messages: Iterable[str]) -> list[Event]:
        """Return all events of messages."""
        from pyspark.sql import functions as F

        return _events(self._frame.filter(F.col("message").isin(sorted(messages))).toArrow())

    def of_ranges(self, ranges: Ranges) -> list[Event]:
        """Return the events of processes in ranges of seq."""
        from pyspark.sql import functions as F

        near = F.lit(0)
        for process, spans in ranges.items():
            for low, high in spans:
                here = (F.col("process") == process) & F.col("seq").between(low, high)
                near = near + here.cast("int")
        return _events(self._frame.filter(near > 0).toArrow())


def _in_turn(lines: Mapping[str, deque[tuple[Event, bool]]], count: int) -> list[Event]:
    """Take events from the lines in turn, a delivery that waits only after its send."""
    found: list[Event] = []
    sent: set[str | None] = set()
    while len(found) < count and any(lines.values()):
        some = [line for line in lines.values() if line]
        ready = [line for line in some if not line[0][1] or line[0][0].message in sent]
        for line in ready or some[:1]:  # A log that goes round in circles is entered somewhere.
            event, _ = line.popleft()
            found.append(event)
            if event.kind == SEND:
                sent.add(event.message)
    return found[:count]


def _events(table: pa.Table) -> list[Event]:
    found = []
    for row in table.to_pylist():
        dests = row.get("dests")
        found.append(
            Event(
                str(row["process"]),
                int(row["seq"]),
                str(row["kind"]),
                row.get("message"),
                None if dests is None else tuple(dests),
                row.get("time"),
            )
        )
    return found


def inside(event: Event, ranges: Ranges) -> bool:
    """Return whether an event lies in one of its process's ranges."""
    return any(low <= event.seq <= high for low, high in ranges.get(event.process, ()))


@dataclass(frozen=True)
class Scene:
    """A neighbourhood: what to look at, and the events around it."""

    row: Mapping[str, Any]
    """The violation, as a row of its table (or only ``message``)."""
    events: Sequence[Event]


def scenes(rows: Rows, violations: Sequence[Mapping[str, Any]]) -> list[Scene]:
    """Return the neighbourhood of each violation, in two questions to the log."""
    if not violations:
        return []
    told = rows.of_messages({m for row in violations for m in _messages(row)})
    ranges = [_ranges(_key_events(told, row)) for row in violations]
    near = rows.of_ranges(_union(ranges))
    found = []
    for row, spans in zip(violations, ranges, strict=True):
        events = {e for e in near if inside(e, spans)} | set(_key_events(told, row))
        ordered = sorted(events, key=lambda e: (e.process, e.seq, e.kind, e.message or ""))
        found.append(Scene(row, ordered))
    return found


def _messages(row: Mapping[str, Any]) -> set[str]:
    named = {row["message"], row.get("overtaker"), *(row.get("chain") or ())}
    return {name for name in named if name}


def _key_events(told: Sequence[Event], row: Mapping[str, Any]) -> list[Event]:
    """Return the events that must be seen: sends, and the deliveries that matter.

    Of a message on the chain those are the deliveries at processes that sent the next one.
    """
    names = _messages(row)
    senders = {e.process for e in told if e.kind == SEND and e.message in names}
    wanted = senders | {row.get("process")}
    ends = {row["message"], row.get("overtaker")}
    found = []
    for event in told:
        if event.message not in names:
            continue
        here = event.process == row.get("process") if event.message in ends else True
        alone = row.get("process") is None
        if (
            event.kind == SEND
            or alone
            or (event.process in wanted and (here or event.process in senders))
        ):
            found.append(event)
    return [e for e in found if e.kind in {SEND, DELIVER}]


def _ranges(events: Sequence[Event]) -> Ranges:
    """Return, per process, the ranges of seq around its events, near ones joined."""
    found: Ranges = {}
    for event in sorted(events, key=lambda e: (e.process, e.seq)):
        spans = found.setdefault(event.process, [])
        if spans and event.seq - CONTEXT <= spans[-1][1] + JOINED:
            spans[-1] = (spans[-1][0], event.seq + CONTEXT)
        else:
            spans.append((event.seq - CONTEXT, event.seq + CONTEXT))
    return found


def _union(ranges: Sequence[Ranges]) -> Ranges:
    found: Ranges = {}
    for one in ranges:
        for process, spans in one.items():
            found.setdefault(process, []).extend(spans)
    return {process: sorted(set(spans)) for process, spans in found.items()}
