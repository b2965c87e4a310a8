"""From an Arrow table of events to the columns the windows work on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.core.tables import DELIVER, EVENT_COLUMNS_NEEDED, LOCAL, SEND
from antecede.errors import UsageError
from antecede.pipeline.audits.windows.hashing import hash_column, hash_lists
from antecede.pipeline.audits.windows.matching import KNOWN, Events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from antecede.pipeline.audits.windows.jit import Column, Flags, Ints

    #: Row of the log -> (name of its message, its destinations)
    Lookup = Callable[[Ints], list[tuple[str | None, tuple[str, ...] | None]]]

_CODES = {SEND: 0, DELIVER: 1, LOCAL: 2}


def require_columns(present: Iterable[str]) -> None:
    """Refuse a table that lacks a column an event needs, naming it."""
    have = list(present)
    absent = [name for name in EVENT_COLUMNS_NEEDED if name not in have]
    if absent:
        msg = (
            f"the log lacks the column{'s' * (len(absent) > 1)} {', '.join(absent)}; "
            f"it has {', '.join(have) or 'none'}"
        )
        raise UsageError(msg)


def require_types(table: pa.Table) -> None:
    """Refuse a table whose columns cannot be what they are called, naming the first."""
    for name, fits, wanted in (
        ("process", _is_name, "strings"),
        ("seq", _is_whole, "a whole number"),
        ("kind", _is_text, "the strings send, deliver and local"),
        ("message", _is_name, "strings"),
        ("time", _is_number, "a number of seconds"),
        ("dests", _is_names, "a list of strings"),
    ):
        if name in table.column_names:
            kind = table.schema.field(name).type
            if not fits(kind) and not pa.types.is_null(kind):
                refuse_type(name, str(kind), wanted)


def refuse_type(name: str, got: str, wanted: str) -> None:
    """Say that a column has the wrong type."""
    msg = f"the column {name} has the type {got}; expected {wanted}"
    raise UsageError(msg)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_floating(kind) or pa.types.is_integer(kind)


def _is_whole(kind: Column) -> bool:
    """Return whether a type holds whole numbers; Spark knows unsigned longs as decimals."""
    return pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0)


def _is_text(kind: Column) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    bytes_ = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(test(kind) for test in (*tests, *bytes_))


def _is_name(kind: Column) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_name(kind.value_type)
    return _is_text(kind) or pa.types.is_integer(kind)


def _is_names(kind: Column) -> bool:
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    if not any(test(kind) for test in lists):
        return False
    return _is_name(kind.value_type) or pa.types.is_null(kind.value_type)


def is_event(table: pa.Table) -> Flags:
    """Return which rows are events: process, seq, a known kind, and a message if it needs one.

    Destinations, if any are stated, have all to be named.
    """
    kind = _coded(table.column("kind"), _CODES)
    good = (kind >= 0) & _filled(table.column("process")) & _valid(table.column("seq"))
    good &= (kind == _CODES[LOCAL]) | _filled(table.column("message"))
    if "dests" in table.column_names and not pa.types.is_null(table.column("dests").type):
        start = 0
        for chunk in table.column("dests").chunks:
            if chunk.values.null_count:
                unnamed = np.asarray(pc.list_flatten(chunk).is_null())
                good[start + np.asarray(pc.list_parent_indices(chunk))[unnamed]] = False
            start += len(chunk)
    return np.asarray(good)


def _valid(column: Column) -> Flags:
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    return np.asarray(column.is_valid().combine_chunks())


def _filled(column: Column) -> Flags:
    """Return which strings are neither null nor empty."""
    sizes: Column = pc.binary_length(_plain(_text(column)))
    sizes = sizes.fill_null(0)
    return np.asarray(sizes.combine_chunks()) > 0


def _plain(column: Column) -> Column:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column


def process_names(table: pa.Table) -> list[str]:
    """Return the names of all processes that have events, sorted."""
    return sorted(pc.unique(_text(table.column("process"))).to_pylist())


def to_events(table: pa.Table, names: list[str], salt: int = 0) -> Events:
    """Return the columns of ``table``, all of whose rows are events of ``names``."""
    process = _coded(table.column("process"), {name: p for p, name in enumerate(names)})
    kind = _coded(table.column("kind"), _CODES).astype(np.int8)
    need = np.zeros(len(table), np.int64)
    if "dests" in table.column_names and not pa.types.is_null(table.column("dests").type):
        dests = table.column("dests")
        need = hash_lists(dests)
        if dests.null_count < len(dests):
            known = np.asarray(dests.is_valid().combine_chunks())
            kind[known & (kind == 0)] += KNOWN
    seq = np.asarray(table.column("seq").cast(pa.int64()).combine_chunks())
    key = hash_column(_text(table.column("message")), salt)
    return Events(process.astype(np.int32), np.array(seq), kind, key, need)


def lookup_in(table: pa.Table) -> Lookup:
    """Return the function that reads messages' names and destinations off rows of ``table``."""
    message = _text(table.column("message"))
    dests = table.column("dests") if "dests" in table.column_names else None

    def lookup(rows: Ints) -> list[tuple[str | None, tuple[str, ...] | None]]:
        names = message.take(rows).to_pylist()
        if dests is None:
            return [(name, None) for name in names]
        stated = dests.take(rows).to_pylist()
        return [
            (name, None if d is None else tuple(d)) for name, d in zip(names, stated, strict=True)
        ]

    return lookup


def _text(column: Column) -> Column:
    """Return a column as strings, dictionaries left as they are."""
    kind = column.type
    if pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type):
        return column
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return column
    try:
        return column.cast(pa.string())
    except pa.ArrowException:
        msg = f"a column of names has the type {kind}, which is no string"
        raise UsageError(msg) from None


def _coded(column: Column, codes: dict[str, int]) -> Ints:
    """Return the code of each string of a column with few different ones."""
    parts = []
    for chunk in _text(column).chunks:
        coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        table = np.array([codes.get(word, -1) for word in coded.dictionary.to_pylist()], np.int64)
        table = np.append(table, -1)  # The last entry is what nulls get.
        parts.append(table[np.asarray(coded.indices.fill_null(table.size - 1))])
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
