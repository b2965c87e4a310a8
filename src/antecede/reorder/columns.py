"""The columns that a bucket needs: what the user's must be like, and how they become numbers.

Names become hashes; a row that is no message gets the reason why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.arrays import Column, Flags
from antecede.errors import UsageError
from antecede.events.hashing import SPARK_SEED, hash_each, hash_words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


PREFIX = "__antecede_"
DEST, KEY, CHANNEL, SEQ, CAUSES, TIME, REASON, BUCKET = (
    PREFIX + name
    for name in ("dest", "key", "channel", "seq", "causes", "time", "reason", "bucket")
)
#: What the names of columns begin with that hold a user's column as another type.
CAST = PREFIX + "cast_"


@dataclass(frozen=True)
class Names:
    """Which of the user's columns hold what a row declares."""

    id: str
    dest: str
    source: str
    seq: str
    causes: str


@dataclass(frozen=True)
class Declared:
    """Adds the numbers of rows with declared causes.

    ``cast`` are the columns that hold the same as those of ``names`` as strings, whole numbers and
    lists of strings. Those that only Spark added for this are dropped.
    """

    names: Names
    cast: Names
    buckets: int

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return the rows with what the machine needs to know of each."""
        cast = self.cast
        name, dest, source, seq, causes = (
            table.column(column).combine_chunks()
            for column in (cast.id, cast.dest, cast.source, cast.seq, cast.causes)
        )
        place = hash_words(dest, np.full(len(table), SPARK_SEED))
        key, lists = hash_words(name, place), hash_each(causes, place)
        reason = self._reasons(key, lists, (name, dest, source, seq, causes))
        table = table.drop_columns([n for n in table.column_names if n.startswith(CAST)])
        added = {
            DEST: pa.array(place),
            KEY: pa.array(key),
            CHANNEL: pa.array(hash_words(source, place)),
            SEQ: seq.fill_null(0),
            REASON: reason,
            CAUSES: lists,
            BUCKET: pa.array((place % self.buckets).astype(np.int32)),
        }
        for column, values in added.items():
            table = table.append_column(column, values)
        return table

    def _reasons(self, key: Column, lists: Column, columns: tuple[Column, ...]) -> pa.Array:
        """Return why a row is not a message, or null; the first reason of several."""
        name, dest, source, seq, causes = columns
        names = self.names
        words = causes.flatten()
        lengths = np.diff(np.asarray(lists.offsets))
        row = np.repeat(np.arange(len(key)), lengths)

        def among(flags: Flags) -> Flags:
            found = np.zeros(len(key), np.bool_)
            found[row[flags]] = True
            return found

        wrong = (
            (_empty(name), f"{names.id} is missing"),
            (_empty(dest), f"{names.dest} is missing"),
            (_empty(source), f"{names.source} is missing"),
            (_null(seq), f"{names.seq} is missing or not a whole number"),
            (among(_empty(words)), f"{names.causes} has an empty id"),
            (among(np.asarray(lists.values) == key[row]), "the message is its own cause"),
        )
        if not any(flags.any() for flags, _ in wrong):
            return pa.nulls(len(key), pa.string())
        found = np.full(len(key), None, object)
        for flags, reason in reversed(wrong):
            found[flags] = reason
        return pa.array(found, pa.string())


def _null(column: Column) -> Flags:
    found: Flags = (
        np.asarray(column.is_null()) if column.null_count else np.zeros(len(column), bool)
    )
    return found


def _empty(column: Column) -> Flags:
    if not len(column):
        return np.zeros(0, np.bool_)
    found: Flags = np.asarray(pc.binary_length(column).fill_null(0)) == 0
    return found


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
