"""``antecede report``: draw a part of a log."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from antecede.cli.options import (
    Alias,
    AsJson,
    Delimiter,
    DeliverPattern,
    Execution,
    Field,
    Form,
    Logs,
    Out,
    Pattern,
    SendPattern,
    log_options,
    say_rejected,
    sources_of,
)
from antecede.cli.shown import say


def report(
    logs: Logs,
    *,
    around: Annotated[str | None, typer.Option(help="Id of the message to draw.")] = None,
    form: Form = None,
    pattern: Pattern = None,
    send: SendPattern = None,
    deliver: DeliverPattern = None,
    delimiter: Delimiter = None,
    execution: Execution = None,
    alias: Alias = None,
    field: Field = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Draw a log around one message: who sent it, who delivered it, what overtook it and why.

    Without --around, the beginning of the log is drawn. If the messages of a log with vector
    clocks cannot be paired, its clocks are drawn.

    Example: `antecede report examples/shop.jsonl --around order-17/paid`
    """
    from antecede.audit.api import draw
    from antecede.events.sources import read, titled
    from antecede.report.audit_page import report_page
    from antecede.runs import RunFolder

    sources = sources_of(logs, form, (pattern, send, deliver, delimiter), alias, field)
    found, name = read(sources, execution), titled(sources, execution)
    options = {**log_options(sources), "execution": execution, "around": around}
    with RunFolder.open(out, "report", options=options) as folder:
        drawing = draw(found, around)
        is_all = drawing.text.startswith("All ")
        start = name if is_all else f"The beginning of {name}"
        title = f"{name} around {around}" if around else start
        facts = {**options, "started": folder.started}
        page = report_page(title, drawing.text, drawing.illustrations, facts)
        folder.write_text("index.html", page)
        result = {
            "text": drawing.text,
            "late_at": drawing.late_at,
            "rejected": found.bad,
            "rejected_first": found.rejected.slice(0, 3).to_pylist(),
        }
        summary = folder.finish(result)
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        say(drawing.text)
        say_rejected(result)
        say(f"Page: {folder.path / 'index.html'}")
