"""The Codec: what both ends of a channel share, so that few bytes suffice.

A Codec knows the members by position. Encoding is canonical: a packet has exactly one encoding, and
the decoder refuses any other. To be sure, it encodes what it has read and compares; so decoding
does its work twice, but stays linear in its input.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from antecede.core.endpoint import Endpoint
from antecede.core.groups import as_flag, as_name, distinct_names
from antecede.core.messages import Packet
from antecede.core.registry import PROTOCOLS
from antecede.errors import UnknownProcessError, UsageError
from antecede.wire.packets import get_packet, put_control, put_packet
from antecede.wire.roster import Roster, Scope
from antecede.wire.snapshots import get_snapshot, make_snapshot
from antecede.wire.stream import PACKET_MARK, VERSION, Reader, check_mark, put_varint

PACKET_BYTES_MAX: Final = 64 * 1024 * 1024
MEMBERS_MAX: Final = 1 << 16


class Codec:
    """Turns packets and endpoints into bytes and back, for members known to both sides.

    Members are numbered by position, so all processes must list them in the same order.
    """

    def __init__(self, members: Iterable[str]) -> None:
        names = distinct_names("members", members)
        if not 1 <= len(names) <= MEMBERS_MAX:
            msg = f"got {len(names)} members; expected 1 to {MEMBERS_MAX}"
            raise UsageError(msg)
        self._roster = Roster(names)
        self._earlier = self._roster

    @property
    def members(self) -> tuple[str, ...]:
        """The names, by number."""
        return self._roster.names

    def add(self, process: str) -> None:
        """Append a member; add members in the same order everywhere."""
        names = self._roster.names
        if as_name("member", process) in names:
            msg = f"process {process!r} is already a member of this Codec"
            raise UsageError(msg)
        if len(names) >= MEMBERS_MAX:
            msg = f"a Codec has at most {MEMBERS_MAX} members"
            raise UsageError(msg)
        self._roster = Roster((*names, process))

    def encode(self, packet: Packet, payload: bool = True) -> bytes:  # noqa: FBT001, FBT002 - api
        """Return a packet as bytes; without its payload it fits into another system's header."""
        if not isinstance(packet, Packet):
            msg = f"cannot encode {type(packet).__name__}; expected a Packet"
            raise UsageError(msg)
        if not isinstance(packet.payload, bytes):
            msg = f"payload is {type(packet.payload).__name__}; expected bytes"
            raise UsageError(msg)
        head = self._head(packet, self._roster)
        if len(head) + len(packet.payload) > PACKET_BYTES_MAX:
            msg = (
                f"packet takes {len(head)} bytes and a payload of {len(packet.payload)}; at most "
                f"{PACKET_BYTES_MAX} together can be encoded"
            )
            raise UsageError(msg)
        return bytes(head) + packet.payload if payload else bytes(head)

    def decode(self, data: bytes) -> Packet:
        """Return the packet that ``data`` encodes; raise PeerError for anything else."""
        reader = _reader(data)
        if reader.left > PACKET_BYTES_MAX:
            reader.fail(f"is longer than the {PACKET_BYTES_MAX} that a packet may have")
        check_mark(reader, PACKET_MARK, "packet")
        roster = self._roster_of(reader)
        scope = Scope(roster)
        try:
            packet = get_packet(reader, scope)
            head = self._head(packet, roster)
        except UsageError as error:
            reader.fail(f"holds something that no Codec encodes ({error})")
        if head != reader.data[: reader.position]:
            reader.fail("is not in canonical form up to here")
        return replace(packet, payload=reader.take(reader.left))

    def wire_bytes(self, packet: Packet) -> int:
        """Return the length of the packet's encoded control alone."""
        out = bytearray()
        put_control(out, packet.control, _scope(packet, self._roster))
        return len(out)

    def snapshot(self, endpoint: Endpoint) -> bytes:
        """Return the whole state of an endpoint as bytes."""
        return make_snapshot(endpoint, self._roster)

    def restore(self, data: bytes, *, resumed: bool = False) -> Endpoint:
        """Return an endpoint that continues where the one given to :meth:`snapshot` stopped.

        With ``resumed=True`` you vouch that nothing was sent since the snapshot was taken; the
        endpoint then goes on as if it had never stopped. Otherwise it begins a new incarnation, and
        the others take what they have not received of the previous one for lost.
        """
        endpoint = get_snapshot(_reader(data), self._roster_of)
        if not as_flag("resumed", resumed):
            endpoint.restart()
        return endpoint

    def _head(self, packet: Packet, roster: Roster) -> bytearray:
        out = bytearray((PACKET_MARK + VERSION,))
        put_varint(out, len(roster))
        put_packet(out, packet, _scope(packet, roster))
        return out

    def _roster_of(self, reader: Reader) -> Roster:
        """Read how many members the sender assumed; before a join it knew fewer than we do."""
        count = reader.varint()
        if count > len(self._roster):
            msg = (
                f"encoded data assumes {count} members, this Codec has {len(self._roster)}; "
                "if a process is joining, offer the data again after add()"
            )
            raise UnknownProcessError(msg, members=self.members)
        if count == len(self._roster):
            return self._roster
        if count != len(self._earlier):
            self._earlier = Roster(self._roster.names[:count])
        return self._earlier


def _reader(data: bytes) -> Reader:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        msg = f"cannot decode {type(data).__name__}; expected bytes"
        raise UsageError(msg)
    return Reader(bytes(data))


def _scope(packet: Packet, roster: Roster) -> Scope:
    info = PROTOCOLS.get(packet.protocol)
    return Scope(roster, is_strict=info is not None and info.names_only)
