"""Order over causal chains of length two only: lemma 8 of [KS98]_ section 7.1.

A message to j carries the numbers of the latest messages that its sender has sent to each process,
and of the latest messages to j that it knows of first-hand. That is enough for chains of two
messages and no more: what came from further away is not passed on.

Guarantee
---------
If a message reaches a process by a chain of one or two messages, it is delivered after what the
first sender on that chain had sent to that process before. **Longer chains are not ordered**: this
is not causal order (theorem 8 shows that chains of three cost ``n * n``).

Assumes
-------
A fixed membership. Every packet arrives eventually; the network may reorder and duplicate packets.

Cost
----
``2 * n`` integers per copy; ``n * n + n`` integers of state.

Names
-----
=======================================  ========================================
paper                                    here
=======================================  ========================================
(1) latest message sent to each node     ``TwoHop._sent[self]``, first in control
(2) latest messages to ``j`` known of    a column of ``TwoHop._sent``, second
=======================================  ========================================

Differences from the paper
--------------------------
Multicast: a delivery also records the message for its other destinations, since its sender has sent
it to them. The lemma is about unicast.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

from collections.abc import Iterable, Iterator
from itertools import compress
from operator import lt
from typing import ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.info import Formula, ProtocolInfo
from antecede.core.messages import CLOCK_BYTES, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.validation import check_claim, is_counts, malformed

Numbers = tuple[int, ...]
Control = tuple[Numbers, Numbers]


@register
class TwoHop(Endpoint):
    """What one process knows first-hand about who sent what to whom."""

    INFO: ClassVar = ProtocolInfo(
        name="two_hop",
        idea="order over causal chains of length two only",
        paper="Kshemkalyani, Singhal 1998, section 7.1, lemma 8",
        guarantee="order over chains of at most two messages; longer chains are not ordered",
        cost="2*n integers per copy",
        promises=frozenset({"liveness", "quiescence", "no_overblocking"}),
        missing_promises={"safety": "only chains of at most two messages are ordered"},
        fixed_because="counts are told apart by the positions of members, on which all must agree",
        wire_number=16,
        bytes_per_entry=CLOCK_BYTES,
        formula=Formula(lambda n: 2 * n, lambda n: 8 * n, lambda n: 8 * n),
    )
    STATE: ClassVar = {"_sent": [[int]], "_newest": [int]}

    def _start(self) -> None:
        n = len(self.members)
        self._sent = [[0] * n for _ in range(n)]  # row: sender, column: destination
        self._newest = [0] * n

    def _stamp(self, sending: Sending) -> dict[str, object]:
        row = self._sent[self._positions[self.process]]
        before: Numbers = tuple(row)
        controls: dict[str, object] = {}
        for dest in sending.others:
            column = self._positions[dest]
            controls[dest] = (before, tuple([sent[column] for sent in self._sent]))
        for dest in sending.others:
            row[self._positions[dest]] = sending.message.seq
        return controls

    def _check(self, packet: Packet) -> None:
        control, n = packet.control, len(self.members)
        if packet.kind != "data" or not _is_two_vectors(control, n):
            raise malformed(packet, f"two vectors of {n} numbers")
        sent, wanted = cast("Control", control)
        own = wanted[self._positions[packet.source]]
        if max(own, *sent) >= packet.message_id.seq:
            raise malformed(packet, f"numbers of {packet.source!r} below that of its message")
        check_claim(self, packet, wanted[self._positions[self.process]], 0)

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        _, wanted = cast("Control", packet.control)
        needs = zip(self.members, wanted, strict=True)
        for member, seq in compress(needs, map(lt, self._newest, wanted)):
            yield Need(member, seq)

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        seq, source = packet.message_id.seq, self._positions[packet.source]
        sent, _ = cast("Control", packet.control)
        row = self._sent[source]
        row[:] = map(max, row, sent)
        for dest in packet.dests:
            column = self._positions[dest]
            if row[column] < seq and column != source:
                row[column] = seq
        self._newest[source] = seq
        return (Need(packet.source, seq),)


def _is_two_vectors(control: object, n: int) -> bool:
    if type(control) is not tuple or len(control) != 2:
        return False
    return all(is_counts(vector, n) for vector in control)
