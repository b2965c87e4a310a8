"""Packets as bytes: a header of a few numbers, then the control, then the payload unchanged."""

from typing import Final, Literal

from antecede.core.messages import MessageId, Packet
from antecede.core.registry import PROTOCOLS, protocol_of_number
from antecede.errors import PeerError, UsageError
from antecede.wire.bits import BitReader, BitWriter
from antecede.wire.lanes import read_varint
from antecede.wire.roster import CELLS_MAX, KEPT_MAX, PAIR_MAX, Scope, WireRoster
from antecede.wire.sets import get_list, get_set, is_names, put_names
from antecede.wire.stream import CONTROL_BYTES_MAX, PACKET_MARK, VERSION, Reader, put_varint
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
HEAD_BYTES_MAX: Final = 256
"""What may come before the control: numbers and, for a protocol without a number, its name."""
FOLLOWS: Final = 0
NO_BYTES: Final[tuple[object, ...]] = (None, (), None)
"""The control of a packet whose tag (1 or 2) says that no bytes of control follow."""


def put_packet(out: bytearray, packet: Packet, scope: Scope) -> None:
    """Append everything of a packet except its payload."""
    shape, control = _shape(packet), packet.control
    tag = 3 * shape + _absence(control)
    try:
        start = scope.roster.starts.get((packet.protocol, tag, packet.source, packet.dest))
    except TypeError:  # not names
        start = None
    out += _start(packet, tag, scope) if start is None else start
    _put_positive(out, packet.n, "number")
    message = packet.message
    if message is not None:
        if shape == RELAYED:
            put_varint(out, scope.roster.number(message.sender))
        _put_positive(out, message.seq, "seq")
        _put_dests(out, packet.dests, scope)
    put_control(out, control, scope)


def _start(packet: Packet, tag: int, scope: Scope) -> bytes:
    """Return what comes before the numbers of a packet, and remember it."""
    roster = scope.roster
    out = bytearray((PACKET_MARK + VERSION,))
    out += roster.identity
    info = PROTOCOLS.get(packet.protocol)
    number = NAME_FOLLOWS if info is None else info.wire_number
    put_varint(out, TAGS * number + tag)
    if number == NAME_FOLLOWS:
        _put_name(out, packet.protocol)
    source, dest = roster.number(packet.source), roster.number(packet.dest)
    if roster.is_paired:
        out.append(PAIR_MAX * source + dest)
    else:
        put_varint(out, source)
        put_varint(out, dest)
    made = bytes(out)
    if number != NAME_FOLLOWS:
        if len(roster.starts) >= KEPT_MAX:
            roster.starts.clear()
        roster.starts[packet.protocol, tag, packet.source, packet.dest] = made
    return made


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


def read_packet(data: bytes, roster: WireRoster) -> Packet | None:
    """Return a packet, or None if it is unusual or wrong and has to be read with more care."""
    try:
        tag, at = read_varint(data, 1 + len(roster.identity))
        number, rest = divmod(tag, TAGS)
        protocol = protocol_of_number(number)
        if rest >= STAMPED or protocol is None:
            return None
        shape, absence = divmod(rest, 3)
        source_no, dest_no, n, at = _read_channel(data, at, roster)
        source, dest = roster.names[source_no], roster.names[dest_no]
        scope = Scope(roster)
        message: MessageId | None = None
        dests: tuple[str, ...] = ()
        if shape != CONTROL:
            sender_no = source_no
            if shape == RELAYED:
                sender_no, at = read_varint(data, at)
            seq, at = read_varint(data, at)
            if not seq or (shape == RELAYED) != (sender_no != source_no):
                return None
            message = MessageId(roster.names[sender_no], seq)
            dests, at = _known_dests(data, at, scope)
        control = NO_BYTES[absence]
        if absence == FOLLOWS:
            control, at = _get_control(data, at, protocol, scope)
    except (IndexError, PeerError, UsageError):
        return None  # the careful way says what is wrong
    kind: Literal["data", "control"] = "control" if message is None else "data"
    payload = data[at:]
    if not n:
        return None
    return Packet(source, dest, n, kind, message, dests, payload, control, protocol)


