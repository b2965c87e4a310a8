"""Causal broadcast by vectors of counts: Birman, Schiper and Stephenson [BSS91]_.

Every message carries, for each group and member, how many messages of that member to that group its
sender knows of. A receiver holds it until it has delivered as many in each of its own groups.

Guarantee
---------
Causal order, also across overlapping groups; a message waits only while a real cause is missing.

Assumes
-------
Fixed, closed groups: only members send to a group. Every packet arrives eventually; the network may
reorder and duplicate packets.

Cost
----
One integer for each member of each group: ``n`` with a single group of all.

Names
-----
==================  ===========================================
paper               here
==================  ===========================================
``VT(p_i)``         ``Broadcast._vectors``, one for each group
``VT(m)``           ``Packet.control``
delay queue         the holding buffer of the base
==================  ===========================================

Differences from the paper
--------------------------
``groups`` is our reading of the extension to overlapping groups: all vectors travel, including
those of groups to which the sender does not belong. Carrying only the sender's own loses order if
groups form a ring. The destinations of a message determine its group. Changes of membership are
left out.

References
----------
.. [BSS91] K. Birman, A. Schiper and P. Stephenson. "Lightweight causal and atomic group multicast".
   ACM Transactions on Computer Systems 9(3):272-314, 1991. https://doi.org/10.1145/128738.128742
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.groups import as_groups, group_of
from antecede.core.info import Formula, Option, ProtocolInfo
from antecede.core.messages import CLOCK_BYTES, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.validation import check_claim, is_counts, malformed

Vectors = tuple[tuple[int, ...], ...]


@register
class Broadcast(Endpoint):
    """One process's vectors, one per group."""

    INFO: ClassVar = ProtocolInfo(
        name="broadcast",
        idea="a vector of broadcasts delivered, one per group",
        paper="Birman, Schiper, Stephenson 1991",
        casts=("broadcast", "groups"),
        assumptions="fixed, closed groups; every packet arrives eventually",
        cost="one integer per member and group; n for one group of all",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        options={
            "groups": Option(None, "a dict of group names to members; by default {'all': members}")
        },
        short_name="BSS",
        fixed_because="a broadcast goes to all members, so all must agree who they are",
        wire_number=8,
        bytes_per_entry=CLOCK_BYTES,
        formula=Formula(lambda n: n, lambda n: 4 * n, lambda n: 4 * n),
    )
    STATE: ClassVar = ("_vectors",)

    def _start(self) -> None:
        self._groups = as_groups(self.options["groups"], self.members)
        self.options["groups"] = self._groups
        self._vectors: dict[str, dict[str, int]] = {
            name: dict.fromkeys(members, 0) for name, members in self._groups.items()
        }

    def _stamp(self, sending: Sending) -> dict[str, object]:
        group = group_of(self._groups, self.process, sending.others)
        assert group is not None
        self._vectors[group][self.process] += 1
        vectors: Vectors = tuple(tuple(vector.values()) for vector in self._vectors.values())
        return dict.fromkeys(sending.others, vectors)

    def _check(self, packet: Packet) -> None:
        vectors, groups = packet.control, self._groups
        is_vectors = type(vectors) is tuple and len(vectors) == len(groups)
        if (
            packet.kind != "data"
            or not is_vectors
            or not all(map(is_counts, cast("Vectors", vectors), map(len, groups.values())))
        ):
            raise malformed(packet, f"counts for the members of the groups {', '.join(groups)}")
        group = group_of(groups, packet.source, packet.dests)
        if group is None or self._carried(packet)[group][packet.source] < 1:
            raise malformed(packet, "destinations and the source to form a group, and to count it")
        for name, vector in self._carried(packet).items():
            made = self._vectors[name].get(self.process, 0)
            check_claim(self, packet, vector.get(self.process, 0), made)

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        """[BSS91] CBCAST: all that the sender had delivered, and its own earlier messages."""
        group = group_of(self._groups, packet.source, packet.dests)
        for name, vector in self._carried(packet).items():
            mine = self._vectors[name]
            if self.process not in mine:
                continue
            for member, count in vector.items():
                is_own = name == group and member == packet.source
                wanted = count - 1 if is_own else count
                if mine[member] < wanted:
                    yield Need(member, wanted, "count", name)

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        group = group_of(self._groups, packet.source, packet.dests)
        assert group is not None
        for name, vector in self._carried(packet).items():
            mine = self._vectors[name]
            for member, count in vector.items():
                mine[member] = max(mine[member], count)
        return (Need(packet.source, self._vectors[group][packet.source], "count", group),)

    def _carried(self, packet: Packet) -> dict[str, dict[str, int]]:
        """Return what the packet carries, by group and member."""
        return {
            name: dict(zip(members, vector, strict=True))
            for (name, members), vector in zip(
                self._groups.items(), cast("Vectors", packet.control), strict=True
            )
        }
