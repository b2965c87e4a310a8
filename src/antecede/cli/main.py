"""``antecede``: the verbs, and the one place where errors become a line and an exit status.

Exit status: 0 all is well; 1 the answer is bad news; 2 the call or its input is wrong.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated

import typer

import antecede
from antecede.errors import AntecedeError

VERBS = ("protocols",)
"""Each verb is the function of that name in the module of that name beside this one."""

cli = typer.Typer(
    name="antecede",
    help="Causal message ordering: protocols, simulation, and what your logs say.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
)


def _show_version(*, value: bool) -> None:
    if value:
        typer.echo(f"antecede {antecede.__version__}")
        raise typer.Exit


@cli.callback()
def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Causal message ordering: protocols, simulation, and what your logs say."""


for verb in VERBS:
    cli.command(name=verb)(getattr(import_module(f"antecede.cli.{verb}"), verb))


def app() -> None:
    """Run the command line; an error of ours is one line on standard error and exit status 2."""
    try:
        cli()
    except AntecedeError as error:
        typer.echo(f"antecede: {error}", err=True)
        sys.exit(2)
