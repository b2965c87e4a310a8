"""``antecede``: the verbs, and the one place where errors become a line and an exit status.

Exit status: 0 all is well; 1 the answer is bad news; 2 the call or its input is wrong. Only the verb
that is called is imported, so that light verbs start fast and need no extras.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

import antecede
from antecede.errors import AntecedeError

if TYPE_CHECKING:
    from collections.abc import Sequence

# Typer brings its own copy of Click, whose names are private; its public BadParameter leads there.
USAGE_ERROR: Any = typer.BadParameter.__bases__[0]

VERBS = {
    "study": ("spark", "Compare the protocols on Spark; the papers' figures and claims."),
    "simulate": ("sim", "Run one protocol over one workload; sizes, delays, event log."),
    "audit": ("spark", "Tell from a log whether, where and why causal order was broken."),
    "advise": ("spark", "Show what each protocol would have cost on the traffic of a log."),
    "report": ("sim", "Draw what happened around a message as a space-time diagram."),
    "protocols": ("", "List the protocols, or describe one."),
    "doctor": ("", "Say what this machine has, and how to mend what is missing."),
}
"""Each verb is the function of that name in the module of that name; the extra it needs; its help."""


def _show_version(*, value: bool) -> None:
    if value:
        typer.echo(f"antecede {antecede.__version__}")
        raise typer.Exit


def _root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Causal message ordering: protocols, simulation, and what your logs say."""


def command_line(called: str | None) -> typer.Typer:
    """Return the command line with the verb that is called imported; the others have help only."""
    cli = typer.Typer(
        name="antecede",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode="markdown",
    )
    cli.callback()(_root)
    for verb, (_, help_line) in VERBS.items():
        if verb == called:
            function = getattr(import_module(f"antecede.cli.{verb}"), verb)
            cli.command(name=verb, short_help=help_line)(function)
        else:
            cli.command(name=verb, help=help_line)(lambda: None)
    return cli


def app(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an error is one line on standard error and exit status 2.

    Also one that nobody foresaw: 1 would say that order was broken. ``ANTECEDE_TRACE=1`` shows
    where it came from.
    """
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    called = next((word for word in words if not word.startswith("-")), None)
    try:
        code = command_line(called)(words, standalone_mode=False)
    except AntecedeError as error:
        typer.echo(f"antecede: {error}", err=True)
        sys.exit(2)
    except USAGE_ERROR as error:
        see = f"antecede {called} --help" if called in VERBS else "antecede --help"
        text = " ".join(error.format_message().split()).rstrip(".")
        typer.echo(f"antecede: {text}; see: {see}", err=True)
        sys.exit(2)
    except (typer.Abort, KeyboardInterrupt):
        typer.echo("antecede: stopped", err=True)
        sys.exit(130)
    except Exception as error:
        if os.environ.get("ANTECEDE_TRACE"):
            raise
        typer.echo(f"antecede: {_unforeseen(error, called)}", err=True)
        sys.exit(2)
    sys.exit(code or 0)


def _unforeseen(error: Exception, called: str | None) -> str:
    extra = VERBS.get(called or "", ("", ""))[0]
    if isinstance(error, ModuleNotFoundError) and extra:
        missing = error.name or ""
        if not missing.startswith("antecede"):
            return f"{called} needs {missing}, which is not installed; run: pip install 'antecede[{extra}]'"
    first = (str(error).strip().splitlines() or [""])[0][:200]
    return (
        f"this should not have happened: {type(error).__name__}: {first}; "
        "call again with ANTECEDE_TRACE=1 to see where, and tell us"
    )
