"""Causal broadcast by the ids of direct predecessors: the context graph of Psync [PBS89]_.

A conversation is a graph: a message is attached to those messages its sender had seen that no other
seen message followed. It carries their ids and waits for them, and for nothing else.

Guarantee
---------
Causal order; a message waits only while a real cause of it is missing.

Assumes
-------
One fixed group in which every message goes to all. Every packet arrives eventually; the network may
reorder and duplicate packets.

Cost
----
One id per direct predecessor: at most ``n``, usually far fewer.

Names
-----
==================  ====================================================
paper               here
==================  ====================================================
context graph       ``Context._newest``: what is in it, by sender
leaves              ``Context._leaves``
predecessors        ``Packet.control``: sorted pairs (process, number)
==================  ====================================================

Differences from the paper
--------------------------
Written from descriptions of Psync. The graph is kept as one number per sender, because the messages
of a sender enter it in order. Requesting missing predecessors is unnecessary here: it is for
networks that lose packets.

References
----------
.. [PBS89] L. L. Peterson, N. C. Buchholz and R. D. Schlichting. "Preserving and using context
   information in interprocess communication". ACM Transactions on Computer Systems 7(3):217-246,
   1989. https://doi.org/10.1145/65000.65001
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.info import Formula, ProtocolInfo
from antecede.core.kinds import NAME
from antecede.core.messages import PAIR_BYTES, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.validation import check_claim, is_pairs, malformed

Pairs = tuple[tuple[str, int], ...]


@register
class Context(Endpoint):
    """One process's view of the conversation."""

    INFO: ClassVar = ProtocolInfo(
        name="context",
        idea="ids of direct predecessors",
        paper="Peterson, Buchholz, Schlichting 1989 (Psync)",
        casts=("broadcast",),
        assumptions="one fixed group; every packet arrives eventually",
        cost="one id per direct predecessor; at most n",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        fixed_because="a newcomer could not tell which predecessors it will never get",
        wire_number=10,
        bytes_per_entry=PAIR_BYTES,
        formula=Formula(lambda n: n, lambda n: 6 * n, lambda n: 6 * n, most=True),
    )
    STATE: ClassVar = {"_newest": {NAME: int}, "_leaves": {NAME: int}}

    def _start(self) -> None:
        self._newest: dict[str, int] = {}
        self._leaves: dict[str, int] = {}

    def _stamp(self, sending: Sending) -> dict[str, object]:
        predecessors: Pairs = tuple(sorted(self._leaves.items()))
        self._newest[self.process] = sending.message.seq
        self._leaves = {self.process: sending.message.seq}
        return dict.fromkeys(sending.others, predecessors)

    def _check(self, packet: Packet) -> None:
        if packet.kind != "data" or not is_pairs(packet.control):
            raise malformed(packet, "sorted pairs (process, number)")
        pairs = cast("Pairs", packet.control)
        self._check_names(packet, (process for process, _ in pairs))
        known = dict(pairs)
        if known.get(packet.source, 0) >= packet.message_id.seq:
            raise malformed(packet, f"messages of {packet.source!r} before {packet.message}")
        check_claim(self, packet, known.get(self.process, 0), self._seq)

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        for process, seq in cast("Pairs", packet.control):
            if self._newest.get(process, 0) < seq:
                yield Need(process, seq)

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        seq = packet.message_id.seq
        self._newest[packet.source] = seq
        for process, number in cast("Pairs", packet.control):
            if self._leaves.get(process) == number:
                del self._leaves[process]
        self._leaves[packet.source] = seq
        return (Need(packet.source, seq),)
