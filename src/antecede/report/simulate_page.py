"""The page of ``simulate``: the figures of one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antecede.report.page import Page, Section, Table, Text, render

#: The figures that a terminal shows, and their labels there and on the page.
LABELS = {
    "deliveries": "deliveries measured",
    "entries_per_copy": "control entries per copy",
    "destinations_per_copy": "destinations in those entries",
    "model_bytes_per_copy": "model bytes per copy",
    "wire_bytes_per_copy": "wire bytes per copy (sampled)",
    "log_entries_mean": "entries kept per process, mean",
    "log_entries_peak": "entries kept per process, peak",
    "held_fraction": "fraction of copies held",
    "held_time_mean": "time held, mean (s)",
    "held_time_p95": "time held, 95% (s)",
    "held_time_p99": "time held, 99% (s)",
    "held_time_max": "time held, longest (s)",
    "latency_mean": "send to delivery, mean (s)",
    "buffer_mean": "copies waiting per process, mean",
    "buffer_peak": "copies waiting per process, peak",
    "extra_packets_per_message": "extra packets per message",
    "extra_bytes_per_message": "bytes of extra packets per message",
    "undelivered": "copies never delivered",
    "saturated": "saturated: queues grow without bound",
}


def simulate_page(
    protocol: str, result: Mapping[str, Any], *, lead: str, facts: Mapping[str, object]
) -> str:
    """Return the page of a run; ``result`` maps the names of figures to their values."""
    rows = [(LABELS.get(name, name), value) for name, value in result.items()]
    files = (
        "The tables are in the same folder: metrics, schedule and, if written, events (.parquet)."
    )
    section = Section("figures", "Figures", [Table(("figure", "value"), rows), Text((files,))])
    return render(Page(f"antecede simulate {protocol}", lead, [section], facts))
