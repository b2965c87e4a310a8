"""``antecede study``: run the experiments, write tables and the page, say where they are."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antecede.cli.progress import progress
from antecede.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from antecede.pipeline.runs import RunFolder
    from antecede.pipeline.studies.experiments.base import Experiment, Scale

_INTERRUPTED = 130


def study(
    *,
    preset: Annotated[
        str | None, typer.Option(help="How much to run: quick (the default) or paper.")
    ] = None,
    experiment: Annotated[
        list[str] | None, typer.Option(help="Only this experiment; may be repeated.")
    ] = None,
    protocol: Annotated[
        list[str] | None, typer.Option(help="Only this protocol; may be repeated.")
    ] = None,
    traffic: Annotated[
        Path | None, typer.Option(help="An edge list (source destination time) to replay.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results [antecede-out/study-TIME].")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the study in --out.")] = False,
    master: Annotated[str | None, typer.Option(help="A Spark master [local[*]].")] = None,
    seed: Annotated[int | None, typer.Option(help="Shifts every run's seed [0].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Compare the protocols: the papers' figures, claims and open questions.

    Writes one folder with tables (Parquet, CSV), figures (PNG, SVG), summary.json and
    index.html, a page that needs no network.

    Example: `antecede study --preset quick --experiment overhead --out my-study`
    """
    given = {
        "preset": preset,
        "experiment": experiment or None,
        "protocol": protocol or None,
        "traffic": None if traffic is None else str(traffic),
        "seed": seed,
    }
    asked = _asked(given, out, resume=resume)
    experiments, scale = _choose(asked)
    rows = _grid(experiments, scale, asked)
    from antecede.pipeline.runs import RunFolder

    folder = RunFolder.open(
        out,
        "study",
        options={**asked, "master": master or "local[*]", "resume": resume},
        seed=asked["seed"],
        resume=resume,
        resumable=True,
    )
    try:
        with _announced():
            summary = _run(folder, experiments, rows, asked, master, quiet=as_json)
    except KeyboardInterrupt as stop:
        kept = "interrupted before a first run was finished; nothing is kept"
        if folder.has_parts:
            kept = f"interrupted; go on with: antecede study --resume --out {folder.path}"
        typer.echo(f"antecede: {kept}", err=True)
        raise typer.Exit(getattr(stop, "status", _INTERRUPTED)) from None
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        _show(summary, folder.path)


@contextlib.contextmanager
def _announced() -> Iterator[None]:
    """Say at the first Ctrl-C that it was heard: Spark may need some seconds to stop."""

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        typer.echo("antecede: stopping: what runs is cancelled, what is finished is kept", err=True)
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


def _asked(given: dict[str, Any], out: Path | None, *, resume: bool) -> dict[str, Any]:
    """Return what to run: this call's options, else the resumed study's, else the defaults."""
    earlier: dict[str, Any] = {}
    if resume:
        if out is None:
            msg = "--resume needs --out: the folder of the study to go on with"
            raise UsageError(msg)
        from antecede.pipeline.runs import ASKED, STAGE

        for place in (out / STAGE / ASKED, out / ASKED):
            if place.is_file():
                earlier = _read(place)
                break
    defaults: dict[str, Any] = {
        "preset": "quick",
        "experiment": [],
        "protocol": [],
        "traffic": None,
        "seed": 0,
    }
    chosen = {key: value for key, value in given.items() if value is not None}
    asked = {key: {**defaults, **earlier, **chosen}[key] for key in defaults}
    if (
        given["traffic"] is not None
        and asked["experiment"]
        and "traffic" not in asked["experiment"]
    ):
        msg = (
            f"--traffic {given['traffic']} is used by the experiment traffic only: "
            "add --experiment traffic, or leave --traffic out"
        )
        raise UsageError(msg)
    return asked


def _read(place: Path) -> dict[str, Any]:
    try:
        earlier = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        earlier = None
    if not isinstance(earlier, dict):
        msg = f"--resume: {place} does not say what to run: choose a new folder, without --resume"
        raise UsageError(msg)
    return earlier


def _choose(asked: dict[str, Any]) -> tuple[list[Experiment], Scale]:
    import difflib

    from antecede.core.registry import protocol_class
    from antecede.pipeline.studies.experiments import chosen
    from antecede.pipeline.studies.experiments.base import PRESETS
    from antecede.sim.workloads import check_seed

    check_seed(asked["seed"])
    for name in asked["protocol"]:
        protocol_class(name)
    if asked["preset"] not in PRESETS:
        near = difflib.get_close_matches(asked["preset"], PRESETS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(PRESETS)}"
        msg = f"unknown preset {asked['preset']!r}; {hint}"
        raise UsageError(msg)
    experiments = chosen(asked["experiment"])
    scale = PRESETS[asked["preset"]]
    if asked["traffic"] is not None:
        scale = replace(scale, traffic=_traffic(Path(asked["traffic"])))
    elif "traffic" in asked["experiment"]:
        msg = "the traffic experiment needs --traffic FILE: an edge list (source destination time)"
        raise UsageError(msg)
    return experiments, scale


