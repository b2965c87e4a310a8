"""Options that several verbs share, so that each is worded once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antecede.cli.shown import say
from antecede.errors import UsageError
from antecede.events.formats import FORMATS

if TYPE_CHECKING:
    from typer.models import OptionInfo

    from antecede.events.log import Source


def path_of(text: str) -> Path:
    """Return an option's path; refuse an empty one, such as from an unset variable."""
    if not text:
        msg = "the path is empty; name a file or folder, or give . for this folder"
        raise UsageError(msg)
    return Path(text)


path_of.__name__ = "path"  # shown in the help of a verb

#: The help's panel for options that few users need.
READING, SPARK = "How to read the log", "Spark"
_LOG = typer.Argument(
    parser=path_of,
    metavar="LOG...",
    show_default=False,
    help="Files (also .gz, .zst, .bz2), folders, or - for standard input; together one log.",
)
Logs = Annotated[list[Path], _LOG]
LogsOrNone = Annotated[list[Path] | None, _LOG]


def _reading(help_text: str, *names: str, metavar: str = "REGEX") -> OptionInfo:
    """Return an option for reading a log."""
    found: OptionInfo = typer.Option(
        *names, metavar=metavar, rich_help_panel=READING, help=help_text
    )
    return found


Form = Annotated[
    str | None,
    _reading(f"{', '.join(FORMATS)}. Default: by content.", "--format", metavar="NAME"),
]
Pattern = Annotated[
    str | None,
    _reading(
        "An event: for text with groups process, kind, message, dests, seq, time; for shiviz host, "
        "clock, event."
    ),
]
SendPattern = Annotated[
    str | None, _reading("A send, with a group message (text, shiviz, records).", "--send")
]
DeliverPattern = Annotated[str | None, _reading("The same for a delivery.", "--deliver")]
Delimiter = Annotated[
    str | None,
    _reading("What separates executions (text, shiviz); a group trace names the next."),
]
Execution = Annotated[str | None, _reading("The execution to read, of several.", metavar="NAME")]
Alias = Annotated[
    list[str] | None,
    _reading("Another name of a process. May be repeated.", metavar="NAME=PROCESS"),
]
Field = Annotated[
    list[str] | None,
    _reading(
        "Where records (JSON, CSV, Parquet) have process, seq, kind, message, dests, time, to, "
        "from, event; such as message=labels.order_id. May be repeated.",
        metavar="PART=PATH",
    ),
]
Strict = Annotated[
    bool,
    typer.Option(
        "--strict", rich_help_panel=READING, help="Refuse a log with rows that are no events."
    ),
]
Local = Annotated[bool, typer.Option("--local", help="Work in this process, without Spark.")]
Master = Annotated[
    str | None,
    typer.Option(metavar="URL", rich_help_panel=SPARK, help="Spark master. Default: local[*]."),
]
Wait = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        rich_help_panel=SPARK,
        show_default=False,
        help="How long to wait for a Spark master. Default: 180.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        parser=path_of,
        metavar="PATH",
        help="Folder for the results. Default: antecede-out/VERB-TIME.",
    ),
]
Seed = Annotated[int, typer.Option(help="Random seed: the same seed gives the same results.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]


def is_given(ctx: typer.Context, name: str) -> bool:
    """Tell whether a parameter was given on the command line."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def require_no_spark(ctx: typer.Context, *, local: bool) -> None:
    """Refuse options of Spark together with --local: they would have no effect."""
    if not local:
        return
    given = [name for name in ("master", "wait", "memory", "windows") if is_given(ctx, name)]
    if given:
        msg = f"--local works without Spark; leave --local or --{given[0]} out"
        raise UsageError(msg)


def sources_of(
    logs: list[Path],
    form: str | None,
    patterns: tuple[str | None, str | None, str | None, str | None],
    alias: list[str] | None,
    field: list[str] | None = None,
    *,
    strict: bool = False,
) -> list[Source]:
    """Return the files to read; ``patterns`` are for events, sends, deliveries and delimiters."""
    from antecede.events.fields import fields_of
    from antecede.events.log import Source
    from antecede.events.sources import aliases_of, require_file, sources_in

    pattern, send, deliver, delimiter = patterns
    like = Source(Path(), form, pattern, send, deliver, strict, delimiter, aliases_of(alias or []))
    like = replace(like, fields=fields_of(field or []))
    sources = sources_in(logs, like)
    for source in sources:
        require_file(source)
    return sources


def log_options(sources: list[Source]) -> dict[str, Any]:
    """Return the options for reading a log, in the form of a run's summary."""
    from antecede.events.sources import form_of

    first = sources[0]
    names = [str(source.path) for source in sources]
    return {
        "log": names[0] if len(names) == 1 else names,
        "format": ", ".join(dict.fromkeys(form_of(source) for source in sources)),
        "pattern": first.pattern,
        "send": first.send,
        "deliver": first.deliver,
        "delimiter": first.delimiter,
        "alias": dict(first.aliases),
        "field": dict(first.fields),
        "strict": first.strict,
    }


def say_rejected(result: Mapping[str, Any]) -> None:
    """Say how many rows of a log were left out, if any, and quote the first."""
    from antecede.report.numbers import rejected_in_words

    if result["rejected"]:
        say(f"{rejected_in_words(result)}.")
