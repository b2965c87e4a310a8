"""The page of ``advise``: what each protocol would cost, and which one to use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from antecede.report.charts import bars
from antecede.report.numbers import counted, figure, rejected_in_words
from antecede.report.page import Page, Raw, Section, Table, Text, render

_FIGURES = {
    "model_bytes_per_copy": ("model bytes/copy", 1),
    "wire_bytes_per_copy": ("wire bytes/copy", 1),
    "total_bytes_per_copy": ("total bytes/copy", 1),
    "added_delay_mean": ("added ms/copy", 1000),
    "added_delay_p99": ("added ms/copy, p99", 1000),
    "held_fraction": ("% of copies held", 100),
    "buffer_peak": ("most copies held", 1),
    "state_bytes_peak": ("state bytes/process", 1),
    "extra_packets_per_message": ("extra packets/message", 1),
}
"""The figures of a row of advice, each with its column's head, which names the unit, and factor."""
HEADS = ("protocol", "status", *(head for head, _ in _FIGURES.values()))
#: The marks of figures measured on only a part of the traffic.
BEGINNING, SAMPLE = "\N{DAGGER}", "\N{DOUBLE DAGGER}"
#: The remark that is not shown, because it is the normal case.
_AS_ALL = "ran with delays as seen"
_SAMPLED = ("wire bytes/copy", "total bytes/copy")


def heads(result: Mapping[str, Any]) -> list[str]:
    """Return the column heads, with a mark on those measured on a sample."""
    marked = _SAMPLED if _is_sampled(result) else ()
    return [head + SAMPLE * (head in marked) for head in HEADS]


def cells(rows: Sequence[Mapping[str, Any]], result: Mapping[str, Any]) -> list[list[str]]:
    """Return the rows of advice as text, in the units of ``HEADS``."""
    totals, begun = result.get("total_bytes_per_copy", {}), result.get("on_the_beginning", ())
    found = []
    for row in rows:
        name = row["protocol"]
        whole = {**row, "total_bytes_per_copy": totals.get(name)}
        known = [(whole[column], unit) for column, (_, unit) in _FIGURES.items()]
        numbers = [_small(None if value is None else unit * value) for value, unit in known]
        if result.get("wire_sample") and name in totals and row["wire_bytes_per_copy"] is None:
            numbers[list(_FIGURES).index("total_bytes_per_copy")] += " (model bytes)"
        status = row["status"] + BEGINNING * (name in begun)
        found.append([name, status, *numbers])
    return found


def _small(value: float | None) -> str:
    """Return a figure as text; tiny values are shown as less than a thousandth."""
    return "<0.001" if value is not None and 0 < value < 0.001 else figure(value)


def notes(result: Mapping[str, Any]) -> list[str]:
    """Return notes on what the total includes, and on figures that cover part of the traffic."""
    found = []
    if result.get("total_bytes_per_copy"):
        size = "wire" if result["wire_sample"] else "model"
        found.append(
            f"Total bytes are the {size} bytes of a copy and {result['packet_bytes']} bytes for "
            "each packet that the protocol adds, shared by the copies of a message."
        )
    if _is_sampled(result):
        found.append(
            f"{SAMPLE} Wire bytes are measured on {result['wire_sample']:,} of the "
            f"{result['copies']:,} copies, near the beginning."
        )
    if result.get("on_the_beginning"):
        found.append(
            f"{BEGINNING} Ran only on the first {result['beginning_messages']:,} messages: do not "
            "compare its figures with those of protocols that ran on all."
        )
    return found


def _is_sampled(result: Mapping[str, Any]) -> bool:
    return bool(0 < result.get("wire_sample", 0) < result["copies"])


def left_out_in_words(result: Mapping[str, Any]) -> str:
    """Say which events of the log were not replayed; empty if all were."""
    words = {
        "repeated_sends": ("repeated send", "repeated sends"),
        "repeated_deliveries": ("repeated delivery", "repeated deliveries"),
        "repeated_lines": ("repeated line", "repeated lines"),
        "copies_to_sender": ("copy to its own sender", "copies to their own sender"),
    }
    counts = result.get("left_out", {})
    parts = [
        f"{counts[name]:,} {one if counts[name] == 1 else many}"
        for name, (one, many) in words.items()
        if counts.get(name)
    ]
    return f"Left out: {', '.join(parts)}." if parts else ""


