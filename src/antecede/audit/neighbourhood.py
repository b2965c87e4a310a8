"""The events around a few messages of a log: enough to draw them, even of a large log."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol

from antecede.audit.sentences import sentence
from antecede.events.rule import Event
from antecede.events.tables import DELIVER, SEND
from antecede.report.audit_page import Illustration
from antecede.report.diagrams import diagram_of

#: The most violations drawn on a page.
DRAWN = 12
#: How many events to show before and after a place.
CONTEXT = 3
#: Up to this many events between two places of a process are shown as well.
JOINED = 12
#: How many events on each side of a place are needed for that.
REACH = CONTEXT + JOINED // 2

Points = dict[str, list[int]]  # process -> seqs
Lines = dict[str, dict[int, Event]]  # process -> place in its order -> event


class Rows(Protocol):
    """A log of which some events can be queried."""

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
        """Return the deliveries with these processes and seqs, possibly with others."""


class EventRows:
    """A log as a list of events."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._events = sorted(events, key=lambda e: (e.process, e.seq, e.kind, e.message or ""))
        self._lines: dict[str, list[Event]] = {}
        for event in self._events:
            self._lines.setdefault(event.process, []).append(event)

    def __len__(self) -> int:
        return len(self._events)

    def some_message(self) -> str:
        """Return the id of some message, as an example."""
        return next((event.message for event in self._events if event.message), "")

    def beginning(self, count: int) -> list[Event]:
        """Return ``count`` events: the first of each process in turn, causes before effects."""
        sent = {event.message for event in self._events if event.kind == SEND}
        waits = {
            name: deque((e, e.kind == DELIVER and e.message in sent) for e in line[:count])
            for name, line in self._lines.items()
        }
        return in_turn(waits, count)

    def of_messages(self, messages: Iterable[str]) -> list[Event]:
        """Return all events of messages."""
        wanted = set(messages)
        return [event for event in self._events if event.message in wanted]

    def near(self, points: Points) -> Lines:
        """Return the events around some places."""
        found: Lines = {}
        for process, seqs in points.items():
            line = self._lines[process]
            mine = found.setdefault(process, {})
            for seq in seqs:
                at = bisect_left(line, seq, key=lambda event: event.seq)
                low = max(0, at - REACH)
                mine.update(enumerate(line[low : at + REACH + 1], start=low))
        return found

    def deliveries_at(self, places: Sequence[tuple[str, int]]) -> list[Event]:
        """Return the deliveries with these processes and seqs, possibly with others."""
        wanted = set(places)
        return [e for e in self._events if e.kind == DELIVER and (e.process, e.seq) in wanted]


def in_turn(lines: Mapping[str, deque[tuple[Event, bool]]], count: int) -> list[Event]:
    """Take events from the lines in turn; a delivery whose send is among them waits for it."""
    found: list[Event] = []
    sent: set[str | None] = set()
    while len(found) < count and any(lines.values()):
        some = [line for line in lines.values() if line]
        ready = [line for line in some if not line[0][1] or line[0][0].message in sent]
        for line in ready or some[:1]:  # A cycle in the log must be entered somewhere.
            event, _ = line.popleft()
            found.append(event)
            if event.kind == SEND:
                sent.add(event.message)
    return found[:count]


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
    """Return places with their neighbours, and everything between two that are close together."""
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


def illustrate(
    rows: Rows,
    violations: Sequence[Mapping[str, Any]],
    summary: Mapping[str, Any] = MappingProxyType({}),
) -> list[Illustration]:
    """Return each violation as a sentence (see ``sentence``) with a drawing of its events."""
    found = []
    for near in neighbourhoods(rows, violations):
        title = f"{near.row['message']} came late to {near.row['process']}"
        diagram = diagram_of(title, near.events, near.row, near.places)
        text = sentence(near.row, beyond_messages=summary.get("beyond_messages", False))
        found.append(Illustration(title, text, diagram))
    return found
