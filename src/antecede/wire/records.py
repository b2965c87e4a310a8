"""Records packed into bits, column by column: tuples of one length, each column of one kind.

A column holds numbers, members, sets of members, or vectors (tuples of numbers, all of one length).
A matrix is records of numbers; the pairs of ``direct`` are groups of records, one for each member.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from antecede.wire.sets import get_set, is_names, number_width, put_names
from antecede.wire.stream import INTEGER_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from antecede.wire.bits import BitReader, BitWriter
    from antecede.wire.roster import Scope

NUMBER, MEMBER, SET, VECTOR = range(4)
Row = tuple[object, ...]


def record_kinds(rows: Sequence[object], scope: Scope) -> list[int] | None:
    """Return the kind of each column, or None if these are no records."""
    first = rows[0]
    if type(first) is not tuple or not first:
        return None
    if any(type(row) is not tuple or len(row) != len(first) for row in rows):
        return None
    kinds = []
    for column in zip(*cast("Sequence[Row]", rows), strict=True):
        kind = _kind(column, scope)
        if kind is None:
            return None
        kinds.append(kind)
    return kinds


def is_grouped(groups: Sequence[object], scope: Scope) -> bool:
    """Tell whether these are groups of records that together are records of numbers and members."""
    if any(type(group) is not tuple for group in groups):
        return False
    rows = [row for group in cast("Sequence[Row]", groups) for row in group]
    kinds = record_kinds(rows, scope) if rows else None
    return kinds is not None and all(kind in (NUMBER, MEMBER) for kind in kinds)


def put_records(bits: BitWriter, rows: Sequence[Row], scope: Scope) -> None:
    """Append records, column by column."""
    width = number_width(len(scope.roster))
    for column in zip(*rows, strict=True):
        kind = _kind(column, scope)
        assert kind is not None
        bits.put(kind, 2)
        if kind == NUMBER:
            bits.spread(cast("tuple[int, ...]", column))
        elif kind == MEMBER:
            for name in column:
                bits.put(scope.roster.numbers[cast("str", name)], width)
        elif kind == SET:
            for names in column:
                put_names(bits, cast("tuple[str, ...]", names), scope)
        else:
            vectors = cast("tuple[tuple[int, ...], ...]", column)
            bits.golomb(len(vectors[0]), 0)
            for values in zip(*vectors, strict=True):
                bits.spread(values)


def get_records(bits: BitReader, length: int, width: int, scope: Scope) -> tuple[Row, ...]:
    """Read ``length`` records of ``width`` columns."""
    bits.expect(max(length, 1), max(width, 1))
    columns = [_get_column(bits, length, scope) for _ in range(width)]
    return tuple(zip(*columns, strict=True))


def _kind(column: Row, scope: Scope) -> int | None:
    sort = type(column[0])
    if any(type(item) is not sort for item in column):
        return None
    kind = None
    if sort is int:
        kind = NUMBER if _are_numbers(column) else None
    elif sort is str:
        kind = MEMBER if all(name in scope.roster.numbers for name in column) else None
    elif sort is tuple:
        items = cast("tuple[Row, ...]", column)
        if all(is_names(item, scope) for item in items):
            kind = SET
        elif len({len(item) for item in items}) == 1 and all(map(_are_numbers, items)):
            kind = VECTOR
    return kind


def _are_numbers(values: Row) -> bool:
    return all(type(value) is int and 0 <= value <= INTEGER_MAX for value in values)


def _get_column(bits: BitReader, length: int, scope: Scope) -> Sequence[object]:
    kind = bits.get(2)
    roster = scope.roster
    if kind == NUMBER:
        return bits.spread(length)
    if kind == MEMBER:
        width = number_width(len(roster))
        numbers = [bits.get(width) for _ in range(length)]
        if max(numbers, default=0) >= len(roster):
            bits.fail(f"names member {max(numbers)} of {len(roster)}")
        return [roster.names[number] for number in numbers]
    if kind == SET:
        return [roster.in_order(get_set(bits, scope)) for _ in range(length)]
    size = bits.golomb(0, INTEGER_MAX)
    if size == 0:
        bits.fail("has vectors of no length")
    bits.expect(length, max(size, 1))
    return list(zip(*[bits.spread(length) for _ in range(size)], strict=True))
