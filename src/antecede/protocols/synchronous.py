"""Unicast with synchronous communication: a special case of [KS98]_ section 7.1.

A process that has sent a message does nothing until the receiver has delivered and acknowledged it.
Then any two sends on a causal chain have a delivery between them, and order comes for free.

Guarantee
---------
Causal order. **No liveness**: two processes that send to each other at the same time wait for each
other forever, as figure 1 of [MF95]_ shows; so does any ring of sends.

Assumes
-------
Unicast. Every packet arrives eventually; the network may reorder and duplicate packets. The
application avoids sends that cross, or tolerates deadlock.

Cost
----
No control information; one acknowledgement per message, and a sender that is blocked for a round
trip.

Names
-----
=======================  =================================================
paper                    here
=======================  =================================================
synchronous ``Send``     ``Synchronous._awaited``: whom it waits for
acknowledgement          a control packet with the message's number
=======================  =================================================

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

from collections.abc import Iterable, Iterator
from typing import ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.info import ProtocolInfo
from antecede.core.kinds import NAME, Maybe
from antecede.core.messages import Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.validation import is_count, malformed
from antecede.errors import UsageError


@register
class Synchronous(Endpoint):
    """One process, which either runs or is blocked until its message is delivered."""

    INFO: ClassVar = ProtocolInfo(
        name="synchronous",
        idea="the sender is blocked until the receiver has delivered",
        paper="Kshemkalyani, Singhal 1998, section 7.1",
        casts=("unicast",),
        guarantee="causal order; no liveness: sends that cross deadlock",
        assumptions="no two sends cross; every packet arrives eventually",
        cost="no control information; one acknowledgement per message",
        promises=frozenset({"safety"}),
        missing_promises=dict.fromkeys(("liveness", "quiescence"), "sends that cross deadlock"),
        fixed_because=(
            "sends that cross block each other for ever, with or without members that leave"
        ),
        wire_number=13,
        bytes_per_entry=0,
        blocking=True,
    )
    STATE: ClassVar = {"_awaited": Maybe((NAME, int))}

    def _start(self) -> None:
        self._awaited: tuple[str, int] | None = None

    def _admit(self, _: tuple[str, ...]) -> None:
        if self._awaited is not None:
            dest, seq = self._awaited
            msg = (
                f"{self.process!r} cannot send until its message {seq} to {dest!r} is delivered; "
                "let packets arrive first, or use buffered, which does not block"
            )
            raise UsageError(msg)

    def _stamp(self, sending: Sending) -> dict[str, object]:
        (dest,) = sending.others
        self._awaited = (dest, sending.message.seq)
        return {dest: None}

    def _check(self, packet: Packet) -> None:
        if packet.kind == "data" and packet.control is not None:
            raise malformed(packet, "none")
        if packet.kind == "control" and not is_count(packet.control, 1):
            raise malformed(packet, "the number of the message acknowledged")

    def _unmet(self, _: Packet) -> Iterator[Need]:
        if self._awaited is not None:
            yield Need(*self._awaited, "ack")

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        self._emit_control(packet.source, packet.message_id.seq)
        return ()

    def _on_control(self, packet: Packet) -> Iterable[Need]:
        awaited = (packet.source, cast("int", packet.control))
        if awaited != self._awaited:
            return ()
        self._awaited = None
        return (Need(*awaited, "ack"),)
