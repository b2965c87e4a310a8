"""``antecede inbox``: show and repair an inbox."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from antecede.cli import printable
from antecede.cli.options import path_of
from antecede.cli.shown import fitted_table, say
from antecede.errors import UsageError

if TYPE_CHECKING:
    from antecede.inbox.api import Desk

Ids = Annotated[
    list[str] | None,
    typer.Option(help="Let this message go without the causes that are not here. May be repeated."),
]


def inbox(
    place: Annotated[
        str, typer.Argument(metavar="FILE|URL", help="A file of SQLite, or postgresql://...")
    ],
    *,
    release: Ids = None,
    park: Annotated[
        list[str] | None, typer.Option(help="Keep this message for a person. May be repeated.")
    ] = None,
    retry: Annotated[
        list[str] | None,
        typer.Option(help="Treat this parked message as if it came now. May be repeated."),
    ] = None,
    all_parked: Annotated[
        bool, typer.Option("--retry-all", help="Retry everything that is parked.")
    ] = False,
    events: Annotated[
        Path | None,
        typer.Option(
            parser=path_of,
            metavar="PATH",
            help="Write an event log of what was handled, for audit.",
        ),
    ] = None,
    name: Annotated[str, typer.Option(help="The inbox's name in PostgreSQL.")] = "inbox",
    alarm: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="SECONDS", help="Exit with 1 also if something waits for longer."
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Show at most so many messages.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Show what waits in an inbox, for what and since when, and what is parked; repair it.

    Messages are named by id, or by topic/id. A program that uses the inbox hands over what was
    released or retried. Exit status: 0 nothing is parked, 1 something is or waits for longer than
    --alarm, 2 the call is wrong.

    Example: `antecede inbox shop.db --release payments/pay-17`
    """
    from antecede.inbox.api import Desk
    from antecede.inbox.events import write_events

    desk = Desk(place, None, name, {}, create=False)
    try:
        done = _repair(desk, release or [], park or [], retry or [], all_parked=all_parked)
        count = None if events is None else write_events(events, [desk.store])
        report = asdict(desk.report())
        del report["mode"]
        most = None if as_json else limit
        waiting = [asdict(one) for one in desk.store.waiting(time.time(), most)]
        parked = [asdict(one) for one in desk.store.parked(most)]
    finally:
        desk.store.close()
    report["oldest_seconds"] = oldest = waiting[0]["seconds"] if waiting else 0.0
    if as_json:
        more = {"waiting_messages": waiting, "parked_messages": parked, "did": done}
        found = {**report, **more, **({} if count is None else {"events": count})}
        typer.echo(json.dumps(found, indent=2))
    else:
        _show(report, waiting, parked, done)
        if count is not None:
            say(f"{count:,} events in {events}. See: antecede audit {events}")
    is_late = alarm is not None and oldest > alarm
    raise typer.Exit(1 if report["parked"] or is_late else 0)


def _repair(
    desk: Desk,
    release: Sequence[str],
    park: Sequence[str],
    retry: Sequence[str],
    *,
    all_parked: bool,
) -> list[str]:
    """Carry out the requested repairs in this order; return a sentence about each."""
    if all_parked and retry:
        msg = "--retry-all retries everything; leave --retry or --retry-all out"
        raise UsageError(msg)
    done: list[str] = []
    steps: list[tuple[str, Callable[[str], None], Sequence[str] | None]] = [
        ("released", desk.release, release),
        ("parked", lambda one: desk.park(one, "by hand"), park),
        ("retried", desk.retry, None if all_parked else retry),
    ]
    for word, step, ids in steps:
        for one in [each.key for each in desk.store.parked(None)] if ids is None else ids:
            try:
                step(one)
            except UsageError as error:
                before = f" ({'; '.join(done)} before)" if done else ""
                msg = f"{error}{before}"
                raise UsageError(msg) from None
            done.append(f"{word} {one}")
    return done


def _show(
    report: dict[str, Any],
    waiting: list[dict[str, Any]],
    parked: list[dict[str, Any]],
    done: list[str],
) -> None:
    for one in done:
        say(f"{one[0].upper()}{one[1:]}.")
    states = ("waiting", "ready", "parked", "done")
    counts = ", ".join(f"{report[state]:,} {state}" for state in states)
    more = f", {report['released']:,} released with a cause unmet" if report["released"] else ""
    say(f"Inbox {report['name']} of {', '.join(report['topics'])}: {counts}{more}.")
    if report["outbox"]:
        say(f"To be published: {report['outbox']:,}.")
    if report["early"]:
        mean, longest = report["early_seconds_mean"], report["early_seconds_max"]
        waits = "" if mean is None else f", {_span(mean)} on average and {_span(longest)} at most"
        say(
            f"Handed over early in shadow mode: {report['early']:,}. They would have waited{waits}."
        )
        if report["early_unresolved"]:
            say(f"Of these, {report['early_unresolved']:,} have a cause that has not come.")
    console = Console()
    if not console.is_terminal:
        console = Console(width=250)
    if waiting:
        rows = [
            (one["key"], _span(one["seconds"]), "\n".join(_lacks(one["lacks"]))) for one in waiting
        ]
        _table(console, "Waiting", ("message", "for", "waits for"), rows, report["waiting"])
    if parked:
        rows = [(one["key"], _when(one["since"]), one["reason"]) for one in parked]
        _table(console, "Parked", ("message", "since", "because"), rows, report["parked"])


def _lacks(lacks: dict[str, str]) -> list[str]:
    found = [f"{cause} ({state})" for cause, state in list(lacks.items())[:5]]
    return [*found, f"and {len(lacks) - 5} more"] if len(lacks) > 5 else found


def _table(
    console: Console, title: str, heads: Sequence[str], rows: Sequence[tuple[str, ...]], count: int
) -> None:
    cells = [tuple("\n".join(map(printable, c.split("\n"))) for c in row) for row in rows]
    caption = f"the first {len(rows):,} of {count:,}" if count > len(rows) else None
    console.print(
        fitted_table(
            console, heads, cells, title=title, left=range(3), caption=caption, framed=False
        )
    )


def _span(seconds: float) -> str:
    """Return a time span in words."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.3g} s" if seconds < 10 else f"{seconds:.0f} s"


def _when(since: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))