def messages_in_words(result: Mapping[str, Any]) -> str:
    """Say how many messages were replayed, and out of how many."""
    count, of = result["messages"], result["log_messages"]
    return counted(count, "message") if count == of else f"the first {count:,} of {of:,} messages"


def _known(rows: Sequence[Mapping[str, Any]], name: str) -> list[Mapping[str, Any]]:
    """Return the rows in which a figure is known."""
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
    shown = [row for row in rows if row["status"] != "skipped"]
    unfit = set(result["not_chosen"])
    begun = result.get("on_the_beginning", ())
    label = {
        name: f"{name}{'*' * (name in unfit)}{BEGINNING * (name in begun)}"
        for name in (row["protocol"] for row in rows)
    }
    starred = ["* not recommended: see the remarks."] if unfit else []
    note = " ".join(starred + notes(result))
    sampled = SAMPLE * _is_sampled(result)
    charts = {
        f"Total bytes per copy{sampled}": {
            label[name]: round(size, 1)
            for name, size in result.get("total_bytes_per_copy", {}).items()
        },
        "Control on each copy, model bytes": {
            label[row["protocol"]]: round(row["model_bytes_per_copy"], 1)
            for row in _known(rows, "model_bytes_per_copy")
        },
        "Added delay of a copy, ms on average": {
            label[row["protocol"]]: round(1000 * row["added_delay_mean"], 3)
            for row in _known(ran, "added_delay_mean")
        },
    }
    charts = {
        title: dict(sorted(values.items(), key=lambda item: item[1]))
        for title, values in charts.items()
    }
    columns = [head.replace("/", " per ") for head in heads(result)]
    words = messages_in_words(result)
    traffic = (
        f"{words} ({counted(result['copies'], 'copy', 'copies')}, "
        f"{result['cast']}) among {counted(result['processes'], 'process', 'processes')}; "
        f"delays {result['delays']}, "
        f"{figure(1000 * result['delay_mean'])} ms on average; delays of packets that protocols "
        f"add: {result['added_delays']}."
    )
    if words := left_out_in_words(result):
        traffic += f" {words}"
    if result["rejected"]:
        traffic += f" {rejected_in_words(result)}."
    lead = " ".join(text for text in (result["reason"], result.get("need")) if text)
    told = (result.get("caveat"), result["otherwise"], f"Replayed: {traffic}")
    sections = [
        Section("conditions", "Under which conditions", [Text(tuple(filter(None, told)))]),
        Section("costs", "What each protocol would cost", [Raw(bars(charts, unit=""))], note),
        Section(
            "table",
            "All figures",
            [Table(tuple(columns), cells(shown, result))],
            "run: on this traffic; computed: by the protocol's formula, because it was too large "
            f"or too slow to run. {note}",
        ),
    ]
    if remarks := _remarks(rows):
        table = Table(("protocol", "remark"), remarks, cards=True)
        sections.append(Section("remarks", "Remarks", [table]))
    if result["rejected"]:
        sections.append(_rejected(result))
    return render(Page(f"Advice for {log}", lead, sections, facts))


def _remarks(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return the remarks on protocols that did not run like all others."""
    found = []
    for row in rows:
        said = [part for part in row["reason"].split("; ") if part != _AS_ALL]
        if said:
            state = "" if row["status"] == "run" else f"{row['status']}: "
            found.append((row["protocol"], state + "; ".join(said)))
    return found


def _rejected(result: Mapping[str, Any]) -> Section:
    first = result["rejected_first"]
    lines = [[row["line"], row["reason"], row["text"]] for row in first]
    caption = f"The first {len(lines)} of {result['rejected']:,}; rejected.parquet has more."
    table = Table(("line", "reason", "text"), lines, caption)
    return Section("rejected", "Rejected rows", [table])
