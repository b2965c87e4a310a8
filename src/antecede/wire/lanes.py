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
OCTAL: Final = 0
HEX: Final = 1
BASE64: Final = 2
BYTES: Final = 3
WORDS: Final = 4
_OCTAL_MEAN: Final = 3
_HEX_MEAN: Final = 11
_BASE64_MEAN: Final = 45
_BYTES_MEAN: Final = 450
"""Below these means of a column, its lanes have that width."""
FEW: Final = 3
"""Up to so many values take a byte each: little would be gained."""
_HEX: Final = b"0123456789abcdef"
_B64: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_TO_HEX: Final = _HEX.ljust(256, b"f")
_TO_OCTAL: Final = _HEX[:8].ljust(256, b"7")
_TO_BASE64: Final = _B64.ljust(256, b"/")
"""Digits by value; greater values get the last digit."""
_FROM_HEX: Final = bytes([max(_HEX.find(c), 0) for c in range(256)])
_FROM_BASE64: Final = bytes([max(_B64.find(c), 0) for c in range(256)])
_MOST: Final = [(1 << width) - 1 for width in WIDTHS]
_BELOW: Final = [bytes(range(most)) for most in _MOST[:BYTES]]
_REST: Final = [bytes([max(value - most, 0) for value in range(256)]) for most in _MOST[:BYTES]]
"""The values that a lane can hold, and what is left of the others, by number of the width."""
_DIGITS: Final = (b"", b"AAA", b"AA", b"A")
_ZEROS: Final = (b"", b"\0\0", b"\0", b"")
"""What fills up base 64, by the number of digits: as digits, and as bytes."""
_FILL: Final = (0, 3, 15, 63)
"""The bits of the last byte that no digit fills, likewise."""
LESS: Final = bytes([255, *range(255)])
"""Values less one."""
_START: Final = (-1,)
BYTE: Final = [bytes((i,)) for i in range(0x100)]


class ColumnError(PeerError):
    """The bytes are not what a writer would have written; the text says what is wrong."""


def width_number(count: int, total: int) -> int:
    """Return the number of the width for ``count`` values of this sum."""
    if count <= FEW:
        return BYTES
    if total < _HEX_MEAN * count:
        return OCTAL if total < _OCTAL_MEAN * count else HEX
    if total < _BASE64_MEAN * count:
        return BASE64
    return BYTES if total < _BYTES_MEAN * count else WORDS


def put_column(values: list[int] | bytes) -> tuple[int, bytes]:
    """Return the number of the width, and the column."""
    if len(values) <= FEW:
        return BYTES, _put_few(values)
    try:
        column = bytes(values)
    except ValueError:
        return _put_wide(values)
    count = len(column)
    total = sum(column)
    if total < _HEX_MEAN * count:
        if total < _OCTAL_MEAN * count:
            number, lane = OCTAL, _put_octal(column)
        else:
            number, lane = HEX, _put_hex(column)
    elif total < _BASE64_MEAN * count:
        number, lane = BASE64, _put_base64(column)
    else:
        return (BYTES, column) if 0xFF not in column else _put_wide(values)
    rest = column.translate(_REST[number], _BELOW[number])
    if not rest:
        return number, lane
    return (number, lane + rest) if max(rest) < 0x80 else _put_wide(values)


def put_steps(places: list[int]) -> tuple[int, bytes]:
    """Return a column with the first of ascending places, and how many lie between two."""
    try:
        column = bytes(list(map(sub, places, chain(_START, places)))).translate(LESS)
    except ValueError:
        return _put_wide([b - a - 1 for a, b in pairwise(chain(_START, places))])
    return put_column(column)


def _put_few(values: list[int] | bytes) -> bytes:
    """Return a column of few numbers, a byte each, and the rests of large ones."""
    rest = b""
    lane = []
    for value in values:
        if value < 0xFF:
            lane.append(value)
        else:
            lane.append(0xFF)
            rest += varint(value - 0xFF)
    return bytes(lane) + rest if rest else bytes(lane)


def _put_wide(values: Sequence[int]) -> tuple[int, bytes]:
    """Return a column that may contain large numbers."""
    number = width_number(len(values), sum(values))
    most = _MOST[number]
    lane = put_lane([min(most, value) for value in values], WIDTHS[number])
    rest = [varint(value - most) for value in values if value >= most]
    return number, b"".join((lane, *rest))


