"""The pages of ``simulate``: the figures of one run, or of several on the same schedule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antecede.errors import listed
from antecede.report.charts import bars
from antecede.report.numbers import figure
from antecede.report.page import Page, Raw, Section, Table, Text, render

#: The figures shown on a terminal, with their labels there and on the page.
LABELS = {
    "deliveries": "deliveries measured",
    "entries_per_copy": "control entries per copy",
    "destinations_per_copy": "destinations in those entries",
    "model_bytes_per_copy": "model bytes per copy",
    "wire_bytes_per_copy": "wire bytes per copy (sampled)",
    "log_entries_mean": "entries kept per process, mean",
    "log_entries_peak": "entries kept per process, peak",
    "held_fraction": "fraction of copies held",
    "held_time_mean": "time held, mean (ms)",
    "held_time_p95": "time held, 95% (ms)",
    "held_time_p99": "time held, 99% (ms)",
    "held_time_max": "time held, longest (ms)",
    "latency_mean": "send to delivery, mean (ms)",
    "buffer_mean": "copies waiting per process, mean",
    "buffer_peak": "copies waiting per process, peak",
    "extra_packets_per_message": "extra packets per message",
    "extra_bytes_per_message": "bytes of extra packets per message",
    "undelivered": "copies never delivered",
    "saturated": "saturated: queues grow without bound",
}


#: The labels of figures shown only on the page.
_MORE = {
    "held_time_p50": "time held, median (ms)",
    "added_delay_mean": "delay added per copy, mean (ms)",
    "added_delay_p99": "delay added per copy, 99% (ms)",
    "simulated_seconds": "simulated time measured (s)",
    "state_bytes": "memory of the simulated state (bytes)",
    "seconds": "computing time (s)",
    "queue_load": "load of the senders' queues",
    "queue_drift": "growth of these queues per message",
    "link_load": "load of the links, mean",
    "link_load_peak": "load of the busiest link",
}


def label_of(name: str) -> str:
    """Return a figure's label, with its unit."""
    return (LABELS | _MORE).get(name, name.replace("_", " "))


def value_of(metrics: Mapping[str, float | None], name: str) -> float | None:
    """Return a figure in the unit that its label names."""
    value = metrics.get(name)
    return 1000 * value if value is not None and label_of(name).endswith("(ms)") else value


def simulate_page(
    protocol: str, result: Mapping[str, Any], charts: Mapping[str, Mapping[str, int]], *,
    lead: str, facts: Mapping[str, object],
) -> str:  # fmt: skip
    """Return the page of a run, given its figures by name and counts of copies for charts."""
    rows = [(label_of(name), value_of(result, name)) for name in result]
    files = (
        "The tables are in the same folder: metrics, schedule and, if written, events (.parquet)."
    )
    drawn = Section("charts", "Copies", [Raw(bars(charts, unit="copies"))])
    section = Section("figures", "Figures", [Table(("figure", "value"), rows), Text((files,))])
    lead = f"{lead} {_in_words(result)}"
    return render(Page(f"antecede simulate {protocol}", lead, [drawn, section], facts))


COMPARED = {
    "model_bytes_per_copy": ("Model bytes per copy", 1.0),
    "latency_mean": ("Send to delivery, mean (ms)", 1000.0),
    "added_delay_mean": ("Delay added per copy, mean (ms)", 1000.0),
    "extra_packets_per_message": ("Extra packets per message", 1.0),
}
"""The figures in the charts of a comparison, each with a title and a factor."""


def compare_page(
    runs: Mapping[str, Mapping[str, Any]], *, lead: str, facts: Mapping[str, object]
) -> str:
    """Return a page that compares protocols on one schedule, given their figures by name."""
    charts = {
        title: {
            name: factor * result[metric]
            for name, result in runs.items()
            if result.get(metric) is not None
        }
        for metric, (title, factor) in COMPARED.items()
        if any(result.get(metric) for result in runs.values())
    }
    every = dict.fromkeys(name for result in runs.values() for name in result)
    rows = [
        (label_of(name), *(value_of(result, name) for result in runs.values())) for name in every
    ]
    table = Table(("figure", *runs), rows)
    files = "The tables are in the same folder: metrics, schedule and, if written, events-PROTOCOL."
    sections = [
        Section("charts", "Compared", [Raw(bars(charts, unit=""))]),
        Section("figures", "Figures", [table, Text((files,))]),
    ]
    size, least = _least(runs, "model_bytes_per_copy")
    wait, first = _least(runs, "latency_mean")
    lead += (
        f" Fewest bytes per copy: {least} ({size}). Soonest delivered: {first} (after {wait} ms on "
        "average)."
    )
    title = f"antecede simulate {' '.join(runs)}"
    return render(Page(title, lead, sections, facts))


def _least(runs: Mapping[str, Mapping[str, Any]], metric: str) -> tuple[str, str]:
    """Return the least value of a figure as text, and the protocols that have it."""
    values = {name: value_of(result, metric) or 0.0 for name, result in runs.items()}
    least = figure(min(values.values()))
    names = [name for name, value in values.items() if figure(value) == least]
    return least, ("all alike" if len(names) == len(runs) > 1 else listed(names))


def _in_words(result: Mapping[str, Any]) -> str:
    entries, size = figure(result["entries_per_copy"]), figure(result["model_bytes_per_copy"])
    held, lost = result["held_fraction"], result["undelivered"]
    mean, most = (figure(1000 * result[f"held_time_{name}"]) for name in ("mean", "max"))
    words = f"A copy carries {entries} control entries on average ({size} model bytes). "
    words += f"{figure(100 * held)}% of the copies were held"
    words += f", for {mean} ms on average and {most} ms at most. " if held else ". "
    words += f"Copies never delivered: {lost:,}." if lost else "Every copy was delivered."
    return f"{words} Queues grow without bound." if result["saturated"] else words
