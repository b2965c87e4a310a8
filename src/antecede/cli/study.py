"""``antecede study``: run the experiments and print the comparison of the protocols."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antecede.cli.options import AsJson, Master, Out, Wait, path_of

if TYPE_CHECKING:
    from antecede.study.jobs import Done, Progress

LINE_EVERY = 0.1
"""Without a terminal, a line is printed whenever this share of the work is done."""

Traffic = Annotated[
    Path | None,
    typer.Option(
        parser=path_of,
        metavar="PATH",
        help="An edge list (source destination time) to replay; - is standard input.",
    ),
]


def study(
    *,
    preset: Annotated[
        str | None, typer.Option(help="How much to run: quick (the default) or paper.")
    ] = None,
    experiment: Annotated[
        list[str] | None, typer.Option(help="Run only this experiment; may be repeated.")
    ] = None,
    protocol: Annotated[
        list[str] | None, typer.Option(help="Run only this protocol; may be repeated.")
    ] = None,
    traffic: Traffic = None,
    n: Annotated[
        list[int] | None,
        typer.Option(
            "-n",
            "--n",
            help="Number of processes, instead of the experiments' own; may be repeated.",
        ),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option(
            help="Delay of the network, such as exponential:0.2 or constant:1; "
            "experiments that vary the delay are left out."
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="How many seeds, instead of the preset's.")
    ] = None,
    out: Out = None,
    resume: Annotated[bool, typer.Option(help="Resume the study in --out.")] = False,
    master: Master = None,
    wait: Wait = 180.0,
    seed: Annotated[int | None, typer.Option(help="Number added to every run's seed [0].")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the protocols: the papers' figures, claims and open questions.

    Writes one folder with tables (Parquet, CSV), figures (PNG, SVG), summary.json and
    index.html, a page that needs no network.

    Example: `antecede study --experiment overhead --n 20 --n 80 --delay constant:0.2 --seeds 5`
    """
    from antecede.study.campaign import Campaign
    from antecede.study.request import Request

    given = {
        "preset": preset,
        "experiment": experiment or None,
        "protocol": protocol or None,
        "traffic": None if traffic is None else str(traffic),
        "seed": seed,
        "n": n or None,
        "delay": delay,
        "seeds": seeds,
    }
    request = Request.of(given, out, resume=resume)
    campaign = Campaign(request, out, master=master, wait=wait, resume=resume)
    path = campaign.folder.path
    if traffic is not None:
        _say_rejected(traffic)
    try:
        with _announced(), _progress(quiet=as_json) as show:
            summary = campaign.run(show)
    except KeyboardInterrupt as stop:
        kept = "interrupted before the first run was finished; nothing is kept"
        if campaign.folder.has_parts:
            kept = f"interrupted; to resume: antecede study --resume --out {path}"
        stop.add_note(kept)
        raise
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        _show(summary, path)


FEW = 3
"""The findings of up to this many experiments are printed; of more, they are on the page."""


def _say_rejected(traffic: Path) -> None:
    """Say how many lines of an edge list are left out, if any, and quote the first."""
    from antecede.events import Rejected, left_out
    from antecede.events.content import title_of
    from antecede.sim.workloads import replay_edges

    bad: list[Rejected] = []
    replay_edges(traffic, rejected=bad)
    if bad:
        typer.echo(f"{left_out(len(bad), bad[0], title_of(traffic))}.", err=True)


@contextlib.contextmanager
def _announced() -> Iterator[None]:
    """Acknowledge the first Ctrl-C: Spark may need some seconds to stop."""

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        typer.echo("antecede: stopping; finished runs are kept", err=True)
        signal.default_int_handler(number, frame)

    ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if ours:
        signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _show(summary: dict[str, Any], path: Path) -> None:
    from rich.console import Console

    from antecede.cli.shown import fitted_table, say
    from antecede.report.numbers import figure
    from antecede.study.results import COMPARED, comparison_title

    console, result = Console(markup=False, emoji=False), summary["result"]
    for cast in sorted({row["cast"] for row in result["comparison"]}, reverse=True):
        rows = [
            (row["protocol"], str(row["processes"]), *(figure(row.get(name)) for name in COMPARED))
            for row in result["comparison"]
            if row["cast"] == cast
        ]
        title = comparison_title(result["comparison"], cast)
        heads = ("protocol", "n", *COMPARED.values())
        console.print(fitted_table(console, heads, rows, title=title))
    if len(result["experiments"]) <= FEW:
        for name, findings in result["findings"].items():
            for finding in findings:
                say(f"{name}: {finding}")
        for claim in result["claims"]:
            say(f"Claim {claim['id']} {claim['verdict']}: {claim['claim']} ({claim['short']})")
    counts = f"{result['runs']:,} runs, {result['deliveries']:,} deliveries"
    say(f"Experiments: {', '.join(result['experiments'])}.")
    say(f"{counts}, {summary['seconds']:,.1f} seconds.")
    say(f"Page: {path / 'index.html'}")


@contextlib.contextmanager
def _progress(*, quiet: bool) -> Iterator[Progress | None]:
    """Show finished runs, deliveries per second and time left on standard error."""
    if quiet:
        yield None
    elif not sys.stderr.isatty():
        typer.echo("antecede: starting Spark", err=True)
        yield _Lines().show
    else:
        with _bar() as show:
            yield show


class _Pace:
    """Estimates the time left from the work done since the first call."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None

    def text(self, done: Done) -> str:
        now = time.monotonic()
        first, share = self._first = self._first or (now, done.share)
        spent, gained = now - first, done.share - share
        words = [f"{done.runs:,}/{done.total:,} runs"]
        if spent and gained:
            left = round(spent * (1 - done.share) / gained)
            words.append(f"{done.deliveries / spent:,.0f} deliveries/s")
            words.append("adding up" if left == 0 else f"{left // 60}:{left % 60:02} left")
        return ", ".join(words)


class _Lines:
    def __init__(self) -> None:
        self._pace, self._next = _Pace(), 0.0

    def show(self, done: Done) -> None:
        text = self._pace.text(done)
        if done.share >= self._next:
            self._next = done.share + LINE_EVERY
            typer.echo(f"antecede: {text}", err=True)


@contextlib.contextmanager
def _bar() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=Console(stderr=True)) as bar:
        task, pace = bar.add_task("starting Spark", total=1.0), _Pace()

        def show(done: Done) -> None:
            bar.update(task, description=pace.text(done), completed=done.share)

        yield show
