"""What an event is, in Spark SQL: columns of any type become plain, and a condition tells events.

Both follow ``events.tables.EVENT_SCHEMA``, as ``events.arrow_columns`` does for Arrow tables.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from antecede.events.arrow_columns import require_types
from antecede.events.rule import require_columns
from antecede.events.tables import EVENT_KINDS, EVENT_SCHEMA, KIND, NAME, NAMES, SECONDS, WHOLE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_SQL_TYPES = {
    NAME: "string",
    WHOLE: "long",
    KIND: "string",
    NAMES: "array<string>",
    SECONDS: "double",
}


def validity(frame: DataFrame) -> Column:
    """Return the condition that tells which rows of a plain frame are events."""
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
            # A null among the names makes array_contains null, and so the row invalid.
            sound = ~F.array_contains(value, "") & F.is_valid_utf8(F.array_join(value, ","))
        else:
            sound = value.isNotNull()
        if not column.needed_by:
            sound = value.isNull() | sound
        elif spared := set(EVENT_KINDS) - set(column.needed_by):
            sound = kind.isin(*spared) | sound
        tests.append(sound)
    return F.coalesce(reduce(and_, tests), F.lit(col=False))


def plain_frame(frame: DataFrame) -> DataFrame:
    """Return a frame with its event columns in their plain form; itself if they are plain."""
    changed = {name: plain for name, plain in plain_columns(frame).items() if plain is not None}
    return frame.withColumns(changed) if changed else frame


def plain_columns(frame: DataFrame) -> dict[str, Column | None]:
    """Return how each event column of a frame becomes plain; None if it is."""
    from pyspark.sql import functions as F
    from pyspark.sql.pandas.types import to_arrow_schema

    require_columns(frame.columns)
    require_types(to_arrow_schema(frame.schema))
    return {
        column.name: _plain(F.col(column.name), frame.schema[column.name].dataType, column.holds)
        for column in EVENT_SCHEMA
        if column.name in frame.columns
    }


def _plain(column: Column, kind: DataType, holds: str) -> Column | None:
    """Return a column of a type as what it holds; None if it is that already."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(kind, T.NullType):
        return column.cast(_SQL_TYPES[holds])
    if isinstance(kind, T.DecimalType) and holds in {WHOLE, SECONDS}:
        return column.try_cast(_SQL_TYPES[holds])
    if isinstance(kind, T.ArrayType):
        inner = kind.elementType
        if isinstance(inner, T.StringType):
            return None
        return F.transform(column, lambda name: _string(name, inner))
    if holds in {NAME, KIND} and not isinstance(kind, T.StringType):
        return _string(column, kind)
    return None


def _string(column: Column, kind: DataType) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    text = column.cast("string")
    return F.when(F.is_valid_utf8(text), text) if isinstance(kind, T.BinaryType) else text
