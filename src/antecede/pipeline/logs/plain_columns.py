"""One form for every table of events: names are strings, seq a long, destinations a list of strings.

Parquet has many ways to say the same (dictionaries, views, large and fixed-size lists, bytes, whole
numbers as names). A table or frame is made plain once, where it comes in, by the same rules here
and on Spark, so that nothing behind it has to know. A value that has no plain form becomes null,
which makes its row no event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from antecede.core.tables import EVENT_COLUMNS
from antecede.pipeline.audits.windows.columns import require_columns, require_types

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from antecede.pipeline.audits.windows.jit import Column

_SEQ_MAX = 2**63 - 1


def plain_table(table: pa.Table) -> pa.Table:
    """Return the event columns of a table in their plain form; refuse what cannot have one."""
    require_columns(table.column_names)
    require_types(table)
    columns = {n: table.column(n) for n in EVENT_COLUMNS if n in table.column_names}
    for name in ("process", "kind", "message"):
        columns[name] = _strings(columns[name])
    columns["seq"] = _longs(columns["seq"])
    if "time" in columns:
        columns["time"] = columns["time"].cast(pa.float64(), safe=False)
    if "dests" in columns:
        columns["dests"] = _lists(columns["dests"])
    return pa.table(columns)


def _strings(column: Column) -> Column:
    """Return names as strings; bytes that are not UTF-8 become null."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _strings(column.cast(kind.value_type))
    try:
        text = column.cast(pa.string())
        text.validate(full=True)  # A file may call strings what is not.
    except pa.ArrowException:  # Only bytes can fail: each name is tried by itself.
        chunks = column.cast(pa.binary()).chunks
        parts = [pa.array(map(_decoded, chunk.to_pylist()), pa.string()) for chunk in chunks]
        return pa.chunked_array(parts, pa.string())
    return text


def _decoded(name: bytes | None) -> str | None:
    try:
        return None if name is None else name.decode()
    except UnicodeDecodeError:
        return None


def _longs(column: Column) -> Column:
    if pa.types.is_uint64(column.type) or pa.types.is_decimal(column.type):
        fits = pc.and_(
            pc.less_equal(column, pa.scalar(_SEQ_MAX, column.type)),
            pc.greater_equal(column, pa.scalar(0, column.type)),
        )
        column = pc.if_else(fits, column, pa.scalar(None, column.type))
    return column.cast(pa.int64())


def _lists(column: Column) -> Column:
    """Return lists of names as lists of strings."""
    kind = column.type
    if pa.types.is_null(kind) or kind == pa.list_(pa.string()):
        return column.cast(pa.list_(pa.string()))
    parts = []
    for chunk in column.chunks:
        wide = chunk.cast(pa.large_list(kind.value_type))
        words = _strings(pa.chunked_array([wide.values])).combine_chunks()
        whole = pa.LargeListArray.from_arrays(wide.offsets, words, mask=wide.is_null())
        parts.append(whole.cast(pa.list_(pa.string())))
    return pa.chunked_array(parts, pa.list_(pa.string()))


def plain_frame(frame: DataFrame) -> DataFrame:
    """Return the event columns of a frame in their plain form; the frame itself if it has it."""
    changed = {name: col for name, col in plain_columns(frame).items() if col is not None}
    return frame.withColumns(changed) if changed else frame


def plain_columns(frame: DataFrame) -> dict[str, SparkColumn | None]:
    """Return how each event column of a frame becomes plain; None is as it stands."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T
    from pyspark.sql.pandas.types import to_arrow_schema

    require_columns(frame.columns)
    found: dict[str, SparkColumn | None] = {}
    for name in EVENT_COLUMNS:
        if name not in frame.columns:
            continue
        kind, column = frame.schema[name].dataType, F.col(name)
        found[name] = None
        if isinstance(kind, T.NullType):
            found[name] = column.cast(_NULLS.get(name, "string"))
        elif name == "seq" and isinstance(kind, T.DecimalType):
            found[name] = column.try_cast("long")
        elif name == "dests" and isinstance(kind, T.ArrayType):
            inner = kind.elementType
            if not isinstance(inner, T.StringType):
                found[name] = F.transform(column, _to_string(inner))
        elif name in {"process", "kind", "message"} and not isinstance(kind, T.StringType):
            found[name] = _spark_string(column, kind)
    require_types(pa.Table.from_batches([], to_arrow_schema(frame.schema)))
    return found


_NULLS = {"seq": "long", "time": "double", "dests": "array<string>"}


def _to_string(kind: object) -> Callable[[SparkColumn], SparkColumn]:
    return lambda dest: _spark_string(dest, kind)


def _spark_string(column: SparkColumn, kind: object) -> SparkColumn:
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    text = column.cast("string")
    return F.when(F.is_valid_utf8(text), text) if isinstance(kind, T.BinaryType) else text