def _traffic(path: Path) -> bytes:
    from antecede.pipeline.studies.runner import pack_edges

    try:
        return pack_edges(path)
    except UsageError as error:
        if str(path) in str(error):
            raise
        msg = f"--traffic {path}: {error}"
        raise UsageError(msg) from error


def _grid(
    experiments: list[Experiment], scale: Scale, asked: dict[str, Any]
) -> list[dict[str, Any]]:
    from antecede.pipeline.studies.grid import grid_rows

    rows = [
        row
        for each in experiments
        for row in grid_rows(each.name, each.cases(scale), seed=asked["seed"])
        if not asked["protocol"] or row["protocol"] in asked["protocol"]
    ]
    if not rows:
        names = ", ".join(each.name for each in experiments)
        msg = (
            f"nothing to run: no experiment of {names} runs protocol {', '.join(asked['protocol'])}"
        )
        raise UsageError(msg)
    return rows


def _run(
    folder: RunFolder,
    experiments: list[Experiment],
    rows: list[dict[str, Any]],
    asked: dict[str, Any],
    master: str | None,
    *,
    quiet: bool,
) -> dict[str, Any]:
    from antecede.pipeline.runs import ASKED
    from antecede.pipeline.spark.session import session
    from antecede.pipeline.studies.campaign import run_grid, tables, write_tables

    with folder:
        folder.write_text(ASKED, json.dumps(asked) + "\n")
        warming = _warming(master)
        with (
            progress(quiet=quiet) as show,
            session(master, app="antecede study", light=True) as spark,
        ):
            if warming.is_alive():
                warming.join()
            runs = run_grid(spark, rows, folder, progress=show)
            found = tables(spark, runs, experiments)
        write_tables(folder, found)
        result = _report(folder, experiments, found)
        return folder.finish(result)


def _warming(master: str | None) -> threading.Thread:
    """Compile the kernels, or load them, while Spark starts: its workers then find them cached."""

    def compile_all() -> None:
        from antecede import sim

        sim.warm()

    from antecede.pipeline.spark.masters import is_embedded

    thread = threading.Thread(target=compile_all, name="warm", daemon=True)
    if is_embedded(master or "local[*]"):
        thread.start()
    return thread


def _report(folder: RunFolder, experiments: list[Experiment], found: Any) -> dict[str, Any]:  # noqa: ANN401
    from antecede.pipeline.runs import provenance, version
    from antecede.report.comparison import comparison
    from antecede.report.study_page import build, write

    overview = found.overview.to_pylist()
    facts = {
        "version": version(),
        "preset": folder.options["preset"],
        "seed": folder.seed,
        "started": folder.started,
        "seconds": round(folder.seconds, 1),
        "master": folder.options["master"],
        **provenance(),
    }
    shown = found.runs.select(["experiment", "facet", "series"]).to_pylist()
    order = [(row["experiment"], row["facet"], row["series"]) for row in shown]
    points = found.points.to_pylist()
    page = build(experiments, points, overview, facts, order, found.differences.to_pylist())
    for name, contents in write(page).items():
        if isinstance(contents, str):
            folder.write_text(name, contents)
        else:
            (folder.stage / name).write_bytes(contents)
    return {
        "experiments": sorted({row["experiment"] for row in overview}),
        "runs": found.runs.num_rows,
        "deliveries": sum(row["deliveries"] for row in overview),
        "core_seconds": round(sum(row["seconds"] for row in overview), 3),
        "saturated": sum(row["saturated"] for row in overview),
        "figures": sorted(p.name for p in (folder.stage / "figures").glob("*.svg")),
        "comparison": comparison(points),
    }


def _show(summary: dict[str, Any], path: Path) -> None:
    from rich.console import Console
    from rich.table import Table

    from antecede.report.comparison import METRICS, title
    from antecede.report.page import figure

    console, result = Console(), summary["result"]
    for cast in sorted({row["cast"] for row in result["comparison"]}, reverse=True):
        compared = Table(title=title(result["comparison"], cast))
        compared.add_column("protocol", no_wrap=True)
        compared.add_column("n", justify="right")
        for heading in METRICS.values():
            compared.add_column(heading, justify="right")
        for row in result["comparison"]:
            if row["cast"] == cast:
                cells = (figure(row.get(metric)) for metric in METRICS)
                compared.add_row(row["protocol"], str(row["processes"]), *cells)
        console.print(compared)
    table = Table(title="antecede study", show_header=False)
    table.add_row("experiments", ", ".join(result["experiments"]))
    table.add_row("runs", f"{result['runs']:,}")
    table.add_row("deliveries", f"{result['deliveries']:,}")
    table.add_row("seconds", f"{summary['seconds']:,.1f}")
    table.add_row("page", str(path / "index.html"))
    console.print(table)
