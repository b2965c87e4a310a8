"""Records packed into bits, column by column: tuples of one length, each column of one kind.

A column holds numbers, members, sets of members, vectors (tuples of numbers, all of one length),
bytes, or groups (tuples of records of numbers and members). Groups also occur on their own: the
control of ``direct`` is a group of pairs for each member. If the first column names members in
order, each once, it is written as a set and the records are *keyed* by it.
"""

import itertools
from collections.abc import Sequence
from typing import Final, cast

from antecede.wire.bits import BitReader, BitWriter
from antecede.wire.roster import Scope
from antecede.wire.sets import get_list, get_set, is_names, put_names
from antecede.wire.stream import INTEGER_MAX

NUMBER, MEMBER, SET, VECTOR, BYTES, GROUPS = range(6)
KIND_BITS: Final = 3
COLUMNS_MIN: Final = 8
"""From this many vectors on, they are written place by place instead of vector by vector.

Numbers at one place are clocks of the same process and so close together, but a block of only a few
numbers does not repay its own base.
"""
Row = tuple[object, ...]
Group = tuple[Row, ...]
Vector = tuple[int, ...]


def are_records(rows: Sequence[object], scope: Scope) -> bool:
    """Tell whether these are records: at least one, all of one length, columns of one kind each."""
    return _kinds(rows, scope) is not None


def are_groups(groups: Sequence[object], scope: Scope) -> bool:
    """Tell whether these are groups of records that together are records of numbers and members."""
    if any(type(group) is not tuple for group in groups):
        return False
    kinds = _kinds([row for group in cast("Sequence[Row]", groups) for row in group], scope)
    return kinds is not None and all(kind in (NUMBER, MEMBER) for kind in kinds)


def are_numbers(values: object) -> bool:
    """Tell whether this is a tuple of numbers that can be encoded."""
    return type(values) is tuple and all(
        type(value) is int and 0 <= value <= INTEGER_MAX for value in values
    )


def put_groups(bits: BitWriter, groups: Sequence[Group], scope: Scope) -> None:
    """Append groups of records: the keys or lengths of the groups, then column by column."""
    rows = [row for group in groups for row in group]
    scope.charge(len(groups) + len(rows) * len(rows[0]))
    bits.golomb(len(rows[0]), 0)
    is_keyed = all(is_names(tuple(row[0] for row in group), scope) for group in groups)
    bits.put(is_keyed, 1)
    if is_keyed:
        for group in groups:
            put_names(bits, tuple(cast("str", row[0]) for row in group), scope)
    else:
        bits.small([len(group) for group in groups])
    for column in itertools.islice(zip(*rows, strict=True), is_keyed, None):
        _put_column(bits, column, scope)


def get_groups(bits: BitReader, count: int, scope: Scope) -> tuple[Group, ...]:
    """Read ``count`` groups of records."""
    bits.expect(count, 1)
    width = bits.golomb(0, INTEGER_MAX)
    columns: list[Sequence[object]] = []
    is_keyed = bits.get(1)
    if is_keyed:
        keys = [scope.roster.in_order(get_set(bits, scope)) for _ in range(count)]
        lengths = [len(names) for names in keys]
        columns.append([name for names in keys for name in names])
    else:
        lengths = bits.small(count, INTEGER_MAX)
    length = sum(lengths)
    bits.expect(length, max(width - is_keyed, 0))
    scope.charge(count + length * width)
    columns.extend(_get_column(bits, length, scope) for _ in range(is_keyed, width))
    rows = iter(zip(*columns, strict=True))
    return tuple(tuple(itertools.islice(rows, length)) for length in lengths)


def put_table(bits: BitWriter, rows: Sequence[Vector], scope: Scope, *, by_rows: bool) -> None:
    """Append rows of numbers, all of one length, row by row or column by column."""
    scope.charge(len(rows) * len(rows[0]))
    for line in rows if by_rows else zip(*rows, strict=True):
        bits.spread(line)


