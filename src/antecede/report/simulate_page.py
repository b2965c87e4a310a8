"""The page of ``simulate``: the figures of one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antecede.report.bars import bars
from antecede.report.numbers import figure
from antecede.report.page import Page, Raw, Section, Table, Text, render

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


#: The labels of figures that only the page shows.
_MORE = {
    "held_time_p50": "time held, median (s)",
    "added_delay_mean": "delay added per copy, mean (s)",
    "added_delay_p99": "delay added per copy, 99% (s)",
    "simulated_seconds": "simulated time measured (s)",
    "state_bytes": "memory of the simulated state (bytes)",
    "seconds": "computing time (s)",
}


def simulate_page(
    protocol: str, result: Mapping[str, Any], charts: Mapping[str, Mapping[str, int]], *,
    lead: str, facts: Mapping[str, object],
) -> str:  # fmt: skip
    """Return the page of a run: ``result`` has its figures by name, ``charts`` counts of copies."""
    labels = LABELS | _MORE
    rows = [(labels.get(name, name.replace("_", " ")), value) for name, value in result.items()]
    files = (
        "The tables are in the same folder: metrics, schedule and, if written, events (.parquet)."
    )
    drawn = Section("charts", "Copies", [Raw(bars(charts, unit="copies"))])
    section = Section("figures", "Figures", [Table(("figure", "value"), rows), Text((files,))])
    lead = f"{lead} {_in_words(result)}"
    return render(Page(f"antecede simulate {protocol}", lead, [drawn, section], facts))


def _in_words(result: Mapping[str, Any]) -> str:
    entries, size = figure(result["entries_per_copy"]), figure(result["model_bytes_per_copy"])
    held, lost = result["held_fraction"], result["undelivered"]
    mean, most = (figure(1000 * result[f"held_time_{name}"]) for name in ("mean", "max"))
    words = f"A copy carries {entries} control entries on average ({size} model bytes). "
    words += f"{figure(100 * held)}% of the copies were held"
    words += f", for {mean} ms on average and {most} ms at most. " if held else ". "
    words += f"Copies never delivered: {lost:,}." if lost else "Every copy was delivered."
    return f"{words} Queues grow without bound." if result["saturated"] else words
