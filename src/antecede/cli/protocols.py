"""``antecede protocols``: a table of all protocols, or the page of one."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

import antecede
from antecede.cli.shown import fitted_table
from antecede.endpoint.registry import rules_of
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
        rules_of(name)
    chosen = [info for info in antecede.PROTOCOLS.values() if name in (None, info.name)]
    if as_json:
        rows = [_as_row(info) for info in chosen]
        typer.echo(json.dumps(rows if name is None else rows[0], indent=2))
    elif name is None:
        _print_table(chosen)
    else:
        _console().print(Markdown(protocol_page(chosen[0])))


def _console() -> Console:
    """Return a console as wide as the terminal, or wide enough for whole lines into a pipe."""
    console = Console()
    return console if console.is_terminal else Console(width=250)


def _as_row(info: antecede.ProtocolInfo) -> dict[str, object]:
    plain = ("name", "idea", "paper", "casts", "guarantee", "assumptions", "cost")
    return {
        **{name: getattr(info, name) for name in plain},
        "promises": sorted(info.promises),
        "options": {key: option.doc for key, option in info.options.items()},
        "lost_by_skip": info.lost_by_skip,
        "unmarked_by_skip": info.unmarked_by_skip,
        "research": info.research,
        "reconstruction": info.reconstruction,
    }


def _print_table(infos: list[antecede.ProtocolInfo]) -> None:
    heads = ("name", "paper", "casts", "guarantee", "cost")
    rows = [
        (info.name + "*" * info.reconstruction, info.paper, ", ".join(info.casts), info.guarantee,
         info.cost)
        for info in infos
    ]  # fmt: skip
    marked = any(info.reconstruction for info in infos)
    caption = "* reconstructed from an abstract" if marked else None
    console, left = _console(), range(len(heads))
    console.print(
        fitted_table(
            console, heads, rows, title="Protocols", left=left, caption=caption, framed=False
        )
    )
