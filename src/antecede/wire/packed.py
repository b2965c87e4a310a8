"""Packed forms for the shapes that controls have: numbers, names, records and logs.

The shape of a value alone decides its form, so every protocol benefits wherever the shape occurs,
and nothing here knows about protocols.
"""

from collections.abc import Sized
from typing import Final, cast

from antecede.wire import records
from antecede.wire.bits import BitReader, BitWriter
from antecede.wire.logs import Entry, get_log, is_log, put_log
from antecede.wire.roster import Scope
from antecede.wire.sets import get_names, is_names, put_names
from antecede.wire.stream import Reader, put_varint

NUMBERS, NAMES, LOG, TABLE, RECORDS, GROUPED = range(0xF1, 0xF7)
PACKED: Final = frozenset({NUMBERS, NAMES, LOG, TABLE, RECORDS, GROUPED})
SIZED: Final = frozenset({NUMBERS, TABLE, GROUPED})
"""The forms that start with their length."""
NUMBERS_MIN: Final = 4
NAMES_MIN: Final = 4
ROWS_MIN: Final = 2


def packed_form(value: tuple[object, ...], scope: Scope) -> tuple[int | None, list[int]]:
    """Return the packed form that fits a tuple's shape, if any does, and the kinds of records."""
    length = len(value)
    kinds: list[int] | None = None
    form = None
    if length == 0:
        return form, []
    kind = type(value[0])
    if kind is int and length >= NUMBERS_MIN:
        form = NUMBERS if records.are_numbers(value) else None
    elif kind is str and length >= NAMES_MIN:
        form = NAMES if is_names(value, scope) else None
    elif kind is tuple and is_log(value, scope):
        form = LOG
    elif kind is tuple and length >= ROWS_MIN:
        if is_table(value):
            form = TABLE
        elif (kinds := records.kinds_of(value, scope)) is not None:
            form = RECORDS
        elif records.are_groups(value, scope):
            form = GROUPED
    return form, kinds or []


def is_table(value: tuple[object, ...]) -> bool:
    """Tell whether a tuple holds rows of numbers, all of one length."""
    first = value[0]
    if type(first) is not tuple or not first or type(first[0]) is not int:
        return False
    if set(map(type, value)) != {tuple} or set(map(len, cast("list[Sized]", value))) != {
        len(first)
    }:
        return False
    return all(map(records.are_numbers, value))


def put_packed(
    out: bytearray, form: int, value: tuple[object, ...], scope: Scope, kinds: list[int]
) -> None:
    """Append a tuple in the packed form that :func:`packed_form` found."""
    out.append(form)
    if form in SIZED:
        put_varint(out, len(value))
    if form == TABLE:
        put_varint(out, len(cast("records.Vector", value[0])))
    bits = BitWriter(out)
    if form == NUMBERS:
        scope.charge(len(value))
        bits.spread(cast("records.Vector", value))
    elif form == NAMES:
        scope.charge(len(value))
        put_names(bits, cast("tuple[str, ...]", value), scope)
    elif form == LOG:
        put_log(bits, cast("tuple[Entry, ...]", value), scope)
    elif form == TABLE:
        table = cast("tuple[records.Vector, ...]", value)
        records.put_table(bits, table, scope, by_rows=len(table[0]) >= len(table))
    else:
        groups = value if form == GROUPED else (value,)
        records.put_groups(bits, cast("tuple[records.Group, ...]", groups), scope, kinds)
    bits.close()


def get_packed(reader: Reader, form: int, scope: Scope) -> tuple[object, ...]:
    """Read a tuple in a packed form."""
    length = reader.varint() if form in SIZED else 1
    width = reader.varint() if form == TABLE else 0
    bits = BitReader(reader)
    result: tuple[object, ...]
    if form == NUMBERS:
        scope.charge(length)
        result = tuple(bits.spread(length))
    elif form == NAMES:
        result = get_names(bits, scope)
    elif form == LOG:
        result = get_log(bits, scope)
    elif form == TABLE:
        result = tuple(records.get_table(bits, length, width, scope, by_rows=width >= length))
    else:
        result = records.get_groups(bits, length, scope)
        if form == RECORDS:
            (result,) = result
    bits.close()
    return result
