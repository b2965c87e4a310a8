"""Space-time diagrams of the events of a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from antecede.events import Event
from antecede.report.spacetime import EVENTS_MAX, Arrow, Diagram, Node

#: The most events of a diagram in which every message is named.
NAMED_MAX = 40


@dataclass(frozen=True, slots=True)
class ClockedEvent(Event):
    """An event with the order that is known from clocks rather than messages."""

    clock: tuple[tuple[str, int], ...] = ()
    """How many events of other processes precede it."""


def diagram_of(
    title: str,
    events: Sequence[Event],
    row: Mapping[str, Any] | None = None,
    places: Sequence[int] | None = None,
) -> Diagram:
    """Draw ``events`` (each process's in order); ``row`` is the violation to mark, if any.

    ``places`` are the events' places among all of their process; they show how many were left out.
    Without them, the events are the first ones of each process.
    """
    shown = list(events)[:EVENTS_MAX]
    nodes: list[Node] = []
    last: dict[str, int] = {}
    sends: dict[str, int] = {}
    for i, event in enumerate(shown):
        place = i if places is None else places[i]
        hidden = 0 if places is None else place - last.get(event.process, place - 1) - 1
        nodes.append(Node(event.process, event.seq, event.kind, _tip(event), hidden))
        last[event.process] = place
        if event.kind == "send" and event.message is not None:
            sends.setdefault(event.message, i)
    onward = _onward(shown, row)
    arrows = []
    # Without a violation to show, each message is named once if the diagram stays legible.
    is_calm = row is None or row.get("process") is None
    unnamed = set(sends) if is_calm and len(shown) <= NAMED_MAX else set()
    seen: set[tuple[str, str]] = set()
    for i, event in enumerate(shown):
        name = event.message
        if event.kind != "deliver" or name not in sends or (event.process, str(name)) in seen:
            continue
        seen.add((event.process, str(name)))
        mark = "plain" if row is None else _mark(event, row, onward)
        source = shown[sends[name]]
        tip = f"{name}: sent by {source.process} (seq {source.seq}), delivered at {event.process}"
        label = str(name) if mark != "plain" or name in unnamed else ""
        unnamed.discard(str(name))
        arrows.append(Arrow(sends[name], i, f"{tip} (seq {event.seq})", mark, label))
    arrows += _order(shown, places, arrows)
    return Diagram(title, nodes, arrows, _lanes(shown, row))


def _order(
    events: Sequence[Event], places: Sequence[int] | None, messages: Sequence[Arrow]
) -> list[Arrow]:
    """Return arrows for the order that only clocks show, except what other arrows imply."""
    if not any(isinstance(event, ClockedEvent) and event.clock for event in events):
        return []
    counts: Counter[str] = Counter()
    ranks: list[int] = []
    for i, event in enumerate(events):
        counts[event.process] += 1
        ranks.append(counts[event.process] if places is None else places[i] + 1)
    at = {
        (event.process, rank): i for i, (event, rank) in enumerate(zip(events, ranks, strict=True))
    }
    clocks = [
        {**dict(getattr(event, "clock", ())), event.process: rank}
        for event, rank in zip(events, ranks, strict=True)
    ]
    told: dict[int, list[int]] = {}
    for arrow in messages:
        told.setdefault(arrow.target, []).append(arrow.source)
    known: dict[str, dict[str, int]] = {}
    found = []
    for i, event in enumerate(events):
        before = known.setdefault(event.process, {})
        fresh = {
            at[name, rank]: (name, rank)
            for name, rank in clocks[i].items()
            if name != event.process and rank > before.get(name, 0) and (name, rank) in at
        }
        for source, (name, rank) in fresh.items():
            others = [other for other in (*fresh, *told.get(i, ())) if other != source]
            implied = source in told.get(i, ()) or any(
                clocks[other].get(name, 0) >= rank for other in others
            )
            if not implied:
                tip = f"{_tip(events[source])}, before {_tip(event)}"
                found.append(Arrow(source, i, tip, "order"))
        for name, rank in clocks[i].items():
            before[name] = max(rank, before.get(name, 0))
    return found


def _onward(events: Sequence[Event], row: Mapping[str, Any] | None) -> set[tuple[str, str]]:
    """Return (message, process) for the deliveries that connect each message to the next."""
    chain = (row or {}).get("chain") or ()
    senders = {event.message: event.process for event in events if event.kind == "send"}
    return {(m, senders[after]) for m, after in pairwise(chain) if after in senders}


def _mark(event: Event, row: Mapping[str, Any], onward: set[tuple[str, str]]) -> str:
    if row.get("process") is None:  # No violation: a single message was asked for.
        return "asked" if event.message == row["message"] else "plain"
    here = row["process"] == event.process
    if event.message == row["message"] and here:
        return "late"
    if event.message == row.get("overtaker") and here:
        return "early"
    return "chain" if (event.message, event.process) in onward else "plain"


def _lanes(events: Sequence[Event], row: Mapping[str, Any] | None) -> list[str]:
    """Put the sender of the late message at the top and its receiver at the bottom."""
    names = list(dict.fromkeys(event.process for event in events))
    if row is None or row.get("process") is None:
        return names
    top, bottom = row["sender"], row["process"]
    middle = [name for name in names if name not in {top, bottom}]
    ordered = [top, *middle, bottom] if top != bottom else [*middle, bottom]
    return [name for name in ordered if name in names]


def _tip(event: Event) -> str:
    words = [f"{event.process} seq {event.seq}: {event.kind}"]
    if event.message:
        words.append(event.message)
    if event.dests:
        words.append(f"to {', '.join(event.dests)}")
    if event.time is not None:
        words.append(f"at {event.time:.6f} by its own clock")
    return " ".join(words)
