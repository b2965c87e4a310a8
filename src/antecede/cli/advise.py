"""``antecede advise``: tell what each protocol would cost on this very traffic."""

from __future__ import annotations

import json
import sys
from pathlib import Path  # noqa: TC003  (Typer reads it)
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antecede.cli.audit import (  # noqa: TC001  (Typer reads them)
    DeliverPattern,
    Form,
    LogPath,
    Pattern,
    SendPattern,
)
from antecede.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from antecede.pipeline.logs.sources import Log, Source
    from antecede.sim import Schedule

#: How many of the rows that are no events are quoted.
QUOTED = 3


def advise(
    log: LogPath,
    *,
    form: Form = None,
    pattern: Pattern = None,
    send: SendPattern = None,
    deliver: DeliverPattern = None,
    strict: Annotated[
        bool, typer.Option(help="Refuse a log with rows that are no events.")
    ] = False,
    protocol: Annotated[
        list[str] | None, typer.Option(help="Only this protocol; may be repeated.")
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(help="A delay model, e.g. exponential:0.05 [as the log shows]."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of whatever is drawn.")] = 0,
    local: Annotated[bool, typer.Option("--local", help="Run in this process, no Spark.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results [antecede-out/advise-TIME].")
    ] = None,
    master: Annotated[str | None, typer.Option(help="A Spark master [local[*]].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Run every protocol on a log's own traffic: bytes, delay, messages held, memory.

    Writes one folder with advice.parquet, rejected.parquet, summary.json and index.html, and
    recommends one. What keeps less than causal order, or broke it, is never recommended.

    Example: `antecede advise collegemsg.txt --format edges --local`
    """
    from antecede.pipeline.logs.sources import Source, form_of, read
    from antecede.pipeline.runs import RunFolder
    from antecede.report.advise_page import advise_page

    source = Source(log, form, pattern, send, deliver, strict)
    options = {
        "log": str(log),
        "format": form_of(source),
        "strict": strict,
        "protocol": protocol or [],
        "delay": delay,
        "master": None if local else master or "local[*]",
    }
    with RunFolder.open(out, "advise", options=options, seed=seed) as folder:
        found = read(source)
        schedule = _schedule(source, found, delay, seed)
        table = _run(schedule, protocol, master, local=local, quiet=as_json)
        rows = table.to_pylist()
        result = _result(schedule, rows, found.rejected)
        folder.write_table("advice", table)
        folder.write_table("rejected", found.rejected)
        facts = {**options, "seed": seed, "started": folder.started}
        page = advise_page(result, rows, log=log.name, facts=facts)
        folder.write_text("index.html", page)
        summary = folder.finish(result)
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        _show(result, rows, folder.path)


def _schedule(source: Source, log: Log, delay: str | None, seed: int) -> Schedule:
    from antecede.pipeline.advice.traffic import schedule_of, schedule_of_edges

    if log.undecidable is not None:
        msg = f"undecidable: {source.path.name} cannot be replayed: {log.undecidable}"
        raise UsageError(msg)
    make = schedule_of_edges if log.form == "edges" else schedule_of
    return make(log.events, delay=delay, seed=seed)


def _result(schedule: Schedule, rows: list[dict[str, Any]], rejected: pa.Table) -> dict[str, Any]:
    """Return what the summary says: the traffic, the choice, and rows that are no events."""
    from antecede.pipeline.advice.recommendation import NOT_CHOSEN, recommend
    from antecede.report.advise_page import messages_in_words

    usual = float(schedule.delays.mean())
    result: dict[str, Any] = {
        "processes": schedule.n,
        "messages": schedule.messages,
        "log_messages": schedule.about["log_messages"],
        "copies": schedule.copies,
        "cast": schedule.cast,
        "delay_mean": usual,
        "delays": schedule.about["delays"],
        "added_delays": schedule.about["added"],
    }
    whole = result["messages"] == result["log_messages"]
    choice = recommend(
        rows,
        usual,
        schedule.copies / schedule.messages,
        traffic="this traffic" if whole else messages_in_words(result),
    )
    return result | {
        "recommendation": choice.protocol,
        "reason": choice.reason,
        "otherwise": choice.otherwise,
        "not_chosen": [r["protocol"] for r in rows if r["reason"].startswith(NOT_CHOSEN)],
        "rejected": len(rejected),
        "rejected_first": rejected.slice(0, QUOTED).to_pylist(),
    }


def _run(
    schedule: Schedule, protocols: list[str] | None, master: str | None, *, local: bool, quiet: bool
) -> pa.Table:
    from antecede.pipeline.advice.entry import advise_on, advise_table

    if local:
        shown = (
            None if quiet or not sys.stderr.isatty() else lambda name: typer.echo(name, err=True)
        )
        return advise_table(schedule, protocols=protocols, progress=shown)
    from antecede.pipeline.spark.session import session

    with session(master, app="antecede-advise", light=True) as spark:
        return advise_on(spark, schedule, protocols)


def _show(result: dict[str, Any], rows: list[dict[str, Any]], path: Path) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from antecede.report.advise_page import HEADS, cells, messages_in_words, rejected_in_words

    shown = [0, 1, 2, 4, 6, 8, 9]  # The remarks, and what is skipped, are on the page.
    title = f"{messages_in_words(result)}, {result['processes']:,} processes"
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in shown:
        justify: Any = "left" if column < 2 else "right"
        table.add_column(HEADS[column], justify=justify, min_width=10 if column in (2, 8) else None)
    for row in cells([row for row in rows if row["status"] != "skipped"]):
        table.add_row(*(row[column] for column in shown))
    Console().print(table)
    skipped = [row["protocol"] for row in rows if row["status"] == "skipped"]
    if skipped:
        typer.echo(f"Skipped ({', '.join(skipped)}): the page says why.")
    if result["not_chosen"]:
        typer.echo(f"Not to be chosen ({', '.join(result['not_chosen'])}): the page says why.")
    if result["rejected"]:
        typer.echo(rejected_in_words(result) + " (rejected.parquet):")
        for row in result["rejected_first"]:
            typer.echo(f"  line {row['line']}: {row['reason']}; got {str(row['text'])[:80]!r}")
    typer.echo(result["reason"])
    if result["otherwise"]:
        typer.echo(result["otherwise"])
    typer.echo(f"Table and page: {path / 'index.html'}")
