"""Packed forms for the shapes that controls have: numbers, names, records and logs.

A form is chosen by the shape of a value alone, so any protocol's control gets it wherever the
shape occurs, and nothing here knows a protocol.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, cast

from antecede.wire.bits import BitReader, BitWriter
from antecede.wire.logs import get_log, is_log, put_log
from antecede.wire.records import get_records, is_grouped, put_records, record_kinds
from antecede.wire.sets import get_set, is_names, put_names
from antecede.wire.stream import put_varint

if TYPE_CHECKING:
    from antecede.wire.logs import Entry
    from antecede.wire.records import Row
    from antecede.wire.roster import Scope
    from antecede.wire.stream import Reader

NUMBERS, NAMES, LOG, RECORDS, GROUPED = range(0xF1, 0xF6)
PACKED: Final = frozenset({NUMBERS, NAMES, LOG, RECORDS, GROUPED})
NUMBERS_MIN: Final = 4
NAMES_MIN: Final = 4
ROWS_MIN: Final = 2


def packed_form(value: tuple[object, ...], scope: Scope) -> int | None:
    """Return the packed form that fits a tuple's shape, if any does."""
    length = len(value)
    if length == 0:
        return None
    kind = type(value[0])
    form = None
    if kind is int and length >= NUMBERS_MIN:
        form = NUMBERS if all(type(item) is int and item >= 0 for item in value) else None
    elif kind is str and length >= NAMES_MIN:
        form = NAMES if is_names(value, scope) else None
    elif kind is tuple and is_log(value, scope):
        form = LOG
    elif kind is tuple and length >= ROWS_MIN:
        if record_kinds(value, scope) is not None:
            form = RECORDS
        elif is_grouped(value, scope):
            form = GROUPED
    return form


def put_packed(out: bytearray, form: int, value: tuple[object, ...], scope: Scope) -> None:
    """Append a tuple in the packed form that :func:`packed_form` found."""
    out.append(form)
    if form == NUMBERS:
        put_varint(out, len(value))
        bits = BitWriter(out)
        bits.spread(cast("tuple[int, ...]", value))
    elif form == NAMES:
        bits = BitWriter(out)
        put_names(bits, cast("tuple[str, ...]", value), scope)
    elif form == LOG:
        bits = BitWriter(out)
        put_log(bits, cast("tuple[Entry, ...]", value), scope)
    elif form == RECORDS:
        rows = cast("tuple[Row, ...]", value)
        put_varint(out, len(rows))
        put_varint(out, len(rows[0]))
        bits = BitWriter(out)
        put_records(bits, rows, scope)
    else:
        groups = cast("tuple[tuple[Row, ...], ...]", value)
        rows = tuple(row for group in groups for row in group)
        put_varint(out, len(groups))
        put_varint(out, len(rows[0]))
        bits = BitWriter(out)
        bits.small([len(group) for group in groups])
        put_records(bits, rows, scope)
    bits.close()


def get_packed(reader: Reader, form: int, scope: Scope) -> tuple[object, ...]:
    """Read a tuple in a packed form."""
    result: tuple[object, ...]
    if form == NUMBERS:
        length = reader.varint()
        bits = BitReader(reader)
        result = tuple(bits.spread(length))
    elif form == NAMES:
        bits = BitReader(reader)
        result = scope.roster.in_order(get_set(bits, scope))
    elif form == LOG:
        bits = BitReader(reader)
        result = get_log(bits, scope)
    elif form == RECORDS:
        length, width = reader.varint(), reader.varint()
        bits = BitReader(reader)
        result = get_records(bits, length, width, scope)
    else:
        length, width = reader.varint(), reader.varint()
        bits = BitReader(reader)
        counts = bits.small(length)
        rows = iter(get_records(bits, sum(counts), width, scope))
        result = tuple(tuple(itertools.islice(rows, count)) for count in counts)
    bits.close()
    return result
