"""Draw traffic by its times: for logs that know when messages were sent, but of no deliveries."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from antecede.errors import UsageError
from antecede.events.tables import SEND
from antecede.pipeline.audits.neighbourhood import TableRows
from antecede.report.diagrams import diagram_of
from antecede.report.spacetime import Diagram

#: How many messages are drawn.
MESSAGES = 50


def timeline(events: pa.Table, around: str | None = None) -> tuple[str, Diagram]:
    """Return the first messages by time, or those around one, in words and as a diagram."""
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
