"""``antecede audit``: check a log for violations of causal order."""

from __future__ import annotations

import json
from contextlib import nullcontext
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

MaxViolations = Annotated[
    int, typer.Option(min=0, help="Exit with 0 if no more violations than this count.")
]
Ignore = Annotated[
    list[str] | None,
    typer.Option(
        help="Do not count violations that match this regular expression, which is searched "
        "in 'SENDER -> PROCESS: MESSAGE'. May be repeated."
    ),
]
#: How many violations the terminal lists.
WORST = 10
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
    memory: Annotated[str, typer.Option(help="Memory of the embedded Spark, e.g. 4g.")] = "4g",
    max_violations: MaxViolations = 0,
    ignore: Ignore = None,
    as_json: AsJson = False,
) -> None:
    """Check whether, where and how often causal order was broken in a log.

    Writes a folder with tables (Parquet), violations.csv, summary.json and index.html, a page that
    draws the worst violations. Exit status: 0 order was kept or the violations are allowed, 1 it
    was broken, 2 the log cannot tell or the call is wrong.

    Example: `antecede audit shop.jsonl --local`
    """
    from antecede.pipeline.audits.allowance import allowance, compiled, counted
    from antecede.pipeline.audits.entry import require_windows
    from antecede.pipeline.audits.files import audit_here, audit_on, write_results
    from antecede.pipeline.logs.sources import Source, form_of, require_file
    from antecede.pipeline.runs import RunFolder
    from antecede.pipeline.spark.session import session

    source = Source(log, form, pattern, send, deliver, strict)
    ignored = compiled(ignore or [])
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
        "max_violations": max_violations,
        "ignore": ignore or [],
        "master": None if local else master or "local[*]",
    }
    require_file(source)
    with (
        RunFolder.open(out, "audit", options=options) as folder,
        nullcontext()
        if local
        else session(master, app="antecede-audit", memory=memory, wait=wait) as spark,
    ):
        audited = audit_on(spark, source, windows) if spark else audit_here(source)
        allowed = allowance(audited.audit, max_violations, ignored)
        summary = write_results(folder, audited, allowed)
    result = summary["result"]
    if result["verdict"] == "undecidable":
        typer.echo(f"antecede: undecidable: {log.name}: {result['reason']}", err=True)
    if as_json:
        rows = audited.audit.tables["violations"].to_pylist()
        typer.echo(json.dumps({**summary, "violations": rows}, indent=2))
    else:
        _show(result)
        _show_violations(counted(audited.audit, "violations", ignored), result, max_violations)
        typer.echo(f"Tables and page: {folder.path / 'index.html'}")
    raise typer.Exit(0 if result["allowed"] else EXIT_CODES[result["verdict"]])


def _show_violations(rows: list[dict[str, Any]], result: dict[str, Any], most: int) -> None:
    """List the worst violations that count, and say what does not count and what is allowed."""
    from antecede.pipeline.audits.allowance import label
    from antecede.pipeline.audits.sentences import sentence

    if rows:
        shown = f"The worst {WORST} of {len(rows):,}" if len(rows) > WORST else "Worst first"
        typer.echo(f"{shown} (violations.csv has all):")
    for row in rows[:WORST]:
        typer.echo(f"  {label(row)}. {sentence(row)}")
    if result["ignored"]:
        typer.echo(f"Late or missing messages that match --ignore: {result['ignored']:,}.")
    if result["allowed"]:
        count = f"{result['counted']:,}"
        typer.echo(f"Violations that count: {count}; allowed: {most:,}; exit status 0.")


def _show(result: dict[str, Any]) -> None:
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
