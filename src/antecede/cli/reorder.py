"""``antecede reorder``: put the rows of a stream into causal order, per destination."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import shlex
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from antecede.cli.options import AsJson, Master, Wait, path_of
from antecede.errors import UsageError
from antecede.reorder.source_and_sink import is_url, require_server, shown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from antecede.reorder.progress import Figures, Progress

#: How many held rows the terminal lists.
SHOWN = 20
#: The longest interval between batches, in seconds: a day.
EVERY_MAX = 86_400

Source = Annotated[
    str | None,
    typer.Argument(help="Folder whose files are read as they come, or nats://HOST/STREAM."),
]
Out = Annotated[
    str | None,
    typer.Argument(help="Folder for ordered/ and rejected/ (Parquet), or nats://HOST/STREAM."),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        parser=path_of,
        metavar="PATH",
        help="Folder of the query's state. Default: OUT/checkpoint.",
    ),
]
Column = Annotated[str | None, typer.Option(help="Column of encoded packets.")]
Waiting = Annotated[
    Path | None,
    typer.Option(
        parser=path_of,
        metavar="PATH",
        help="Show what the query of this checkpoint holds, and for what.",
    ),
]

Format = Annotated[str, typer.Option("--format", help="Format of the files: parquet, json, csv.")]
Messages = Annotated[
    int | None, typer.Option(min=1, help="Most messages of a NATS stream in a batch.")
]
OnMissing = Annotated[
    str, typer.Option(help="wait for a missing cause, or release after --timeout.")
]
Horizon = Annotated[float, typer.Option(help="Seconds for which delivered ids are remembered.")]
Name = Annotated[
    list[str] | None,
    typer.Option(help="Another name of a column, e.g. causes=parents. May be repeated."),
]
Members = Annotated[str | None, typer.Option(help="For packets: all processes, joined by commas.")]
Readers = Annotated[
    str | None, typer.Option(help="For packets: those that only receive, joined by commas.")
]
Release = Annotated[
    list[str] | None,
    typer.Option(help="With --waiting: deliver this id without the causes it lacks."),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(help="With --waiting: never deliver this id; nothing waits for it then."),
]
Dest = Annotated[str | None, typer.Option(help="With --release and --drop: the destination.")]
HeldBytes = Annotated[int, typer.Option(min=1, help="Most bytes of rows that a bucket may hold.")]


def reorder(
    source: Source = None,
    out: Out = None,
    *,
    form: Format = "parquet",
    checkpoint: Checkpoint = None,
    once: Annotated[bool, typer.Option("--once", help="Stop when all files are read.")] = False,
    every: Annotated[float, typer.Option(min=0, help="Seconds between batches.")] = 1.0,
    files: Annotated[int | None, typer.Option(min=1, help="Most files in a batch.")] = None,
    messages: Messages = None,
    on_missing: OnMissing = "wait",
    timeout: Annotated[float | None, typer.Option(help="Seconds to wait for a cause.")] = None,
    horizon: Horizon = 600.0,
    buckets: Annotated[int, typer.Option(min=1, help="Units of parallel work.")] = 8,
    name: Name = None,
    packet: Column = None,
    members: Members = None,
    readers: Readers = None,
    waiting: Waiting = None,
    release: Release = None,
    drop: Drop = None,
    dest: Dest = None,
    held_bytes: HeldBytes = 256 << 20,
    master: Master = None,
    wait: Wait = 180.0,
    memory: Annotated[str, typer.Option(help="Memory of the embedded Spark, e.g. 4g.")] = "2g",
    as_json: AsJson = False,
) -> None:
    """Put the rows of a stream into causal order, per destination.

    Each row is a copy of a message: id, dest and causes, the ids of messages that the same
    destination gets first, or one such id; or it carries an encoded packet. Rows leave once each,
    with their position. Stop with Ctrl-C; the same call goes on where it stopped.

    Example: `antecede reorder incoming/ sorted/ --once`

    Messages of a NATS stream hold such rows as JSON, or are those of a reader of nodes (give
    --members and --readers).
    """
    from antecede.reorder.api import SESSION
    from antecede.reorder.files import without_remarks
    from antecede.reorder.source_and_sink import claimed
    from antecede.spark.session import session

    options: dict[str, Any] = {
        "on_missing": on_missing,
        "timeout": timeout,
        "horizon": horizon,
        "buckets": buckets,
        "held_bytes_max": held_bytes,
        **_names(name or []),
    }
    if release or drop or dest is not None:
        _tell(waiting, release or (), drop or (), dest)
        return
    if packet is None and members is not None and source is not None and is_url(source):
        packet = "packet"
    with _named_as_options():
        places = _require_places(source, out, waiting, form, checkpoint)
        options = _checked(options, packet, _split(members), _split(readers), every)
        for place in filter(is_url, filter(None, (source, out))):
            require_server(place)
        with claimed(places), without_remarks(), contextlib.ExitStack() as running:
            _say_what_comes(source, waiting, master)
            starting = session(
                master, app="antecede-reorder", memory=memory, config=SESSION, wait=wait
            )
            spark = running.enter_context(starting)
            if waiting is not None:
                _show_waiting(spark, waiting, as_json=as_json)
            elif source is not None and out is not None:
                state = checkpoint or Path(out) / "checkpoint"
                job = _Job(source, out, form, state, files, messages)
                _run(spark, job, options, None if once else every, as_json=as_json)


def _say_what_comes(source: str | None, waiting: Path | None, master: str | None) -> None:
    """Say what takes so long: Spark is silent until its first batch is done."""
    where = "Spark" if master is None else f"Spark at {master}"
    then = f"read what {waiting} holds" if waiting is not None else f"read {shown(source or '')}"
    typer.echo(f"antecede: starting {where} to {then}; this takes a while", err=True)


def _tell(
    checkpoint: Path | None, release: Sequence[str], drop: Sequence[str], dest: str | None
) -> None:
    """Leave commands for the query of a checkpoint, which obeys them in its next batch."""
    asked = [*(("release", key) for key in release), *(("drop", key) for key in drop)]
    from antecede.reorder.source_and_sink import require_checkpoint
    from antecede.reorder.waiting import leave_commands

    if checkpoint is None or not asked:
        msg = "--release, --drop and --dest go together with --waiting CHECKPOINT"
        raise UsageError(msg)
    require_checkpoint(checkpoint)
    leave_commands(checkpoint, asked, dest)
    what = ", ".join(f"{action} {name}" for action, name in asked)
    typer.echo(f"told the query of {checkpoint}: {what}; it obeys in its next batch")


#: The command line's names of Python parameters.
_OPTIONS = {
    "on_missing": "--on-missing", "timeout": "--timeout", "horizon": "--horizon",
    "buckets": "--buckets", "held_bytes_max": "--held-bytes", "packet": "--packet",
    "members": "--members", "readers": "--readers",
}  # fmt: skip
_IN_PYTHON = re.compile(rf"\b({'|'.join(_OPTIONS)})(?:=(\(\.\.\.\)|'[^']*'|[\w.]*)|(?= is\b))")
_COLUMNS_IN_PYTHON = "name the columns with id=, causes=, dest=, source= and seq=, or packet="
_COLUMNS = "name the columns with --name, as in --name id=msg, or --packet"


@contextlib.contextmanager
def _named_as_options() -> Iterator[None]:
    """Write the option names of the command line into errors."""

    def option(found: re.Match[str]) -> str:
        value = (found[2] or "").strip("'")
        return " ".join(filter(None, (_OPTIONS[found[1]], "" if value == "(...)" else value)))

    try:
        yield
    except UsageError as error:
        text = str(error).replace(_COLUMNS_IN_PYTHON, _COLUMNS)
        if (told := _IN_PYTHON.sub(option, text)) == str(error):
            raise
        raise UsageError(told) from error


def _require_places(
    source: str | None, out: str | None, waiting: Path | None, form: str, checkpoint: Path | None
) -> list[Path]:
    """Refuse missing folders before Spark starts; return the folders that the query writes to."""
    from antecede.reorder.source_and_sink import (
        require_apart,
        require_checkpoint,
        require_folder,
        require_stream,
    )

    if waiting is not None:
        if source is not None:
            msg = f"--waiting only looks at a checkpoint; leave {source} out, or --waiting"
            raise UsageError(msg)
        require_checkpoint(waiting)
        return []
    if source is None or out is None:
        msg = (
            "reorder needs two folders or streams, one to read and one to write; or --waiting "
            "CHECKPOINT"
        )
        raise UsageError(msg)
    for place in (source, out):
        path_of(place)
    if is_url(source):
        require_stream(source)
    else:
        require_folder(Path(source), form)
    if is_url(out):
        require_stream(out)
        if checkpoint is None:
            msg = f"{shown(out)} has no room for the query's state; give a folder by --checkpoint"
            raise UsageError(msg)
        return [checkpoint]
    if not is_url(source):
        require_apart(Path(source), Path(out))
    return [Path(out), checkpoint or Path(out) / "checkpoint"]


def _checked(
    options: dict[str, Any],
    packet: str | None,
    members: list[str] | None,
    readers: list[str] | None,
    every: float,
) -> dict[str, Any]:
    """Return all options of the query; report errors in them before Spark starts."""
    from antecede.reorder.api import checked_policy
    from antecede.reorder.packets import make_plan

    if not 0 <= every <= EVERY_MAX:
        msg = f"--every {every:g} is not possible; give seconds, from 0 to {EVERY_MAX:,}"
        raise UsageError(msg)
    policy = {name: options[name] for name in ("on_missing", "timeout", "horizon", "buckets")}
    checked_policy(**policy, is_streaming=True)
    if packet is not None:
        make_plan(packet, members, None, readers, None)
        return {**options, "packet": packet, "members": members, "readers": readers}
    if members is not None or readers is not None:
        msg = "--members and --readers are for packets; name their column by --packet"
        raise UsageError(msg)
    return options


class _Job(NamedTuple):
    source: str
    out: str
    form: str
    checkpoint: Path
    files: int | None
    messages: int | None


def _run(
    spark: SparkSession, job: _Job, options: dict[str, Any], every: float | None, *, as_json: bool
) -> None:
    from antecede.reorder.files import read_files, run_files
    from antecede.reorder.nats_source import read_stream, stream_writer
    from antecede.reorder.waiting import read_commands

    begun = time.monotonic()
    if is_url(job.source):
        stream = read_stream(
            spark, job.source, most=job.messages, names=options, packets="packet" in options
        )
    else:
        causes = options.get("causes", "causes")
        stream = read_files(spark, Path(job.source), job.form, files=job.files, causes=causes)
    out = stream_writer(job.out, options) if is_url(job.out) else Path(job.out)
    totals = run_files(
        stream,
        out,
        checkpoint=job.checkpoint,
        options={**options, "commands": read_commands(spark, job.checkpoint)}
        if "packet" not in options
        else options,
        every=every,
        show=_show,
    )
    result = {
        "verb": "reorder",
        "options": {"source": shown(job.source), "out": shown(job.out), **options},
        "seconds": time.monotonic() - begun,
        "result": {
            "batches": totals.batches,
            "rows_in": totals.rows_in,
            "rows_out": totals.rows_out,
            "duplicates": totals.duplicates,
            "rejected": totals.rejected,
            "held": totals.held,
        },
    }
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    else:
        typer.echo(_told(totals, job))


def _told(totals: Progress, job: _Job) -> str:
    """Return the last lines of a query: how many rows went where, and how to see held rows."""
    place = shown(job.out) if is_url(job.out) else Path(job.out) / "ordered"
    held = f", {totals.held:,} held" if totals.held else ""
    text = (
        f"{totals.rows_in:,} rows in, {totals.rows_out:,} out, {totals.duplicates:,} duplicates, "
        f"{totals.rejected:,} rejected{held}; ordered rows: {place}"
    )
    if totals.held:
        state = shlex.quote(str(job.checkpoint))
        text += f"\nto see what is held, and for what: antecede reorder --waiting {state}"
    return text


def _show(figures: Figures) -> None:
    """Print a batch's figures to standard error."""
    values = dataclasses.asdict(figures)
    text = (
        "batch {batch}: {rows_in:,} in, {rows_out:,} out, {held:,} held, oldest wait "
        "{oldest_seconds:.1f} s, {state_rows:,} state rows, {seconds:.1f} s"
    )
    typer.echo(f"antecede: {text.format(**values)}", err=True)


