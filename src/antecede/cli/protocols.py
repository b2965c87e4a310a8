"""``antecede protocols``: a table of all protocols, or the page of one."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

import antecede
from antecede.core.registry import protocol_class
from antecede.report.protocol_page import protocol_page


def protocols(
    name: Annotated[str | None, typer.Argument(help="Show the page of this protocol.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the registry as JSON.")] = False,
) -> None:
    """List the protocols, or describe one.

    Example: `antecede protocols optimal`
    """
    if name is not None:
        protocol_class(name)
    chosen = [info for info in antecede.PROTOCOLS.values() if name in (None, info.name)]
    if as_json:
        rows = [_as_row(info) for info in chosen]
        typer.echo(json.dumps(rows if name is None else rows[0], indent=2))
    elif name is None:
        _console().print(_table(chosen))
    else:
        _console().print(Markdown(protocol_page(chosen[0])))


def _console() -> Console:
    """Return a console: as wide as the terminal, or wide enough that a pipe gets whole lines."""
    console = Console()
    return console if console.is_terminal else Console(width=250)


def _as_row(info: antecede.ProtocolInfo) -> dict[str, object]:
    plain = ("name", "idea", "paper", "casts", "guarantee", "assumptions", "cost")
    return {
        **{name: getattr(info, name) for name in plain},
        "promises": sorted(info.promises),
        "options": {key: option.doc for key, option in info.options.items()},
        "dynamic": info.dynamic,
        "reconstruction": info.reconstruction,
    }


def _table(infos: list[antecede.ProtocolInfo]) -> Table:
    table = Table(title="Protocols", show_lines=False, pad_edge=False)
    table.add_column("name", style="bold", no_wrap=True)
    for column in ("paper", "casts", "guarantee", "cost"):
        table.add_column(column, overflow="fold")
    for info in infos:
        mark = " *" if info.reconstruction else ""
        table.add_row(
            info.name + mark, info.paper, ", ".join(info.casts), info.guarantee, info.cost
        )
    if any(info.reconstruction for info in infos):
        table.caption = "* reconstructed from an abstract"
    return table
