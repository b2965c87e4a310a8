"""The columns that a bucket needs: checks of the user's columns, and their values as numbers.

Names become hashes; a row that is not a message gets a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.arrays import Column, Flags, Ints
from antecede.errors import UsageError
from antecede.events.hashing import SPARK_SEED, hash_each, hash_words

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


PREFIX = "__antecede_"
DEST, KEY, CHANNEL, SEQ, CAUSES, TIME, REASON, BUCKET, ACTION = (
    PREFIX + name
    for name in ("dest", "key", "channel", "seq", "causes", "time", "reason", "bucket", "action")
)
#: What a person may do with a held message.
RELEASE, DROP = "release", "drop"
#: The prefix of columns that hold a user's column converted to another type.
CAST = PREFIX + "cast_"


@dataclass(frozen=True)
class Names:
    """Which of the user's columns hold which part of a message.

    Without ``dest`` all rows have one destination; without ``source`` and ``seq``, only ids
    identify duplicates.
    """

    id: str
    causes: str
    dest: str | None
    source: str | None
    seq: str | None

    @property
    def numbered(self) -> bool:
        """Whether rows have a number at their source."""
        return self.seq is not None

    def given(self) -> dict[str, str]:
        """Return the names of the columns that are used, by what they hold."""
        return {field: name for field, name in asdict(self).items() if name is not None}


@dataclass(frozen=True)
class Declared:
    """Adds numbers to rows with declared causes.

    ``cast`` are the columns with the contents of those of ``names`` as strings, whole numbers and
    lists of strings. Those that were added only for this are dropped.
    """

    names: Names
    cast: Names
    buckets: int

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return the rows with the numbers that the machine needs."""
        rows = len(table)
        columns = {
            field: table.column(name).combine_chunks() for field, name in self.cast.given().items()
        }
        place = _places(columns.get("dest"), rows)
        key, lists = hash_words(columns["id"], place), hash_each(columns["causes"], place)
        channel, seq = np.zeros(rows, np.int64), pa.array(np.zeros(rows, np.int64))
        if self.names.numbered:
            channel, seq = hash_words(columns["source"], place), columns["seq"].fill_null(0)
        reason = self._reasons(key, lists, columns)
        table = table.drop_columns([n for n in table.column_names if n.startswith(CAST)])
        added = {
            DEST: pa.array(place),
            KEY: pa.array(key),
            CHANNEL: pa.array(channel),
            SEQ: seq,
            REASON: reason,
            CAUSES: lists,
            BUCKET: pa.array((place % self.buckets).astype(np.int32)),
        }
        return with_columns(table, added)

    def _reasons(self, key: Ints, lists: Column, columns: dict[str, Column]) -> pa.Array:
        """Return why each row is not a message, or null; of several reasons the first."""
        names = self.names
        words = columns["causes"].flatten()
        lengths = np.diff(np.asarray(lists.offsets))
        row = np.repeat(np.arange(len(key)), lengths)

        def among(flags: Flags) -> Flags:
            found = np.zeros(len(key), np.bool_)
            found[row[flags]] = True
            return found

        wrong = [
            (_empty(columns[field]), f"{name} is missing")
            for field, name in names.given().items()
            if field in ("id", "dest", "source")
        ]
        if names.numbered:
            wrong.append((_null(columns["seq"]), f"{names.seq} is missing or not a whole number"))
        wrong += [
            (among(_empty(words)), f"{names.causes} has an empty id"),
            (among(np.asarray(lists.values) == key[row]), "the message is its own cause"),
        ]
        if not any(flags.any() for flags, _ in wrong):
            return pa.nulls(len(key), pa.string())
        found = np.full(len(key), None, object)
        for flags, reason in reversed(wrong):
            found[flags] = reason
        return pa.array(found, pa.string())


@dataclass(frozen=True)
class Commanded:
    """Adds numbers to commands, which name messages as rows do."""

    has_dest: bool
    buckets: int

    def __call__(self, table: pa.Table) -> pa.Table:
        """Return the bucket, action and message key of each command; drop the unreadable ones."""
        table = table.filter(pc.is_in(table.column("action"), pa.array([RELEASE, DROP])))
        table = table.drop_null()
        dest = table.column("dest").combine_chunks() if self.has_dest else None
        place = _places(dest, len(table))
        return pa.table(
            {
                ACTION: table.column("action"),
                KEY: hash_words(table.column("id").combine_chunks(), place),
                BUCKET: (place % self.buckets).astype(np.int32),
            }
        )


