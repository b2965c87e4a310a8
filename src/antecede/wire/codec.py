"""The Codec: packets and endpoints as bytes. Version 3.

A packet is: a byte with the version and flags; the view's number and digest; its source and
destination; its number on that channel; for data, the message's number and destinations; the
control that all copies share; the control of this copy alone; and the payload. Everything before
the payload is canonical: a packet has one encoding, and the decoder refuses any other.

A snapshot is the whole state of an endpoint, by field names, as JSON. Bytes and packets are base 64
texts within an object of one field. A field with a value that no endpoint can have is refused.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from typing import Any, Final

from antecede.endpoint.endpoint import Endpoint, other_number
from antecede.endpoint.messages import PAYLOAD_MAX, Message, Packet, new_message, new_packet
from antecede.endpoint.numbers import BYTE, read_count, read_varint, varint
from antecede.endpoint.registry import PROTOCOLS, restored, view_of
from antecede.endpoint.rules import Wire
from antecede.endpoint.saved import Saved, State
from antecede.endpoint.view import DIGEST_BYTES, View
from antecede.errors import AntecedeError, PeerError, SnapshotError, UsageError, listed, shown

VERSION: Final = 3
ALONE, OTHERS, LIST, BITS = range(4)
"""How destinations are written: one, all but the sender, a list of numbers, or a bit for each."""
CONTROL: Final = 4
"""Flag: a control packet, whose message has no number and no destinations."""
RELAYED: Final = 8
"""Flag: the message's sender is not the packet's source."""
PAIR_MAX: Final = 16
"""With at most this many members, source and destination share a byte."""
SNAPSHOT: Final = "antecede snapshot"
BYTES: Final = "base64"
PACKET: Final = "packet"
OTHER_SNAPSHOT: Final = (
    f"not a snapshot of version {VERSION}: it is damaged, or of another release of antecede; start "
    "anew, in a new view"
)


class Codec:
    """Turns the packets and endpoints of one view into bytes and back.

    Make it from an endpoint or a view. Made from members alone, it adopts the view of the first
    packet or endpoint that it handles; of one that it decodes, only if all options are default.
    """

    def __init__(self, of: Endpoint | View | Iterable[str]) -> None:
        self._view: View | None = None
        self._identity, self._route_at = b"none yet", 0
        of = of.view if isinstance(of, Endpoint) else of
        known = of if isinstance(of, View) else view_of("optimal", of)  # checks the names
        self._members, self._count = known.members, known.n
        if known is of:
            self._adopt(known)

    @property
    def members(self) -> tuple[str, ...]:
        """The names, by number."""
        return self._members

    def encode(self, packet: Packet, payload: bool = True) -> bytes:  # noqa: FBT001, FBT002 - api
        """Return a packet as bytes; pass ``payload=False`` to put it in another system's header."""
        if type(packet) is not Packet:
            raise UsageError(f"cannot encode {type(packet).__name__}; expected a Packet")
        message = packet.content
        if message.view is not self._view:
            self._check_view(message.view)
        flags, body = message.body or self._body(message)
        source = packet.source_no
        if source != message.sender:
            flags |= RELAYED
            body = varint(message.sender) + body
        if self._is_paired:
            route = BYTE[source << 4 | packet.dest_no]
        else:
            route = varint(source) + varint(packet.dest_no)
        own = self._wire.put_own(packet)
        rest = message.payload if payload else b""
        return b"".join((self._heads[flags], route, varint(packet.n), body, own, rest))

    def decode(self, data: bytes) -> Packet:
        """Return the packet that ``data`` encodes; raise PeerError for anything else."""
        if type(data) is not bytes:
            data = _as_bytes(data)
        try:
            if data[1 : self._route_at] != self._identity or data[0] >> 4 != VERSION:
                self._check_identity(data)
            return self._packet(data)
        except (IndexError, ValueError, OverflowError) as error:
            msg = f"a packet of {len(data)} bytes ends too early or is malformed; drop it"
            raise PeerError(msg) from error
        except PeerError as error:
            if type(error) is not PeerError or str(error).endswith("it"):
                raise
            raise PeerError(f"a packet of {len(data)} bytes {error}; drop it") from None

    def route(self, data: bytes) -> tuple[str, str, int]:
        """Return the source, the destination and the number of a packet, and read no further.

        It costs a fraction of :meth:`decode`, which may still refuse the rest.
        """
        data = _as_bytes(data)
        try:
            if data and data[1 : self._route_at] == self._identity:
                source, dest, n, _ = self._route(data)
                return self._members[source], self._members[dest], n
        except (IndexError, PeerError):
            pass  # decode() raises with the reason
        packet = self.decode(data)
        return packet.source, packet.dest, packet.n

    def wire_bytes(self, packet: Packet) -> int:
        """Return the length of the packet's encoded control alone."""
        if type(packet) is not Packet:
            raise UsageError(f"cannot measure {type(packet).__name__}; expected a Packet")
        if packet.content.view is not self._view:
            self._check_view(packet.content.view)
        return len(self._wire.put(packet.content)) + len(self._wire.put_own(packet))

    def snapshot(self, endpoint: Endpoint) -> bytes:
        """Return the whole state of an endpoint as bytes."""
        if not isinstance(endpoint, Endpoint):
            msg = f"cannot take a snapshot of {type(endpoint).__name__}; expected an Endpoint"
            raise UsageError(msg)
        view = endpoint.view
        self._check_view(view)
        record = {
            "format": SNAPSHOT,
            "version": VERSION,
            "view": view.number,
            "members": view.members,
            "protocol": view.protocol,
            "options": view.options,
            "endpoint": endpoint.state(),
        }
        return json.dumps(record, default=self._plain, separators=(",", ":")).encode()

    def restore(self, data: bytes, *, resumed: bool = False) -> Endpoint:
        """Return an endpoint that continues where the one given to :meth:`snapshot` stopped.

        With ``resumed=True`` you vouch that nothing was sent since the snapshot was taken; the
        endpoint then goes on as if it had never stopped. Otherwise it can only deliver: its sends
        could reuse numbers, so sending needs a new view.
        """
        if not isinstance(resumed, bool):
            raise UsageError(f"resumed={shown(resumed)} is neither True nor False")
        data = _as_bytes(data)
        try:
            view, state = self._snapshot(json.loads(data) if data.startswith(b"{") else None)
            return restored(view, _read(state, Codec(view).decode), resumed=resumed)
        except SnapshotError:
            raise
        except (AntecedeError, ValueError, TypeError, RecursionError, OverflowError) as error:
            reason = " ".join(str(error).split())[:200]
            msg = f"not a snapshot that can be used: {reason}; take a new one"
            raise SnapshotError(msg) from error

    def _plain(self, value: object) -> object:
        """Return bytes or a packet in the form that a snapshot has."""
        if isinstance(value, bytes):
            return {BYTES: b64encode(value).decode()}
        assert isinstance(value, Packet), f"{value!r} cannot be saved"
        return {PACKET: b64encode(self.encode(value)).decode()}

    def _snapshot(self, data: object) -> tuple[View, object]:
        """Return the view in a snapshot, and the endpoint's state as plain data."""
        if data is None:
            raise SnapshotError(OTHER_SNAPSHOT)
        record = Saved("snapshot", data)
        if record.field("format", "", str) != SNAPSHOT or record.number("version", 0) != VERSION:
            raise SnapshotError(OTHER_SNAPSHOT)
        number, names = record.number("view", 0), record.plain("members")
        protocol = record.field("protocol", "", str)
        options: State = record.field("options", {}, dict)
        if names != [*self._members]:
            whose = listed(self._members)
            raise SnapshotError(f"a snapshot of other members than {whose}; use its own Codec")
        view = view_of(protocol, self._members, number=number, **_tuples(options))
        if self._view is not None and view.digest != self._view.digest:
            msg = f"a snapshot of {view}, not of {self._view}; use the Codec of its view"
            raise SnapshotError(msg)
        state = record.plain("endpoint")
        record.read(lambda _: None)
        return view, state

    # Views.

    def _adopt(self, view: View) -> None:
        self._view = view
        self._wire: Wire = view.forms
        self._identity = varint(view.number) + view.digest
        self._heads = [BYTE[VERSION << 4 | flags] + self._identity for flags in range(16)]
        self._route_at = 1 + len(self._identity)
        self._is_paired = view.n <= PAIR_MAX
        self._set_bytes = view.n + 7 >> 3
        self._relays = self._wire.relays

    def _check_view(self, view: View) -> None:
        """Refuse a view other than this Codec's; adopt it if this Codec has none yet."""
        if self._view is None and view.members == self._members:
            self._adopt(view)
        elif self._view is None or view.digest != self._view.digest:
            msg = f"this Codec is of {self._view or self._members}, not of {view}; make one for it"
            raise UsageError(msg)

    def _check_identity(self, data: bytes) -> None:
        """Refuse a packet of another view; adopt its view if this Codec has none yet."""
        if data[0] >> 4 != VERSION:
            raise PeerError(
                f"a packet of version {data[0] >> 4}, not {VERSION}: its sender runs another "
                "release of antecede; run the same everywhere, or drop it"
            )
        number, at = read_count(data, 1)
        digest = data[at : at + DIGEST_BYTES]
        if self._view is None:
            for name in PROTOCOLS:
                try:
                    view = view_of(name, self._members, number=number)
                except UsageError:  # an option has no default for these members
                    continue
                if view.digest == digest:
                    self._adopt(view)
                    return
            raise PeerError(
                "a packet of a view that this Codec does not know: make it from the endpoint that "
                "it is for, or drop it"
            )
        raise other_number("a packet", number, self._view)

    # Packets.

    def _route(self, data: bytes) -> tuple[int, int, int, int]:
        """Return the source, destination and number of a packet, and the offset after them."""
        at = self._route_at
        if self._is_paired:
            source, dest = data[at] >> 4, data[at] & 15
            at += 1
        else:
            source, at = read_varint(data, at)
            dest, at = read_varint(data, at)
        n, at = read_count(data, at, 1)
        if source >= self._count or dest >= self._count or source == dest:
            raise PeerError(f"goes from member {source} to member {dest}, of {self._count}")
        return source, dest, n, at

    def _packet(self, data: bytes) -> Packet:
        wire, flags = self._wire, data[0] & 15
        source, dest, n, at = self._route(data)
        sender = source
        if flags >= RELAYED:
            sender, at = self._get_sender(data, at, source)
        seq, dests = 0, 0
        if not flags & CONTROL:
            seq, at = read_count(data, at, 1)
            dests = 1 << dest
            if flags or self._relays:
                dests, at = self._get_dests(data, at, flags & 3, sender)
                if not dests >> dest & 1 and not self._relays:
                    raise PeerError(f"is for member {dest}, but its message is not")
        elif flags & 3:
            raise PeerError("has flags that contradict each other")
        message = new_message(wire.view, sender, seq, dests, b"", None)
        message.control, at = wire.get(data, at, message)
        packet = new_packet(message, source, dest, n, None)
        packet.own, at = wire.get_own(data, at, packet)
        size = len(data) - at
        if not 0 <= size <= (PAYLOAD_MAX if seq else 0):
            raise PeerError("ends too early, or has a payload that is not allowed")
        message.payload = data[at:]
        return packet

    def _get_sender(self, data: bytes, at: int, source: int) -> tuple[int, int]:
        sender, at = read_varint(data, at)
        if sender >= self._count or sender == source or not self._relays:
            raise PeerError("brings a message of another process, which its protocol does not")
        return sender, at

    def _body(self, message: Message) -> tuple[int, bytes]:
        """Return the flags, and what all copies share after the packet's number."""
        control = self._wire.put(message)
        if not message.seq:
            made = CONTROL, control
        else:
            form, dests = self._put_dests(message.dests, message.sender)
            made = form, b"".join((varint(message.seq), dests, control))
        message.body = made
        return made

    def _put_dests(self, mask: int, sender: int) -> tuple[int, bytes]:
        view = self._view
        assert view is not None
        if not mask & mask - 1 and not self._relays:
            return ALONE, b""
        if mask == view.everyone ^ 1 << sender:
            return OTHERS, b""
        if mask.bit_count() + 1 < self._set_bytes:
            numbers = view.list(mask)
            return LIST, b"".join(map(varint, (len(numbers), *numbers)))
        return BITS, mask.to_bytes(self._set_bytes, "little")

    def _get_dests(self, data: bytes, at: int, form: int, sender: int) -> tuple[int, int]:
        view = self._view
        assert view is not None
        if form == OTHERS:
            mask, end = view.everyone ^ 1 << sender, at
        elif form == BITS:
            end = at + self._set_bytes
            mask = int.from_bytes(data[at:end], "little")
        else:
            mask, (count, end) = 0, read_varint(data, at) if form == LIST else (0, at)
            for _ in range(count if count <= self._set_bytes else 0):
                number, end = read_varint(data, end)
                mask |= 1 << min(number, view.n)
        if not mask or mask >> view.n or self._put_dests(mask, sender) != (form, data[at:end]):
            msg = "has destinations that are not members, or in a form that is not the shortest"
            raise PeerError(msg)
        return mask, end


def _as_bytes(data: object) -> bytes:
    if isinstance(data, bytes):
        return data
    if isinstance(data, (bytearray, memoryview)):
        return bytes(data)
    raise UsageError(f"got {type(data).__name__}; expected bytes")


def _read(value: object, decode: Callable[[bytes], Packet]) -> object:
    """Return state with bytes and packets in place of their texts."""
    if isinstance(value, list):
        return [_read(part, decode) for part in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {BYTES}:
        return b64decode(value[BYTES], validate=True)
    if value.keys() == {PACKET}:
        return decode(b64decode(value[PACKET], validate=True))
    return {name: _read(part, decode) for name, part in value.items()}


def _tuples(value: Any) -> Any:
    """Return options as they were given: JSON has turned tuples into lists."""
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    if isinstance(value, dict):
        return {name: _tuples(part) for name, part in value.items()}
    return value
