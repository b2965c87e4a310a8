"""Packets as bytes: a header of a few numbers, then the control, then the payload unchanged."""

from typing import Final, Literal

from antecede.core.messages import MessageId, Packet
from antecede.core.registry import PROTOCOLS, protocol_of_number
from antecede.errors import UsageError
from antecede.wire.bits import BitReader, BitWriter
from antecede.wire.roster import PAIR_MAX, Scope
from antecede.wire.sets import get_list, get_set, is_names, put_names
from antecede.wire.stream import PACKET_MARK, VERSION, Reader, put_varint
from antecede.wire.values import get_member, get_value, put_value

NAME_FOLLOWS: Final = 0
"""Instead of a protocol's number: its name is spelt out."""
NAME_BYTES_MAX: Final = 100

OWN, RELAYED, CONTROL = range(3)
"""The shapes of a packet: it brings its source's message, another process's, or none."""
STAMPED: Final = 9
"""From here on the kinds of packets with a stamp; see ``quick``."""
TAGS: Final = 21
"""How many kinds of packets there are."""
FOLLOWS: Final = 0
NO_BYTES: Final[tuple[object, ...]] = (None, (), None)
"""The control of a packet whose tag (1 or 2) says that no bytes of control follow."""


def put_packet(out: bytearray, packet: Packet, scope: Scope) -> None:
    """Append everything of a packet except its payload."""
    out.append(PACKET_MARK + VERSION)
    out += scope.roster.identity
    shape = _shape(packet)
    info = PROTOCOLS.get(packet.protocol)
    number = NAME_FOLLOWS if info is None else info.wire_number
    put_varint(out, TAGS * number + 3 * shape + _absence(packet.control))
    if number == NAME_FOLLOWS:
        _put_name(out, packet.protocol)
    source, dest = scope.roster.number(packet.source), scope.roster.number(packet.dest)
    if scope.roster.is_paired:
        out.append(PAIR_MAX * source + dest)
    else:
        put_varint(out, source)
        put_varint(out, dest)
    _put_positive(out, packet.n, "number")
    if packet.message is not None:
        if shape == RELAYED:
            put_varint(out, scope.roster.number(packet.message.sender))
        _put_positive(out, packet.message.seq, "seq")
        _put_dests(out, packet.dests, scope)
    put_control(out, packet.control, scope)


def get_packet(reader: Reader, scope: Scope) -> Packet:
    """Read a packet from its tag on, without its payload."""
    number, rest = divmod(reader.varint(), TAGS)
    if rest >= STAMPED:
        reader.fail(f"is of protocol number {number} and has a stamp, which it never has")
    shape, absence = divmod(rest, 3)
    protocol = _name(reader) if number == NAME_FOLLOWS else protocol_of_number(number)
    if protocol is None:
        reader.fail(f"is of protocol number {number}, which this version does not know")
    if scope.roster.is_paired:
        numbers = divmod(reader.byte(), PAIR_MAX)
    else:
        numbers = reader.varint(), reader.varint()
    source, dest = (get_member(reader, number, scope) for number in numbers)
    n = _positive(reader, "number")
    message: MessageId | None = None
    dests: tuple[str, ...] = ()
    if shape != CONTROL:
        sender = source if shape == OWN else get_member(reader, reader.varint(), scope)
        message = MessageId(sender, _positive(reader, "seq"))
        dests = _dests(reader, scope)
    kind: Literal["data", "control"] = "control" if message is None else "data"
    control = get_value(reader, scope) if absence == FOLLOWS else NO_BYTES[absence]
    return Packet(source, dest, n, kind, message, dests, b"", control, protocol)


def put_control(out: bytearray, control: object, scope: Scope) -> None:
    """Append a packet's control, or nothing if the tag says it all."""
    if _absence(control) == FOLLOWS:
        put_value(out, control, scope)


def _absence(control: object) -> int:
    if control is None:
        return 2
    return 1 if type(control) is tuple and not control else FOLLOWS


def _shape(packet: Packet) -> int:
    if packet.message is None and packet.kind == "control" and packet.dests == ():
        return CONTROL
    if packet.message is None or packet.kind != "data":
        msg = (
            f"packet of kind {packet.kind!r} has message {packet.message} and dests "
            f"{packet.dests}; a data packet has a message, a control packet has neither"
        )
        raise UsageError(msg)
    return OWN if packet.message.sender == packet.source else RELAYED


def _put_name(out: bytearray, protocol: str) -> None:
    name = protocol.encode(errors="replace")
    if not 0 < len(name) <= NAME_BYTES_MAX or name.decode() != protocol:
        msg = f"protocol name {protocol!r} is not UTF-8 of 1 to {NAME_BYTES_MAX} bytes"
        raise UsageError(msg)
    put_varint(out, len(name))
    out += name


def _put_positive(out: bytearray, value: int, what: str) -> None:
    if type(value) is not int or value < 1:
        msg = f"packet has {what} {value!r}; expected an integer of at least 1"
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


def _positive(reader: Reader, what: str) -> int:
    value = reader.varint()
    if value < 1:
        reader.fail(f"has {what} 0; they start at 1")
    return value


def _put_dests(out: bytearray, dests: tuple[str, ...], scope: Scope) -> None:
    """Append destinations: bit 1 and a set, or bit 0 and a list if they are not in order."""
    numbers = [scope.roster.number(dest) for dest in dests]
    bits = BitWriter(out)
    if is_names(dests, scope):
        bits.put(1, 1)
        put_names(bits, dests, scope)
    else:
        bits.put(0, 1)
        bits.golomb(len(numbers), 0)
        for number in numbers:
            bits.put(number, scope.roster.width)
    bits.close()


def _dests(reader: Reader, scope: Scope) -> tuple[str, ...]:
    bits = BitReader(reader)
    if bits.get(1):
        names = scope.roster.in_order(get_set(bits, scope))
    else:
        names = tuple(get_list(bits, bits.golomb(0), scope))
    bits.close()
    return names
