"""Draw a part of a log: around one message, its beginning, its clocks or its times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from antecede.audit.log_rows import TableRows
from antecede.audit.neighbourhood import DRAWN, Rows, illustrate, neighbourhoods
from antecede.errors import UsageError
from antecede.events.formats import format_named
from antecede.events.sources import Log
from antecede.events.tables import CLOCK, SEND
from antecede.report.audit_page import Illustration, drawn_in
from antecede.report.diagrams import diagram_of
from antecede.report.spacetime import Arrow, Diagram, Node

#: The most messages to draw.
MESSAGES = 50


def timeline(events: pa.Table, around: str | None = None) -> tuple[str, Diagram]:
    """Return the first messages by time, or those around one, as a sentence and a diagram."""
    sends = events.filter(pc.equal(events.column("kind"), SEND)).sort_by("time")
    names = sends.column("message").to_pylist()
    if around is not None and around not in names:
        msg = f"the log has no message {around!r}; its messages have ids such as {names[0]!r}"
        raise UsageError(msg)
    start = max(0, names.index(around) - MESSAGES // 2) if around is not None else 0
    chosen = names[start : start + MESSAGES]
    shown = sorted(TableRows(events).of_messages(chosen), key=lambda event: event.time or 0.0)
    title = f"the messages around {around}" if around is not None else "the first messages"
    drawn = diagram_of(title, shown, None if around is None else {"message": around})
    times = [event.time or 0.0 for event in shown[: len(drawn.nodes)]]
    first = f"{times[0]:.6f}".rstrip("0").rstrip(".")
    text = (
        f"{len(chosen):,} of {len(names):,} messages by time: {title}. The log says when they were "
        "sent and nothing about deliveries, so each is drawn as delivered when it was sent. "
        f"Times are seconds after {first}."
    )
    return text, replace(drawn, times=times)


#: The most events to draw if no message is named.
SHOWN = 120

Tables = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Drawing:
    """A diagram of a log, a sentence about it, and where the message came late."""

    text: str
    illustrations: list[Illustration]
    late_at: list[str] = field(default_factory=list)

    def _repr_html_(self) -> str:
        return drawn_in(self.text, self.illustrations)


def draw_unaudited(log: Log, message: str | None) -> Drawing | None:
    """Draw a log's beginning, clocks or times; None if that takes an audit."""
    if log.undecidable is not None and CLOCK in log.events.column_names:
        return _by_clocks(log.events, message)
    if not format_named(log.form).has_deliveries:
        text, diagram = timeline(log.events, message)
        return Drawing(text, [Illustration(diagram.title, text, diagram)])
    return _beginning(TableRows(log.events)) if message is None else None


def worst(rows: Rows, tables: Tables, summary: Mapping[str, Any]) -> Drawing:
    """Draw the worst violations, or the beginning of a log without any."""
    late = tables["violations"][:DRAWN]
    if not late:
        return _beginning(rows)
    return Drawing(summary["reason"], illustrate(rows, late, summary))


def around(rows: Rows, tables: Tables, summary: Mapping[str, Any], message: str) -> Drawing:
    """Draw a log around a message, using the result of its audit."""
    if not rows.of_messages([message]):
        msg = f"the log has no message {message!r}; its messages have ids such as "
        raise UsageError(msg + repr(rows.some_message()))
    late = [row for row in tables["violations"] if row["message"] == message]
    early = [row for row in tables["violations"] if row["overtaker"] == message]
    drawn = illustrate(rows, late or early[:3], summary)
    sentences = [one.sentence for one in drawn] + _other_trouble(tables, message)
    text = " ".join(sentences) or f"{message} overtook nothing and was not overtaken."
    if not drawn:
        near = neighbourhoods(rows, [{"message": message}])[0]
        diagram = diagram_of(message, near.events, near.row, near.places)
        drawn = [Illustration(message, text, diagram)]
    return Drawing(text, drawn, [row["process"] for row in late])


def _other_trouble(tables: Tables, message: str) -> list[str]:
    """Return what else is wrong with a message: it never arrived, or the log is inconsistent."""
    missing = [
        f"{message} was never delivered at {row['process']}, which delivered its effect "
        f"{row['overtaker']} (seq {row['overtaker_seq']})."
        for row in tables["missing"]
        if row["message"] == message
    ]
    findings = [
        f"{message} at {row['process']} (seq {row['seq']}): {row['kind']}."
        for row in tables["findings"]
        if row["message"] == message
    ]
    return missing + findings


def _beginning(rows: Rows) -> Drawing:
    first = sorted(rows.beginning(SHOWN), key=lambda e: (e.process, e.seq))
    some = "All" if len(first) == len(rows) else f"The first {len(first):,} of"
    text = f"{some} {len(rows):,} events, in causal order."
    return Drawing(text, [Illustration("beginning", text, diagram_of("beginning", first))])


def _by_clocks(events: pa.Table, around: str | None) -> Drawing:
    """Draw a log of vector clocks whose messages cannot be paired."""
    rows = events.sort_by([("process", "ascending"), ("seq", "ascending")]).to_pylist()
    clocks = clocks_of(rows)
    order = sorted(range(len(rows)), key=lambda i: sum(clocks[i].values()))
    at = [i for i, e in enumerate(order) if around and around in (rows[e]["message"] or "")]
    if around and not at:
        msg = f"no event has {around!r} in its text"
        raise UsageError(msg)
    start = max(0, at[0] - SHOWN // 2) if at else 0
    chosen = sorted(order[start : start + SHOWN])
    number = {i: k for k, i in enumerate(chosen)}
    shown = [(rows[i]["process"], rows[i]["seq"], rows[i]["message"] or "") for i in chosen]
    nodes = [Node(host, seq, "local", f"{host} {seq}: {text}") for host, seq, text in shown]
    arrows = [
        Arrow(number[a], number[b], f"{rows[b]['process']} learnt of {rows[a]['message'] or ''}")
        for a, b in clock_arrows(rows, clocks)
        if a in number and b in number
    ]
    text = (
        f"{len(chosen)} of {len(rows)} events, by their vector clocks. The clocks do not tell "
        "which delivery belongs to which send."
    )
    return Drawing(text, [Illustration("clocks", text, Diagram("clocks", nodes, arrows))])


def clocks_of(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, int]]:
    """Return the clocks of events sorted by process and seq, each including its own event."""
    places: Counter[str] = Counter()
    found = []
    for row in rows:
        places[row["process"]] += 1
        found.append(dict(row.get(CLOCK) or ()) | {row["process"]: places[row["process"]]})
    return found


def clock_arrows(
    rows: Sequence[Mapping[str, Any]], clocks: Sequence[Mapping[str, int]]
) -> list[tuple[int, int]]:
    """Return pairs (from, to) of events such that the second learnt of the first.

    Of all that an event newly knows, only what other arrows do not imply gets an arrow.
    """
    at = {(row["process"], clocks[i][row["process"]]): i for i, row in enumerate(rows)}
    arrows = []
    for i, row in enumerate(rows):
        place = clocks[i][row["process"]]
        before = clocks[i - 1] if place > 1 else {}
        fresh = {
            at[host, count]: host
            for host, count in clocks[i].items()
            if host != row["process"] and count > before.get(host, 0) and (host, count) in at
        }
        arrows += [
            (source, i)
            for source, host in fresh.items()
            if not any(
                clocks[other].get(host, 0) >= clocks[i][host] for other in fresh if other != source
            )
        ]
    return arrows
