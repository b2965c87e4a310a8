"""``antecede simulate``: run one protocol on one workload."""

from __future__ import annotations

import contextlib
import inspect
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antecede.cli.options import AsJson, Out, Seed
from antecede.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from antecede import sim
    from antecede.eventlog import Rejected
    from antecede.pipeline.runs import RunFolder


def simulate(
    protocol: Annotated[str, typer.Argument(help="A name that `antecede protocols` lists.")],
    *,
    workload: Annotated[str, typer.Option(help="paper, bursts, client_server, groups, ring or "
                                               "gossip.")] = "paper",
    n: Annotated[int, typer.Option("-n", "--processes", help="Number of processes.")] = 10,
    cast: Annotated[str | None, typer.Option(help="unicast, multicast or broadcast.")] = None,
    received: Annotated[int, typer.Option(help="Messages received per process.")] = 1000,
    warm_up: Annotated[int, typer.Option(help="Messages received before measuring.")] = 100,
    delay: Annotated[str, typer.Option(help="constant:S, exponential:MEAN, lognormal:MEAN:SIGMA "
                                            "or uniform:LOW:HIGH.")] = "exponential:0.05",
    fifo: Annotated[bool, typer.Option("--fifo", help="Channels deliver in order.")] = False,
    semantics: Annotated[str | None, typer.Option(help="Semantic dependence as "
                                                       "PROBABILITY:REACH.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="Protocol option NAME=VALUE. May be "
                                                          "repeated.")] = None,
    edges: Annotated[Path | None, typer.Option(help="Replay an edge list instead.")] = None,
    schedule: Annotated[Path | None, typer.Option(help="Replay a schedule (Parquet) "
                                                       "instead.")] = None,
    engine: Annotated[str, typer.Option(help="auto, kernel or plain.")] = "auto",
    wire_sample: Annotated[int, typer.Option(help="Copies to encode to measure their size.")] = 0,
    events: Annotated[bool, typer.Option(help="Write the event log.")] = True,
    seed: Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Run one protocol on one workload.

    Writes a folder with metrics, schedule and event log (Parquet), summary.json and index.html.
    The exit status is 1 if the run is saturated or copies were never delivered.

    Example: `antecede simulate optimal -n 50 --cast multicast --received 1000`
    """
    from antecede.pipeline.runs import RunFolder
    from antecede.sim import run
    from antecede.sim.metrics import spreads

    asked: dict[str, Any] = {
        "protocol": protocol, "workload": workload, "n": n, "cast": cast, "received": received,
        "warm_up": warm_up, "delay": delay, "fifo": fifo, "semantics": semantics,
        "option": option or [], "edges": edges and str(edges), "engine": engine,
        "schedule": schedule and str(schedule), "wire_sample": wire_sample, "events": events,
    }  # fmt: skip
    made = _schedule(asked, seed)
    skipped = warm_up if edges is None and schedule is None else 0
    folder = RunFolder.open(out, "simulate", options=asked, seed=seed)
    with folder:
        with _progress(protocol, quiet=as_json) as progress:
            result = run(
                protocol, made, options=_options(asked["option"]), engine=engine, events=events,
                warm_up=skipped, wire_sample=wire_sample, progress=progress,
            )  # fmt: skip
        summary = _write(folder, made, result, spreads(made, result.trace, skipped))
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        _show(summary, folder.path)
    if result.metrics["saturated"] or result.metrics["undelivered"]:
        raise typer.Exit(1)


def _schedule(asked: dict[str, Any], seed: int) -> sim.Schedule:
    from antecede.eventlog import left_out
    from antecede.sim import Schedule
    from antecede.sim.workloads import WORKLOADS, check_seed, replay_edges, with_semantics

    check_seed(seed)
    if asked["edges"] and asked["schedule"]:
        msg = "--edges and --schedule exclude each other; give one of them"
        raise UsageError(msg)
    if asked["schedule"]:
        made = Schedule.read(asked["schedule"])
    elif asked["edges"]:
        bad: list[Rejected] = []
        made = replay_edges(
            asked["edges"], seed=seed, delay=asked["delay"], fifo=asked["fifo"], rejected=bad
        )
        if bad:
            typer.echo(f"{left_out(len(bad), bad[0], asked['edges'])}.", err=True)
    elif asked["workload"] in WORKLOADS:
        make = WORKLOADS[asked["workload"]]
        names = ("n", "cast", "received", "warm_up", "delay", "fifo")
        chosen = {name: asked[name] for name in names if asked[name] is not None}
        if "cast" in chosen and "cast" not in inspect.signature(make).parameters:
            msg = f"workload {asked['workload']!r} sets its own destinations; leave --cast out"
            raise UsageError(msg)
        made = make(seed=seed, **chosen)
    else:
        msg = f"unknown workload {asked['workload']!r}; known: {', '.join(WORKLOADS)}"
        raise UsageError(msg)
    if asked["semantics"] is None:
        return made
    try:
        probability, reach = asked["semantics"].split(":")
        return with_semantics(made, probability=float(probability), reach=int(reach))
    except ValueError:
        msg = (
            f"cannot read --semantics {asked['semantics']!r}; use PROBABILITY:REACH, such as 0.5:3"
        )
        raise UsageError(msg) from None


def _options(texts: list[str]) -> dict[str, Any]:
    """Parse NAME=VALUE, where the value is JSON (a number, true, false ...) or text."""
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            msg = f"cannot read --option {text!r}; use NAME=VALUE"
            raise UsageError(msg)
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return options


def _write(
    folder: RunFolder, schedule: sim.Schedule, run: sim.Run, charts: dict[str, dict[str, int]]
) -> dict[str, Any]:
    import pyarrow as pa

    from antecede.report.simulate_page import simulate_page

    folder.write_table("metrics", pa.Table.from_pylist([{"protocol": run.protocol, **run.metrics}]))
    folder.write_table("schedule", schedule.to_arrow())
    if run.events is not None:
        folder.write_table("events", run.events)
    lead = (
        f"{schedule.messages:,} messages among {schedule.n} processes, {schedule.copies:,} copies, "
        f"run by the {run.engine} engine."
    )
    facts = {**folder.options, "seed": folder.seed, "started": folder.started}
    page = simulate_page(run.protocol, run.metrics, charts, lead=lead, facts=facts)
    folder.write_text("index.html", page)
    return folder.finish({"engine": run.engine, "messages": schedule.messages, **run.metrics})


@contextlib.contextmanager
def _progress(protocol: str, *, quiet: bool) -> Iterator[Callable[[float], None] | None]:
    """Show a progress bar if there is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(protocol, total=1.0)
        yield lambda done: bar.update(task, completed=done)


def _show(summary: dict[str, Any], path: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from antecede.report.numbers import figure
    from antecede.report.simulate_page import LABELS

    result = summary["result"]
    title = f"antecede simulate {summary['options']['protocol']} ({result['engine']} engine)"
    table = Table(title=title, show_header=False)
    for name, label in LABELS.items():
        if result.get(name) is not None:
            table.add_row(label, figure(result[name]))
    table.add_row("page", str(path / "index.html"))
    Console(markup=False).print(table)
