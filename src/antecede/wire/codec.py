"""The Codec: what both ends of a channel share, so that few bytes suffice.

A Codec knows the members by position, and recognises earlier members by the digest in a header.
Encoding is canonical: a packet has exactly one encoding, and the decoder refuses any other. Logs
of stamps are checked while they are read (:mod:`antecede.wire.quick`). Of other controls the Codec
encodes what it has read and compares: that does the work twice, but stays linear in its input.
"""

from collections.abc import Iterable
from typing import Final

from antecede.core.endpoint import Endpoint
from antecede.core.groups import as_flag, as_name, distinct_names
from antecede.core.messages import Packet
from antecede.core.registry import PROTOCOLS
from antecede.core.roster import DIGEST_BYTES, Roster
from antecede.core.validation import shown
from antecede.errors import PeerError, UnknownProcessError, UsageError
from antecede.wire.counted import has_stamps
from antecede.wire.packets import (
    HEAD_BYTES_MAX,
    get_packet,
    put_control,
    put_packet,
    read_packet,
    read_route,
)
from antecede.wire.quick import MARK, Quick, quick_of
from antecede.wire.roster import Scope, WireRoster
from antecede.wire.snapshots import get_snapshot, make_snapshot
from antecede.wire.stream import CONTROL_BYTES_MAX, PACKET_MARK, Reader, check_mark

PACKET_BYTES_MAX: Final = 64 * 1024 * 1024
MEMBERS_MAX: Final = 1 << 16
ROSTERS_MAX: Final = 256
"""How many earlier rosters a Codec recognises."""
PREFIX_CELLS_MAX: Final = 1 << 24
"""How much it remembers of rosters that are the beginning of its own, in members squared.

Any peer can name one in a few bytes, and what is remembered of it grows with that square.
"""


