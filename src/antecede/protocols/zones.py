"""Zones joined by gateways: after the causal separators of Rodrigues and Verissimo [RV95]_.

Processes live in zones that form a tree; neighbouring zones share one process, their gateway. Every
causal path between zones crosses a gateway, so within a zone the counts of that zone are enough. A
gateway sends what it delivers in one zone on to its other zones, as if it were its own message.

Guarantee
---------
Causal order of broadcasts. A relayed message follows everything that its gateway relayed before, so
it may wait for messages that did not cause it.

Assumes
-------
Fixed zones that form a tree, and gateways that do not fail. Every packet arrives eventually; the
network may reorder and duplicate packets.

Cost
----
One integer per member of the zone instead of ``n``; one more hop per gateway on the way.

Names
-----
==================  =============================================================
paper               here
==================  =============================================================
causal separator    a gateway: a process of several zones
zone's timestamps   ``Zones._vectors``; ``Packet.control`` is that of one zone
==================  =============================================================

Differences from the paper
--------------------------
Only the abstract was available to us. This is a reconstruction, not the authors' protocol: vectors
of counts within each zone, and gateways that relay. Filtering general multicast timestamps by
topology is not attempted. In pull mode a gateway relays what its application has taken.

References
----------
.. [RV95] L. Rodrigues and P. Verissimo. "Causal separators for large-scale multicast
   communication". 15th International Conference on Distributed Computing Systems:83-91, 1995.
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.groups import as_parts
from antecede.core.info import Option, ProtocolInfo, Variant
from antecede.core.kinds import NAME
from antecede.core.messages import CLOCK_BYTES, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.validation import check_claim, is_counts, malformed
from antecede.errors import UsageError

Names = tuple[str, ...]


@register
class Zones(Endpoint):
    """One process's counts in its zone, or in each of its zones if it is a gateway."""

    INFO: ClassVar = ProtocolInfo(
        name="zones",
        idea="counts within a zone only; gateways pass messages on",
        paper="Rodrigues, Verissimo 1995 (reconstructed from its abstract)",
        casts=("broadcast",),
        assumptions="zones that form a tree; every packet arrives eventually",
        cost="one integer per member of the zone; one more hop per gateway",
        promises=frozenset({"safety", "liveness", "quiescence"}),
        options={
            "zones": Option(
                None, "tuples of members that overlap in gateways and form a tree; by default one"
            )
        },
        reconstruction=True,
        fixed_because="a broadcast goes to all members, so all must agree who they are",
        wire_number=19,
        bytes_per_entry=CLOCK_BYTES,
        has_roles=True,
        variants=(Variant("chain", lambda members: {"zones": _chain(members)}),),
    )
    STATE: ClassVar = {"_vectors": {int: {NAME: int}}}
    RELAYS: ClassVar = True

    def _start(self) -> None:
        self._zones = as_parts("zones", self.options["zones"], self.members)
        _check_tree(self._zones)
        self.options["zones"] = self._zones
        self._vectors: dict[int, dict[str, int]] = {
            place: dict.fromkeys(zone, 0)
            for place, zone in enumerate(self._zones)
            if self.process in zone
        }
        self._shared = {name: place for place, vector in self._vectors.items() for name in vector}
        self._ranks = {
            place: {name: rank for rank, name in enumerate(vector)}
            for place, vector in self._vectors.items()
        }

    def _post(self, sending: Sending) -> None:
        for place in self._vectors:
            self._spread(place, sending)

    def _spread(self, place: int, content: Sending | Packet) -> None:
        """Broadcast in one zone, as a message of this process."""
        vector = self._vectors[place]
        vector[self.process] += 1
        control = tuple(vector.values())
        for member in vector:
            if member != self.process:
                self._emit(member, control, content)

    def _check(self, packet: Packet) -> None:
        message = packet.message
        if packet.kind != "data" or message is None or packet.source not in self._shared:
            raise malformed(packet, "a broadcast of a process in the same zone")
        place = self._shared[packet.source]
        vector, ranks = self._vectors[place], self._ranks[place]
        if not is_counts(packet.control, len(vector)):
            raise malformed(packet, f"counts of {', '.join(vector)}")
        carried = cast("tuple[int, ...]", packet.control)
        is_counted = carried[ranks[packet.source]] >= 1
        if not is_counted or message.sender == self.process or self.process not in packet.dests:
            raise malformed(packet, "a message of another process for this one, counted")
        check_claim(self, packet, carried[ranks[self.process]], vector[self.process])

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        place, source = self._shared[packet.source], packet.source
        carried = cast("tuple[int, ...]", packet.control)
        for (member, reached), count in zip(self._vectors[place].items(), carried, strict=True):
            if reached < count:
                wanted = count - 1 if member == source else count
                if reached < wanted:
                    yield Need(member, wanted, "count", f"zone {place + 1}")

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        place = self._shared[packet.source]
        vector = self._vectors[place]
        vector[packet.source] += 1
        for other in self._vectors:
            if other != place:
                self._spread(other, packet)
        return (Need(packet.source, vector[packet.source], "count", f"zone {place + 1}"),)


def _check_tree(zones: tuple[Names, ...]) -> None:
    """Refuse zones that are not connected, or connected in more than one way."""
    joined: set[str] = set(zones[0])
    rest = list(zones[1:])
    while rest:
        nearest = next((zone for zone in rest if joined.intersection(zone)), None)
        if nearest is None:
            msg = f"zone {rest[0]!r} shares no gateway with the others; zones must form a tree"
            raise UsageError(msg)
        common = joined.intersection(nearest)
        if len(common) > 1:
            shown = ", ".join(sorted(common))
            msg = (
                f"zone {nearest!r} shares {shown} with the others; share one gateway to form a tree"
            )
            raise UsageError(msg)
        joined.update(nearest)
        rest.remove(nearest)


def _chain(members: Names) -> tuple[Names, ...]:
    """Return zones of two or three in a row, each sharing one gateway with the next."""
    starts = range(0, max(1, len(members) - 1), 2 if len(members) > 4 else 1)
    width = 3 if len(members) > 4 else 2
    return tuple(members[i : i + width] for i in starts)
