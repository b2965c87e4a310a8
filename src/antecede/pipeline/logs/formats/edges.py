"""Edge lists: who sent to whom and when. They are traffic to replay, without deliveries of its own.

Each message counts as delivered when it is sent, for an edge list says nothing about delays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from antecede.core.tables import DELIVER, SEND
from antecede.eventlog import Event, Rejected
from antecede.eventlog.edges import Multicast, read_edges
from antecede.pipeline.logs.base import Format, Log, Source, log_of


def _read(source: Source) -> Log:
    rejected: list[Rejected] = []
    messages = read_edges(source.path, rejected)
    return log_of(source, to_events(messages), rejected)


def to_events(messages: Iterable[Multicast]) -> list[Event]:
    """Return a send and its deliveries for each message."""
    counts: Counter[str] = Counter()
    events = []
    for message in messages:
        name = f"e{message.line}"
        counts[message.source] += 1
        seq, time = counts[message.source], message.time
        events.append(Event(message.source, seq, SEND, name, message.dests, time))
        for dest in message.dests:
            counts[dest] += 1
            events.append(Event(dest, counts[dest], DELIVER, name, None, time))
    return events


FORMAT = Format(
    "edges",
    (".txt", ".edges"),
    _read,
    has_deliveries=False,
    unauditable=(
        "An edge list says who sent to whom and when, but nothing about deliveries; "
        "antecede advise shows what keeping order would cost on its traffic."
    ),
)
