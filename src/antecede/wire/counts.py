"""Rows of counts as bytes, by the numbers of a roster: the controls of those who count.

Reading checks everything on the way; see :mod:`antecede.wire.quick`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from antecede.core.validation import COUNT_MAX
from antecede.wire.lanes import (
    BYTE,
    FEW,
    WIDTHS,
    ColumnError,
    get_column,
    put_column,
    read_varint,
    varint,
)
from antecede.wire.rice import NONE, get_rice, put_rice, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from antecede.core.counts import Counts, Row
    from antecede.core.roster import Roster


RICE: Final = len(WIDTHS)
"""From here on the numbers of blocks in Rice's code, with k = 0 and more."""


def put_counts(counts: Counts, size: int) -> bytes | None:
    """Return counts of ``size`` processes, or None if they do not have the form of their kind."""
    form, rows = counts.FORM, counts.rows
    if form == "row":
        return _put_row(rows[0]) if max(rows[0]) <= COUNT_MAX else None
    if form == "rows":
        return _put_rows(rows, counts.mask, size)
    least: list[int] = []
    rest: list[int] = []
    for number, row in enumerate(rows):
        if row[number]:
            return None
        others = [*row[:number], *row[number + 1 :]]
        base = min(others)
        least.append(base)
        rest += [count - base for count in others] if base else others
    if max(least) + max(rest) > COUNT_MAX and max(map(max, rows)) > COUNT_MAX:
        return None
    return _put_row(least) + _put_block(rest)


def _put_rows(rows: Sequence[Row], mask: int, size: int) -> bytes | None:
    first = rows[0]
    rest: list[int] = []
    for row in rows[1:]:
        rest += [top - count for top, count in zip(first, row, strict=True)]
    if max(first) > COUNT_MAX or (rest and min(rest) < 0):
        return None
    whose = mask.to_bytes(size + 7 >> 3, "little")
    return whose + _put_row(first) + (_put_block(rest) if rest else b"")


def _put_row(row: Sequence[int]) -> bytes:
    base = min(row)
    return varint(base) + _put_block([count - base for count in row] if base else list(row))


def _put_block(values: list[int]) -> bytes:
    k = _width_of(len(values), sum(values))
    if k < NONE:
        return BYTE[RICE + k] + put_rice(values, k)
    number, column = put_column(values)
    return BYTE[number] + column


def _width_of(count: int, total: int) -> int:
    return width_of(count, total) if count > FEW else NONE


def get_counts(kind: type[Counts], data: bytes, at: int, roster: Roster) -> tuple[Counts, int]:
    """Read counts, and return the place behind them."""
    size, form = len(roster), kind.FORM
    if form == "row":
        row, at = _get_row(data, at, size)
        return kind((row,)), at
    if form == "rows":
        return _get_rows(kind, data, at, size)
    least, at = _get_row(data, at, size)
    values, at = _get_block(data, at, size * (size - 1))
    rows: list[Row] = []
    for number, base in enumerate(least):
        part = values[number * (size - 1) : (number + 1) * (size - 1)]
        if min(part):
            _refuse()
        if base:
            part = [base + value for value in part]
        rows.append((*part[:number], 0, *part[number:]))
    _check(max(map(max, rows)))
    return kind(rows), at


def _get_rows(kind: type[Counts], data: bytes, at: int, size: int) -> tuple[Counts, int]:
    end = at + (size + 7 >> 3)
    mask = int.from_bytes(data[at:end], "little")
    if end > len(data) or mask >> size:
        msg = "has vectors of processes that are not members"
        raise ColumnError(msg)
    first, at = _get_row(data, end, size)
    rows = [first]
    if mask:
        values, at = _get_block(data, at, size * mask.bit_count())
        for start in range(0, len(values), size):
            part = values[start : start + size]
            rows.append(tuple([a - b for a, b in zip(first, part, strict=True)]))
        if min(map(min, rows)) < 0:
            msg = "has vectors with counts below 0"
            raise ColumnError(msg)
    return kind(rows, mask), at


def _get_row(data: bytes, at: int, size: int) -> tuple[Row, int]:
    base, at = read_varint(data, at)
    values, at = _get_block(data, at, size)
    if min(values):
        _refuse()
    row = tuple([base + value for value in values]) if base else tuple(values)
    _check(max(row))
    return row, at


def _get_block(data: bytes, at: int, count: int) -> tuple[Sequence[int], int]:
    number = data[at]
    values: Sequence[int]
    if RICE <= number < RICE + NONE:
        values, at = get_rice(data, at + 1, count, number - RICE)
    else:
        values, at = get_column(data, at + 1, count, number)
    k = _width_of(count, sum(values))
    if k != (number - RICE if number >= RICE else NONE):
        _refuse()
    return values, at


def _refuse() -> None:
    msg = "has counts in a form that is not the shortest"
    raise ColumnError(msg)


def _check(most: int) -> None:
    if most > COUNT_MAX:
        msg = f"counts to {most}; at most {COUNT_MAX} is possible"
        raise ColumnError(msg)
