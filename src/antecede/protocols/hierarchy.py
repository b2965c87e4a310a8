"""Representatives order for their clusters: the hierarchical case of [KS98]_ section 7.1.

Processes are grouped into clusters. A process hands its message to the representative of its
cluster. Representatives run ``optimal`` among themselves, and each passes on what it delivers there
to its cluster, over channels that keep order.

Guarantee
---------
Causal order.

Assumes
-------
Fixed, disjoint clusters whose representatives do not fail. Every packet arrives eventually; the
network may reorder and duplicate packets, and the base restores the order of each channel.

Cost
----
Between representatives, one number and what ``optimal`` carries for as many processes as there are
clusters; nothing within a cluster. Up to two more hops per message.

Names
-----
==========================  =====================================================
paper                       here
==========================  =====================================================
representative process      the first of each cluster, ``Hierarchy._head``
higher level                ``Hierarchy._inner``, an endpoint of ``optimal``
==========================  =====================================================

Differences from the paper
--------------------------
[KS98]_ sketches the case with any number of levels; here there are two. A sender that is among its
own destinations delivers at once. In pull mode representatives pass on what they received even if
their own application has not taken it yet; each application takes in that order.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.groups import as_parts
from antecede.core.info import Option, ProtocolInfo, Variant
from antecede.core.messages import CLOCK_BYTES, ControlSize, MessageId, Need, Packet, Sending
from antecede.core.registry import endpoint, register, restore, size
from antecede.core.relayed import Relayed
from antecede.core.state import State
from antecede.core.validation import COUNT_MAX, is_count, malformed
from antecede.errors import UsageError

INNER = "optimal"
Names = tuple[str, ...]


@register
class Hierarchy(Relayed):
    """A member of a cluster, or its representative."""

    INFO: ClassVar = ProtocolInfo(
        name="hierarchy",
        idea="representatives run optimal among themselves, each for its cluster",
        paper="Kshemkalyani, Singhal 1998, section 7.1",
        assumptions="fixed, disjoint clusters; every packet arrives eventually",
        cost="as optimal with one process per cluster, nothing within; up to two more hops",
        promises=frozenset({"safety", "liveness", "quiescence"}),
        options={
            "clusters": Option(
                None, "tuples of members, each starting with its representative; by default one"
            )
        },
        fixed_because="its clusters and representatives are fixed",
        wire_number=17,
        bytes_per_entry=None,
        has_roles=True,
        variants=(Variant("pairs", lambda members: {"clusters": _pairs(members)}),),
    )
    STATE: ClassVar = (*Relayed.STATE, "_transit", "_inner_state")

    def _start(self) -> None:
        super()._start()
        clusters = as_parts("clusters", self.options["clusters"], self.members)
        if sum(map(len, clusters)) != len(self.members):
            msg = f"clusters={clusters!r} overlap; every member belongs to exactly one"
            raise UsageError(msg)
        self.options["clusters"] = clusters
        self._head = {name: cluster[0] for cluster in clusters for name in cluster}
        self._relay = self._head[self.process]
        heads = tuple(cluster[0] for cluster in clusters)
        self._inner: Endpoint | None = None
        if self.process in heads:
            # What it holds is in transit here and counts against our own limits.
            self._inner = endpoint(INNER, process=self.process, members=heads, held_max=COUNT_MAX)
        self._transit: dict[MessageId, Packet] = {}

    @property
    def _inner_state(self) -> State | None:
        return None if self._inner is None else self._inner.state()

    @_inner_state.setter
    def _inner_state(self, state: State | None) -> None:
        self._inner = None if state is None else restore(state)

    def load(self, state: State) -> None:
        """Take over a state made by ``state()`` on an endpoint of the same kind."""
        super().load(state)
        for packet in self._transit.values():
            self._tally.add(packet)

    def waiting(self) -> dict[MessageId, tuple[Need, ...]]:
        """Return what each held message waits for, here or among representatives."""
        result = super().waiting()
        for packet in self._transit.values():
            result[packet.message_id] = tuple(self._unmet(packet))
        return result

    def _post(self, sending: Sending) -> None:
        if self._inner is None:
            self._emit(self._relay, None, sending)
        else:
            self._send_up(sending)

    def _send_up(self, content: Sending | Packet) -> None:
        """Multicast a message of this cluster: to its own processes, and by representatives."""
        assert self._inner is not None
        self._send_down(content)
        remote = self._heads_of(content.dests, self.process)
        if remote:
            for inner in self._inner.send(remote).packets:
                self._emit(inner.dest, (inner.message_id.seq, inner.control), content)

    def _send_down(self, content: Sending | Packet) -> None:
        assert content.message is not None
        for dest in content.dests:
            is_mine = self._head[dest] == self.process
            if is_mine and dest not in (self.process, content.message.sender):
                self._emit(dest, None, content)

    def _heads_of(self, dests: Names, source: str) -> Names:
        return tuple(sorted({self._head[dest] for dest in dests} - {source}))

    def _check(self, packet: Packet) -> None:
        message, source = packet.message, packet.source
        if packet.kind != "data" or message is None or message.sender == self.process:
            raise malformed(packet, "a message of another process")
        if self._is_from_above(packet):
            self._check_above(packet)
        elif self._inner is not None:
            is_right = self._head[source] == self.process and message.sender == source
            if not is_right or packet.control is not None:
                raise malformed(packet, "a message of the cluster's own process, without control")
        elif source != self._relay or packet.control is not None:
            raise malformed(packet, "a message by way of the representative, without control")
        elif self.process not in packet.dests:
            raise malformed(packet, f"a message for {self.process!r}")

    def _check_above(self, packet: Packet) -> None:
        assert self._inner is not None
        control = packet.control
        if type(control) is not tuple or len(control) != 2 or not is_count(control[0], 1):
            raise malformed(packet, f"a number and {INNER} control")
        if self._head[packet.message_id.sender] != packet.source:
            raise malformed(packet, "a message of the representative's own cluster")
        if self.process not in self._heads_of(packet.dests, packet.source):
            raise malformed(packet, "a message for this cluster")
        self._inner._check_packet(self._as_inner(packet))

    def _is_from_above(self, packet: Packet) -> bool:
        return self._inner is not None and self._head[packet.source] == packet.source

    def _as_inner(self, packet: Packet) -> Packet:
        """Return the packet between representatives; they exchange nothing else, so n agrees."""
        seq, control = cast("tuple[int, object]", packet.control)
        message = MessageId(packet.source, seq)
        dests = self._heads_of(packet.dests, packet.source)
        return replace(
            packet, message=message, dests=dests, payload=b"", control=control, protocol=INNER
        )

    def _check_room(self, packet: Packet) -> None:
        if self.process in packet.dests or self._is_blocked(packet):
            super()._check_room(packet)  # a message that is only passed on needs no space

    def _on_data(self, packet: Packet) -> None:
        if self._inner is None:
            self._keep(packet)
        elif not self._is_from_above(packet):
            self._send_up(packet)
            self._keep(packet)
        else:
            inner = self._as_inner(packet)
            self._transit[inner.message_id] = packet
            self._tally.add(packet)
            for delivery in self._inner.receive(inner).deliveries:
                due = self._transit.pop(delivery.message)
                self._tally.remove(due)
                self._send_down(due)
                self._keep(due)

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        yield from super()._unmet(packet)
        if not isinstance(packet.control, int) and self._is_from_above(packet):
            assert self._inner is not None
            for need in self._inner._unmet(self._as_inner(packet)):
                yield need._replace(scope="representatives")

    @classmethod
    def measure(cls, packet: Packet) -> ControlSize:
        """Return what representatives carry; within a cluster that is nothing."""
        if not isinstance(packet.control, tuple):
            return ControlSize(0, 0, 0)
        entries, dests, model_bytes = size(
            replace(packet, control=packet.control[1], protocol=INNER)
        )
        return ControlSize(1 + entries, dests, CLOCK_BYTES + model_bytes)


def _pairs(members: Names) -> tuple[Names, ...]:
    """Return disjoint clusters of two; an odd member is alone."""
    return tuple(members[i : i + 2] for i in range(0, len(members), 2))