def get_table(
    bits: BitReader, length: int, width: int, scope: Scope, *, by_rows: bool
) -> list[Vector]:
    """Read ``length`` rows of ``width`` numbers."""
    if not length or not width:
        bits.fail("has a table without numbers")
    bits.expect(length, width)
    scope.charge(length * width)
    if by_rows:
        return [tuple(bits.spread(width)) for _ in range(length)]
    return list(zip(*[bits.spread(length) for _ in range(width)], strict=True))


def _kinds(rows: Sequence[object], scope: Scope) -> list[int] | None:
    """Return the kind of each column, or None if these are not records."""
    if not rows or type(rows[0]) is not tuple or not rows[0]:
        return None
    width = len(rows[0])
    if any(type(row) is not tuple or len(row) != width for row in rows):
        return None
    kinds = []
    for column in zip(*cast("Sequence[Row]", rows), strict=True):
        kind = _kind(column, scope)
        if kind is None:
            return None
        kinds.append(kind)
    return kinds


def _kind(column: Row, scope: Scope) -> int | None:
    sort = type(column[0])
    if any(type(item) is not sort for item in column):
        return None
    kind = None
    if sort is int:
        kind = NUMBER if are_numbers(column) else None
    elif sort is str:
        kind = MEMBER if all(name in scope.roster.numbers for name in column) else None
    elif sort is bytes:
        kind = BYTES
    elif sort is tuple:
        items = cast("tuple[Row, ...]", column)
        if all(is_names(item, scope) for item in items):
            kind = SET
        elif len({len(item) for item in items}) == 1 and all(map(are_numbers, items)):
            kind = VECTOR
        elif are_groups(items, scope):
            kind = GROUPS
    return kind


def _put_column(bits: BitWriter, column: Row, scope: Scope) -> None:
    kind = _kind(column, scope)
    assert kind is not None
    bits.put(kind, KIND_BITS)
    if kind == NUMBER:
        bits.spread(cast("Vector", column))
    elif kind == MEMBER:
        width = scope.roster.width
        for name in column:
            bits.put(scope.roster.numbers[cast("str", name)], width)
    elif kind == SET:
        for names in column:
            put_names(bits, cast("tuple[str, ...]", names), scope)
    elif kind == VECTOR:
        vectors = cast("tuple[Vector, ...]", column)
        bits.golomb(len(vectors[0]), 0)
        put_table(bits, vectors, scope, by_rows=len(vectors) < COLUMNS_MIN)
    elif kind == BYTES:
        texts = cast("tuple[bytes, ...]", column)
        bits.small([len(text) for text in texts])
        for text in texts:
            bits.put(int.from_bytes(text, "big"), 8 * len(text))
    else:
        put_groups(bits, cast("tuple[Group, ...]", column), scope)


def _get_column(bits: BitReader, length: int, scope: Scope) -> Sequence[object]:
    kind = bits.get(KIND_BITS)
    roster = scope.roster
    column: Sequence[object] = ()
    if kind == NUMBER:
        column = bits.spread(length)
    elif kind == MEMBER:
        column = get_list(bits, length, scope)
    elif kind == SET:
        column = [roster.in_order(get_set(bits, scope)) for _ in range(length)]
    elif kind == VECTOR:
        width = bits.golomb(0, INTEGER_MAX)
        column = get_table(bits, length, width, scope, by_rows=length < COLUMNS_MIN)
    elif kind == BYTES:
        sizes = bits.small(length, INTEGER_MAX)
        bits.expect(sum(sizes), 8)
        column = [bits.get(8 * size).to_bytes(size, "big") for size in sizes]
    elif kind == GROUPS:
        column = _get_inner(bits, length, scope)
    else:
        bits.fail(f"has a column of unknown kind {kind}")
    return column


def _get_inner(bits: BitReader, length: int, scope: Scope) -> tuple[Group, ...]:
    """Read a column of groups; groups do not nest any deeper."""
    if scope.is_inside:
        bits.fail("has groups within groups")
    scope.is_inside = True
    try:
        return get_groups(bits, length, scope)
    finally:
        scope.is_inside = False
