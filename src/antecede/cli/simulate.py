"""``antecede simulate``: run one protocol on one workload."""

from __future__ import annotations

import contextlib
import inspect
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antecede.cli.options import AsJson, Out, Seed, is_given, path_of
from antecede.cli.shown import told_if_slow
from antecede.errors import UsageError, meant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from antecede import sim
    from antecede.events import Rejected
    from antecede.runs import RunFolder


#: Options that a replayed schedule or edge list determines.
_SETTLED = {
    "schedule": ("workload", "n", "cast", "received", "warm_up", "delay", "fifo", "seed"),
    "edges": ("workload", "n", "cast", "received", "warm_up", "schedule"),
}


def simulate(
    ctx: typer.Context,
    protocols: Annotated[list[str], typer.Argument(metavar="PROTOCOL...", help="One or more names "
                                                   "that `antecede protocols` lists.")],
    *,
    workload: Annotated[str, typer.Option(help="paper, bursts, sessions, client_server, groups, "
                                               "ring or gossip.")] = "paper",
    n: Annotated[int, typer.Option("-n", "--processes", help="Number of processes.")] = 10,
    cast: Annotated[str | None, typer.Option(help="unicast, multicast or broadcast.")] = None,
    received: Annotated[int, typer.Option(help="Messages received per process.")] = 1000,
    warm_up: Annotated[int, typer.Option(help="Messages received before measuring.")] = 100,
    delay: Annotated[str, typer.Option(help="constant:S, exponential:MEAN, lognormal:MEAN:SIGMA "
                                            "or uniform:LOW:HIGH.")] = "exponential:0.05",
    fifo: Annotated[bool, typer.Option("--fifo", help="Channels deliver in order.")] = False,
    bandwidth: Annotated[float | None, typer.Option(help="Bytes per second of each link; "
                                                         "unlimited by default.")] = None,
    payload: Annotated[int, typer.Option(help="Bytes of a message on such links.")] = 100,
    semantics: Annotated[str | None, typer.Option(help="Semantic dependence as "
                                                       "PROBABILITY:REACH.")] = None,
    option: Annotated[list[str] | None, typer.Option(help="Protocol option NAME=VALUE, for all "
                                                          "protocols that have it. May be "
                                                          "repeated.")] = None,
    edges: Annotated[Path | None, typer.Option(parser=path_of, metavar="PATH",
                                               help="Replay an edge list instead; - is "
                                                    "standard input.")] = None,
    schedule: Annotated[Path | None, typer.Option(parser=path_of, metavar="PATH",
                                                  help="Replay a schedule (Parquet) "
                                                       "instead.")] = None,
    engine: Annotated[str, typer.Option(help="auto, kernel or plain.")] = "auto",
    wire_sample: Annotated[int, typer.Option(help="Copies to encode to measure their size.")] = 0,
    events: Annotated[bool, typer.Option(help="Write the event log.")] = True,
    seed: Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:  # fmt: skip
    """Run one or more protocols on one workload.

    Writes a folder with metrics, schedule and event log (Parquet), summary.json and index.html.
    Several protocols run on the same schedule, and the page compares them. The exit status is 1 if
    a run is saturated or copies were never delivered.

    Example: `antecede simulate matrix optimal pruned -n 50 --cast multicast`
    """
    from antecede.runs import RunFolder
    from antecede.sim import run
    from antecede.sim.metrics import spreads

    names = list(dict.fromkeys(protocols))
    asked: dict[str, Any] = {
        "protocol": names[0] if len(names) == 1 else names, "workload": workload, "n": n,
        "cast": cast, "received": received, "warm_up": warm_up, "delay": delay, "fifo": fifo,
        "bandwidth": bandwidth, "payload": payload, "semantics": semantics,
        "option": option or [], "edges": edges and str(edges), "engine": engine,
        "schedule": schedule and str(schedule), "wire_sample": wire_sample, "events": events,
    }  # fmt: skip
    options = _options_of(names, _options(asked["option"]))
    _require_no_contradiction(ctx, asked)
    made = _checked_schedule(asked, options, seed)
    skipped = warm_up if edges is None and schedule is None else 0
    folder = RunFolder.open(out, "simulate", options=asked, seed=seed)
    with folder:
        runs = []
        for name in names:
            with _progress(name, quiet=as_json) as progress:
                found = run(
                    name, made, options=options[name], engine=engine, events=events,
                    warm_up=skipped, wire_sample=wire_sample, progress=progress,
                )  # fmt: skip
            runs.append(found)
        summary = _write(folder, made, runs, spreads(made, runs[0].trace, skipped))
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        _show(runs, folder.path)
    if any(each.metrics["saturated"] or each.metrics["undelivered"] for each in runs):
        raise typer.Exit(1)


def _require_no_contradiction(ctx: typer.Context, asked: dict[str, Any]) -> None:
    """Refuse options that another option overrides, instead of ignoring them."""
    given = {
        parameter.name: max(parameter.opts, key=len)
        for parameter in ctx.command.params
        if parameter.name and is_given(ctx, parameter.name)
    }
    for place, settled in _SETTLED.items():
        void = [given[name] for name in settled if name in given]
        if asked[place] and void:
            msg = (
                f"--{place} replays its own messages, so {void[0]} has no effect; "
                f"leave --{place} or {void[0]} out"
            )
            raise UsageError(msg)
    if "payload" in given and asked["bandwidth"] is None:
        msg = "--payload matters only on links of limited --bandwidth; give both or neither"
        raise UsageError(msg)


def _checked_schedule(
    asked: dict[str, Any], options: dict[str, dict[str, Any]], seed: int
) -> sim.Schedule:
    """Return the schedule; refuse what one of the protocols cannot do before any of them runs."""
    from antecede.sim.engine import check_protocol, check_state, choose_engine

    engines = {name: choose_engine(name, asked["engine"], own) for name, own in options.items()}
    if not asked["edges"] and not asked["schedule"]:
        for name, engine in engines.items():
            check_state(name, asked["n"], engine)
    made = _schedule(asked, seed)
    for name, engine in engines.items():
        check_state(name, made.n, engine)
        check_protocol(name, made, options[name])
    return made


def _schedule(asked: dict[str, Any], seed: int) -> sim.Schedule:
    from antecede.events import left_out
    from antecede.events.content import title_of
    from antecede.sim import Schedule
    from antecede.sim.workloads import (
        WORKLOADS,
        check_seed,
        replay_edges,
        with_links,
        with_semantics,
    )

    check_seed(seed)
    if asked["schedule"]:
        made = Schedule.read(asked["schedule"])
    elif asked["edges"]:
        bad: list[Rejected] = []
        made = replay_edges(
            asked["edges"], seed=seed, delay=asked["delay"], fifo=asked["fifo"], rejected=bad
        )
        if bad:
            typer.echo(f"{left_out(len(bad), bad[0], title_of(asked['edges']))}.", err=True)
    elif asked["workload"] in WORKLOADS:
        make = WORKLOADS[asked["workload"]]
        names = ("n", "cast", "received", "warm_up", "delay", "fifo")
        chosen = {name: asked[name] for name in names if asked[name] is not None}
        if "cast" in chosen and "cast" not in inspect.signature(make).parameters:
            msg = f"workload {asked['workload']!r} sets its own destinations; leave --cast out"
            raise UsageError(msg)
        made = make(seed=seed, **chosen)
    else:
        msg = f"unknown workload {asked['workload']!r}; {meant(asked['workload'], WORKLOADS)}"
        raise UsageError(msg)
    if asked["bandwidth"] is not None:
        if asked["bandwidth"] <= 0:
            msg = f"--bandwidth {asked['bandwidth']:g} moves nothing; give bytes per second"
            raise UsageError(msg)
        made = with_links(made, bandwidth=asked["bandwidth"], payload=asked["payload"])
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


def _options_of(names: list[str], given: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Give each option to every protocol that has it, or to all, which fails, if none has it.

    A single protocol gets all options, so that its own error names the unknown ones.
    """
    from antecede.endpoint.registry import rules_of

    known = {name: rules_of(name).INFO.options for name in names}
    stray = [option for option in given if not any(option in own for own in known.values())]
    return {
        name: {key: value for key, value in given.items() if key in own or key in stray}
        for name, own in known.items()
    }


def _write(
    folder: RunFolder, schedule: sim.Schedule, runs: list[sim.Run],
    charts: dict[str, dict[str, int]],
) -> dict[str, Any]:  # fmt: skip
    import pyarrow as pa

    from antecede.report.simulate_page import compare_page, simulate_page

    names = list(dict.fromkeys(name for each in runs for name in each.metrics))
    rows = [
        {"protocol": each.protocol, **{name: each.metrics.get(name) for name in names}}
        for each in runs
    ]
    folder.write_table("metrics", pa.Table.from_pylist(rows))
    folder.write_table("schedule", schedule.to_arrow())
    for each in runs:
        if each.events is not None:
            name = "events" if len(runs) == 1 else f"events-{each.protocol}"
            folder.write_table(name, each.events)
    lead = (
        f"{schedule.messages:,} messages among {schedule.n} processes, {schedule.copies:,} copies"
    )
    facts = {**folder.options, "seed": folder.seed, "started": folder.started}
    if len(runs) > 1:
        found = {each.protocol: each.metrics for each in runs}
        page = compare_page(found, lead=f"{lead}, the same for every protocol.", facts=facts)
        folder.write_text("index.html", page)
        every = [{"engine": each.engine, **row} for each, row in zip(runs, rows, strict=True)]
        return folder.finish({"messages": schedule.messages, "protocols": every})
    (run,) = runs
    lead = f"{lead}, run by the {run.engine} engine."
    page = simulate_page(run.protocol, run.metrics, charts, lead=lead, facts=facts)
    folder.write_text("index.html", page)
    return folder.finish({"engine": run.engine, "messages": schedule.messages, **run.metrics})


@contextlib.contextmanager
def _progress(protocol: str, *, quiet: bool) -> Iterator[Callable[[float], None] | None]:
    """Show a progress bar if there is a terminal."""
    if quiet or not sys.stderr.isatty():
        with told_if_slow(f"{protocol}: running"):
            yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        # A compiled kernel may report nothing for a while: until it does, the bar moves to and fro.
        task = bar.add_task(f"{protocol}: running", total=None)
        yield lambda done: bar.update(task, total=1.0, completed=done)


def _show(runs: list[sim.Run], path: Path) -> None:
    from rich.console import Console

    from antecede.cli.shown import fitted_table, say
    from antecede.report.numbers import figure
    from antecede.report.simulate_page import LABELS, value_of

    names = " ".join(each.protocol for each in runs)
    engine = f" ({runs[0].engine} engine)" if len(runs) == 1 else ""
    values = {
        label: [value_of(each.metrics, name) for each in runs] for name, label in LABELS.items()
    }
    console = Console(markup=False)
    table = fitted_table(
        console,
        ["", *(each.protocol if len(runs) > 1 else "" for each in runs)],
        [[label, *map(figure, own)] for label, own in values.items() if set(own) != {None}],
        left=(0,) if len(runs) > 1 else (0, 1),
        title=f"antecede simulate {names}{engine}",
    )
    console.print(table)
    say(f"Page: {path / 'index.html'}")
