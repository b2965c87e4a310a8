"""Tables and sentences on terminals of any width, without broken or cut words."""

from __future__ import annotations

import shutil
import sys
import textwrap
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Group
from rich.table import Table

from antecede.cli import printable

if TYPE_CHECKING:
    from rich.console import Console


def say(text: str) -> None:
    """Print sentences; on a terminal, in lines that fit, since it would break words."""
    lines = [printable(line) for line in text.split("\n")]
    if sys.stdout is None or not sys.stdout.isatty():
        typer.echo("\n".join(lines))
        return
    width = shutil.get_terminal_size().columns
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()))
        wrapped = textwrap.wrap(
            line,
            width,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        typer.echo("\n".join(wrapped))


@contextmanager
def told_if_slow(text: str, seconds: float = 1.0) -> Iterator[None]:
    """Say on standard error what is being done, if it takes longer than ``seconds``."""
    teller = threading.Timer(seconds, typer.echo, (f"antecede: {text}",), {"err": True})
    teller.daemon = True
    teller.start()
    try:
        yield
    finally:
        teller.cancel()


#: A frame with a line only below the headings.
_BARE = {"box": SIMPLE_HEAD, "pad_edge": False, "collapse_padding": True, "show_edge": False}


class _Cells:
    """The columns of a table, with the least and the ideal width of each."""

    def __init__(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.heads, self.rows = heads, rows
        columns = [[head, *(row[at] for row in rows)] for at, head in enumerate(heads)]
        lines = [[line for cell in cells for line in cell.splitlines()] for cells in columns]
        self.widest = [max(map(cell_len, each), default=0) for each in lines]
        words = [[word for line in each for word in line.split()] for each in lines]
        self.least = [max(map(cell_len, each), default=0) for each in words]

    def widths(self, shown: Sequence[int], room: int) -> list[int]:
        """Return the widths of columns: whole words fit, spare room goes where it helps most."""
        widths = [self.least[column] for column in shown]
        wishes = [self.widest[column] for column in shown]
        for _ in range(room - sum(widths)):
            lacks = [wish - width for wish, width in zip(wishes, widths, strict=True)]
            if max(lacks) <= 0:
                break
            widths[lacks.index(max(lacks))] += 1
        return widths

    def table(
        self,
        shown: Sequence[int],
        widths: Sequence[int],
        left: Sequence[int],
        style: dict[str, Any],
    ) -> Table:
        table = Table(**style)
        for column, width in zip(shown, widths, strict=True):
            justify: Any = "left" if column in left else "right"
            table.add_column(self.heads[column], justify=justify, width=width, overflow="fold")
        for row in self.rows:
            table.add_row(*(row[column] for column in shown))
        return table


def fitted_table(
    console: Console,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str | None = None,
    left: Sequence[int] = (0,),
    caption: str | None = None,
    framed: bool = True,
) -> Group:
    """Return a table whose words stay whole on this console.

    A table that is too wide is split into parts, each with the first column. ``left`` are the
    left-aligned columns. The heading is left out if all ``heads`` are empty.
    """
    cells = _Cells(heads, rows)
    style: dict[str, Any] = {"show_header": any(heads)} | ({} if framed else _BARE)
    wide = console.options.update(max_width=10_000)

    def frame(shown: Sequence[int]) -> int:
        """Return the width of lines and spaces between columns."""
        bare = cells.table(shown, [1] * len(shown), left, style)
        return console.measure(bare, options=wide).maximum - len(shown)

    def least(shown: Sequence[int]) -> int:
        return frame(shown) + sum(cells.least[column] for column in shown)

    parts = [[0]]
    for column in range(1, len(heads)):
        if len(parts[-1]) > 1 and least([*parts[-1], column]) > console.width:
            parts.append([0])
        parts[-1].append(column)
    tables = []
    for shown in parts:
        widths = cells.widths(shown, console.width - frame(shown))
        table = cells.table(shown, widths, left, style)
        table.title = title if shown is parts[0] else " "
        table.caption = caption if shown is parts[-1] else None
        tables.append(table)
    return Group(*tables)
