"""Space-time diagrams of the events of a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from antecede.eventlog import Event
from antecede.report.spacetime import EVENTS_MAX, Arrow, Diagram, Node


def diagram_of(
    title: str,
    events: Sequence[Event],
    row: Mapping[str, Any] | None = None,
    places: Sequence[int] | None = None,
) -> Diagram:
    """Draw ``events`` (each process's in order); ``row`` is the violation to mark, if any.

    ``places`` are the events' places among all of their process; they show how many are left out.
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
    seen: set[tuple[str, str]] = set()
    for i, event in enumerate(shown):
        name = event.message
        if event.kind != "deliver" or name not in sends or (event.process, str(name)) in seen:
            continue
        seen.add((event.process, str(name)))
        mark = "plain" if row is None else _mark(event, row, onward)
        source = shown[sends[name]]
        tip = f"{name}: sent by {source.process} (seq {source.seq}), delivered at {event.process}"
        label = str(name) if mark != "plain" else ""
        arrows.append(Arrow(sends[name], i, f"{tip} (seq {event.seq})", mark, label))
    return Diagram(title, nodes, arrows, _lanes(shown, row))


def _onward(events: Sequence[Event], row: Mapping[str, Any] | None) -> set[tuple[str, str]]:
    """Return (message, process) for the deliveries by which each message led to the next."""
    chain = (row or {}).get("chain") or ()
    senders = {event.message: event.process for event in events if event.kind == "send"}
    return {(m, senders[after]) for m, after in pairwise(chain) if after in senders}


def _mark(event: Event, row: Mapping[str, Any], onward: set[tuple[str, str]]) -> str:
    if row.get("process") is None:  # No violation: only one message was asked for.
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
