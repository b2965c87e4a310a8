"""The columns that a bucket needs, and what the user's columns must be like for that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from antecede.errors import UsageError
from antecede.pipeline.streams.layout import (
    BUCKET,
    CAST,
    CAUSES,
    CHANNEL,
    DEST,
    KEY,
    PREFIX,
    REASON,
    SEQ,
)
from antecede.pipeline.streams.numbering import Declared, Names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

#: What adds the numbers of rows to a table.
Number: TypeAlias = Callable[[pa.Table], pa.Table]
#: The columns that reorder adds.
ADDED = ("position", "held_seconds", "released", "late", "rejected")


def require_columns(frame: DataFrame, wanted: tuple[str, ...]) -> None:
    """Refuse a frame that lacks a column, or has one that reorder adds."""
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        msg = (
            f"reorder needs a column {missing[0]!r}; the rows have "
            f"{', '.join(map(repr, frame.columns)) or 'no columns'}; name the columns with id=, "
            "dest=, source=, seq= and causes=, or packet="
        )
        raise UsageError(msg)
    taken = [n for n in frame.columns if n in ADDED or n.startswith(PREFIX)]
    if taken:
        msg = f"reorder adds a column {taken[0]!r}, which the rows already have; rename theirs"
        raise UsageError(msg)


def declared(frame: DataFrame, names: Names, buckets: int) -> tuple[DataFrame, Declared]:
    """Return the rows with their names as strings, and what adds their numbers in Python.

    A value that does not fit becomes null, so that its row is rejected and does not end the query.
    Nothing here may differ between batches, such as the time: Spark would write and compile new
    code for each.
    """
    from pyspark.sql import functions as F

    _require_types(frame, names)
    types = dict(frame.dtypes)
    wanted = {"id": "string", "dest": "string", "source": "string", "seq": "bigint"}
    wanted["causes"] = "array<string>"
    own, cast, added = asdict(names), asdict(names), []
    for field, kind in wanted.items():
        if types[own[field]] != kind:
            cast[field] = CAST + field
            added.append(F.col(own[field]).try_cast(kind).alias(cast[field]))
    columns = [F.col(f"`{column}`") for column in frame.columns]
    numbered = frame.select(*columns, *added) if added else frame
    return numbered, Declared(names, Names(**cast), buckets)


def with_numbers(frame: DataFrame, number: Number, *, keeps_rejected: bool) -> DataFrame:
    """Add the numbers of rows, which a table of all rows of a bucket needs."""
    from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructType

    schema = StructType([field for field in frame.schema if not field.name.startswith(CAST)])
    for name in (DEST, KEY, CHANNEL, SEQ):
        schema = schema.add(name, LongType())
    schema = schema.add(REASON, StringType()).add(CAUSES, ArrayType(LongType()))
    schema = schema.add(BUCKET, IntegerType())

    def add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from numbered(batch, number, keeps_rejected=keeps_rejected).to_batches()

    return frame.mapInArrow(add, schema)


def numbered(batch: pa.RecordBatch, number: Number, *, keeps_rejected: bool) -> pa.Table:
    """Return the rows with their numbers; those that are not messages only if asked."""
    table = number(pa.Table.from_batches([batch]))
    reasons = table.column(REASON)
    if keeps_rejected or reasons.null_count == len(table):
        return table
    return table.filter(reasons.is_null())


def _require_types(frame: DataFrame, names: Names) -> None:
    """Refuse columns that cannot hold what they should, before the query starts."""
    types = dict(frame.dtypes)
    found = types[names.causes]
    if not found.startswith("array<") or found.startswith(("array<struct", "array<array")):
        msg = f"column {names.causes!r} has type {found}; reorder needs an array of ids"
        raise UsageError(msg)
    for column in (names.id, names.dest, names.source, names.seq):
        if types[column].startswith(("array", "struct", "map")):
            msg = f"column {column!r} has type {types[column]}; reorder needs a plain value"
            raise UsageError(msg)


def result_schema(frame: DataFrame, *, keeps_rejected: bool) -> StructType:
    """Return the rows' own columns and those that reorder adds."""
    from pyspark.sql.types import BooleanType, DoubleType, LongType, StringType, StructType

    added = StructType()
    for field in frame.schema.fields:
        if not field.name.startswith(PREFIX):
            added = added.add(field)
    added = added.add("position", LongType()).add("held_seconds", DoubleType())
    added = added.add("released", BooleanType()).add("late", BooleanType())
    return added.add("rejected", StringType()) if keeps_rejected else added
