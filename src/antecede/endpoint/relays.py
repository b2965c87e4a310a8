"""Rules for protocols in which processes pass on others' messages, over channels that keep order.

Every packet names the previous message on its channel. So order needs nothing else, and a process
that lost a packet can say which message it had.
"""

from typing import Any, ClassVar

from antecede.endpoint import kinds
from antecede.endpoint.messages import FREE, Message, Need, Packet, is_key
from antecede.endpoint.numbers import read_varint, varint
from antecede.endpoint.rules import Rules, Saved, View, Wire
from antecede.endpoint.series import stepped, steps
from antecede.errors import PeerError


class ChainWire(Wire):
    """The key of the previous message on the channel."""

    def put_own(self, packet: Packet) -> bytes:
        """Return its sender and the distance from this message's number; 0 if there is none."""
        key: int | None = packet.own
        if key is None:
            return b"\0"
        (step,) = steps([key >> self.view.shift], packet.content.seq)
        return varint((key & self.view.low) + 1) + varint(step)

    def get_own(self, data: bytes, at: int, packet: Packet) -> tuple[Any, int]:
        sender, at = read_varint(data, at)
        if not sender:
            return None, at
        code, at = read_varint(data, at)
        key = stepped([code], packet.content.seq)[0] << self.view.shift | sender - 1
        if sender > self.view.n or not is_key(key, self.view):
            raise PeerError("names a message before it that nobody sent")
        if sender - 1 == packet.content.sender and not code:
            raise PeerError("names itself as the message before it")
        return key, at

    def spell(self, packet: Packet) -> object:
        """Return None: the order of a channel is no control information."""
        return None


class Chained(Rules):
    """Messages take effect in the order of the channel that brings them; places are channels."""

    WIRE: ClassVar[type[Wire]] = ChainWire
    RELAYS: ClassVar = True
    IS_EAGER: ClassVar = True

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._last: list[int | None] = [None] * view.n
        """By destination, the key of the last message sent there."""
        self._newest = [0] * view.n
        """By sender, the number of its last message here."""
        self._gone = 0
        """Processes that are gone, with all messages that they have not passed on, as a mask."""

    def post(self, dest: int, message: Message) -> None:
        """Send a message of our own, or pass one on."""
        self.outbox.append((dest, message, self._last[dest]))
        self._last[dest] = message.seq << self.view.shift | message.sender

    def check(self, packet: Packet) -> str:
        """Refuse a packet that comes after a later one of its channel: it was declared lost."""
        if packet.content.sender == self.me:
            return "brings a message of this process itself"
        if (packet.own is None) != (packet.n == 1):
            return "does not name the message before it, or there is none"
        if self.key(packet) <= self.reached[packet.source_no]:
            return "comes after what followed it"
        return ""

    def readmit(self, packet: Packet) -> str:
        """Accept a held packet that took effect already, though not yet taken in pull mode."""
        is_taken = self.key(packet) <= self.reached[packet.source_no]
        return "" if is_taken else self.check(packet)

    def needs(self, packet: Packet) -> list[int]:
        return [self.key(packet) - (1 << self.shift)]

    def key(self, packet: Packet) -> int:
        return packet.n << self.shift | packet.source_no

    def wanted(self, packet: Packet, key: int) -> tuple[int, int]:
        """Return the previous message on the channel, or 0 if the relay is gone and it is lost."""
        before: int | None = packet.own
        if before is None or self._gone >> packet.source_no & 1:
            return packet.source_no, 0
        return before & self.view.low, before >> self.view.shift

    def need(self, packet: Packet, key: int) -> Need:
        before: int | None = packet.own
        if before is None:
            return self.need_packet(packet)
        return Need(self.view.members[before & self.view.low], before >> self.view.shift)

    def gap(self, packet: Packet) -> int:
        """Return the packet before the previous one if it may come: it may bring another's message.

        So a process that is gone takes along no message of others that a relay still brings.
        """
        key = self.key(packet) - (2 << self.shift)
        is_open = not self._gone >> packet.source_no & 1 and key > self.reached[packet.source_no]
        return key if is_open else FREE

    def gone(self, source: int) -> None:
        self._gone |= 1 << source

    def follows(self, packet: Packet, other: Packet) -> bool:
        return other.source_no == packet.source_no and other.n < packet.n

    def newest(self, sender: int) -> int:
        return self._newest[sender]

    def taken(self, packet: Packet) -> tuple[int, ...]:
        source = packet.source_no
        self.reached[source] = self.key(packet)
        self._newest[packet.content.sender] = packet.content.seq
        return self.places[source]

    def keep(self, saved: Saved) -> None:
        last = [kinds.optional(kinds.key(self.view)), self.view.n]
        self._last = saved.field("last", self._last, last)
        self._newest = saved.numbers("newest", self._newest)
        self._gone = saved.field("gone", self._gone, kinds.mask(self.view.n))
