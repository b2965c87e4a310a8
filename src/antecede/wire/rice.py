"""Small numbers in Rice's code: their lowest k bits in lanes, the rest in unary.

A number n takes k + 1 + (n >> k) bits, which suits counts that are mostly small. All conversions
go through text in the standard library's own C code.
"""

from __future__ import annotations

from binascii import b2a_hex
from typing import Final

from antecede.wire.lanes import ColumnError, read_varint, varint

MEANS: Final = (3, 6, 12, 22)
"""Below these halves of a mean, k is 0, 1, 2 and 3."""
NONE: Final = len(MEANS)
"""Instead of k: the numbers are too large for this code."""
_UNARY: Final = ["1" * value + "0" for value in range(256)]
_DIGITS: Final = "01234567"
_HEX: Final = b"0123456789abcdef"
_DIGIT: Final = bytes([max(_HEX.find(c), 0) for c in range(256)])
_HIGH: Final = bytes([max(_HEX.find(c), 0) >> 2 for c in range(256)])
_LOW: Final = bytes([max(_HEX.find(c), 0) & 3 for c in range(256)])
"""The value of a digit, and its two halves."""


def width_of(count: int, total: int) -> int:
    """Return k for so many numbers of this sum, or NONE."""
    for k, half in enumerate(MEANS):
        if 2 * total < half * count:
            return k
    return NONE


def put_rice(values: list[int], k: int) -> bytes:
    """Return numbers: how many ones there are in unary, the lanes, and the rest in unary."""
    high = [value >> k for value in values] if k else values
    text = "".join([_UNARY[value] if value < 256 else "1" * value + "0" for value in high])
    parts = [varint(len(text) - len(values)), _packed(text, 2, 1)]
    if k:
        most = (1 << k) - 1
        low = "".join([_DIGITS[value & most] for value in values])
        parts.insert(1, _packed(low, 1 << k, k))
    return b"".join(parts)


def _packed(digits: str, base: int, width: int) -> bytes:
    """Return digits of ``width`` bits as bytes, filled up with zeros."""
    size = width * len(digits)
    return (int(digits, base) << (-size & 7)).to_bytes(size + 7 >> 3, "big")


def get_rice(data: bytes, at: int, count: int, k: int) -> tuple[list[int], int]:
    """Read so many numbers, and return the place behind them."""
    ones, at = read_varint(data, at)
    middle = at + (count * k + 7 >> 3)
    size = count + ones
    end = middle + (size + 7 >> 3)
    if end > len(data):
        msg = f"claims {count} numbers in {end - at} bytes, but {len(data) - at} are left"
        raise ColumnError(msg)
    whole = int.from_bytes(data[middle:end], "big")
    runs = format(whole >> (-size & 7), f"0{size}b").split("0")
    if len(runs) != count + 1 or runs[count] or whole & (1 << (-size & 7)) - 1:
        msg = f"has another number of values than the {count} it should have, or is not padded"
        raise ColumnError(msg)
    values = [len(run) for run in runs]
    del values[count]
    if k:
        low = _lanes(data[at:middle], count, k)
        values = [high << k | rest for high, rest in zip(values, low, strict=True)]
    return values, end


def _lanes(part: bytes, count: int, k: int) -> bytes:
    if k == 2:
        pairs = b2a_hex(part)
        lanes = bytearray(2 * len(pairs))
        lanes[0::2], lanes[1::2] = pairs.translate(_HIGH), pairs.translate(_LOW)
        found, fill = bytes(lanes[:count]), any(lanes[count:])
    else:
        whole, spare = int.from_bytes(part, "big"), -count * k & 7
        found = format(whole >> spare, f"0{count}{'b' if k == 1 else 'o'}").encode()
        found, fill = found.translate(_DIGIT), whole & (1 << spare) - 1 > 0
    if fill:
        msg = "is not padded with zeros"
        raise ColumnError(msg)
    return found
