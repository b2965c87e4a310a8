"""The audit's page: what was found, where, how late, and each of the worst as a diagram."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from antecede.report.bars import bars
from antecede.report.page import Page, Raw, Section, Table, render
from antecede.report.spacetime import behaviour, draw

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from antecede.report.spacetime import Diagram

#: Rows of a table that a page shows; the tables themselves are in the folder.
ROWS_MAX = 100

_SIZES = ("events", "processes", "messages", "deliveries")
_FOUND = ("violations", "fifo_violations", "causal_violations", "missing", "findings", "rejected")
_COLUMNS = ("process", "message", "sender", "overtaker", "overtaker_sender", "kind", "lateness")


@dataclass(frozen=True)
class Story:
    """One violation in words and as a picture."""

    title: str
    sentence: str
    diagram: Diagram


def audit_page(
    summary: Mapping[str, Any],
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    stories: Sequence[Story],
    *,
    log: str,
    facts: Mapping[str, object],
) -> str:
    """Return the page; ``tables`` are the first rows of each table, worst first."""
    sections = [_overview(summary)]
    if stories:
        sections.append(_stories(stories))
    if summary["violations"]:
        sections.append(_violations(summary, tables["violations"]))
    sections += [
        _rest("missing", "Effects whose cause never came", tables["missing"], summary["missing"]),
        _rest("findings", "What cannot be so", tables["findings"], summary["findings"]),
        _rest(
            "rejected",
            "Rows that are no events",
            tables["rejected"],
            summary["rejected"],
            summary.get("rejected_kept"),
        ),
    ]
    kept = [section for section in sections if section.blocks]
    return render(Page(f"Causal audit of {log}", lead(summary), kept, facts))


def lead(summary: Mapping[str, Any]) -> str:
    """Say the answer in a sentence or two."""
    size = (
        f"{summary['events']:,} events of {summary['processes']:,} processes, "
        f"{summary['messages']:,} messages, {summary['deliveries']:,} deliveries"
    )
    if summary["causally_ordered"]:
        return f"Causal order was kept: no message was delivered after an effect of it ({size})."
    parts = []
    if summary["violations"]:
        share = 100 * summary["violations_per_delivery"]
        parts.append(
            f"late deliveries, after an effect of the message: {summary['violations']:,} "
            f"({share:.3g}% of deliveries; {summary['fifo_violations']:,} overtaken by the same "
            f"sender's, {summary['causal_violations']:,} through others)"
        )
    if summary["missing"]:
        parts.append(f"{summary['missing']:,} never came although an effect did")
    cycles = summary["findings_by_kind"].get("causal cycle", 0)
    if cycles:
        parts.append(f"{cycles:,} deliveries precede what led to their sending")
    return f"Causal order was broken: {'; '.join(parts)} ({size})."


def _overview(summary: Mapping[str, Any]) -> Section:
    names = [*_SIZES, *_FOUND]
    rows: list[list[object]] = [[name.replace("_", " "), summary[name]] for name in names]
    late = summary["lateness"]
    if late:
        rows.append(["lateness, median", late["p50"]])
        rows.append(["lateness, 99th percentile", late["p99"]])
        rows.append(["lateness, largest", late["max"]])
    note = "Lateness counts the events of the process between the effect and its late cause."
    return Section("summary", "Summary", [Table(("what", "count"), rows)], note if late else "")


def _stories(stories: Sequence[Story], title: str = "The worst, drawn", said: str = "") -> Section:
    """Return the diagrams, each with its sentence unless the page has ``said`` it already."""
    blocks: list[Raw] = []
    for number, story in enumerate(stories):
        shared = behaviour() if number == 0 else ""
        words = "" if story.sentence == said else f"{story.title}. {story.sentence}"
        blocks.append(Raw(f"{shared}{draw(story.diagram)}", words))
    return Section(
        "diagrams",
        title,
        blocks,
        "Processes are lines, messages arrows, time runs to the right; only the neighbourhood is "
        "shown. Point at an event or a message for its details.",
    )


def _violations(summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Section:
    arrow = "\N{RIGHTWARDS ARROW}"
    pairs = {
        f"{p['sender']} {arrow} {p['process']}": p["violations"] for p in summary["worst_pairs"]
    }
    charts = bars(
        {
            "Worst pairs of processes (sender and receiver of the late message)": pairs,
            "How late: events of the process in between": summary["lateness_spread"],
        },
        unit="violations",
    )
    cells = [[row[name] for name in _COLUMNS] for row in rows[:ROWS_MAX]]
    caption = f"The worst {len(cells)} of {summary['violations']:,}; all are in violations.parquet"
    titles = tuple(name.replace("_", " ") for name in _COLUMNS)
    return Section(
        "violations",
        "Violations",
        [Raw(charts), Table(titles, cells, caption)],
    )


def _rest(
    name: str,
    title: str,
    rows: Sequence[Mapping[str, Any]],
    count: int,
    kept: int | None = None,
) -> Section:
    """Return a table's section; ``kept`` of its ``count`` rows are in the file (all, if None)."""
    if not rows:
        return Section(name, title, [])
    columns = tuple(rows[0])
    cells = [[row[column] for column in columns] for row in rows[:ROWS_MAX]]
    kept = count if kept is None else kept
    there = "all are" if kept == count else f"the first {kept:,} are"
    caption = f"The first {len(cells)} of {count:,}; {there} in {name}.parquet"
    heads = tuple(column.replace("_", " ") for column in columns)
    return Section(name, title, [Table(heads, cells, caption, folded=len(cells) > 20)])


def report_page(
    title: str, text: str, stories: Sequence[Story], facts: Mapping[str, object]
) -> str:
    """Return the page of ``antecede report``: diagrams on demand."""
    return render(Page(title, text, [_stories(stories, "The diagram", text)], facts))
