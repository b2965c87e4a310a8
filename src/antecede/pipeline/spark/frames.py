"""Logs as Spark frames: Parquet stays in its files, any other format is read here first."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from antecede.errors import LogError, UsageError
from antecede.events import log as logs
from antecede.events.formats import format_named
from antecede.events.log import Log, Source
from antecede.events.sources import form_of, named, read, require_file, require_options
from antecede.pipeline.spark.events import plain_columns, validity

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Words in the errors of Spark, Java or Arrow about a file that is not what it should be.
_UNREADABLE = ("parquet", "Parquet", "FAILED_READ_FILE", "CANNOT_READ", "UNABLE_TO_INFER_SCHEMA")


def read_natively(spark: SparkSession, sources: Sequence[Source]) -> DataFrame | None:
    """Return a log whose files Spark reads itself as a frame, or None if it does not read them."""
    for source in sources:
        require_file(source)
    forms = {form_of(source) for source in sources}
    plain = all(logs.is_plain_file(s) and not s.strict and not s.aliases for s in sources)
    if len(forms) > 1 or not plain or not format_named(min(forms)).is_spark_native:
        return None
    require_options(sources[0], list(forms))
    with readable(sources[0]):
        paths = [str(source.path.resolve()) for source in sources]
        return spark.read.format(min(forms)).load(paths)


def read_frame(spark: SparkSession, source: Source) -> tuple[DataFrame, Log | None]:
    """Return a log as a Spark frame; without a Log if Spark reads the files itself, later."""
    frame = read_natively(spark, [source])
    if frame is not None:
        return frame, None
    log = read(source)
    return spark.createDataFrame(log.events), log


@contextmanager
def readable(source: Source) -> Iterator[None]:
    """Turn Spark's errors about a file that it cannot read into one line; others pass."""
    try:
        yield
    except LogError as error:
        raise named(error, source) from None
    except UsageError:
        raise
    except Exception as error:
        text = str(error)
        if not any(word in text for word in _UNREADABLE):
            raise
        raise named(LogError(cause(text)), source) from None


def cause(text: str) -> str:
    """Return the first useful line of a Java error: the innermost cause, without class names."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    errors = [line for line in lines if re.match(r"(: )?[\w.$]+(Exception|Error)\b", line)]
    chosen = (causes[-1:] or errors[:1] or lines[:1] or ["no reason given"])[0]
    chosen = chosen.removeprefix("Caused by: ").removeprefix(": ")
    return re.sub(r"^([\w$]+\.)+(?=[\w$]+(Exception|Error))", "", chosen)[:200]


def rejected_rows(events: DataFrame, name: str, count: int) -> pa.Table:
    """Return the first invalid rows of a frame as a table; a frame's rows have no line numbers."""
    if not count:
        return logs.rejected_table(name, [])
    from pyspark.sql import functions as F

    marked = events.select(
        F.struct("*").alias("whole row"),
        *[F.col(n) if c is None else c.alias(n) for n, c in plain_columns(events).items()],
    )
    bad = marked.filter(~validity(marked)).limit(logs.QUOTED).select("whole row.*").toArrow()
    return logs.rejected_table(name, logs.rejected_rows(bad, [None] * len(bad)))
