"""Order over causal chains of length two only: lemma 8 of [KS98]_ section 7.1.

A message to j carries the numbers of the latest messages that its sender has sent to each process,
and of the latest messages to j that it knows of first-hand. That is enough for chains of two
messages and no more (theorem 8 shows that chains of three cost ``n * n``).

Differences from the paper
--------------------------
Multicast: a delivery also records the message for its other destinations, since its sender has sent
it to them. The proof of the lemma is about unicast. [KS98] credits the lemma and theorem 8 to
Adelstein and Singhal [AS95]_.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
.. [AS95] F. Adelstein and M. Singhal. "Real-time causal message ordering in multimedia systems".
   15th International Conference on Distributed Computing Systems, pp. 36-43, 1995.
"""

from typing import Any, ClassVar

from antecede.endpoint.counts import VectorWire
from antecede.endpoint.info import Formula, ProtocolInfo
from antecede.endpoint.messages import CLOCK_BYTES, Message, Packet
from antecede.endpoint.numbers import get_vector, put_vector
from antecede.endpoint.rules import Own, Rules, Saved, View
from antecede.errors import PeerError


class TwoHopWire(VectorWire):
    """Two vectors of ``n`` numbers; the second is for one copy."""

    def get(self, data: bytes, at: int, message: Message) -> tuple[Any, int]:
        sent, at = super().get(data, at, message)
        if max(sent) >> self.view.shift >= message.seq or sent[message.sender] > message.sender:
            raise PeerError("knows of later messages of its sender, or of one to itself")
        return sent, at

    def put_own(self, packet: Packet) -> bytes:
        return put_vector(packet.own, self.view, packet.content.seq)

    def get_own(self, data: bytes, at: int, packet: Packet) -> tuple[Any, int]:
        dest, source, seq = packet.dest_no, packet.source_no, packet.content.seq
        keys, at = get_vector(data, at, self.view, seq)
        if keys[dest] > dest or keys[source] >> self.view.shift >= seq:
            raise PeerError("waits for its own destination, or for itself")
        return keys, at

    def spell(self, packet: Packet) -> object:
        return self.numbers(packet.content.control), self.numbers(packet.own)


class TwoHop(Rules):
    """What one process knows first-hand about who sent what to whom."""

    INFO: ClassVar = ProtocolInfo(
        idea="order over causal chains of length two only",
        paper="Kshemkalyani, Singhal 1998, section 7.1, lemma 8",
        guarantee="order over chains of at most two messages; longer chains are not ordered",
        cost="2*n integers per copy; n*n + n of state",
        promises=frozenset({"liveness", "quiescence", "no_overblocking"}),
        missing_promises={"safety": "only chains of at most two messages are ordered"},
        lost_by_skip="only chains of at most two messages are ordered",
        unmarked_by_skip="a message does not tell what its sender knew at second hand",
        research=True,
        bytes_per_entry=CLOCK_BYTES,
        formula=Formula(lambda n: 2 * n, lambda n: 8 * n, lambda n: 8 * n),
    )
    WIRE: ClassVar = TwoHopWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._known = [list(range(view.n)) for _ in range(view.n)]
        """(2) By destination, the key of each sender's latest message to it; (1) is our row."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """Carry (1) in the message and (2) in each copy, as they are before this message."""
        known, me, key = self._known, self.me, message.seq << self.view.shift | self.me
        message.control = [column[me] - me | dest for dest, column in enumerate(known)]
        own = {dest: known[dest].copy() for dest in others}
        for dest in others:
            known[dest][me] = key
        return own

    def needs(self, packet: Packet) -> list[int]:
        return packet.own

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Learn what the sender has sent; what it knew of others is not passed on."""
        message = packet.content
        sender, dests = message.sender, message.dests & ~(1 << message.sender)
        self.reached[sender] = newest = message.seq << self.view.shift | sender
        for dest, (column, key) in enumerate(zip(self._known, message.control)):
            sent = newest if dests >> dest & 1 else key - dest | sender
            if sent > column[sender]:  # noqa: PLR1730 - hot
                column[sender] = sent
        return self.places[sender]

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        return packet.own[sender] >> self.view.shift >= seq

    def keep(self, saved: Saved) -> None:
        n, shift = self.view.n, self.view.shift
        known = saved.rows("known", [[key >> shift for key in column] for column in self._known], n)
        self._known = [[q << shift | k for k, q in enumerate(column)] for column in known]
        self.require_own(saved, "known", max([column[self.me] for column in known]))
