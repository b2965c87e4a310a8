"""Bits in and out, the highest first: fixed widths, exponential Golomb codes, blocks of numbers.

The Golomb code of ``v`` with parameter ``k`` is ``v + 2**k`` in binary, after as many zeros as that
has bits beyond ``k + 1``. Small numbers are short, and no number is very long.

Bits are text of 0 and 1 while they are put together or taken apart: Python joins and searches text
quickly, and converts all of it in one step.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NoReturn

from antecede.errors import UsageError
from antecede.wire.stream import INTEGER_MAX, Reader

PARAMETER_BITS: Final = 5
BASE_PARAMETER: Final = 6
_PARAMETER_MAX: Final = 2**PARAMETER_BITS - 1
_CODE_MAX: Final = 2 * INTEGER_MAX + 1
_ZEROS_MAX: Final = 64  # the longest code has 129 bits
_TABLE: Final = 512
_CHUNK_BYTES: Final = 48


def golomb_code(value: int, k: int) -> str:
    """Return the Golomb code of ``value`` with parameter ``k``."""
    text = f"{value + (1 << k):b}"
    return "0" * (len(text) - k - 1) + text


@lru_cache(maxsize=_PARAMETER_MAX + 1)
def _codes(k: int) -> list[str]:
    """Return the codes of the least numbers; nearly all are."""
    return [golomb_code(value, k) for value in range(_TABLE)]


class BitWriter:
    """Collects bits and writes them as whole bytes, padded with zeros."""

    __slots__ = ("_out", "_parts")

    def __init__(self, out: bytearray) -> None:
        self._out = out
        self._parts: list[str] = []

    def put(self, value: int, width: int) -> None:
        """Append ``value`` in ``width`` bits, which must be enough."""
        if width:
            self._parts.append(f"{value:0{width}b}")

    def text(self, text: str) -> None:
        """Append bits that are text already."""
        self._parts.append(text)

    def each(self, values: Sequence[int], width: int) -> None:
        """Append every value in ``width`` bits."""
        form = f"0{width}b"
        self._parts.extend([format(value, form) for value in values])

    def golomb(self, value: int, k: int) -> None:
        """Append the Golomb code of ``value`` with parameter ``k``."""
        self._parts.append(_codes(k)[value] if value < _TABLE else golomb_code(value, k))

    def small(self, values: Sequence[int]) -> None:
        """Append numbers that are close to 0: a parameter by their mean, then their codes."""
        if not values:
            return
        k = min((sum(values) // len(values) // 2).bit_length(), _PARAMETER_MAX)
        self._parts.append(f"{k:05b}")
        codes = _codes(k)
        if max(values) < _TABLE:
            self._parts.extend([codes[value] for value in values])
        else:
            self._parts.extend([codes[v] if v < _TABLE else golomb_code(v, k) for v in values])

    def spread(self, values: Sequence[int]) -> None:
        """Append numbers that are close together: their lower median, then differences from it."""
        if not values:
            return
        ordered = sorted(values)
        if ordered[-1] > INTEGER_MAX:
            msg = f"integer {ordered[-1]} cannot be encoded; expected 0 to {INTEGER_MAX}"
            raise UsageError(msg)
        base = ordered[(len(values) - 1) // 2]
        self.golomb(base, BASE_PARAMETER)
        self.small([2 * (v - base) if v >= base else 2 * (base - v) - 1 for v in values])

    def close(self) -> None:
        """Pad the last byte with zeros and write it."""
        text = "".join(self._parts)
        self._parts.clear()
        if text:
            length = len(text) + 7 >> 3
            self._out += (int(text, 2) << 8 * length - len(text)).to_bytes(length, "big")


class BitReader:
    """A position in the bits of a reader; ``close`` moves the reader past them."""

    __slots__ = ("_at", "_chunk", "_data", "_next", "_reader", "_text")

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._data = reader.data
        self._next = reader.position  # the first byte that is not text yet
        self._text = ""
        self._at = 0
        self._chunk = _CHUNK_BYTES
        self._more()

    @property
    def left(self) -> int:
        """The number of bits not yet read."""
        return (len(self._data) - self._next) * 8 + len(self._text) - self._at

    def _more(self) -> bool:
        """Turn more bytes into text, each time twice as many; return False at the end."""
        part = self._data[self._next : self._next + self._chunk]
        if not part:
            return False
        self._next += len(part)
        self._chunk *= 2
        fresh = f"{int.from_bytes(part, 'big'):0{8 * len(part)}b}"
        self._text = self._text[self._at :] + fresh
        self._at = 0
        return True

    def get(self, width: int) -> int:
        """Read ``width`` bits."""
        if self._at + width > len(self._text):
            self._reach(width)
        start = self._at
        self._at = stop = start + width
        return int(self._text[start:stop], 2) if width else 0

    def each(self, count: int, width: int) -> list[int]:
        """Read ``count`` values of ``width`` bits."""
        self.expect(count, width)
        self._reach(count * width)
        start, text = self._at, self._text
        self._at = stop = start + count * width
        return [int(text[at : at + width], 2) for at in range(start, stop, width)]

    def _reach(self, width: int) -> None:
        """Have so many bits as text."""
        if width > self.left:
            self.fail(f"needs {width} bits, but {self.left} are left")
        while self._at + width > len(self._text):
            self._more()

    def golomb(self, k: int, most: int = _CODE_MAX) -> int:
        """Read a Golomb code with parameter ``k``; refuse more than ``most``."""
        (value,) = self._golombs(1, k)
        if value > most:
            self.fail(f"has number {value}; at most {most} is possible here")
        return value

    def _golombs(self, count: int, k: int) -> list[int]:
        """Read Golomb codes with parameter ``k``."""
        values: list[int] = []
        at, text, low = self._at, self._text, 1 << k
        end = len(text)
        while len(values) < count:
            one = text.find("1", at, at + _ZEROS_MAX + 1)
            stop = 2 * one - at + 1 + k
            if one < 0 or stop > end:
                self._at = at
                if (one < 0 and end - at > _ZEROS_MAX) or not self._more():
                    self.fail("has a number that is too long or truncated")
                at, text = 0, self._text
                end = len(text)
                continue
            values.append(int(text[one:stop], 2) - low)
            at = stop
        self._at = at
        return values

    def small(self, count: int, most: int = _CODE_MAX) -> list[int]:
        """Read ``count`` numbers written by :meth:`BitWriter.small`."""
        if count == 0:
            return []
        k = self.get(PARAMETER_BITS)
        self.expect(count, k + 1)
        values = self._golombs(count, k)
        if max(values) > most:
            self.fail(f"has number {max(values)}; at most {most} is possible here")
        return values

    def spread(self, count: int) -> list[int]:
        """Read ``count`` numbers written by :meth:`BitWriter.spread`."""
        if count == 0:
            return []
        base = self.golomb(BASE_PARAMETER, INTEGER_MAX)
        values = [base - (c + 1 >> 1) if c & 1 else base + (c >> 1) for c in self.small(count)]
        if min(values) < 0 or max(values) > INTEGER_MAX:
            self.fail("has a number out of range")
        return values

    def expect(self, count: int, width_min: int) -> None:
        """Refuse to read more items than the remaining bits can hold."""
        if count * width_min > self.left:
            self.fail(f"claims {count} items of {width_min} bits, but {self.left} are left")

    def fail(self, fault: str) -> NoReturn:
        """Raise the error for malformed bits."""
        self._reader.position = len(self._data) - (self.left + 7 >> 3)
        self._reader.fail(fault)

    def close(self) -> None:
        """Move the reader to the next whole byte; the padding must be zeros."""
        if self.get(self.left & 7):
            self.fail("is not padded with zeros")
        self._reader.position = len(self._data) - (self.left >> 3)
