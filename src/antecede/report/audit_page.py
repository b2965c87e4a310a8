"""The audit's page: the verdict, the violations by place and lateness, and the worst drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from antecede.report.bars import bars
from antecede.report.page import Page, Raw, Section, Table, render
from antecede.report.spacetime import Diagram, behaviour, draw

#: Rows of a table that a page shows; the tables themselves are in the folder.
ROWS_MAX = 100

_VERDICTS = {
    "ordered": "Causal order was kept",
    "broken": "Causal order was broken",
    "undecidable": "This log cannot show whether causal order was kept",
}
_REST = {
    "missing": "Messages that never arrived, although an effect did",
    "findings": "Inconsistencies",
    "rejected": "Rows that are not events",
}
_SIZES = ("events", "processes", "messages", "deliveries")
_FOUND = ("violations", "fifo_violations", "causal_violations", "missing", "findings", "rejected")
_COLUMNS = ("process", "message", "sender", "overtaker", "overtaker_sender", "kind", "lateness")


@dataclass(frozen=True)
class Illustration:
    """A sentence with its diagram."""

    title: str
    sentence: str
    diagram: Diagram


def audit_page(
    summary: Mapping[str, Any],
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    drawn: Sequence[Illustration],
    *,
    log: str,
    facts: Mapping[str, object],
) -> str:
    """Return the page; ``tables`` are the first rows of each table, worst first."""
    sections = [_overview(summary)]
    if drawn:
        sections.append(_diagrams(drawn))
    if summary["violations"]:
        sections.append(_violations(summary, tables["violations"]))
    sections += [
        _rest(name, title, tables[name], summary) for name, title in _REST.items() if tables[name]
    ]
    return render(Page(f"Causal audit of {log}", lead(summary), sections, facts))


def lead(summary: Mapping[str, Any]) -> str:
    """Return the verdict, its reason and the size of the log."""
    return (
        f"{_VERDICTS[summary['verdict']]}. {summary['reason']} "
        f"The log has {summary['events']:,} events of {summary['processes']:,} processes, "
        f"{summary['messages']:,} messages and {summary['deliveries']:,} deliveries."
    )


def _overview(summary: Mapping[str, Any]) -> Section:
    rows = [[name.replace("_", " "), summary[name]] for name in (*_SIZES, *_FOUND)]
    late = summary["lateness"]
    if late:
        names = {"median": "p50", "99th percentile": "p99", "largest": "max"}
        rows += [[f"lateness, {name}", late[key]] for name, key in names.items()]
    note = "Lateness is the number of events of the process between the effect and its late cause."
    return Section("summary", "Summary", [Table(("what", "count"), rows)], note if late else "")


def _diagrams(
    drawn: Sequence[Illustration], title: str = "The worst violations", lead: str = ""
) -> Section:
    """Return the diagrams, each with its sentence unless that is the page's ``lead``."""
    blocks: list[Raw] = []
    for number, one in enumerate(drawn):
        shared = behaviour() if number == 0 else ""
        caption = "" if one.sentence == lead else f"{one.title}. {one.sentence}"
        blocks.append(Raw(f"{shared}{draw(one.diagram)}", caption))
    return Section(
        "diagrams",
        title,
        blocks,
        "Lines are processes, arrows are messages, and time runs to the right. Only the events "
        "nearby are shown. Point at an event or a message for its details.",
    )


def _violations(summary: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Section:
    arrow = "\N{RIGHTWARDS ARROW}"
    pairs = {
        f"{p['sender']} {arrow} {p['process']}": p["violations"] for p in summary["worst_pairs"]
    }
    charts = bars(
        {
            "Worst pairs of processes (sender and receiver of the late message)": pairs,
            "Lateness (events of the process in between)": summary["lateness_spread"],
        },
        unit="violations",
    )
    cells = [[row[name] for name in _COLUMNS] for row in rows[:ROWS_MAX]]
    caption = f"The worst {len(cells)} of {summary['violations']:,}; violations.parquet has all"
    titles = tuple(name.replace("_", " ") for name in _COLUMNS)
    return Section("violations", "Violations", [Raw(charts), Table(titles, cells, caption)])


def _rest(
    name: str, title: str, rows: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]
) -> Section:
    """Return a table's section; its file has all rows unless the summary says how many."""
    columns = tuple(rows[0])
    cells = [[row[column] for column in columns] for row in rows[:ROWS_MAX]]
    count = summary[name]
    kept = summary.get(f"{name}_kept", count)
    there = "all are" if kept == count else f"the first {kept:,} are"
    caption = f"The first {len(cells)} of {count:,}; {there} in {name}.parquet"
    heads = tuple(column.replace("_", " ") for column in columns)
    return Section(name, title, [Table(heads, cells, caption, folded=len(cells) > 20)])


def report_page(
    title: str, text: str, drawn: Sequence[Illustration], facts: Mapping[str, object]
) -> str:
    """Return the page of ``antecede report``."""
    return render(Page(title, text, [_diagrams(drawn, "The diagram", text)], facts))
