"""``antecede report``: draw a part of a log."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from antecede.cli.options import AsJson, DeliverPattern, Form, LogPath, Out, Pattern, SendPattern


def report(
    log: LogPath,
    *,
    around: Annotated[str | None, typer.Option(help="Id of the message to draw.")] = None,
    form: Form = None,
    pattern: Pattern = None,
    send: SendPattern = None,
    deliver: DeliverPattern = None,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Draw a log around one message: who sent it, who delivered it, what overtook it and why.

    Without --around, the beginning of the log is drawn. If the messages of a log with vector
    clocks cannot be paired, its clocks are drawn.

    Example: `antecede report shop.jsonl --around order-17/paid`
    """
    from antecede.pipeline.audits.drawings import draw
    from antecede.pipeline.logs.sources import Source, read
    from antecede.pipeline.runs import RunFolder
    from antecede.report.audit_page import report_page

    source = Source(log, form, pattern, send, deliver)
    found = read(source)
    options = {"log": str(log), "around": around, "format": found.form}
    with RunFolder.open(out, "report", options=options) as folder:
        drawing = draw(found, source, around)
        title = f"{log.name} around {around}" if around else f"The beginning of {log.name}"
        facts = {**options, "started": folder.started}
        page = report_page(title, drawing.text, drawing.illustrations, facts)
        folder.write_text("index.html", page)
        summary = folder.finish({"text": drawing.text, "late_at": drawing.late_at})
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        typer.echo(drawing.text)
        typer.echo(f"Page: {folder.path / 'index.html'}")
