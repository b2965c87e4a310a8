"""Logs as Spark frames: what an event is, in Spark SQL, and which files Spark reads itself.

Columns of any type become plain, and a condition selects the valid rows; both follow
``events.tables.EVENT_SCHEMA``, as ``events.arrow_columns`` does for Arrow tables. Tasks read
Parquet files; the driver reads any other format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from inspect import signature
from operator import and_
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from antecede.errors import LogError, UsageError
from antecede.events import log as logs
from antecede.events.arrow_columns import require_types
from antecede.events.fields import require_parts
from antecede.events.formats import format_named
from antecede.events.kinds import KIND_OF
from antecede.events.log import Source
from antecede.events.rule import require_columns
from antecede.events.sources import form_of, named, require_file, require_options
from antecede.events.tables import (
    CLOCK,
    DESTS_SEPARATOR,
    EVENT_COLUMNS,
    EVENT_KINDS,
    EVENT_SCHEMA,
    KIND,
    NAME,
    NAMES,
    SECONDS,
    WHOLE,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType


_SQL_TYPES = {
    NAME: "string",
    WHOLE: "long",
    KIND: "string",
    NAMES: "array<string>",
    SECONDS: "double",
}


def validity(frame: DataFrame) -> Column:
    """Return the condition that a row of a plain frame is an event."""
    from pyspark.sql import functions as F

    kind = F.col("kind")
    tests = [kind.isin(*EVENT_KINDS)]
    for column in EVENT_SCHEMA:
        if column.name not in frame.columns or column.holds in {KIND, SECONDS}:
            continue
        value = F.col(column.name)
        if column.holds == NAME:
            sound = (value != "") & F.is_valid_utf8(value)
        elif column.holds == NAMES:
            # A null among the names makes array_contains null, and so the row is invalid.
            sound = ~F.array_contains(value, "") & F.is_valid_utf8(F.array_join(value, ","))
        else:
            sound = value.isNotNull()
        if not column.needed_by:
            sound = value.isNull() | sound
        elif spared := set(EVENT_KINDS) - set(column.needed_by):
            sound = kind.isin(*spared) | sound
        tests.append(sound)
    return F.coalesce(reduce(and_, tests), F.lit(col=False))


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a table as a frame. Spark Connect cannot infer the columns of an empty one."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return spark.createDataFrame(table, from_arrow_schema(table.schema))


def plan_of(frame: DataFrame) -> str | None:
    """Return the analysed plan of a frame as text, or None.

    Why private (``DataFrame._jdf``): PySpark prints plans, but returns none. Without it, as under
    Spark Connect, an audit shuffles Parquet files whose row groups it could read one by one.
    """
    try:
        return str(frame._jdf.queryExecution().analyzed().toString()).strip()
    except AttributeError:  # Spark Connect has no such attribute.
        return None


def plain_frame(frame: DataFrame) -> DataFrame:
    """Return a frame with its event columns in plain form; the frame itself if they are plain."""
    changed = {name: plain for name, plain in plain_columns(frame).items() if plain is not None}
    return frame.withColumns(changed) if changed else frame


def renamed_frame(frame: DataFrame, fields: Mapping[str, str]) -> DataFrame:
    """Return a frame whose columns are the parts of an event, which ``fields`` names."""
    from pyspark.sql import functions as F

    require_parts(fields)
    for part, path in fields.items():
        if path.partition(".")[0] not in frame.columns and path not in frame.columns:
            has = ", ".join(frame.columns)[:200]
            msg = f"the log has no column {path!r} for {part}; it has {has}"
            raise LogError(msg)
    named = {p: F.col(f"`{path}`" if path in frame.columns else path) for p, path in fields.items()}
    if "kind" in named:
        known = F.create_map(*(F.lit(word) for pair in KIND_OF.items() for word in pair))
        named["kind"] = F.coalesce(known[F.lower(F.trim(named["kind"]))], named["kind"])
    return frame.withColumns(named) if named else frame


def plain_columns(frame: DataFrame) -> dict[str, Column | None]:
    """Return the expression that makes each event column plain, or None if it is plain."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T
    from pyspark.sql.pandas.types import to_arrow_schema

    require_columns(frame.columns)
    parts = T.StructType([f for f in frame.schema.fields if f.name in {*EVENT_COLUMNS, CLOCK}])
    # Newer versions of Spark require the time zone of times.
    takes_zone = "timezone" in signature(to_arrow_schema).parameters
    zone: dict[str, Any] = {"timezone": "UTC"} if takes_zone else {}
    require_types(to_arrow_schema(parts, **zone))
    return {
        column.name: _plain(F.col(column.name), frame.schema[column.name].dataType, column.holds)
        for column in EVENT_SCHEMA
        if column.name in frame.columns
    }


def _plain(column: Column, kind: DataType, holds: str) -> Column | None:
    """Return a column converted to the type that it holds; None if it has that type."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    found: Column | None = None
    if isinstance(kind, T.NullType):
        found = column.cast(_SQL_TYPES[holds])
    elif isinstance(kind, T.DecimalType) and holds in {WHOLE, SECONDS}:
        found = column.try_cast(_SQL_TYPES[holds])
    elif holds == WHOLE and isinstance(kind, T.FractionalType):
        found = F.when(column == F.floor(column), column.try_cast("long"))
    elif holds == SECONDS and not isinstance(kind, T.NumericType):
        found = column.try_cast("timestamp").cast("double")
        found = F.coalesce(column.try_cast("double"), found) if _is_text(kind) else found
    elif holds == NAMES and _is_text(kind):
        names = F.split(F.trim(_string(column, kind)), rf"\s*{DESTS_SEPARATOR}\s*")
        names = F.filter(names, lambda name: name != "")
        found = F.when(F.size(names) > 0, names)
    elif isinstance(kind, T.ArrayType):
        inner = kind.elementType
        if not isinstance(inner, T.StringType):
            found = F.transform(column, lambda name: _string(name, inner))
    elif holds in {NAME, KIND} and not isinstance(kind, T.StringType):
        found = _string(column, kind)
    return found


def _is_text(kind: DataType) -> bool:
    from pyspark.sql import types as T

    return isinstance(kind, T.StringType | T.BinaryType)


def _string(column: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    text = column.cast("string")
    return F.when(F.is_valid_utf8(text), text) if isinstance(kind, T.BinaryType) else text


#: Words in the errors of Spark, Java or Arrow about a file that they cannot read.
_UNREADABLE = ("parquet", "Parquet", "FAILED_READ_FILE", "CANNOT_READ", "UNABLE_TO_INFER_SCHEMA")


def native_form(sources: Sequence[Source]) -> str | None:
    """Return the format of the files if tasks can read them, else None."""
    for source in sources:
        require_file(source)
    forms = {form_of(source) for source in sources}
    plain = all(logs.is_plain_file(s) and not (s.strict or s.aliases or s.fields) for s in sources)
    if len(forms) > 1 or not plain or not format_named(min(forms)).is_spark_native:
        return None
    require_options(sources[0], list(forms))
    return min(forms)


def read_natively(spark: SparkSession, sources: Sequence[Source]) -> DataFrame | None:
    """Return a log as a frame that reads its files in tasks, or None if they cannot."""
    form = native_form(sources)
    if form is None:
        return None
    with readable(sources[0]):
        paths = [str(source.path.resolve()) for source in sources]
        return spark.read.format(form).load(paths)


@contextmanager
def readable(source: Source) -> Iterator[None]:
    """Reduce Spark's errors about an unreadable file to one line; let others pass."""
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
