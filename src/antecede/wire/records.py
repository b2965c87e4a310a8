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
from antecede.wire.sets import get_list, get_names, is_names, put_names
from antecede.wire.stream import INTEGER_MAX

NUMBER, MEMBER, SET, VECTOR, BYTES, GROUPS = range(6)
KIND_BITS: Final = 3
COLUMNS_MIN: Final = 8
"""From this many vectors on, they are written place by place instead of vector by vector.

Numbers at one place are clocks of the same process and so close together, but a block of only a few
numbers does not repay its own base.
"""
GROUP_CELLS: Final = 4
"""How many values a group counts as besides its records: it takes as long to read."""
_INT: Final = {int}
Row = tuple[object, ...]
Group = tuple[Row, ...]
Vector = tuple[int, ...]


def are_groups(groups: Sequence[object], scope: Scope) -> bool:
    """Tell whether these are groups of records that together are records of numbers and members."""
    if any(type(group) is not tuple for group in groups):
        return False
    kinds = kinds_of([row for group in cast("Sequence[Row]", groups) for row in group], scope)
    return kinds is not None and all(kind in (NUMBER, MEMBER) for kind in kinds)


def are_numbers(values: object) -> bool:
    """Tell whether this is a tuple of numbers that can be encoded."""
    if type(values) is not tuple:
        return False
    if not values:
        return True
    return set(map(type, values)) == _INT and min(values) >= 0 and max(values) <= INTEGER_MAX


def put_groups(
    bits: BitWriter, groups: Sequence[Group], scope: Scope, kinds: Sequence[int] = ()
) -> None:
    """Append groups of records: the keys or lengths of the groups, then column by column.

    ``kinds`` are those of the columns, if they are known.
    """
    rows = [row for group in groups for row in group]
    scope.charge(GROUP_CELLS * len(groups) + len(rows) * len(rows[0]))
    kinds = kinds or cast("list[int]", kinds_of(rows, scope))
    bits.golomb(len(rows[0]), 0)
    keys = [tuple([row[0] for row in group]) for group in groups] if kinds[0] == MEMBER else []
    is_keyed = bool(keys) and all(is_names(names, scope) for names in keys)
    bits.put(is_keyed, 1)
    if is_keyed:
        for names in keys:
            put_names(bits, cast("tuple[str, ...]", names), scope)
    else:
        bits.small([len(group) for group in groups])
    columns = list(zip(*rows, strict=True))
    for column, kind in zip(columns[is_keyed:], kinds[is_keyed:], strict=True):
        _put_column(bits, column, kind, scope)


def get_groups(bits: BitReader, count: int, scope: Scope) -> tuple[Group, ...]:
    """Read ``count`` groups of records."""
    bits.expect(count, 1)
    scope.charge(GROUP_CELLS * count)
    width = bits.golomb(0, INTEGER_MAX)
    columns: list[Sequence[object]] = []
    is_keyed = bits.get(1)
    if is_keyed:
        cells = scope.cells
        keys = [get_names(bits, scope) for _ in range(count)]
        scope.cells = cells  # they count as a column
        lengths = [len(names) for names in keys]
        columns.append([name for names in keys for name in names])
    else:
        lengths = bits.small(count, INTEGER_MAX)
    length = sum(lengths)
    bits.expect(length, max(width - is_keyed, 0))
    scope.charge(max(length, 1) * width)
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


def kinds_of(rows: Sequence[object], scope: Scope) -> list[int] | None:
    """Return the kind of each column, or None if these are not records."""
    if not rows or set(map(type, rows)) != {tuple} or not rows[0]:
        return None
    if len(set(map(len, cast("Sequence[Row]", rows)))) != 1:
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
    if len(set(map(type, column))) != 1:
        return None
    kind = None
    if sort is int:
        kind = NUMBER if are_numbers(column) else None
    elif sort is str:
        kind = MEMBER if scope.roster.numbers.keys() >= set(column) else None
    elif sort is bytes:
        kind = BYTES
    elif sort is tuple:
        items = cast("tuple[Row, ...]", column)
        if all(is_names(item, scope) for item in items):
            kind = SET
        elif len(set(map(len, items))) == 1 and all(map(are_numbers, items)):
            kind = VECTOR
        elif are_groups(items, scope):
            kind = GROUPS
    return kind


def _put_column(bits: BitWriter, column: Row, kind: int, scope: Scope) -> None:
    bits.put(kind, KIND_BITS)
    if kind == NUMBER:
        bits.spread(cast("Vector", column))
    elif kind == MEMBER:
        numbers = scope.roster.numbers
        bits.each([numbers[cast("str", name)] for name in column], scope.roster.width)
    elif kind == SET:
        scope.charge(sum(map(len, cast("tuple[Row, ...]", column))))
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
    column: Sequence[object] = ()
    if kind == NUMBER:
        column = bits.spread(length)
    elif kind == MEMBER:
        column = get_list(bits, length, scope)
    elif kind == SET:
        column = [get_names(bits, scope) for _ in range(length)]
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
