"""Edge lists: who sent to whom and when. They are traffic to replay, without real deliveries.

Each message counts as delivered when it is sent, because edge lists have no delays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from antecede.events.edges import Multicast, parse_edges
from antecede.events.log import (
    Format,
    Log,
    Source,
    first_lines,
    read_text,
    reading,
    rejected_in,
    table_of,
)
from antecede.events.rule import Event, Rejected
from antecede.events.tables import DELIVER, SEND


def _read(sources: Sequence[Source]) -> dict[str, Log]:
    """Read edge lists as one; after the first list, names of messages include the list's number."""
    rejected: list[tuple[str, list[Rejected]]] = []
    found: list[tuple[float, int, Multicast]] = []
    for number, source in enumerate(sources):
        bad: list[Rejected] = []
        with reading(source, "edges"):
            text = read_text(source)
        found += [(one.time, number, one) for one in parse_edges(text, bad)]
        rejected.append((source.name, bad))
    found.sort(key=lambda item: item[:2])
    prefixes = ["e", *(f"e{number}/" for number in range(2, len(sources) + 1))]
    events = to_events([one for _, _, one in found], [prefixes[number] for _, number, _ in found])
    good = sum(one.lines for _, _, one in found)
    left_out = sum(len(rows) for _, rows in rejected)
    return {"": Log(table_of(events), rejected_in(rejected), left_out, good=good)}


def to_events(messages: Sequence[Multicast], prefixes: Sequence[str] = ()) -> list[Event]:
    """Return a send and its deliveries for each message, named by its line with a prefix."""
    counts: Counter[str] = Counter()
    events = []
    for message, prefix in zip(messages, prefixes or ["e"] * len(messages), strict=True):
        name = f"{prefix}{message.line}"
        counts[message.source] += 1
        seq, time = counts[message.source], message.time
        events.append(Event(message.source, seq, SEND, name, message.dests, time))
        for dest in message.dests:
            counts[dest] += 1
            events.append(Event(dest, counts[dest], DELIVER, name, None, time))
    return events


def _sniff(head: str) -> float:
    """Return the share of lines that are edges; the first may have column names."""
    lines = [line for line in first_lines(head) if not line.startswith(("#", "%"))]
    if lines and lines[0].startswith(("{", "[")):
        return 0.0
    bad: list[Rejected] = []
    good = sum(one.lines for one in parse_edges("\n".join(lines), bad))
    return good / max(1, good + len(bad))


FORMAT = Format(
    "edges",
    (".txt", ".edges"),
    _read,
    _sniff,
    has_deliveries=False,
    unauditable=(
        "An edge list says who sent to whom and when, but nothing about deliveries; "
        "antecede advise shows what keeping order would cost on its traffic."
    ),
)
