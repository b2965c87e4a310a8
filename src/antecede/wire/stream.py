"""Bytes in and out: variable-length integers, and a reader that never runs past its input."""

from typing import Final, NoReturn

from antecede.errors import PeerError, UsageError

VERSION: Final = 2
"""The version of the format; docs/wire.md says what it covers."""
PACKET_MARK: Final = 0xA0
SNAPSHOT_MARK: Final = 0xB0
"""The first byte of everything encoded is a mark plus the version."""
CONTROL_BYTES_MAX: Final = 1 << 20
"""How long a control may be, apart from the payload."""
INTEGER_MAX: Final = 2**63 - 1
"""The greatest integer that can be encoded; counters never get near it."""


def put_varint(out: bytearray, value: int) -> None:
    """Append ``value`` (from 0), seven bits to a byte, the lowest first."""
    if not 0 <= value <= INTEGER_MAX:
        msg = f"integer {value} cannot be encoded; expected 0 to {INTEGER_MAX}"
        raise UsageError(msg)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


class Reader:
    """A position in bytes from a peer; anything wrong with them raises PeerError."""

    __slots__ = ("data", "length", "position")

    def __init__(self, data: bytes, length: int | None = None) -> None:
        self.data = data
        # Of all that was encoded; ``data`` may be only its beginning.
        self.length = len(data) if length is None else length
        self.position = 0

    @property
    def left(self) -> int:
        """The number of bytes not yet read."""
        return len(self.data) - self.position

    def byte(self) -> int:
        """Read one byte."""
        if self.position >= len(self.data):
            self.fail("ends too early", "it was probably truncated on the way")
        self.position += 1
        return self.data[self.position - 1]

    def take(self, length: int) -> bytes:
        """Read ``length`` bytes."""
        if length > self.left:
            self.fail(
                f"claims {length} bytes, but {self.left} are left",
                "it was probably truncated on the way",
            )
        self.position += length
        return self.data[self.position - length : self.position]

    def varint(self) -> int:
        """Read an integer written by :func:`put_varint`."""
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 56:
                self.fail("has an integer of more than 63 bits")
        if byte == 0 and shift:
            self.fail("has an integer with a superfluous byte")
        return value

    def count(self, what: str, size_min: int = 1) -> int:
        """Read a number of items that take at least ``size_min`` bytes each."""
        value = self.varint()
        if value * size_min > self.left:
            self.fail(f"claims {value} {what}, but {self.left} bytes are left")
        return value

    def fail(
        self, fault: str, advice: str = "the sender probably runs another version"
    ) -> NoReturn:
        """Raise the error for malformed bytes."""
        msg = f"encoded data of {self.length} bytes {fault} at byte {self.position}; {advice}"
        raise PeerError(msg)


def check_mark(reader: Reader, mark: int, what: str) -> None:
    """Read the first byte; refuse other kinds of data and other versions."""
    byte = reader.byte()
    if byte & 0xF0 != mark:
        msg = f"encoded data starts with {byte:#04x}, so it is not a {what}"
        raise PeerError(msg)
    if byte - mark != VERSION:
        msg = (
            f"the {what} is in version {byte - mark} of the format, this Codec reads version "
            f"{VERSION}; run the same version of antecede on both sides"
        )
        raise PeerError(msg)
