"""Commands for a query that runs: files beside its checkpoint, which it reads as a stream.

So a command is part of a batch like any row, and a batch that is repeated obeys it again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from antecede.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The folder of commands in that of a checkpoint.
FOLDER = "commands"
SCHEMA = "action string, id string, dest string"
#: Lines of a file of offsets before the first source: its version, and the settings.
_BEFORE_SOURCES = 2


def read_commands(spark: SparkSession, checkpoint: Path) -> DataFrame | None:
    """Return the commands for a query; None if its checkpoint was begun without any."""
    if _sources_in(checkpoint) == 1:
        return None
    folder = checkpoint.resolve() / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    return spark.readStream.schema(SCHEMA).json(str(folder))


def leave_commands(checkpoint: Path, commands: Iterable[tuple[str, str]], dest: str | None) -> None:
    """Leave commands, each an action and an id, where the query of a checkpoint reads them."""
    folder = checkpoint / FOLDER
    if not folder.is_dir():
        msg = (
            f"the query of {checkpoint} reads no commands: it was begun without, or has packets; "
            "for rows with declared causes, begin a new checkpoint"
        )
        raise UsageError(msg)
    name = f"{time.time_ns()}-{os.getpid()}.json"
    # Rows without destinations have an empty one.
    lines = [{"action": action, "id": key, "dest": dest or ""} for action, key in commands]
    aside = folder / f".{name}"
    aside.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    aside.rename(folder / name)


def _sources_in(checkpoint: Path) -> int | None:
    """Return how many sources the query of a checkpoint reads; None if it has not begun."""
    batches = [path for path in (checkpoint / "offsets").glob("[0-9]*") if path.name.isdigit()]
    if not batches:
        return None
    last = max(batches, key=lambda path: int(path.name))
    # Spark refuses a file that is damaged.
    return len(last.read_text(encoding="utf-8", errors="replace").splitlines()) - _BEFORE_SOURCES
