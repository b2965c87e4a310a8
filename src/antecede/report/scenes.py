"""From a neighbourhood of a log to its space-time diagram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from antecede.report.spacetime import EVENTS_MAX, Arrow, Diagram, Node

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from antecede.eventlog import Event


def diagram_of(
    title: str, events: Sequence[Event], row: Mapping[str, Any] | None = None
) -> Diagram:
    """Draw ``events`` (each process's in order); ``row`` is the violation to mark, if any."""
    shown = list(events)[:EVENTS_MAX]
    nodes: list[Node] = []
    last: dict[str, int] = {}
    sends: dict[str, int] = {}
    for i, event in enumerate(shown):
        before = last.get(event.process)
        hidden = max(0, event.seq - before - 1) if before is not None else 0
        # A gap in seq that is shown on purpose is small; a large one means left-out events.
        nodes.append(
            Node(event.process, event.seq, event.kind, _tip(event), hidden if hidden > 3 else 0)
        )
        last[event.process] = event.seq
        if event.kind == "send" and event.message is not None:
            sends.setdefault(event.message, i)
    arrows = []
    seen: set[tuple[str, str]] = set()
    for i, event in enumerate(shown):
        name = event.message
        if event.kind != "deliver" or name not in sends or (event.process, str(name)) in seen:
            continue
        seen.add((event.process, str(name)))
        mark = _mark(event, row)
        source = shown[sends[name]]
        tip = f"{name}: sent by {source.process} (seq {source.seq}), delivered at {event.process}"
        label = str(name) if mark != "plain" else ""
        arrows.append(Arrow(sends[name], i, f"{tip} (seq {event.seq})", mark, label))
    return Diagram(title, nodes, arrows, _lanes(shown, row))


def _mark(event: Event, row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "plain"
    here = event.process == row.get("process")
    chain = row.get("chain") or ()
    if event.message == row["message"]:
        return (
            "late" if here or row.get("process") is None else "chain" if len(chain) > 2 else "plain"
        )
    if event.message == row.get("overtaker") and here:
        return "early"
    return "chain" if event.message in chain else "plain"


def _lanes(events: Sequence[Event], row: Mapping[str, Any] | None) -> list[str]:
    """Put the cause's sender on top, where the effect arrived at the bottom."""
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