def _put_octal(column: bytes) -> bytes:
    fill = -3 * len(column) & 7
    whole = int(column.translate(_TO_OCTAL), 8) << fill
    return whole.to_bytes(3 * len(column) + fill >> 3, "big")


def _put_hex(column: bytes) -> bytes:
    digits = column.translate(_TO_HEX)
    return a2b_hex(digits + b"0" if len(digits) & 1 else digits)


def _put_base64(column: bytes) -> bytes:
    digits = column.translate(_TO_BASE64)
    over = len(digits) & 3
    if not over:
        return a2b_base64(digits)
    return a2b_base64(digits + _DIGITS[over])[: len(digits) * 6 + 7 >> 3]


def put_lane(values: list[int] | bytes, width: int) -> bytes:
    """Return values in lanes of ``width`` bits, filled up with zeros.

    In narrow lanes, what is too large becomes the greatest number.
    """
    if width == 4:
        return _put_hex(bytes(values))
    if width == 6:
        return _put_base64(bytes(values))
    if width == 16:
        return pack(f"<{len(values)}H", *values)
    return bytes(values) if width == 8 else _put_octal(bytes(values))


def get_column(data: bytes, at: int, count: int, number: int) -> tuple[Sequence[int], int]:
    """Read ``count`` values, and return the place behind them; refuse another width."""
    if count <= FEW and number == BYTES:
        few = data[at : at + count]
        if len(few) == count:
            at += count
            return (few, at) if 0xFF not in few else _get_few(few, data, at)
    if number >= len(WIDTHS):
        msg = f"has a column of width {number}, which this version does not know"
        raise ColumnError(msg)
    values: Sequence[int]
    values, at = get_lane(data, at, count, WIDTHS[number])
    most = _MOST[number]
    if most in values:
        whole = list(values)
        missing = whole.count(most)
        rest = data[at : at + missing]
        place = -1
        if len(rest) == missing and rest.isascii():  # each takes one byte, as usual
            for more in rest:
                place = values.index(most, place + 1)
                whole[place] += more
            at += missing
        else:
            for _ in range(missing):
                place = values.index(most, place + 1)
                more, at = read_varint(data, at)
                whole[place] += more
        values = whole
    if width_number(count, sum(values)) != number:
        msg = f"has a column in lanes of {WIDTHS[number]} bits, which its mean does not call for"
        raise ColumnError(msg)
    return values, at


def _get_few(few: bytes, data: bytes, at: int) -> tuple[list[int], int]:
    """Read the rests of those among a few values that do not fit into a byte."""
    values = list(few)
    for place, value in enumerate(few):
        if value == 0xFF:
            more, at = read_varint(data, at)
            values[place] += more
    return values, at


def get_lane(data: bytes, at: int, count: int, width: int) -> tuple[Sequence[int], int]:
    """Read ``count`` lanes; what fills them up must be zeros."""
    end = at + (count * width + 7 >> 3)
    if end > len(data):
        msg = f"claims {count} items of {width} bits, but {len(data) - at} bytes are left"
        raise ColumnError(msg)
    part = data[at:end]
    fill = 0
    if width == 4:
        values = b2a_hex(part).translate(_FROM_HEX)
        if count & 1:
            fill = values[count]
            values = values[:count]
    elif width == 6:
        over = count & 3
        if over:
            fill = part[-1] & _FILL[over]
            values = b2a_base64(part + _ZEROS[over]).translate(_FROM_BASE64)[:count]
        else:
            values = b2a_base64(part, newline=False).translate(_FROM_BASE64)
    elif width == 8:
        return part, end
    elif width == 16:
        return unpack_from(f"<{count}H", data, at), end
    else:
        whole = int.from_bytes(part, "big")
        values = format(whole >> (-3 * count & 7), f"0{count}o").encode().translate(_FROM_HEX)
        fill = whole & (1 << (-3 * count & 7)) - 1
    if fill:
        msg = "is not padded with zeros"
        raise ColumnError(msg)
    return values, end


def least_of(values: list[int]) -> int:
    """Return the least of some values; compiled, this is quicker than to ask the interpreter."""
    place = 0
    for i, value in enumerate(values):
        if value < values[place]:
            place = i
    return values[place]


def varint(value: int) -> bytes:
    """Return a number from 0, seven bits to a byte, the lowest first."""
    if value < 0x80:
        return BYTE[value]
    if value < 0x4000:
        return BYTE[value & 0x7F | 0x80] + BYTE[value >> 7]
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
