"""Packets as bytes: a header of a few numbers, the control, and the payload as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from antecede.core.messages import MessageId, Packet
from antecede.errors import UsageError
from antecede.wire.bits import BitReader, BitWriter
from antecede.wire.sets import get_set, is_names, number_width, put_names
from antecede.wire.stream import put_varint

if TYPE_CHECKING:
    from antecede.wire.roster import Scope
    from antecede.wire.stream import Reader

PROTOCOL_NUMBERS: Final = (
    "",
    "history",
    "vectors",
    "server",
    "matrix",
    "broadcast",
    "buffered",
    "direct",
    "pruned",
    "optimal",
    "semantic",
    "bounded",
    "context",
    "phases",
    "zones",
    "serial",
    "two_hop",
    "synchronous",
    "central",
    "hierarchy",
)
"""Protocols by number; 0 means that the name is spelt out. Append only."""
NAME_BYTES_MAX: Final = 100

OWN, RELAYED, BARE, ADDRESSED = range(4)
"""The shapes of a packet: its source's message, another's, a control packet without and with dests."""


def put_header(out: bytearray, packet: Packet, scope: Scope) -> None:
    """Append everything of a packet but its control and payload."""
    shape = _shape(packet)
    number = PROTOCOL_NUMBERS.index(packet.protocol) if packet.protocol in PROTOCOL_NUMBERS else 0
    put_varint(out, number << 2 | shape)
    if number == 0:
        _put_name(out, packet.protocol)
    put_varint(out, scope.roster.number(packet.source))
    put_varint(out, scope.roster.number(packet.dest))
    _put_positive(out, packet.n, "number")
    if packet.message is not None:
        if shape == RELAYED:
            put_varint(out, scope.roster.number(packet.message.sender))
        _put_positive(out, packet.message.seq, "seq")
    if shape != BARE:
        _put_dests(out, packet.dests, scope)


def get_header(reader: Reader, scope: Scope) -> Packet:
    """Read a header; the packet returned has no control and no payload yet."""
    tag = reader.varint()
    number, shape = tag >> 2, tag & 3
    if number >= len(PROTOCOL_NUMBERS):
        reader.fail(f"is of protocol number {number}, which this version does not know")
    protocol = PROTOCOL_NUMBERS[number] or _name(reader)
    source, dest = _member(reader, scope), _member(reader, scope)
    n = _positive(reader, "number")
    message = None
    if shape in (OWN, RELAYED):
        sender = source if shape == OWN else _member(reader, scope)
        message = MessageId(sender, _positive(reader, "seq"))
    dests: tuple[str, ...] = () if shape == BARE else _dests(reader, scope)
    kind: Literal["data", "control"] = "control" if message is None else "data"
    return Packet(source, dest, n, kind, message, dests, b"", None, protocol)


def _shape(packet: Packet) -> int:
    if (packet.kind == "data") != (packet.message is not None):
        msg = f"packet of kind {packet.kind!r} has message {packet.message}; only data packets do"
        raise UsageError(msg)
    if packet.message is not None:
        return OWN if packet.message.sender == packet.source else RELAYED
    return ADDRESSED if packet.dests else BARE


def _put_name(out: bytearray, protocol: str) -> None:
    name = protocol.encode()
    if not 0 < len(name) <= NAME_BYTES_MAX:
        msg = f"protocol name {protocol!r} is not of 1 to {NAME_BYTES_MAX} bytes"
        raise UsageError(msg)
    put_varint(out, len(name))
    out += name


def _put_positive(out: bytearray, value: int, what: str) -> None:
    if type(value) is not int or value < 1:
        msg = f"packet has {what} {value!r}; expected an integer from 1"
        raise UsageError(msg)
    put_varint(out, value)


def _name(reader: Reader) -> str:
    length = reader.varint()
    if not 0 < length <= NAME_BYTES_MAX:
        reader.fail(f"has a protocol name of {length} bytes, not 1 to {NAME_BYTES_MAX}")
    try:
        return reader.take(length).decode()
    except UnicodeDecodeError:
        reader.fail("has a protocol name that is not UTF-8")


def _member(reader: Reader, scope: Scope) -> str:
    number = reader.varint()
    if number >= len(scope.roster):
        reader.fail(f"names member {number} of {len(scope.roster)}")
    return scope.roster.names[number]


def _positive(reader: Reader, what: str) -> int:
    value = reader.varint()
    if value < 1:
        reader.fail(f"has {what} 0; they count from 1")
    return value


def _put_dests(out: bytearray, dests: tuple[str, ...], scope: Scope) -> None:
    """Append destinations: a set after a bit 1; if they are not in order, a list after a bit 0."""
    numbers = [scope.roster.number(dest) for dest in dests]
    bits = BitWriter(out)
    if is_names(dests, scope):
        bits.put(1, 1)
        put_names(bits, dests, scope)
    else:
        bits.put(0, 1)
        bits.golomb(len(numbers), 0)
        for number in numbers:
            bits.put(number, number_width(len(scope.roster)))
    bits.close()


def _dests(reader: Reader, scope: Scope) -> tuple[str, ...]:
    bits = BitReader(reader)
    count = len(scope.roster)
    if bits.get(1):
        names = scope.roster.in_order(get_set(bits, scope))
    else:
        length, width = bits.golomb(0), number_width(count)
        bits.expect(length, width)
        numbers = [bits.get(width) for _ in range(length)]
        if max(numbers, default=0) >= count:
            bits.fail(f"names member {max(numbers)} of {count}")
        names = tuple(scope.roster.names[number] for number in numbers)
    bits.close()
    return names
