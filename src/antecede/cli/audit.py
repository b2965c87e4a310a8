"""``antecede audit``: check a log for violations of causal order."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antecede.cli.options import (
    Alias,
    AsJson,
    Delimiter,
    DeliverPattern,
    Execution,
    Field,
    Form,
    Local,
    Logs,
    Master,
    Out,
    Pattern,
    SendPattern,
    Strict,
    Wait,
    log_options,
    require_no_spark,
    say_rejected,
    sources_of,
)
from antecede.cli.shown import say
from antecede.events.tables import SENT_TWICE

if TYPE_CHECKING:
    from antecede.audit.files import AuditedFile

AssumeComplete = Annotated[
    bool,
    typer.Option(
        "--assume-complete", help="Judge by what the log has, even if events it lacks matter."
    ),
]
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
Windows = Annotated[int | None, typer.Option(help="How many windows to cut the log into.")]
#: How many violations the terminal lists.
WORST = 10
RUN_BY_RUN = (
    "If a process was restarted and numbers its messages anew, audit each run by itself: "
    "messages of different runs that share an id count as one."
)
EXIT_CODES = {"ordered": 0, "broken": 1, "undecidable": 2}


def audit(
    ctx: typer.Context,
    logs: Logs,
    *,
    form: Form = None,
    pattern: Pattern = None,
    send: SendPattern = None,
    deliver: DeliverPattern = None,
    delimiter: Delimiter = None,
    execution: Execution = None,
    alias: Alias = None,
    field: Field = None,
    strict: Strict = False,
    local: Local = False,
    windows: Windows = None,
    out: Out = None,
    master: Master = None,
    wait: Wait = 180.0,
    memory: Annotated[str, typer.Option(help="Memory of the embedded Spark, e.g. 4g.")] = "4g",
    assume_complete: AssumeComplete = False,
    max_violations: MaxViolations = 0,
    ignore: Ignore = None,
    as_json: AsJson = False,
) -> None:
    """Check whether, where and how often causal order was broken in a log.

    Writes a folder with tables (Parquet), violations.csv, summary.json and index.html, a page that
    draws the worst violations. Several executions in one log get a verdict and a folder each. Exit
    status: 0 order was kept or the violations are allowed, 1 it was broken (in one execution at
    least), 2 the log cannot tell or the call is wrong.

    Example: `antecede audit examples/shop.jsonl --local`
    """
    from antecede.audit.api import require_windows
    from antecede.audit.files import allowance, audit_here, audit_on, compiled, write_results
    from antecede.runs import RunFolder
    from antecede.spark.session import session

    sources = sources_of(
        logs, form, (pattern, send, deliver, delimiter), alias, field, strict=strict
    )
    ignored = compiled(ignore or [])
    if windows is not None:
        require_windows(windows)
    if local:
        require_no_spark(ctx)
    options = {
        **log_options(sources),
        "execution": execution,
        "engine": "local" if local else "spark",
        "windows": windows,
        "assume_complete": assume_complete,
        "max_violations": max_violations,
        "ignore": ignore or [],
        "master": None if local else master or "local[*]",
    }
    with (
        RunFolder.open(out, "audit", options=options) as folder,
        nullcontext()
        if local
        else session(master, app="antecede-audit", memory=memory, wait=wait) as spark,
    ):
        audited = (
            audit_on(spark, sources, windows, execution, assume_complete=assume_complete)
            if spark
            else audit_here(sources, execution, assume_complete=assume_complete)
        )
        allowed = {
            label: allowance(one.audit, max_violations, ignored) for label, one in audited.items()
        }
        summary = write_results(folder, audited, allowed)
    results = summary["result"].get("executions", [summary["result"]])
    _warn(results, list(audited.values()))
    if as_json:
        typer.echo(json.dumps({**summary, "violations": _all_violations(audited)}, indent=2))
    else:
        for result, one in zip(results, audited.values(), strict=True):
            _show(result, one, ignored, max_violations, is_one=len(results) == 1)
        say(f"Tables and page: {folder.path / 'index.html'}")
    raise typer.Exit(exit_code(results))


def _warn(results: Sequence[Mapping[str, Any]], audited: Sequence[AuditedFile]) -> None:
    """Say on standard error what cannot be decided, and why."""
    for result, one in zip(results, audited, strict=True):
        if result["verdict"] == "undecidable":
            typer.echo(f"antecede: undecidable: {one.name}: {result['reason']}", err=True)


def exit_code(results: Sequence[Mapping[str, Any]]) -> int:
    """Return the exit status of the worst verdict: broken, then undecidable, then ordered."""
    codes = {0 if one["allowed"] else EXIT_CODES[one["verdict"]] for one in results}
    return next(code for code in (1, 2, 0) if code in codes)


def _all_violations(audited: Mapping[str, AuditedFile]) -> list[dict[str, Any]]:
    """Return the rows of the violations table, with their execution if there are several."""
    rows = {label: one.audit.tables["violations"].to_pylist() for label, one in audited.items()}
    if len(rows) == 1:
        return next(iter(rows.values()))
    return [{"execution": label, **row} for label, found in rows.items() for row in found]


def _show_violations(rows: list[dict[str, Any]], result: dict[str, Any], most: int) -> None:
    """List the worst violations that count, and say what does not count and what is allowed."""
    from antecede.audit.files import label
    from antecede.audit.sentences import sentence

    if rows:
        shown = f"The worst {WORST} of {len(rows):,}" if len(rows) > WORST else "Worst first"
        say(f"{shown} (violations.csv has all):")
    for row in rows[:WORST]:
        words = sentence(row, beyond_messages=result["beyond_messages"])
        say(f"  {label(row)}. {words}")
    if result["ignored"]:
        say(f"Late or missing messages that match --ignore: {result['ignored']:,}.")
    if result["allowed"]:
        count = f"{result['counted']:,}"
        say(f"Violations that count: {count}; allowed: {most:,}; exit status 0.")


def _show(
    result: dict[str, Any],
    audited: AuditedFile,
    ignored: Sequence[re.Pattern[str]],
    most: int,
    *,
    is_one: bool,
) -> None:
    """Print the verdict on one log or execution, and what its results are."""
    from antecede.audit.files import counted
    from antecede.report.audit_page import lateness_in_words, lead

    if not is_one:
        say(f"{result['execution']} ({result['folder']}): {result['verdict']}")
    if result["verdict"] != "undecidable":
        say(lead(result))
        if late := lateness_in_words(result):
            say(late)
    if result["findings"]:
        counts = result["findings_by_kind"].items()
        kinds = ", ".join(f"{kind} ({count:,})" for kind, count in counts)
        say(f"Inconsistencies: {kinds}.")
        if SENT_TWICE in result["findings_by_kind"]:
            say(RUN_BY_RUN)
    say_rejected(result)
    _show_violations(counted(audited.audit, "violations", ignored), result, most)
