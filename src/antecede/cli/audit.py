"""``antecede audit``: tell whether, where and by which messages causal order was broken."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

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
)
from antecede.core.tables import DELIVERED_TWICE, DELIVERY_WITHOUT_SEND
from antecede.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

    from antecede.pipeline.audits.entry import Audit
    from antecede.pipeline.audits.neighbourhood import Rows
    from antecede.pipeline.logs.sources import Source
    from antecede.pipeline.runs import RunFolder

#: How many violations the page draws.
DRAWN = 12


def audit(
    log: LogPath,
    *,
    form: Form = None,
    pattern: Pattern = None,
    send: SendPattern = None,
    deliver: DeliverPattern = None,
    strict: Strict = False,
    local: Local = False,
    windows: Annotated[int | None, typer.Option(help="Windows to cut the log into.")] = None,
    out: Out = None,
    master: Master = None,
    memory: Annotated[str, typer.Option(help="Memory of the embedded Spark.")] = "4g",
    as_json: AsJson = False,
) -> None:
    """Tell whether, where and how often causal order was broken in a log.

    Writes one folder with tables (Parquet), summary.json and index.html, a page with the worst
    violations drawn. Exit status: 0 order was kept, 1 it was broken, 2 the call or log is wrong.

    Example: `antecede audit shop.jsonl --local`
    """
    from antecede.pipeline.audits.entry import require_windows
    from antecede.pipeline.logs.sources import Source, form_of
    from antecede.pipeline.runs import RunFolder

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
    if not log.exists():
        msg = f"there is no log {str(log)!r}"
        raise UsageError(msg)
    with RunFolder.open(out, "audit", options=options) as folder:
        if local:
            summary = _run_local(source, folder)
        else:
            summary = _run_spark(source, folder, master, memory, windows)
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        _show(summary["result"], folder.path)
    if not summary["result"]["causally_ordered"]:
        raise typer.Exit(1)


def _run_local(source: Source, folder: RunFolder) -> dict[str, Any]:
    from antecede.pipeline.audits.entry import audit_table
    from antecede.pipeline.audits.neighbourhood import TableRows
    from antecede.pipeline.logs.sources import read, why_unauditable

    log = read(source)
    _refuse(source, why_unauditable(log))
    found = audit_table(log.events)
    found.summary["rejected"] = log.bad
    return _write(folder, source, found, TableRows(log.events), log.rejected)


def _run_spark(
    source: Source, folder: RunFolder, master: str | None, memory: str, windows: int | None
) -> dict[str, Any]:
    from antecede.pipeline.audits.entry import audit as check
    from antecede.pipeline.audits.neighbourhood import FrameRows
    from antecede.pipeline.logs.plain_columns import plain_frame
    from antecede.pipeline.logs.sources import frame, readable, rejected_rows, why_unauditable
    from antecede.pipeline.spark.session import session

    with session(master, app="antecede-audit", memory=memory) as spark:
        events, log = frame(spark, source)
        _refuse(source, why_unauditable(log) if log else None)
        with readable(source):
            found = check(events, windows=windows)
            if log:
                found.summary["rejected"] = log.bad
            count = found.summary["rejected"]
            rejected = log.rejected if log else rejected_rows(events, source.path.name, count)
        return _write(folder, source, found, FrameRows(plain_frame(events)), rejected)


def _refuse(source: Source, reason: str | None) -> None:
    """Refuse a log that cannot be audited, for a reason."""
    if reason is not None:
        msg = f"undecidable: {source.path.name} cannot be audited: {reason}"
        raise UsageError(msg)


def _write(
    folder: RunFolder, source: Source, found: Audit, rows: Rows, rejected: pa.Table
) -> dict[str, Any]:
    """Write tables, page and summary; return the summary."""
    from antecede.cli.stories import tell
    from antecede.report.audit_page import ROWS_MAX, audit_page

    _refuse(source, _why_unpaired(found.summary))
    result = dict(found.summary)
    result["rejected_kept"] = len(rejected)
    tables = {**found.tables, "rejected": rejected}
    for name, table in tables.items():
        folder.write_table(name, table)
    first = {name: table.slice(0, ROWS_MAX).to_pylist() for name, table in tables.items()}
    stories = tell(rows, first["violations"][:DRAWN])
    facts = {**folder.summary({})["provenance"], **folder.options, "started": folder.started}
    page = audit_page(result, first, stories, log=source.path.name, facts=facts)
    folder.write_text("index.html", page)
    return folder.finish(result)


def _why_unpaired(summary: Mapping[str, Any]) -> str | None:
    """Return why no delivery could be judged, if none could: none belongs to a send."""
    found = summary["findings_by_kind"]
    unsent = found.get(DELIVERY_WITHOUT_SEND, 0)
    if not unsent or unsent + found.get(DELIVERED_TWICE, 0) < summary["deliveries"]:
        return None
    return (
        f"it has {summary['messages']:,} sent messages and {summary['deliveries']:,} deliveries, "
        "none of them of a message that was sent; write a message's id alike at both ends"
    )


def _show(result: dict[str, Any], path: Path) -> None:
    from antecede.report.audit_page import lead

    typer.echo(lead(result))
    if result["findings"]:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in result["findings_by_kind"].items())
        typer.echo(f"What cannot be so: {kinds}.")
    if result["rejected"]:
        count, kept = result["rejected"], result["rejected_kept"]
        which = "they" if kept == count else f"the first {kept:,} of them"
        typer.echo(f"{count:,} rows are no events; {which} are in rejected.parquet.")
    typer.echo(f"Tables and page: {path / 'index.html'}")
