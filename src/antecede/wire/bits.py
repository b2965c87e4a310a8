"""Bits in and out, the highest first: fixed widths, exponential Golomb codes, blocks of numbers.

The Golomb code of ``v`` with parameter ``k`` is ``v + 2**k`` in binary, after as many zeros as that
has bits beyond ``k + 1``. Small numbers are short, and no number is very long.
"""

from collections.abc import Sequence
from typing import Final, NoReturn

from antecede.errors import UsageError
from antecede.wire.stream import INTEGER_MAX, Reader

PARAMETER_BITS: Final = 5
BASE_PARAMETER: Final = 6
_PARAMETER_MAX: Final = 2**PARAMETER_BITS - 1
_CODE_MAX: Final = 2 * INTEGER_MAX + 1
_WINDOW_BYTES: Final = 17  # the longest code has 129 bits, and starts at any bit of a byte


class BitWriter:
    """Collects bits and writes them as whole bytes, padded with zeros."""

    __slots__ = ("_bits", "_count", "_out")

    def __init__(self, out: bytearray) -> None:
        self._out = out
        self._bits = 0
        self._count = 0

    def put(self, value: int, width: int) -> None:
        """Append ``value`` in ``width`` bits, which must be enough."""
        self._bits = self._bits << width | value
        self._count += width
        if self._count >= 256:
            rest = self._count & 7
            self._out += (self._bits >> rest).to_bytes(self._count >> 3, "big")
            self._bits &= (1 << rest) - 1
            self._count = rest

    def golomb(self, value: int, k: int) -> None:
        """Append the Golomb code of ``value`` with parameter ``k``."""
        code = value + (1 << k)
        self.put(code, 2 * code.bit_length() - k - 1)

    def small(self, values: Sequence[int]) -> None:
        """Append numbers that are close to 0: a parameter by their mean, then their codes."""
        if not values:
            return
        k = min((sum(values) // len(values) // 2).bit_length(), _PARAMETER_MAX)
        self.put(k, PARAMETER_BITS)
        for value in values:
            self.golomb(value, k)

    def spread(self, values: Sequence[int]) -> None:
        """Append numbers that are close together: their lower median, then differences from it."""
        if not values:
            return
        if max(values) > INTEGER_MAX:
            msg = f"integer {max(values)} cannot be encoded; expected 0 to {INTEGER_MAX}"
            raise UsageError(msg)
        base = sorted(values)[(len(values) - 1) // 2]
        self.golomb(base, BASE_PARAMETER)
        self.small([2 * (v - base) if v >= base else 2 * (base - v) - 1 for v in values])

    def close(self) -> None:
        """Pad the last byte with zeros and write it."""
        self.put(0, -self._count & 7)
        self._out += self._bits.to_bytes(self._count >> 3, "big")
        self._bits = self._count = 0


class BitReader:
    """A position in the bits of a reader; ``close`` moves the reader past them."""

    __slots__ = ("_data", "_end", "_position", "_reader")

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._data = reader.data
        self._position = reader.position * 8
        self._end = len(reader.data) * 8

    @property
    def left(self) -> int:
        """The number of bits not yet read."""
        return self._end - self._position

    def get(self, width: int) -> int:
        """Read ``width`` bits."""
        stop = self._position + width
        if stop > self._end:
            self.fail(f"needs {width} bits, but {self.left} are left")
        window = int.from_bytes(self._data[self._position >> 3 : (stop + 7) >> 3], "big")
        value = window >> (-stop & 7) & (1 << width) - 1
        self._position = stop
        return value

    def golomb(self, k: int, most: int = _CODE_MAX) -> int:
        """Read a Golomb code with parameter ``k``; refuse more than ``most``."""
        start = self._position >> 3
        chunk = self._data[start : start + _WINDOW_BYTES]
        there = len(chunk) * 8 - (self._position & 7)
        window = int.from_bytes(chunk, "big") & (1 << max(there, 0)) - 1
        zeros = there - window.bit_length()
        width = 2 * zeros + 1 + k
        if width > there:
            self.fail("has a number that is too long or truncated")
        value = (window >> there - width) - (1 << k)
        if value > most:
            self.fail(f"has number {value}; at most {most} is possible here")
        self._position += width
        return value

    def small(self, count: int, most: int = _CODE_MAX) -> list[int]:
        """Read ``count`` numbers written by :meth:`BitWriter.small`."""
        if count == 0:
            return []
        k = self.get(PARAMETER_BITS)
        self.expect(count, k + 1)
        return [self.golomb(k, most) for _ in range(count)]

    def spread(self, count: int) -> list[int]:
        """Read ``count`` numbers written by :meth:`BitWriter.spread`."""
        if count == 0:
            return []
        base = self.golomb(BASE_PARAMETER, INTEGER_MAX)
        values = [base + (c >> 1) if c & 1 == 0 else base - (c + 1 >> 1) for c in self.small(count)]
        if min(values) < 0 or max(values) > INTEGER_MAX:
            self.fail("has a number out of range")
        return values

    def expect(self, count: int, width_min: int) -> None:
        """Refuse to read more items than the remaining bits can hold."""
        if count * width_min > self.left:
            self.fail(f"claims {count} items of {width_min} bits, but {self.left} are left")

    def fail(self, fault: str) -> NoReturn:
        """Raise the error for malformed bits."""
        self._reader.position = min(self._position >> 3, len(self._data))
        self._reader.fail(fault)

    def close(self) -> None:
        """Move the reader to the next whole byte; the padding must be zeros."""
        if self.get(-self._position & 7):
            self.fail("is not padded with zeros")
        self._reader.position = self._position >> 3
