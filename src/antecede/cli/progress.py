"""Progress of a long run: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from antecede.study.jobs import Done, Progress

LINE_EVERY = 0.1
"""Without a terminal, a line is printed for each such share of the work."""


@contextlib.contextmanager
def progress(*, quiet: bool) -> Iterator[Progress | None]:
    """Show runs done, deliveries per second and time left, on the standard error stream."""
    if quiet:
        yield None
    elif not sys.stderr.isatty():
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