class Codec:
    """Turns packets and endpoints into bytes and back, for members known to both sides.

    Members are numbered by position, so all processes must list, add and remove them in the same
    order. A header carries a digest of the members, so a Codec with others refuses the packet.
    """

    def __init__(self, members: Iterable[str]) -> None:
        names = distinct_names("members", members)
        if not 1 <= len(names) <= MEMBERS_MAX:
            msg = f"got {len(names)} members; expected 1 to {MEMBERS_MAX}"
            raise UsageError(msg)
        self._known: dict[bytes, Quick] = {}
        self._prefixes: list[bytes] = []
        """Those of the known rosters that only a peer named, the oldest first."""
        self._change(names)

    @property
    def members(self) -> tuple[str, ...]:
        """The names, by number."""
        return self._now.wire.names

    def add(self, process: str) -> None:
        """Append a member; add and remove members in the same order everywhere."""
        names = self.members
        if as_name("member", process) in names:
            msg = f"process {process!r} is already a member of this Codec"
            raise UsageError(msg)
        if len(names) >= MEMBERS_MAX:
            msg = f"a Codec has at most {MEMBERS_MAX} members"
            raise UsageError(msg)
        self._change((*names, process))

    def remove(self, process: str) -> None:
        """Drop a member, and number those behind it anew; do so in the same order everywhere.

        Packets that were encoded before are still decoded. Call this when no endpoint's packets
        name the process any more: ``Endpoint.departed`` no longer lists it.
        """
        names = self.members
        if process not in names:
            msg = f"process {process!r} is not a member of this Codec ({', '.join(names)})"
            raise UsageError(msg)
        if len(names) == 1:
            msg = f"process {process!r} is the last member of this Codec; it cannot be removed"
            raise UsageError(msg)
        self._change(tuple(name for name in names if name != process))

    def _change(self, names: tuple[str, ...]) -> None:
        self._now = quick_of(names)
        identity = self._now.wire.identity
        if self._known.pop(identity, None) is not None and identity in self._prefixes:
            self._prefixes.remove(identity)
        self._known[identity] = self._now
        while len(self._known) - len(self._prefixes) > ROSTERS_MAX:
            del self._known[next(key for key in self._known if key not in self._prefixes)]

    def encode(self, packet: Packet, payload: bool = True) -> bytes:  # noqa: FBT001, FBT002 - api
        """Return a packet as bytes; without its payload it fits into another system's header."""
        if type(packet) is not Packet and not isinstance(packet, Packet):
            msg = f"cannot encode {type(packet).__name__}; expected a Packet"
            raise UsageError(msg)
        content = packet.payload
        if not isinstance(content, bytes):
            msg = f"payload is {type(content).__name__}; expected bytes"
            raise UsageError(msg)
        carried = content if payload else b""
        try:
            data = self._now.head(packet, carried) or self._head(packet, self._now) + carried
        except (AttributeError, TypeError, ValueError) as error:
            raise _not_encodable(packet) from error
        if len(data) > CONTROL_BYTES_MAX or not payload:
            self._check_size(len(data) - len(carried), len(content))
        return data

    def _check_size(self, head: int, payload: int) -> None:
        if head > HEAD_BYTES_MAX + CONTROL_BYTES_MAX:
            msg = (
                f"packet takes {head} bytes besides its payload; at most {CONTROL_BYTES_MAX} "
                "bytes of control can be encoded"
            )
            raise UsageError(msg)
        if head + payload > PACKET_BYTES_MAX:
            msg = (
                f"packet takes {head} bytes and a payload of {payload}; at most "
                f"{PACKET_BYTES_MAX} together can be encoded"
            )
            raise UsageError(msg)

    def decode(self, data: bytes) -> Packet:
        """Return the packet that ``data`` encodes; raise PeerError for anything else."""
        if type(data) is not bytes:
            data = _as_bytes(data)
        if len(data) <= PACKET_BYTES_MAX:
            known = self._known.get(data[1 : 2 + DIGEST_BYTES])
            if known is None:  # more than 127 members: their number takes more bytes
                known = self._known.get(data[1 : 3 + DIGEST_BYTES])
            if known is not None and data[0] == MARK:
                packet = known.packet(data)
                if packet is not None:
                    return packet
                packet = read_packet(data, known.wire)
                if packet is not None and not has_stamps(packet.protocol):
                    return packet
        return self._decode(data)

    def route(self, data: bytes) -> tuple[str, str, int]:
        """Return the source, the destination and the number of a packet, and read no further.

        It costs a fraction of :meth:`decode`, which may still refuse the rest.
        """
        data = _as_bytes(data)
        known = self._known.get(data[1 : 2 + DIGEST_BYTES])
        known = known or self._known.get(data[1 : 3 + DIGEST_BYTES])
        if known is not None and data[0] == MARK:
            found = read_route(data, known.wire)
            if found is not None:
                return found
        packet = self.decode(data)
        return packet.source, packet.dest, packet.n

    def _decode(self, data: bytes) -> Packet:
        """Decode any packet, by names."""
        reader = Reader(data[: HEAD_BYTES_MAX + CONTROL_BYTES_MAX], len(data))
        if len(data) > PACKET_BYTES_MAX:
            reader.fail(f"is longer than the {PACKET_BYTES_MAX} that a packet may have")
        check_mark(reader, PACKET_MARK, "packet")
        quick = self._quick_of(reader)
        stamped = quick.packet(data)  # its members were not known to decode()
        if stamped is not None:
            return stamped
        try:
            packet = get_packet(reader, Scope(quick.wire))
            head = quick.head(packet) or self._head(packet, quick)
        except UsageError as error:
            reader.fail(f"holds something that no Codec encodes ({error})")
        if head != reader.data[: reader.position]:
            reader.fail("is not in canonical form up to here")
        packet.payload = data[reader.position :]
        return packet

    def wire_bytes(self, packet: Packet) -> int:
        """Return the length of the packet's encoded control alone."""
        if not isinstance(packet, Packet):
            msg = f"cannot measure {type(packet).__name__}; expected a Packet"
            raise UsageError(msg)
        try:
            length = self._now.control_bytes(packet)
            if length is not None:
                return length
            out = bytearray()
            put_control(out, packet.control, _scope(packet, self._now.wire))
        except (AttributeError, TypeError, ValueError) as error:
            raise _not_encodable(packet) from error
        return len(out)

    def snapshot(self, endpoint: Endpoint) -> bytes:
        """Return the whole state of an endpoint as bytes."""
        if not isinstance(endpoint, Endpoint):
            msg = f"cannot take a snapshot of {type(endpoint).__name__}; expected an Endpoint"
            raise UsageError(msg)
        return make_snapshot(endpoint, self._now.wire)

    def restore(self, data: bytes, *, resumed: bool = False) -> Endpoint:
        """Return an endpoint that continues where the one given to :meth:`snapshot` stopped.

        With ``resumed=True`` you vouch that nothing was sent since the snapshot was taken; the
        endpoint then goes on as if it had never stopped. Otherwise it begins a new incarnation, and
        the others take what they have not received of the previous one for lost.
        """
        data = _as_bytes(data)
        endpoint = get_snapshot(Reader(data, len(data)), self._roster_of)
        if not as_flag("resumed", resumed):
            endpoint.restart()
        return endpoint

    def _head(self, packet: Packet, quick: Quick) -> bytes:
        out = bytearray()
        put_packet(out, packet, _scope(packet, quick.wire))
        return bytes(out)

    def _roster_of(self, reader: Reader) -> WireRoster:
        return self._quick_of(reader).wire

    def _quick_of(self, reader: Reader) -> Quick:
        """Read which members the sender assumed; before a join it knew fewer than we do."""
        start = reader.position
        count = reader.varint()
        digest = reader.take(DIGEST_BYTES)
        known = self._known.get(reader.data[start : reader.position])
        if known is not None:
            return known
        roster = self._now.wire.roster
        if not 0 < count <= len(roster) or roster.digests[count - 1] != digest:
            raise self._stranger(count, digest)
        return self._prefix(roster.names[:count])

    def _prefix(self, names: tuple[str, ...]) -> Quick:
        """Remember a beginning of our roster, and forget the oldest ones if these are too many."""
        known = Quick(WireRoster(names, Roster(names)))  # not kept elsewhere
        self._known[known.wire.identity] = known
        self._prefixes.append(known.wire.identity)
        cells = sum(len(self._known[identity].wire) ** 2 for identity in self._prefixes)
        while cells > PREFIX_CELLS_MAX and len(self._prefixes) > 1:
            cells -= len(self._known.pop(self._prefixes.pop(0)).wire) ** 2
        return known

    def _stranger(self, count: int, digest: bytes) -> PeerError:
        names = self.members
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        msg = (
            f"encoded data assumes {count} members, this Codec has {len(names)} ({shown}); their "
            f"digests are {digest.hex()} and {self._now.wire.roster.digest.hex()}; "
        )
        if count > len(names):
            msg += "if a process is joining, offer the data again after add()"
            return UnknownProcessError(msg, members=names)
        return PeerError(msg + "list, add and remove the same members in the same order everywhere")


def _as_bytes(data: object) -> bytes:
    if type(data) is bytes:
        return data
    if not isinstance(data, (bytes, bytearray, memoryview)):
        msg = f"cannot decode {type(data).__name__}; expected bytes"
        raise UsageError(msg)
    return bytes(data)


def _not_encodable(packet: Packet) -> UsageError:
    """Return the error for a packet that was made by hand, of parts that no packet has."""
    parts = (
        ("source", packet.source),
        ("dest", packet.dest),
        ("message", packet.message),
        ("dests", packet.dests),
        ("protocol", packet.protocol),
    )
    return UsageError(
        f"packet has {', '.join(f'{name} {shown(part)}' for name, part in parts)}; expected names, "
        "a MessageId (or None), a tuple of names and a protocol's name: encode packets as "
        "endpoints return them"
    )


def _scope(packet: Packet, roster: WireRoster) -> Scope:
    info = PROTOCOLS.get(packet.protocol)
    return Scope(roster, is_strict=info is not None and info.names_only)
