"""Zones joined by gateways: after the causal separators of Rodrigues and Verissimo [RV95]_.

Processes live in zones that form a tree; neighbouring zones share one process, their gateway: the
causal separator of the paper. Every causal path between zones crosses a gateway, so within a zone
the counts of that zone are enough. A gateway sends what it delivers in one zone on to its other
zones, as if it were its own message.

Differences from the paper
--------------------------
Only the abstract was available to us. This is a reconstruction, not the authors' protocol: vectors
of counts within each zone, and gateways that relay. Filtering general multicast timestamps by
topology is not attempted. A process's count in a zone is the number of its packet on the channel
to each member. In pull mode a gateway relays only what its application has taken.

References
----------
.. [RV95] L. Rodrigues and P. Verissimo. "Causal separators for large-scale multicast
   communication". 15th International Conference on Distributed Computing Systems:83-91, 1995.
"""

from typing import Any, ClassVar, cast

from antecede.endpoint.arguments import as_parts
from antecede.endpoint.counts import Counted
from antecede.endpoint.info import Option, ProtocolInfo, Variant
from antecede.endpoint.messages import CLOCK_BYTES, Message, Need, Packet
from antecede.endpoint.numbers import BYTE, get_column, put_column, read_count, read_varint, varint
from antecede.endpoint.rules import Saved, View, Wire, knows_too_much
from antecede.endpoint.saved import SAVED_MAX
from antecede.errors import PeerError, UsageError

Names = tuple[str, ...]
Control = tuple[int, list[int]]
"""The number of a zone, and a count for each of its members, in their order."""


def as_tree(option: str, value: object, members: Names) -> tuple[Names, ...]:
    """Return the option ``zones``; refuse zones connected in more than one way, or not at all."""
    zones = as_parts(option, value, members)
    joined, rest = set(zones[0]), list(zones[1:])
    while rest:
        nearest = next((zone for zone in rest if joined.intersection(zone)), rest[0])
        common = ", ".join(sorted(joined.intersection(nearest)))
        if not common:
            msg = f"zone {nearest!r} shares no gateway with the others; zones must form a tree"
            raise UsageError(msg)
        if len(joined.intersection(nearest)) > 1:
            msg = f"zone {nearest!r} shares {common} with the others; share one gateway only"
            raise UsageError(msg)
        joined.update(nearest)
        rest.remove(nearest)
    return zones


