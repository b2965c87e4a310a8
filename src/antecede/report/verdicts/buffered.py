"""Verdicts on the claims of papers/004."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.report.verdicts.common import Outcome, judged

if TYPE_CHECKING:
    from antecede.report.measured import Measured


def buffered_delay(measured: Measured) -> Outcome | None:
    """4.5: delay, acknowledgements and pipelining as the round trip grows."""
    facet = next((f for f in measured.facets("buffered") if "FIFO" in f), None)
    if facet is None:
        return None
    plain = measured.means("buffered", "added_delay_mean", facet, "buffered")
    piped = measured.means("buffered", "added_delay_mean", facet, "buffered, pipelined")
    relative = measured.means("buffered", "latency_in_delays", facet, "buffered")
    if not plain or not relative:
        return None
    short = max((x for x in relative if x <= 0.05), default=min(relative))
    long = max(relative)
    taken = f"{relative[short]:.2f} network delays when the round trip is {short:g} of the gap"
    parts = [f"A message takes {taken}, and {relative[long]:.2f} at {long:g}"]
    removed = None
    if piped and piped.get(long) is not None and plain.get(long):
        removed = 1 - piped[long] / plain[long]
        parts.append(f"pipelining removes {removed:.0%} of the added delay at {long:g}")
    parts.append("one acknowledgement a message, with no control in it")
    barely = relative[short] < 1.1
    most = removed is not None and removed > 0.5
    return Outcome("; ".join(parts) + ".", judged(always=barely and most, sometimes=barely))
