"""Columns of numbers in lanes of 3, 4, 6, 8 or 16 bits, packed and unpacked in C.

The greatest number of a lane says that the rest of the value follows the lane as a varint. The
width follows from the mean, so a reader can check it. Lanes of 3 and 4 bits go through octal and
hexadecimal text, lanes of 6 bits through base 64: the standard library converts all quickly.
"""

from __future__ import annotations

from binascii import a2b_base64, a2b_hex, b2a_base64, b2a_hex
from collections.abc import Sequence
from itertools import chain, pairwise
from operator import sub
from struct import pack, unpack_from
from typing import Final

from antecede.errors import PeerError
from antecede.wire.stream import Reader, put_varint

WIDTHS: Final = (3, 4, 6, 8, 16)
"""The widths by number."""
_MEANS: Final = (3, 11, 45, 450)
"""Below these means of a column, its lanes have the width of that place."""
BYTES: Final = WIDTHS.index(8)
FEW: Final = 3
"""Up to so many values take a byte each: little would be gained."""
_HEX: Final = b"0123456789abcdef"
_B64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_DIGITS: Final = {3: _HEX[:8], 4: _HEX, 6: _B64}
_TO: Final = {width: digits.ljust(256, digits[-1:]) for width, digits in _DIGITS.items()}
"""Digits by value; greater values get the last digit."""
_BELOW: Final = {width: bytes(range((1 << width) - 1)) for width in _DIGITS}
LESS: Final = bytes([255, *range(255)])
"""Values less one."""
_START: Final = (-1,)
_REST: Final = {
    width: bytes([max(value - (1 << width) + 1, 0) for value in range(256)]) for width in _DIGITS
}
"""The values that a lane can hold, and what is left of the others."""
_FROM: Final = {
    width: bytes([max(digits.find(c), 0) for c in range(256)])
    for width, digits in ((4, _HEX), (6, _B64))
}
NOT_FILLED: Final = "is not padded with zeros"
_SMALL: Final = [bytes((i,)) for i in range(0x80)]


class ColumnError(PeerError):
    """The bytes are not what a writer would have written; the text says what is wrong."""


def width_number(count: int, total: int) -> int:
    """Return the number of the width for ``count`` values of this sum."""
    if count <= FEW:
        return BYTES
    if total < _MEANS[1] * count:
        return 0 if total < _MEANS[0] * count else 1
    if total < _MEANS[2] * count:
        return 2
    return 3 if total < _MEANS[3] * count else 4


def put_column(values: list[int]) -> tuple[int, bytes]:
    """Return the number of the width, and the column."""
    try:
        column = bytes(values)
    except ValueError:
        return _put_wide(values)
    return _put_narrow(column) or _put_wide(values)


def put_steps(places: list[int]) -> tuple[int, bytes]:
    """Return a column with the first of ascending places, and how many lie between two."""
    if len(places) <= FEW:
        return put_column([places[0], *[b - a - 1 for a, b in pairwise(places)]])
    try:
        column = bytes(map(sub, places, chain(_START, places))).translate(LESS)
    except ValueError:
        steps = map(sub, places, chain(_START, places))
        return _put_wide([step - 1 for step in steps])
    return _put_narrow(column) or _put_wide(list(column))


def _put_narrow(column: bytes) -> tuple[int, bytes] | None:
    """Return a column of small numbers, or None if what follows the lanes is not small."""
    count = len(column)
    if count <= FEW and 0xFF not in column:
        return BYTES, column
    number = width_number(count, sum(column))
    if number >= BYTES:
        return (number, column) if number == BYTES and 0xFF not in column else None
    width = WIDTHS[number]
    rest = column.translate(_REST[width], _BELOW[width])
    if not rest:
        return number, put_lane(column, width)
    return (number, put_lane(column, width) + rest) if max(rest) < 0x80 else None


def _put_wide(values: list[int]) -> tuple[int, bytes]:
    """Return a column that may contain large numbers."""
    number = width_number(len(values), sum(values))
    width = WIDTHS[number]
    most = (1 << width) - 1
    lane = put_lane([min(most, value) for value in values], width)
    rest = [varint(value - most) for value in values if value >= most]
    return number, b"".join((lane, *rest))


def get_column(data: bytes, at: int, count: int, number: int) -> tuple[Sequence[int], int]:
    """Read ``count`` values, and return the place behind them; refuse another width."""
    if count <= FEW and number == BYTES:
        few = data[at : at + count]
        if len(few) == count and 0xFF not in few:
            return few, at + count
    if number >= len(WIDTHS):
        msg = f"has a column of width {number}, which this version does not know"
        raise ColumnError(msg)
    width = WIDTHS[number]
    values: Sequence[int]
    values, at = get_lane(data, at, count, width)
    most = (1 << width) - 1
    if most in values:
        whole = list(values)
        place = values.index(most)
        for _ in range(whole.count(most)):
            place = values.index(most, place)
            more, at = read_varint(data, at)
            whole[place] += more
            place += 1
        values = whole
    if width_number(count, sum(values)) != number:
        msg = f"has a column in lanes of {width} bits, which its mean does not call for"
        raise ColumnError(msg)
    return values, at


def put_lane(values: list[int] | bytes, width: int) -> bytes:
    """Return values in lanes of ``width`` bits, filled up with zeros.

    In narrow lanes, what is too large becomes the greatest number.
    """
    if width == 16:
        return pack(f"<{len(values)}H", *values)
    column = bytes(values)
    if width == 8:
        return column
    if width == 3:
        fill = -3 * len(column) & 7
        whole = int(column.translate(_TO[3]), 8) << fill
        return whole.to_bytes(3 * len(column) + fill >> 3, "big")
    digits = column.translate(_TO[width])
    if width == 4:
        return a2b_hex(digits + b"0" if len(digits) & 1 else digits)
    return a2b_base64(digits + b"AAA"[: -len(digits) & 3])[: len(digits) * 6 + 7 >> 3]


def get_lane(data: bytes, at: int, count: int, width: int) -> tuple[Sequence[int], int]:
    """Read ``count`` lanes; what fills them up must be zeros."""
    end = at + (count * width + 7 >> 3)
    if end > len(data):
        msg = f"claims {count} items of {width} bits, but {len(data) - at} bytes are left"
        raise ColumnError(msg)
    if width == 8:
        return data[at:end], end
    if width == 16:
        return unpack_from(f"<{count}H", data, at), end
    part = data[at:end]
    if width == 3:
        fill = -3 * count & 7
        whole = int.from_bytes(part, "big")
        values = format(whole >> fill, f"0{count}o").encode().translate(_FROM[4])
        if whole & (1 << fill) - 1:
            msg = NOT_FILLED
            raise ColumnError(msg)
    elif width == 4:
        values = b2a_hex(part).translate(_FROM[4])
    else:
        filled = part + b"\0\0"[: -len(part) % 3]
        values = b2a_base64(filled, newline=False).translate(_FROM[6])
    if len(values) > count:
        if any(values[count:]):
            msg = NOT_FILLED
            raise ColumnError(msg)
        values = values[:count]
    return values, end


def varint(value: int) -> bytes:
    """Return a number from 0, seven bits to a byte, the lowest first."""
    if value < 0x80:
        return _SMALL[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    put_varint(out, value)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    value = data[at]
    if value < 0x80:
        return value, at + 1
    more = data[at + 1]
    if 0 < more < 0x80:
        return value & 0x7F | more << 7, at + 2
    reader = Reader(data[at : at + 10], len(data))
    return reader.varint(), at + reader.position
