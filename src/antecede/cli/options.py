"""Options that several verbs share, so that each is worded once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from antecede.pipeline.logs.formats import FORMATS

LogPath = Annotated[Path, typer.Argument(help="The log: a file, or a folder of Parquet files.")]
Form = Annotated[
    str | None,
    typer.Option(
        "--format", help=f"Format of the log: {', '.join(FORMATS)}. Default: by the file name."
    ),
]
Pattern = Annotated[
    str | None,
    typer.Option(help="For shiviz: a regular expression with groups host, clock and event."),
]
SendPattern = Annotated[
    str | None,
    typer.Option(
        "--send", help="For shiviz: a regular expression for sends, with a group message."
    ),
]
DeliverPattern = Annotated[
    str | None, typer.Option("--deliver", help="For shiviz: the same, for deliveries.")
]
Strict = Annotated[
    bool, typer.Option(help="Refuse a log that has rows which are not valid events.")
]
Local = Annotated[bool, typer.Option("--local", help="Work in this process, without Spark.")]
Master = Annotated[str | None, typer.Option(help="Spark master. Default: local[*].")]
Wait = Annotated[
    float, typer.Option(help="Seconds to wait for a Spark master to answer and to run a task.")
]
Out = Annotated[
    Path | None, typer.Option(help="Folder for the results. Default: antecede-out/VERB-TIME.")
]
Seed = Annotated[int, typer.Option(help="Random seed: the same seed gives the same results.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")]
