"""Fields in bytes: numbers, bytes, text and lists of them, for frames and the journal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NoReturn

from antecede.errors import PeerError

NAMES_MAX: Final = 1 << 14
"""How many names a list may have: a name takes far more in memory than as bytes."""


def put_number(out: bytearray, value: int) -> None:
    """Append a number from 0, seven bits to a byte, the lowest first."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_bytes(out: bytearray, data: bytes) -> None:
    """Append bytes after their length."""
    put_number(out, len(data))
    out += data


def put_text(out: bytearray, text: str) -> None:
    """Append text."""
    put_bytes(out, text.encode(errors="surrogatepass"))


def put_names(out: bytearray, names: Iterable[str]) -> None:
    """Append names after their count."""
    listed = tuple(names)
    put_number(out, len(listed))
    for name in listed:
        put_text(out, name)


def put_numbers(out: bytearray, numbers: Iterable[int]) -> None:
    """Append ascending numbers after their count, as distances."""
    listed = tuple(numbers)
    put_number(out, len(listed))
    last = 0
    for number in listed:
        put_number(out, number - last)
        last = number


class Fields:
    """A reader of bytes; it raises PeerError if anything is wrong with them."""

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    @property
    def left(self) -> int:
        """The number of bytes not yet read."""
        return len(self.data) - self.position

    def byte(self) -> int:
        """Read one byte."""
        if self.position >= len(self.data):
            self.fail("end too early")
        self.position += 1
        return self.data[self.position - 1]

    def number(self) -> int:
        """Read what :func:`put_number` wrote."""
        data, position, value, shift = self.data, self.position, 0, 0
        try:
            while (byte := data[position]) > 0x7F:
                value |= (byte & 0x7F) << shift
                shift += 7
                position += 1
                if shift > 56:
                    self.fail("hold a number of more than 63 bits")
        except IndexError:
            self.fail("end too early")
        self.position = position + 1
        return value | byte << shift

    def count(self, what: str, most: int = 1 << 62) -> int:
        """Read how many items follow, each of at least a byte; refuse more than ``most``."""
        value = self.number()
        if value > min(self.left, most):
            self.fail(f"claim {value} {what}")
        return value

    def bytes(self) -> bytes:
        """Read what :func:`put_bytes` wrote."""
        length = self.count("bytes")
        self.position += length
        return self.data[self.position - length : self.position]

    def text(self) -> str:
        """Read what :func:`put_text` wrote."""
        try:
            return self.bytes().decode(errors="surrogatepass")
        except UnicodeDecodeError:
            self.fail("hold a name that is not UTF-8")

    def names(self) -> tuple[str, ...]:
        """Read what :func:`put_names` wrote."""
        return tuple([self.text() for _ in range(self.count("names", NAMES_MAX))])

    def numbers(self, most: int = 1 << 62) -> list[int]:
        """Read what :func:`put_numbers` wrote; refuse more than ``most``."""
        found, last = [], 0
        for _ in range(self.count("numbers", most)):
            last += self.number()
            found.append(last)
        return found

    def fail(self, fault: str) -> NoReturn:
        """Raise the error for malformed bytes."""
        msg = (
            f"{len(self.data)} bytes {fault} at byte {self.position}; they are damaged or come "
            "from another version"
        )
        raise PeerError(msg)
