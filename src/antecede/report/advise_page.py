"""The page of ``advise``: what each protocol would cost, and which one to use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from antecede.report.bars import bars
from antecede.report.numbers import figure
from antecede.report.page import Page, Raw, Section, Table, Text, render
from antecede.report.rejected import rejected_in_words

_FIGURES = {
    "model_bytes_per_copy": ("model bytes", 1),
    "wire_bytes_per_copy": ("wire bytes", 1),
    "added_delay_mean": ("added ms", 1000),
    "added_delay_p99": ("added ms, p99", 1000),
    "held_fraction": ("held %", 100),
    "buffer_peak": ("most held", 1),
    "state_bytes_peak": ("state bytes", 1),
    "extra_packets_per_message": ("extra packets", 1),
}
"""The figures of a row of advice, with their heads and units."""
HEADS = ("protocol", "status", *(head for head, _ in _FIGURES.values()), "remark")


def cells(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the rows of advice as text, in the units of ``HEADS``."""
    found = []
    for row in rows:
        known = [(row[name], unit) for name, (_, unit) in _FIGURES.items()]
        numbers = [figure(None if value is None else unit * value) for value, unit in known]
        found.append([row["protocol"], row["status"], *numbers, row["reason"]])
    return found


def messages_in_words(result: Mapping[str, Any]) -> str:
    """Say how many messages were replayed, and out of how many."""
    count, of = result["messages"], result["log_messages"]
    return f"{count:,} messages" if count == of else f"the first {count:,} of {of:,} messages"


def _known(rows: Sequence[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    """Return the rows in which that figure is known."""
    return [row for row in rows if row[name] is not None and math.isfinite(row[name])]


def advise_page(
    result: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    *,
    log: str,
    facts: Mapping[str, object],
) -> str:
    """Return the page."""
    ran = [row for row in rows if row["status"] == "run"]
    unfit = set(result["not_chosen"])
    label = {row["protocol"]: row["protocol"] + "*" * (row["protocol"] in unfit) for row in rows}
    note = "* not recommended: its remark says why." if unfit else ""
    charts = {
        "Control on each copy, bytes (model)": {
            label[row["protocol"]]: round(row["model_bytes_per_copy"], 1)
            for row in _known(rows, "model_bytes_per_copy")
        },
        "Added delay, ms on average": {
            label[row["protocol"]]: round(1000 * row["added_delay_mean"], 3)
            for row in _known(ran, "added_delay_mean")
        },
    }
    words = messages_in_words(result)
    traffic = (
        f"{words[0].upper()}{words[1:]} ({result['copies']:,} copies, {result['cast']}) among "
        f"{result['processes']:,} processes; delays {result['delays']}, "
        f"{figure(1000 * result['delay_mean'])} ms on average; delays of packets that protocols "
        f"add: {result['added_delays']}."
    )
    if result["rejected"]:
        traffic += f" {rejected_in_words(result)}."
    paragraphs = [text for text in (result["reason"], result["otherwise"]) if text]
    sections = [
        Section("recommendation", "Recommendation", [Text(tuple(paragraphs))]),
        Section("costs", "What each protocol would cost", [Raw(bars(charts, unit=""))], note),
        Section(
            "table",
            "All figures",
            [Table(HEADS, cells(rows), "Bytes are per copy of a message; state is per process.")],
            "run: on this traffic; computed: by the protocol's formula, because it was too large "
            "or too slow to run; skipped: it does not support this traffic. Extra packets are per "
            "message.",
        ),
    ]
    if result["rejected"]:
        sections.append(_rejected(result))
    return render(Page(f"Advice for {log}", traffic, sections, facts))


def _rejected(result: Mapping[str, Any]) -> Section:
    first = result["rejected_first"]
    lines = [[row["line"], row["reason"], row["text"]] for row in first]
    caption = f"The first {len(lines)} of {result['rejected']:,}; rejected.parquet has more."
    table = Table(("line", "reason", "text"), lines, caption)
    return Section("rejected", "Rejected rows", [table])
