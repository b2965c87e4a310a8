"""Unicast with synchronous communication: a special case of [KS98]_ section 7.1.

A process that has sent a message does nothing until the receiver has delivered and acknowledged it.
Then any two sends on a causal chain have a delivery between them, and order comes for free. But two
processes that send to each other at once wait for each other forever, as [MF95]_ figure 1 shows.

Differences from the paper
--------------------------
[KS98]_ only names the case. A send cannot block a state machine that does no I/O, so another send
before the acknowledgement is a ``UsageError``. Until then nothing is delivered either, not even on
request in pull mode: a blocked process receives nothing.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
.. [MF95] F. Mattern and S. Fünfrocken. "A non-blocking lightweight implementation of causal order
   message delivery". Theory and Practice in Distributed Systems, LNCS 938:197-213, 1995.
"""

from typing import Any, ClassVar

from antecede.endpoint import kinds
from antecede.endpoint.info import ProtocolInfo
from antecede.endpoint.messages import COUNT_MAX, Message, Need, Packet
from antecede.endpoint.numbers import read_count, varint
from antecede.endpoint.rules import ALIKE, NOBODY, Own, Rules, Saved, View, Wire
from antecede.errors import UsageError


class SynchronousWire(Wire):
    """Nothing for a message; an acknowledgement has the number of its message."""

    def put(self, message: Message) -> bytes:
        return b"" if message.seq else varint(message.control)

    def get(self, data: bytes, at: int, message: Message) -> tuple[Any, int]:
        return (None, at) if message.seq else read_count(data, at, 1)

    def spell(self, packet: Packet) -> object:
        return packet.content.control


class Synchronous(Rules):
    """One process, which either runs or is blocked until its message is delivered.

    ``reached`` has one more place, for acknowledgements, and keys one more bit for it.
    """

    INFO: ClassVar = ProtocolInfo(
        idea="the sender is blocked until the receiver has delivered",
        paper="Kshemkalyani, Singhal 1998, section 7.1",
        casts=("unicast",),
        guarantee="causal order; no liveness: sends that cross, or form a ring, wait forever",
        assumptions="no two sends cross; every packet arrives eventually",
        cost="no control information; an acknowledgement per message, and a round trip blocked",
        promises=frozenset({"safety"}),
        missing_promises=dict.fromkeys(("liveness", "quiescence"), "sends that cross deadlock"),
        research=True,
        bytes_per_entry=0,
        blocking=True,
    )
    WIRE: ClassVar = SynchronousWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._acks = view.low + 1
        """The place of acknowledgements."""
        self.widen(2 * self._acks)
        self._awaited: tuple[int, int] | None = None
        """The process whose acknowledgement is awaited, and the number of the message."""

    def admit(self, others: tuple[int, ...]) -> None:
        if self._awaited is not None:
            dest, seq = self._awaited
            msg = (
                f"{self.view.members[self.me]!r} cannot send until its message {seq} to "
                f"{self.view.members[dest]!r} is delivered; let packets arrive first, or use "
                "buffered, which does not block"
            )
            raise UsageError(msg)

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        self._awaited = others[0], message.seq
        return ALIKE

    def check(self, packet: Packet) -> str:
        number = packet.content.control or 0
        is_unsent = number > self.made and not self.is_stale
        return f"acknowledges message {number}, but only {self.made} were sent" if is_unsent else ""

    def needs(self, packet: Packet) -> list[int]:
        """Return the acknowledgement: a blocked process receives nothing else."""
        if self._awaited is None or not packet.content.seq:
            return NOBODY
        return [self._awaited[1] << self.shift | self._acks]

    def taken(self, packet: Packet) -> tuple[int, ...]:
        message, source = packet.content, packet.source_no
        if not message.seq:
            is_awaited = self._awaited == (source, message.control)
            return self._go_on(message.control) if is_awaited else ()
        self.say(source, message.seq)
        self.reached[source] = message.seq << self.shift | source
        return self.places[source]

    def _go_on(self, seq: int) -> tuple[int, ...]:
        self.reached[self._acks] = seq << self.shift | self._acks
        self._awaited = None
        return (self._acks,)

    def wanted(self, packet: Packet, key: int) -> tuple[int, int]:
        return (self._awaited or (0, 0))[0], COUNT_MAX

    def need(self, packet: Packet, key: int) -> Need:
        dest, seq = self._awaited or (0, 0)
        return Need(self.view.members[dest], seq, "ack")

    def gone(self, source: int) -> None:
        """Wait for no acknowledgement from a process that is gone."""
        if self._awaited is not None and self._awaited[0] == source:
            self._go_on(self._awaited[1])

    def keep(self, saved: Saved) -> None:
        pair = kinds.optional((range(self.view.n), range(1, self.made + 1)))
        self._awaited = awaited = saved.field("awaited", self._awaited, pair)
        is_other = awaited is None or awaited[0] != self.me
        saved.require(is_other, "awaited", awaited, "another member and a message sent")
