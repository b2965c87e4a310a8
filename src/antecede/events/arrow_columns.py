"""What an event is, in Arrow: columns of any type become plain, and a mask selects valid rows.

Parquet has many types for the same thing (dictionaries, views, large and fixed-size lists, bytes,
integers as names). ``plain_table`` converts them to one form where a table is read, so that later
code need not care. A value without a plain form becomes null. ``is_event`` then follows
``events.tables.EVENT_SCHEMA``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.arrays import Column, Flags, Ints
from antecede.errors import LogError, UsageError
from antecede.events.arrow_schemas import CLOCKS, EVENT_TYPES
from antecede.events.rule import dests_of, require_columns, seconds_of
from antecede.events.tables import (
    CLOCK,
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
    from collections.abc import Callable


#: Kinds of events as small integers.
KIND_CODES = {kind: code for code, kind in enumerate(EVENT_KINDS)}
_EXPECTED = {
    NAME: "strings",
    WHOLE: "integers",
    KIND: f"the strings {', '.join(EVENT_KINDS[:-1])} and {EVENT_KINDS[-1]}",
    NAMES: "lists of strings, or strings joined by ;",
    SECONDS: "numbers of seconds, or timestamps",
    CLOCK: "maps from processes to counts of their events",
}
_WIDE = pa.decimal256(76, 0)


def require_types(schema: pa.Schema) -> None:
    """Refuse columns whose types cannot hold an event's values, naming the first."""
    held = {column.name: column.holds for column in EVENT_SCHEMA} | {CLOCK: CLOCK}
    for name, holds in held.items():
        if name in schema.names:
            kind = schema.field(name).type
            can_hold = _can_count(kind) if holds == CLOCK else _can_hold(holds, kind)
            if not can_hold and not pa.types.is_null(kind):
                expected = _EXPECTED[holds]
                msg = f"the column {name} has the type {kind}; expected {expected}: convert it"
                raise LogError(msg)


def _can_count(kind: Column) -> bool:
    """Return whether values of a type can be clocks."""
    is_map = bool(pa.types.is_map(kind))
    return is_map and _can_hold(NAME, kind.key_type) and _can_hold(WHOLE, kind.item_type)


def _can_hold(holds: str, kind: Column) -> bool:
    """Return whether values of a type can be what a column holds."""
    if holds == NAMES:
        lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
        if not any(test(kind) for test in lists):
            return _is_text(kind) or (pa.types.is_dictionary(kind) and _is_text(kind.value_type))
        return _can_hold(NAME, kind.value_type) or bool(pa.types.is_null(kind.value_type))
    if pa.types.is_dictionary(kind):
        return holds in {NAME, KIND} and _can_hold(holds, kind.value_type)
    # Spark reads unsigned longs as decimals.
    is_whole: bool = pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0)
    if holds == WHOLE:  # pandas holds a column with gaps as floating point numbers.
        return is_whole or bool(pa.types.is_floating(kind))
    if holds == SECONDS:
        is_date: bool = pa.types.is_timestamp(kind) or pa.types.is_date(kind)
        return is_whole or is_date or bool(pa.types.is_floating(kind)) or _is_text(kind)
    return _is_text(kind) or (holds == NAME and is_whole)


def _is_text(kind: Column) -> bool:
    strings = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    binaries = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(test(kind) for test in (*strings, *binaries))


def plain_table(table: pa.Table) -> pa.Table:
    """Return the event columns of a table in plain form; refuse what has none."""
    require_columns(table.column_names)
    twice = [name for name in (*EVENT_COLUMNS, CLOCK) if table.column_names.count(name) > 1]
    if twice:
        count = table.column_names.count(twice[0])
        msg = f"the log has {count} columns of the name {twice[0]}; keep one"
        raise LogError(msg)
    require_types(table.schema)
    columns = {
        column.name: _PLAIN[column.holds](table.column(column.name))
        for column in EVENT_SCHEMA
        if column.name in table.column_names
    }
    if CLOCK in table.column_names and not pa.types.is_null(table.schema.field(CLOCK).type):
        columns[CLOCK] = _clocks(table.column(CLOCK))
    return pa.table(columns)