def with_columns(table: pa.Table, added: Mapping[str, Column]) -> pa.Table:
    """Return a table with more columns."""
    for name, values in added.items():
        table = table.append_column(name, values)
    return table


def _places(dest: Column | None, rows: int) -> Ints:
    """Return the destinations as numbers; without a column, all rows have the same one."""
    one = np.full(rows, SPARK_SEED)
    return one if dest is None else hash_words(dest, one)


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


#: A function that adds numbers to the rows of a table.
Number: TypeAlias = Callable[[pa.Table], pa.Table]
#: The columns that reorder adds.
ADDED = ("position", "held_seconds", "released", "late", "rejected")


def require_columns(frame: DataFrame, wanted: tuple[str, ...]) -> None:
    """Refuse a frame that lacks a column, or already has one that reorder adds."""
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        raise UsageError(
            f"reorder needs a column {missing[0]!r}; the rows have "
            f"{', '.join(map(repr, frame.columns)) or 'no columns'}; name the columns with id=, "
            "causes=, dest=, source= and seq=, or packet="
        )
    taken = [n for n in frame.columns if n in ADDED or n.startswith(PREFIX)]
    if taken:
        raise UsageError(
            f"reorder adds a column {taken[0]!r}, which the rows already have; rename theirs"
        )


def find_names(
    frame: DataFrame, name: str, causes: str, dest: str | None, source: str | None, seq: str | None
) -> Names:
    """Return the columns to use; a default column counts only if the frame has it."""
    if source is not None or seq is not None or {"source", "seq"} <= set(frame.columns):
        source, seq = source or "source", seq or "seq"
    if dest is None and "dest" in frame.columns:
        dest = "dest"
    names = Names(name, causes, dest, source, seq)
    require_columns(frame, tuple(names.given().values()))
    return names


def declared(frame: DataFrame, names: Names, buckets: int) -> tuple[DataFrame, Declared]:
    """Return the rows with names as strings, and the function that adds their numbers in Python.

    A value of the wrong kind becomes null, so that its row is rejected and the query goes on.
    Nothing here may differ between batches, such as the time: Spark would generate and compile new
    code for each.
    """
    from pyspark.sql import functions as F

    _require_types(frame, names)
    types = dict(frame.dtypes)
    own = names.given()
    cast: dict[str, str] = {}
    added = []
    for field, name in own.items():
        kind = {"seq": "bigint", "causes": "array<string>"}.get(field, "string")
        value = F.col(f"`{name}`")
        if types[name] == kind:
            continue
        if field == "causes" and not types[name].startswith("array<"):
            # A single cause. The first message of a chain often names none, or itself.
            value, own_id = value.try_cast("string"), F.col(f"`{names.id}`").try_cast("string")
            is_none = value.isNull() | (value == "") | value.eqNullSafe(own_id)
            value = F.when(is_none, F.array().cast(kind)).otherwise(F.array(value))
        else:
            value = value.try_cast(kind)
        cast[field] = CAST + field
        added.append(value.alias(CAST + field))
    columns = [F.col(f"`{column}`") for column in frame.columns]
    numbered = frame.select(*columns, *added) if added else frame
    return numbered, Declared(names, replace(names, **cast), buckets)


def commanded(stream: DataFrame, commands: DataFrame, *, has_dest: bool) -> DataFrame:
    """Return commands with their columns as strings; refuse what cannot be commands."""
    from pyspark.sql import functions as F

    wanted = ("action", "id", "dest") if has_dest else ("action", "id")
    missing = [name for name in wanted if name not in commands.columns]
    if missing or commands.isStreaming != stream.isStreaming or not commands.isStreaming:
        what = f"have no column {missing[0]!r}" if missing else "or the rows are not a stream"
        raise UsageError(
            f"the commands {what}; give streams, that of commands with {', '.join(wanted)}"
        )
    return commands.select(*(F.col(name).try_cast("string").alias(name) for name in wanted))


def with_numbers(frame: DataFrame, number: Number, *, keeps_rejected: bool) -> DataFrame:
    """Add the columns of numbers that a bucket needs."""
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
    """Refuse columns of unsuitable types before the query starts."""
    types = dict(frame.dtypes)
    for field, column in names.given().items():
        found = types[column]
        wanted = "a plain value"
        if field == "causes":
            wanted = "an id or an array of ids"
            found = found.removeprefix("array<")
        if found.startswith(("array", "struct", "map")):
            raise UsageError(f"column {column!r} has type {types[column]}; reorder needs {wanted}")


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
