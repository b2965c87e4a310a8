"""``antecede report``: draw the part of a log around a message, on demand."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antecede.cli.options import (
    AsJson,
    DeliverPattern,
    Form,
    LogPath,
    Out,
    Pattern,
    SendPattern,
)
from antecede.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from antecede.pipeline.logs.sources import Log, Source
    from antecede.report.audit_page import Illustration

#: Events drawn when no message is asked for.
SHOWN = 120


def report(
    log: LogPath,
    *,
    around: Annotated[str | None, typer.Option(help="The message to look at.")] = None,
    form: Form = None,
    pattern: Pattern = None,
    send: SendPattern = None,
    deliver: DeliverPattern = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Draw a log around one message: who sent it, who delivered it, what overtook it and why.

    Without --around the beginning of the log is drawn. Logs of vector clocks whose messages
    cannot be paired are drawn by what their clocks say.

    Example: `antecede report shop.jsonl --around order-17/paid`
    """
    from antecede.pipeline.logs.sources import Source, read
    from antecede.pipeline.runs import RunFolder

    source = Source(log, form, pattern, send, deliver)
    found = read(source)
    options = {"log": str(log), "around": around, "format": found.form}
    with RunFolder.open(out, "report", options=options) as folder:
        drawn, result = _illustrations(found, source, around)
        from antecede.report.audit_page import report_page

        title = f"{log.name} around {around}" if around else f"The beginning of {log.name}"
        facts = {**options, "started": folder.started}
        folder.write_text("index.html", report_page(title, str(result["text"]), drawn, facts))
        summary = folder.finish(result)
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        typer.echo(str(result["text"]))
        typer.echo(f"Page: {folder.path / 'index.html'}")


def _illustrations(
    log: Log, source: Source, around: str | None
) -> tuple[list[Illustration], dict[str, Any]]:
    if log.undecidable is not None:
        return _by_clocks(source, around)
    if around is None:
        return _beginning(log.events)
    return _around(log.events, around)


def _around(events: pa.Table, message: str) -> tuple[list[Illustration], dict[str, Any]]:
    from antecede.pipeline.audits.entry import audit_table
    from antecede.pipeline.audits.illustrations import illustrate
    from antecede.pipeline.audits.neighbourhood import TableRows, neighbourhoods
    from antecede.report.audit_page import Illustration
    from antecede.report.diagrams import diagram_of

    rows = TableRows(events)
    if not rows.of_messages([message]):
        msg = f"the log has no message {message!r}; its ids are like {_example(events)!r}"
        raise UsageError(msg)
    tables = {
        name: table.to_pylist()
        for name, table in audit_table(events, explain=[message]).tables.items()
    }
    late = [row for row in tables["violations"] if row["message"] == message]
    early = [row for row in tables["violations"] if row["overtaker"] == message]
    drawn = illustrate(rows, late or early[:3])
    told = [one.sentence for one in drawn] + _other_trouble(tables, message)
    text = " ".join(told) or f"{message} overtook nothing and was not overtaken."
    if not drawn:
        near = neighbourhoods(rows, [{"message": message}])[0]
        diagram = diagram_of(message, near.events, near.row, near.places)
        drawn = [Illustration(message, text, diagram)]
    return drawn, {"text": text, "late_at": [row["process"] for row in late]}


def _other_trouble(tables: Mapping[str, Sequence[Mapping[str, Any]]], message: str) -> list[str]:
    """Say what else is wrong with a message: it never came, or cannot be so."""
    told = [
        f"{message} never came to {row['process']}, which delivered its effect "
        f"{row['overtaker']} (seq {row['overtaker_seq']})."
        for row in tables["missing"]
        if row["message"] == message
    ]
    told += [
        f"{message} at {row['process']} (seq {row['seq']}): {row['kind']}."
        for row in tables["findings"]
        if row["message"] == message
    ]
    return told


def _example(events: pa.Table) -> str:
    names = events.column("message").drop_null()
    return str(names[0].as_py()) if len(names) else ""


def _beginning(events: pa.Table) -> tuple[list[Illustration], dict[str, Any]]:
    from antecede.pipeline.audits.neighbourhood import TableRows
    from antecede.report.audit_page import Illustration
    from antecede.report.diagrams import diagram_of

    first = sorted(TableRows(events).beginning(SHOWN), key=lambda e: (e.process, e.seq))
    text = f"The first {len(first):,} of {len(events):,} events, causes before effects."
    return [Illustration("beginning", text, diagram_of("beginning", first))], {"text": text}


def _by_clocks(source: Source, around: str | None) -> tuple[list[Illustration], dict[str, Any]]:
    """Draw a log of vector clocks whose messages cannot be paired."""
    from antecede.pipeline.logs.formats.shiviz import clock_arrows, parse_log
    from antecede.report.audit_page import Illustration
    from antecede.report.spacetime import Arrow, Diagram, Node

    parsed = parse_log(source.path.read_text(encoding="utf-8", errors="replace"), source.pattern)
    order = sorted(range(len(parsed.entries)), key=lambda i: sum(parsed.entries[i].clock.values()))
    at = [i for i, e in enumerate(order) if around and around in parsed.entries[e].text]
    if around and not at:
        msg = f"no event's text has {around!r} in it"
        raise UsageError(msg)
    start = max(0, at[0] - SHOWN // 2) if at else 0
    chosen = sorted(
        order[start : start + SHOWN],
        key=lambda i: (parsed.entries[i].host, parsed.entries[i].clock[parsed.entries[i].host]),
    )
    number = {i: k for k, i in enumerate(chosen)}
    nodes = []
    for i in chosen:
        entry = parsed.entries[i]
        seq = entry.clock[entry.host]
        nodes.append(Node(entry.host, seq, "local", f"{entry.host} {seq}: {entry.text}"))
    arrows = [
        Arrow(number[a], number[b], f"{parsed.entries[b].host} learnt of {parsed.entries[a].text}")
        for a, b in clock_arrows(parsed)
        if a in number and b in number
    ]
    text = (
        f"{len(chosen)} of {len(parsed.entries)} events, by their vector clocks; which delivery "
        "belongs to which send they do not tell."
    )
    return [Illustration("clocks", text, Diagram("clocks", nodes, arrows))], {"text": text}
