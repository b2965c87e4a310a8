"""The columns that a bucket needs, computed by Spark from the columns of the user's rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from antecede.errors import UsageError
from antecede.pipeline.streams.layout import (
    BUCKET,
    CAUSES,
    CHANNEL,
    DEST,
    KEY,
    PREFIX,
    REASON,
    SEQ,
    WORDS,
)
from antecede.pipeline.streams.packets import Plan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

#: The columns that reorder adds.
ADDED = ("position", "held_seconds", "released", "late", "rejected")


@dataclass(frozen=True)
class Names:
    """Which of the user's columns hold what a row declares."""

    id: str
    dest: str
    source: str
    seq: str
    causes: str


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


def with_numbers(frame: DataFrame, names: Names, buckets: int) -> tuple[DataFrame, str]:
    """Add what the machine needs: hashes, sequence number and reason to reject.

    Return also the column that has the causes as strings; their hashes are computed in Python
    (see ``hashing``). Nothing here may differ between batches, such as the time: Spark would write
    and compile new code for each.
    """
    from pyspark.sql import functions as F

    _require_types(frame, names)
    dest, source = F.col(names.dest).cast("string"), F.col(names.source).cast("string")
    name, seq = F.col(names.id).cast("string"), F.col(names.seq).cast("long")
    causes = F.coalesce(F.col(names.causes).cast("array<string>"), F.array().cast("array<string>"))
    is_plain = dict(frame.dtypes)[names.causes] == "array<string>"
    place = F.coalesce(dest, F.lit(""))
    numbered = frame.select(
        *(F.col(f"`{column}`") for column in frame.columns),
        *([] if is_plain else [causes.alias(WORDS)]),
        F.xxhash64(dest).alias(DEST),
        F.xxhash64(dest, name).alias(KEY),
        F.xxhash64(dest, source).alias(CHANNEL),
        F.coalesce(seq, F.lit(0)).alias(SEQ),
        _reason(dest, name, source, seq, causes, names).alias(REASON),
        F.pmod(F.xxhash64(place), F.lit(buckets)).cast("int").alias(BUCKET),
    )
    return numbered, names.causes if is_plain else WORDS


def with_packet_numbers(frame: DataFrame, plan: Plan, buckets: int) -> DataFrame:
    """Add the same, from what each row's packet says."""
    from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructType

    schema = StructType(list(frame.schema.fields))
    for name in (DEST, KEY, CHANNEL, SEQ):
        schema = schema.add(name, LongType())
    schema = schema.add(REASON, StringType()).add(CAUSES, ArrayType(LongType()))
    schema = schema.add(BUCKET, IntegerType())

    def number(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from antecede.pipeline.streams.packets import numbered

        yield from numbered(batches, plan, buckets)

    return frame.mapInArrow(number, schema)


def _reason(
    dest: Column, name: Column, source: Column, seq: Column, causes: Column, names: Names
) -> Column:
    """Return why a row is not a message, or null."""
    from pyspark.sql import functions as F

    def empty(column: Column) -> Column:
        return column.isNull() | (column == "")

    # Null if one of the causes is null.
    has_empty = F.array_contains(causes, "")
    return (
        F.when(empty(name), F.lit(f"{names.id} is missing"))
        .when(empty(dest), F.lit(f"{names.dest} is missing"))
        .when(empty(source), F.lit(f"{names.source} is missing"))
        .when(seq.isNull(), F.lit(f"{names.seq} is missing or not a whole number"))
        .when(
            has_empty.isNull() | has_empty,
            F.lit(f"{names.causes} has an empty id"),
        )
        .when(F.array_contains(causes, name), F.lit("the message is its own cause"))
        .otherwise(F.lit(None).cast("string"))
    )


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