def read_route(data: bytes, roster: WireRoster) -> tuple[str, str, int] | None:
    """Return source, destination and number of a packet, or None if that takes more care."""
    try:
        tag, at = read_varint(data, 1 + len(roster.identity))
        if protocol_of_number(tag // TAGS) is None:
            return None
        source, dest, n, _ = _read_channel(data, at, roster)
        return (roster.names[source], roster.names[dest], n) if n else None
    except (IndexError, PeerError):
        return None


def _read_channel(data: bytes, at: int, roster: WireRoster) -> tuple[int, int, int, int]:
    """Return the numbers of source and destination, the packet's number, the place behind them."""
    if roster.is_paired:
        source, dest = divmod(data[at], PAIR_MAX)
        at += 1
    else:
        source, at = read_varint(data, at)
        dest, at = read_varint(data, at)
    n, at = read_varint(data, at)
    return source, dest, n, at


def _known_dests(data: bytes, at: int, scope: Scope) -> tuple[tuple[str, ...], int]:
    """Return destinations that were seen before, and the place behind them."""
    roster = scope.roster
    for length in roster.lengths:
        dests = roster.listed.get(data[at : at + length])
        if dests is not None:
            scope.grant -= roster.targets[dests][1]
            return dests, at + length
    raise IndexError


def _get_control(data: bytes, at: int, protocol: str, scope: Scope) -> tuple[object, int]:
    """Read a control, and write it again to see whether this is its canonical form."""
    grant = scope.grant
    reader = Reader(data[at : HEAD_BYTES_MAX + CONTROL_BYTES_MAX])
    control = get_value(reader, scope)
    again = Scope(scope.roster, is_strict=PROTOCOLS[protocol].names_only)
    again.grant = grant
    out = bytearray()
    if _absence(control) == FOLLOWS:
        put_value(out, control, again)
    if out != reader.data[: reader.position]:
        raise IndexError
    return control, at + reader.position


def put_control(out: bytearray, control: object, scope: Scope) -> None:
    """Append a packet's control, or nothing if the tag says it all.

    The copies of a message often share their control; then it is written once.
    """
    if _absence(control) != FOLLOWS:
        return
    roster, before = scope.roster, (scope.grant, scope.cells, scope.is_strict, scope.is_flat)
    last = roster.control
    if last is not None and last[0] is control and last[2] == before:
        out += last[1]
        scope.grant, scope.cells = last[3]
        return
    start = len(out)
    put_value(out, control, scope)
    if type(control) is tuple:
        roster.control = control, bytes(out[start:]), before, (scope.grant, scope.cells)


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
    try:
        known = scope.roster.targets.get(dests)
    except TypeError:  # not names
        known = None
    if known is not None:
        out += known[0]
        scope.grant -= known[1]
        return
    grant = scope.grant
    if len(dests) > CELLS_MAX:
        msg = f"packet has {len(dests)} destinations; at most {CELLS_MAX} can be encoded"
        raise UsageError(msg)
    numbers = [scope.roster.number(dest) for dest in dests]
    made = bytearray()
    bits = BitWriter(made)
    if is_names(dests, scope):
        bits.put(1, 1)
        put_names(bits, dests, scope)
    else:
        bits.put(0, 1)
        bits.golomb(len(numbers), 0)
        bits.each(numbers, scope.roster.width)
    bits.close()
    out += made
    if type(dests) is tuple:
        scope.roster.keep_dests(dests, bytes(made), grant - scope.grant)


def _dests(reader: Reader, scope: Scope) -> tuple[str, ...]:
    bits = BitReader(reader)
    if bits.get(1):
        names = scope.roster.in_order(get_set(bits, scope))
    else:
        names = tuple(get_list(bits, bits.golomb(0, CELLS_MAX), scope))
    bits.close()
    return names
