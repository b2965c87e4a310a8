"""``antecede audit``: check a log for violations of causal order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from antecede.cli.options import (
    AsJson,
    DeliverPattern,
    Form,
    Local,
    LogPath,
    Master,
    Out,
    Pattern,
    SendPattern,
    Strict,
    Wait,
)

EXIT_CODES = {"ordered": 0, "broken": 1, "undecidable": 2}


def audit(
    log: LogPath,
    *,
    form: Form = None,
    pattern: Pattern = None,
    send: SendPattern = None,
    deliver: DeliverPattern = None,
    strict: Strict = False,
    local: Local = False,
    windows: Annotated[
        int | None, typer.Option(help="How many windows to cut the log into.")
    ] = None,
    out: Out = None,
    master: Master = None,
    wait: Wait = 180.0,
    memory: Annotated[str, typer.Option(help="Memory of the embedded Spark.")] = "4g",
    as_json: AsJson = False,
) -> None:
    """Check whether, where and how often causal order was broken in a log.

    Writes a folder with tables (Parquet), summary.json and index.html, a page that draws the worst
    violations. Exit status: 0 order was kept, 1 it was broken, 2 the log cannot tell or the call
    is wrong.

    Example: `antecede audit shop.jsonl --local`
    """
    from antecede.pipeline.audits.entry import require_windows
    from antecede.pipeline.audits.files import audit_here, audit_on, write_results
    from antecede.pipeline.logs.sources import Source, form_of, require_file
    from antecede.pipeline.runs import RunFolder
    from antecede.pipeline.spark.session import session

    source = Source(log, form, pattern, send, deliver, strict)
    if windows is not None:
        require_windows(windows)
    options = {
        "log": str(log),
        "format": form_of(source),
        "pattern": pattern,
        "send": send,
        "deliver": deliver,
        "strict": strict,
        "engine": "local" if local else "spark",
        "windows": windows,
        "master": None if local else master or "local[*]",
    }
    require_file(source)
    with RunFolder.open(out, "audit", options=options) as folder:
        if local:
            summary = write_results(folder, audit_here(source))
        else:
            with session(master, app="antecede-audit", memory=memory, wait=wait) as spark:
                summary = write_results(folder, audit_on(spark, source, windows))
    result = summary["result"]
    if result["verdict"] == "undecidable":
        typer.echo(f"antecede: undecidable: {log.name}: {result['reason']}", err=True)
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        _show(result, folder.path)
    raise typer.Exit(EXIT_CODES[result["verdict"]])


def _show(result: dict[str, Any], path: Path) -> None:
    from antecede.report.audit_page import lead

    if result["verdict"] != "undecidable":
        typer.echo(lead(result))
    if result["findings"]:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in result["findings_by_kind"].items())
        typer.echo(f"Inconsistencies: {kinds}.")
    if result["rejected"]:
        count, kept = result["rejected"], result["rejected_kept"]
        rows = "1 row is not an event" if count == 1 else f"{count:,} rows are not events"
        kept_rows = "see" if kept == count else f"the first {kept:,} are in"
        typer.echo(f"{rows}; {kept_rows} rejected.parquet.")
    typer.echo(f"Tables and page: {path / 'index.html'}")