def _strings(column: Column) -> Column:
    """Return names as strings; bytes that are not UTF-8 become null."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _strings(column.cast(kind.value_type))
    try:
        text = column.cast(pa.string())
    except pa.ArrowException:  # Only bytes can fail: decode each name separately.
        text = None
    if text is not None and _is_utf8(text):
        return text
    chunks = column.cast(pa.binary()).chunks
    parts = [pa.array(map(_decoded, chunk.to_pylist()), pa.string()) for chunk in chunks]
    return pa.chunked_array(parts, pa.string())


def _is_utf8(column: Column) -> bool:
    """Return whether strings really are UTF-8; files may hold any bytes as strings."""
    try:
        column.validate(full=True)
    except pa.ArrowException:
        return False
    return True


def _decoded(name: bytes | None) -> str | None:
    try:
        return None if name is None else name.decode()
    except UnicodeDecodeError:
        return None


def _longs(column: Column) -> Column:
    """Return whole numbers as 64-bit integers; values that do not fit become null."""
    if pa.types.is_uint64(column.type) or pa.types.is_decimal(column.type):
        wide = column.cast(_WIDE)
        fits = pc.and_(
            pc.less_equal(wide, pa.scalar(2**63 - 1, _WIDE)),
            pc.greater_equal(wide, pa.scalar(-(2**63), _WIDE)),
        )
        column = pc.if_else(fits, wide, pa.scalar(None, _WIDE))
    elif pa.types.is_floating(column.type):
        near = pc.less(pc.abs(column), pa.scalar(2.0**63, column.type))
        fits = pc.and_(near, pc.equal(pc.floor(column), column))
        column = pc.if_else(fits, column, pa.scalar(None, column.type))
    return column.cast(pa.int64())


def _seconds(column: Column) -> Column:
    """Return times as numbers; times that are not finite, or not dates, become null."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        parts = pa.timestamp("us" if pa.types.is_date(kind) else kind.unit)
        per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[parts.unit]
        whole = column.cast(parts, safe=False).cast(pa.int64())
        return pc.divide(whole.cast(pa.float64(), safe=False), float(per_second))
    if _is_text(kind):
        texts = _strings(column).to_pylist()
        return pa.chunked_array([pa.array(map(_seconds_of_text, texts), pa.float64())])
    times = column.cast(pa.float64(), safe=False)
    if pc.all(pc.is_finite(times)).as_py() is not False:
        return times
    return pc.if_else(pc.is_finite(times), times, pa.scalar(None, pa.float64()))


def _seconds_of_text(text: str | None) -> float | None:
    found = None if text is None else seconds_of(text)
    return found if isinstance(found, float) and math.isfinite(found) else None


def seconds_in(column: Column) -> Column:
    """Return a column of times of any type in seconds; refuse what cannot be times."""
    if pa.types.is_null(column.type):
        return column.cast(pa.float64())
    require_types(pa.schema([("time", column.type)]))
    return _seconds(column)


def _lists(column: Column) -> Column:
    """Return lists of names, or names joined by separators, as lists of strings."""
    kind = column.type
    plain = EVENT_TYPES[NAMES]
    if pa.types.is_dictionary(kind) or _is_text(kind):
        names = [
            None if text is None else dests_of(text) or None
            for text in _strings(column).to_pylist()
        ]
        return pa.chunked_array([pa.array(names, plain)])
    if pa.types.is_null(kind) or (kind == plain and _is_utf8(column)):
        return column.cast(plain)
    parts = []
    for chunk in column.chunks:
        wide = chunk.cast(pa.large_list(kind.value_type))
        words = _strings(pa.chunked_array([wide.values])).combine_chunks()
        whole = pa.LargeListArray.from_arrays(wide.offsets, words, mask=wide.is_null())
        parts.append(whole.cast(plain))
    return pa.chunked_array(parts, plain)


