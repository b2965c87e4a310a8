"""``antecede advise``: show what each protocol would cost on the traffic of a log."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
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
    Seed,
    SendPattern,
    Strict,
    Wait,
    log_options,
    require_no_spark,
    say_rejected,
    sources_of,
)

if TYPE_CHECKING:
    from antecede.advise.costs import Cost


def advise(
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
    protocol: Annotated[
        list[str] | None, typer.Option(help="Only this protocol. May be repeated.")
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(help="Delay model, e.g. exponential:0.05. Default: the delays in the log."),
    ] = None,
    seed: Seed = 0,
    local: Local = False,
    out: Out = None,
    master: Master = None,
    wait: Wait = 180.0,
    as_json: AsJson = False,
) -> None:
    """Run every protocol on the traffic of a log and recommend one.

    Writes a folder with advice.parquet (bytes, delay, messages held, memory), rejected.parquet,
    summary.json and index.html. A protocol that guarantees less than causal order, or broke it on
    this traffic, is never recommended.

    Example: `antecede advise examples/shop.jsonl --local`
    """
    from antecede.advise.api import costs_on
    from antecede.advise.results import write
    from antecede.advise.traffic import schedule_of_log
    from antecede.cli.shown import told_if_slow
    from antecede.events.sources import read, titled
    from antecede.runs import RunFolder
    from antecede.sim.workloads import check_seed
    from antecede.spark.session import session

    check_seed(seed)
    require_no_spark(ctx, local=local)
    sources = sources_of(
        logs, form, (pattern, send, deliver, delimiter), alias, field, strict=strict
    )
    options = {
        **log_options(sources),
        "execution": execution,
        "protocol": protocol or [],
        "delay": delay,
        "master": None if local else master or "local[*]",
    }
    is_shown = local and not as_json and sys.stderr.isatty()
    progress = (lambda name: typer.echo(name, err=True)) if is_shown else None
    with RunFolder.open(out, "advise", options=options, seed=seed) as folder:
        found, name = read(sources, execution), titled(sources, execution)
        schedule = schedule_of_log(found, name, delay=delay, seed=seed)
        starting = "" if local else "starting Spark and "
        with (
            told_if_slow(f"{starting}running the protocols; what is compiled is kept for later"),
            nullcontext()
            if local
            else session(master, app="antecede-advise", light=True, wait=wait) as spark,
        ):
            costs = costs_on(schedule, protocol, spark=spark, progress=progress)
        summary = write(folder, schedule, costs, found, name)
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        _show(summary["result"], costs, folder.path)


def _show(result: dict[str, Any], costs: Sequence[Cost], path: Path) -> None:
    from rich.console import Console

    from antecede.advise.costs import Status
    from antecede.cli.shown import fitted_table, say
    from antecede.report import advise_page as page
    from antecede.report.advise_page import messages_in_words

    # The page has all columns, and remarks on skipped protocols.
    for words in (result["reason"], result["need"]):
        if words:
            say(words)
    on_page = {"added ms/copy, p99", "most copies held"}
    shown = [k for k, head in enumerate(page.HEADS) if head not in on_page]
    heads = page.heads(result)
    title = f"{messages_in_words(result)}, {result['processes']:,} processes"
    records = [cost.record for cost in costs if cost.status is not Status.SKIPPED]
    console = Console(markup=False)
    table = fitted_table(
        console,
        # Headings of several lines leave room for large numbers.
        [heads[k].replace(" ", "\n").replace("/", "\n/") for k in shown],
        [[row[k] for k in shown] for row in page.cells(records, result)],
        left=[at for at, k in enumerate(shown) if heads[k] in {"protocol", "status"}],
        title=title,
        framed=False,
    )
    console.print(table)
    for note in (*page.notes(result), page.left_out_in_words(result)):
        if note:
            say(note)
    skipped = [cost.protocol for cost in costs if cost.status is Status.SKIPPED]
    for words, names in (("Skipped", skipped), ("Not recommended", result["not_chosen"])):
        if names:
            say(f"{words}: {', '.join(names)} (the page says why).")
    say_rejected(result)
    for words in (result["caveat"], result["otherwise"]):
        if words:
            say(words)
    say(f"Table and page: {path / 'index.html'}")