def _show_waiting(spark: SparkSession, checkpoint: Path, *, as_json: bool) -> None:
    from antecede.reorder.waiting import held_rows

    found = held_rows(spark, str(checkpoint))
    if as_json:
        rows = [{**held._asdict(), "lacks": list(held.lacks)} for held in found]
        typer.echo(json.dumps({"held": len(found), "rows": rows}, indent=2, default=str))
        return
    count = f"{len(found):,} {'row is' if len(found) == 1 else 'rows are'} held"
    typer.echo(f"{count}." if found else "No row is held.")
    for held in found[:SHOWN]:
        lacks = ", ".join(held.lacks)
        typer.echo(f"  {held.dest}: {held.id} has waited {held.seconds:,.0f} s for {lacks}")
    if len(found) > SHOWN:
        typer.echo(f"  and {len(found) - SHOWN:,} more; --json lists all")


def _names(words: list[str]) -> dict[str, str]:
    """Return the renamed columns."""
    names = {}
    for word in words:
        ours, _, theirs = word.partition("=")
        if ours not in ("id", "dest", "source", "seq", "causes") or not theirs:
            msg = f"--name {word} is not NAME=COLUMN with NAME of id, dest, source, seq, causes"
            raise UsageError(msg)
        names[ours] = theirs
    return names


def _split(words: str | None) -> list[str] | None:
    return None if words is None else [word.strip() for word in words.split(",")]
