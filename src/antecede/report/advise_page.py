"""The page of ``advise``: what each protocol would cost, and which to take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from antecede.report.bars import bars
from antecede.report.page import Page, Raw, Section, Table, Text, figure, render

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HEADS = (
    "protocol",
    "status",
    "model bytes",
    "wire bytes",
    "added ms",
    "added ms, p99",
    "held %",
    "held at most",
    "state bytes",
    "extra packets",
    "remark",
)


def cells(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the advice as text, in the units of ``HEADS``."""
    found = []
    for row in rows:
        values = [
            row["model_bytes_per_copy"],
            row["wire_bytes_per_copy"],
            _times(row["added_delay_mean"], 1000),
            _times(row["added_delay_p99"], 1000),
            _times(row["held_fraction"], 100),
            row["buffer_peak"],
            row["state_bytes_peak"],
            row["extra_packets_per_message"],
        ]
        numbers = [figure(value) for value in values]
        found.append([row["protocol"], row["status"], *numbers, row["reason"]])
    return found


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else factor * value


def advise_page(
    result: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    *,
    log: str,
    facts: Mapping[str, object],
) -> str:
    """Return the page."""
    some = [row for row in rows if row["model_bytes_per_copy"] is not None]
    ran = [row for row in rows if row["status"] == "run"]
    charts = {
        "Control on each copy, bytes (model)": {
            row["protocol"]: round(row["model_bytes_per_copy"], 1) for row in some
        },
        "Added delay, ms on average": {
            row["protocol"]: round(1000 * (row["added_delay_mean"] or 0.0), 3) for row in ran
        },
    }
    traffic = (
        f"{result['messages']:,} messages ({result['copies']:,} copies, {result['cast']}) among "
        f"{result['processes']:,} processes; delays {result['delays']}, "
        f"{1000 * result['delay_mean']:.3g} ms on average."
    )
    paragraphs = [text for text in (result["reason"], result["otherwise"]) if text]
    sections = [
        Section("recommendation", "Recommendation", [Text(tuple(paragraphs))]),
        Section("costs", "What each would cost", [Raw(bars(charts, unit=""))]),
        Section(
            "table",
            "All figures",
            [Table(HEADS, cells(rows), "Bytes are per copy of a message; state is per process.")],
            "run: on this very traffic; computed: by the protocol's formula, its state would not "
            "fit; skipped: does not offer what this traffic needs.",
        ),
    ]
    return render(Page(f"Advice for {log}", traffic, sections, facts))
