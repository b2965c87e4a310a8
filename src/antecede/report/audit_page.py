"""The audit's page: the verdict, the violations by place and lateness, and the worst drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote

from antecede.report.charts import bars
from antecede.report.numbers import counted, figure, seconds_in_words
from antecede.report.page import Page, Raw, Section, Table, render
from antecede.report.spacetime import Diagram, behaviour, draw

#: The most rows of a table on a page; the whole tables are in the folder.
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
_COLUMNS = {
    "process": "process",
    "message": "message",
    "sender": "sender",
    "overtaker": "overtaker",
    "overtaker_sender": "overtaker sender",
    "kind": "kind",
    "lateness": "lateness, events",
}
_SECONDS = "lateness_seconds"


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
    sections = [_diagrams(drawn)] if drawn else []
    if summary["violations"]:
        sections.append(_violations(summary, tables["violations"]))
    sections += [
        _rest(name, title, tables[name], summary)
        for name, title in _REST.items()
        if tables.get(name)
    ]
    sections.append(_overview(summary))
    return render(Page(f"Causal audit of {log}", lead(summary), sections, facts))


def lead(summary: Mapping[str, Any]) -> str:
    """Return the verdict, its reason and the size of the log."""
    return (
        f"{_VERDICTS[summary['verdict']]}. {summary['reason']} "
        f"The log has {counted(summary['events'], 'event')} of "
        f"{counted(summary['processes'], 'process', 'processes')}, "
        f"{counted(summary['messages'], 'message')} and "
        f"{counted(summary['deliveries'], 'delivery', 'deliveries')}."
    )


def lateness_in_words(summary: Mapping[str, Any]) -> str:
    """Say how late the late messages were, in events and in seconds; empty if none was late."""
    late, seconds = summary["lateness"], summary.get("lateness_seconds")
    if not late:
        return ""
    one = summary["violations"] == 1
    events = {0: "no event", 1: "1 event"}.get(late["p50"], f"{late['p50']:,.10g} events")
    between = f"with {events} in between"
    if late["max"] and not one:
        between += f" (median), {late['max']:,.0f} at most"
    if not seconds:
        return f"Late {between}."
    times = [seconds_in_words(seconds[key]) for key in ("p50", "max")]
    by = times[0] if one else f"{times[0]} (median), {times[1]} at most"
    return f"Late by {by} (receivers' clocks), {between}."


def _overview(summary: Mapping[str, Any]) -> Section:
    rows = [[name.replace("_", " "), summary[name]] for name in (*_SIZES, *_FOUND)]
    note = ""
    names = {"median": "p50", "99th percentile": "p99", "largest": "max"}
    for figures, unit in (("lateness", "events"), ("lateness_seconds", "seconds")):
        if late := summary.get(figures):
            rows += [[f"lateness in {unit}, {name}", late[key]] for name, key in names.items()]
            note = (
                "Lateness is the number of events, or the time, between the effect and its late "
                "cause at the process that delivered both."
            )
    return Section("summary", "Summary", [Table(("what", "value"), rows)], note)


def card(
    summary: Mapping[str, Any],
    violations: Sequence[Mapping[str, Any]],
    drawn: Sequence[Illustration],
) -> str:
    """Return what a notebook shows of an audit: verdict, worst violations, diagram."""
    late = lateness_in_words(summary)
    head = f"<p><b>{escape(_VERDICTS[summary['verdict']])}.</b> {escape(summary['reason'])}</p>"
    parts = [head, f"<p>{escape(late)}</p>" if late else ""]
    if violations:
        columns = {name: title for name, title in _COLUMNS.items() if name in violations[0]}
        heads = "".join(f"<th>{escape(title)}</th>" for title in columns.values())
        lines = (
            "".join(f"<td>{escape(figure(row[name]))}</td>" for name in columns)
            for row in violations
        )
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        of = f"The worst {len(violations)} of {summary['violations']:,} violations"
        table = f"<table><caption>{of}</caption><tr>{heads}</tr>{body}</table>"
        parts.append(table)
    return "".join(parts) + drawn_in("", drawn)


def drawn_in(text: str, drawn: Sequence[Illustration]) -> str:
    """Return what a notebook shows of diagrams, each with its sentence."""
    parts = [f"<p>{escape(text)}</p>"] if text else []
    for one in drawn:
        if one.sentence != text:
            parts.append(f"<p>{escape(one.sentence)}</p>")
        parts.append(draw(one.diagram))
    return "".join(parts) + (behaviour() if drawn else "")


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
        "Lines are processes, arrows are messages, and time runs to the right. Of a long "
        "log, only some events are shown. Point at an event or a message for its details.",
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
    columns = dict(_COLUMNS)
    if any(_SECONDS in row for row in rows):
        columns[_SECONDS] = "lateness, seconds"
    cells = [[row[name] for name in columns] for row in rows[:ROWS_MAX]]
    caption = f"The worst {len(cells)} of {summary['violations']:,}; violations.parquet has all"
    titles = tuple(columns.values())
    return Section("violations", "Violations", [Raw(charts), Table(titles, cells, caption)])


def _rest(
    name: str, title: str, rows: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]
) -> Section:
    """Return a table's section; its file has all rows unless the summary gives another number."""
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


_EXECUTIONS = ("execution", "verdict", "events", "deliveries", "violations", "missing", "rejected")


def executions_page(result: Mapping[str, Any], *, log: str, facts: Mapping[str, object]) -> str:
    """Return the page of several executions: a verdict for each, with a link to its own page."""
    found = result["executions"]
    links = "".join(
        f'<li><a href="{quote(one["folder"])}/index.html">{escape(one["execution"])}</a>: '
        f"{escape(one['verdict'])}. {escape(one['reason'])}</li>"
        for one in found
    )
    rows = [[one[name] for name in _EXECUTIONS] for one in found]
    sections = [
        Section("executions", "Executions", [Raw(f"<ul>{links}</ul>"), Table(_EXECUTIONS, rows)]),
    ]
    return render(Page(f"Causal audit of {log}", result["reason"], sections, facts))