def _clocks(column: Column) -> Column:
    """Return clocks as maps from strings to counts, without entries that have no plain form."""
    parts = []
    for chunk in column.chunks:
        if chunk.type == CLOCKS and not chunk.items.null_count and _is_utf8(chunk):
            parts.append(chunk)
            continue
        names = _strings(pa.chunked_array([chunk.keys])).to_pylist()
        counts = _longs(pa.chunked_array([chunk.items])).to_pylist()
        entries = list(zip(names, counts, strict=True))
        starts, is_null = chunk.offsets.to_pylist(), chunk.is_null().to_pylist()
        clocks = [
            None if null else [entry for entry in entries[start:end] if None not in entry]
            for start, end, null in zip(starts[:-1], starts[1:], is_null, strict=True)
        ]
        parts.append(pa.array(clocks, CLOCKS))
    return pa.chunked_array(parts, CLOCKS)


_PLAIN = {NAME: _strings, WHOLE: _longs, KIND: _strings, NAMES: _lists, SECONDS: _seconds}


def is_event(table: pa.Table, *, plain: bool = False) -> Flags:
    """Return which rows are events; names may be strings or dictionary-encoded strings.

    A ``plain`` table comes from :func:`plain_table`, which has checked its encoding.
    """
    kind = codes_of(table.column("kind"), KIND_CODES)
    good = kind >= 0
    if not plain:
        table = _decodable(table)
    for column in EVENT_SCHEMA:
        if column.name not in table.column_names or column.holds in {KIND, SECONDS}:
            continue
        values = table.column(column.name)
        if column.needed_by == EVENT_KINDS:
            good &= _filled(values, column.holds)
        elif column.needed_by:
            spared = np.array([name not in column.needed_by for name in EVENT_KINDS])
            good &= _filled(values, column.holds) | spared[kind]
        elif not pa.types.is_null(values.type):
            good &= _all_named(values)
    return np.asarray(good)


def _decodable(table: pa.Table) -> pa.Table:
    """Return a table in which names that are not UTF-8 are null; usually the same table."""
    for column in EVENT_SCHEMA:
        if column.holds in {NAME, NAMES} and column.name in table.column_names:
            values = table.column(column.name)
            if not _is_utf8(values):
                place = table.column_names.index(column.name)
                table = table.set_column(place, column.name, _PLAIN[column.holds](values))
    return table


def _filled(column: Column, holds: str) -> Flags:
    """Return which values are neither null nor an empty name."""
    if holds == NAME:
        names = strings_of(column)
        if pa.types.is_dictionary(names.type):
            return _by_word(names, _lengths, 0) > 0
        return _lengths(names) > 0
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    return np.asarray(column.is_valid().combine_chunks())


def _all_named(column: Column) -> Flags:
    """Return which lists are null or contain only names."""
    good = np.ones(len(column), np.bool_)
    start = 0
    for chunk in column.chunks:
        shortest = pc.min(pc.binary_length(chunk.values)).as_py()
        if chunk.values.null_count or shortest == 0:
            sizes = pc.binary_length(pc.list_flatten(chunk)).fill_null(0)
            unnamed = np.asarray(sizes) == 0
            good[start + np.asarray(pc.list_parent_indices(chunk))[unnamed]] = False
        start += len(chunk)
    return good


def _lengths(names: Column) -> Ints:
    return np.asarray(pc.binary_length(names).fill_null(0))


def strings_of(column: Column) -> Column:
    """Return a column as strings; dictionaries of strings stay as they are."""
    kind = column.type
    if pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type):
        return column
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column
    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        msg = f"a column of names has the type {kind}; expected strings"
        raise UsageError(msg) from None


def codes_of(column: Column, codes: dict[str, int]) -> Ints:
    """Return the code of each string of a column with few distinct ones, or -1 without a code."""
    raw = {word.encode(): code for word, code in codes.items()}

    def codes_of_words(words: Column) -> Ints:
        found = [raw.get(word, -1) for word in words.cast(pa.large_binary()).to_pylist()]
        return np.array(found, np.int64)

    return _by_word(strings_of(column), codes_of_words, -1)


def _by_word(column: Column, values_of: Callable[[Column], Ints], null: int) -> Ints:
    """Return the value of each string of a column, computed once per distinct string."""
    parts = []
    for chunk in column.chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        values = np.append(values_of(coded.dictionary), null)  # The last value is for nulls.
        parts.append(values[np.asarray(coded.indices.fill_null(values.size - 1))])
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