class ZonesWire(Wire):
    """The counts of one zone."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        zones = cast("tuple[Names, ...]", view.options["zones"])
        self.zones = [[view.numbers[name] for name in zone] for zone in zones]

    def put(self, message: Message) -> bytes:
        """Return the zone, the highest count, and how far the others are below it."""
        zone, counts = message.control
        most = max(counts)
        width, column = put_column([most - count for count in counts])
        return b"".join((varint(zone), BYTE[width], varint(most), column))

    def get(self, data: bytes, at: int, message: Message) -> tuple[Any, int]:
        zone, at = read_varint(data, at)
        members, width = self.zones[zone], data[at]
        most, at = read_count(data, at + 1, 1)
        below, at = get_column(data, at, len(members), width)
        if not message.seq or min(below) or max(below) > most:
            raise PeerError("has counts below 0, none that is the highest, or no message")
        return (zone, [most - count for count in below]), at

    def spell(self, packet: Packet) -> object:
        return tuple(packet.content.control[1])

    def entries(self, packet: Packet) -> int:
        return len(packet.content.control[1])


class Zones(Counted):
    """One process's counts in its zone, or in each of its zones if it is a gateway."""

    INFO: ClassVar = ProtocolInfo(
        idea="counts within a zone only; gateways pass messages on",
        paper="Rodrigues, Verissimo 1995 (reconstructed from its abstract)",
        casts=("broadcast",),
        guarantee="causal order; what a gateway passes on follows all that it passed on before",
        assumptions="a tree of zones; gateways that do not fail; every packet arrives eventually",
        cost="one integer per member of the zone instead of n; one more hop per gateway",
        options={"zones": Option(None, "tuples of members, a tree by gateways", check=as_tree)},
        lost_by_skip="a gateway counts what it passes on as its own, whoever sent it",
        unmarked_by_skip="a gateway counts what it passes on as its own, whoever sent it",
        research=True,
        reconstruction=True,
        bytes_per_entry=CLOCK_BYTES,
        has_roles=True,
        relays=True,
        variants=(Variant("chain", lambda members: {"zones": _chain(members)}),),
    )
    WIRE: ClassVar = ZonesWire
    RELAYS: ClassVar = True

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._zones = cast("ZonesWire", view.forms).zones
        self._counts = {zone: 0 for zone, members in enumerate(self._zones) if me in members}
        """By zone of ours, how many packets we have sent in it."""
        self._shared = {
            member: zone for zone in self._counts for member in self._zones[zone] if member != me
        }

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> None:
        for zone in self._counts:
            self._spread(zone, message)

    def _spread(self, zone: int, old: Message) -> None:
        """Broadcast a message in one zone, as if it were from this process."""
        me, shift, reached, members = self.me, self.view.shift, self.reached, self._zones[zone]
        self._counts[zone] += 1
        counts = [reached[member] >> shift for member in members]
        counts[members.index(me)] = self._counts[zone]
        message = old.under((zone, counts))
        self.outbox += [(member, message, None) for member in members if member != me]

    def check(self, packet: Packet) -> str:
        message, source = packet.content, packet.source_no
        zone, counts = message.control
        if self._shared.get(source) != zone:
            return "is not of a process in the same zone"
        members = self._zones[zone]
        if counts[members.index(source)] != packet.n:
            return "is not counted as its place on the channel says"
        if message.sender == self.me or not message.dests >> self.me & 1:
            return "is not a message of another process for this one"
        if counts[members.index(self.me)] > self._counts[zone] and not self.is_stale:
            return knows_too_much(self._counts[zone])
        if self.key(packet) <= self.reached[source]:
            return "comes after what followed it"
        return ""

    def needs(self, packet: Packet) -> list[int]:
        """Return the counts of the others, without this packet itself."""
        zone, counts = packet.content.control
        source, me, shift = packet.source_no, self.me, self.view.shift
        return [
            count - (member == source) << shift | member
            for member, count in zip(self._zones[zone], counts)
            if member != me
        ]

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Count the message, and pass it on to our other zones."""
        message, source = packet.content, packet.source_no
        self.reached[source] = self.key(packet)
        self._newest[message.sender] = message.seq
        if len(self._counts) > 1:
            for zone in self._counts:
                if zone != self._shared[source]:
                    self._spread(zone, message)
        return self.places[source]

    def wanted(self, packet: Packet, key: int) -> tuple[int, int]:
        """Return a message, or all of a gateway: its counts are not the numbers of its messages."""
        member, number = super().wanted(packet, key)
        if sum([member in zone for zone in self._zones]) > 1:
            number = SAVED_MAX * (key > self.reached[member])
        return member, number

    def need(self, packet: Packet, key: int) -> Need:
        """Return the missing packet as a count of what a process has sent or passed on."""
        return Need(self.view.members[key & self.low], key >> self.view.shift, "relayed")

    def follows(self, packet: Packet, other: Packet) -> bool:
        """Return whether a packet's counts include another packet of the same zone."""
        (zone, counts), source = packet.content.control, other.source_no
        is_near = self._shared[source] == zone and other is not packet
        return is_near and counts[self._zones[zone].index(source)] >= other.n

    def keep(self, saved: Saved) -> None:
        counts = saved.numbers("counts", [*self._counts.values()])
        self._counts = dict(zip(self._counts, counts, strict=True))
        self._newest = saved.numbers("newest", self._newest)


def _chain(members: Names) -> tuple[Names, ...]:
    """Return zones of two or three in a row, each sharing one gateway with the next."""
    step = 2 if len(members) > 4 else 1
    return tuple(members[i : i + step + 1] for i in range(0, max(1, len(members) - 1), step))
