"""Unicast with synchronous communication: a special case of [KS98]_ section 7.1.

A process that has sent a message does nothing until the receiver has delivered it and said so.
Then any two sends on a causal chain have a delivery between them, and order comes for free.

Guarantee
---------
Causal order. **No liveness**: two processes that send to each other at the same time wait for each
other for ever, as figure 1 of [MF95]_ shows; so does any ring of sends.

Assumes
-------
Unicast, and a network that brings every packet eventually. It may reorder and duplicate. The
application keeps clear of sends that cross, or can bear a deadlock.

Cost
----
No control information; one acknowledgement for each message, and a sender that stands still for a
round trip.

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
[KS98]_ only names the case. A send cannot block a state machine that does no I/O, so a further send
before the acknowledgement is a ``UsageError``, and meanwhile nothing is delivered, not even on
request in pull mode: a process that stands still receives nothing either.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
.. [MF95] F. Mattern and S. Fünfrocken. "A non-blocking lightweight implementation of causal order
   message delivery". Theory and Practice in Distributed Systems, LNCS 938:197-213, 1995.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.info import KS98, ProtocolInfo
from antecede.core.messages import Need, Packet, Sending
from antecede.core.plain import is_count, malformed
from antecede.core.registry import register
from antecede.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@register
class Synchronous(Endpoint):
    """One process, which either runs or stands still until its message is delivered."""

    INFO: ClassVar = ProtocolInfo(
        name="synchronous",
        idea="the sender stands still until the receiver has delivered",
        paper="Kshemkalyani, Singhal 1998, section 7.1",
        citation=KS98,
        casts=("unicast",),
        guarantee="causal order; no liveness: sends that cross deadlock",
        assumptions="no two sends cross; any network that brings every packet eventually",
        cost="no control information; one acknowledgement per message",
        promises=frozenset({"safety"}),
        wire_number=13,
        bytes_per_entry=0,
        blocking=True,
    )
    STATE: ClassVar = ("_awaited",)

    def _start(self) -> None:
        self._awaited: tuple[str, int] | None = None

    def _admit(self, _: tuple[str, ...]) -> None:
        if self._awaited is not None:
            dest, seq = self._awaited
            msg = (
                f"{self.process!r} cannot send while its message {seq} to {dest!r} is not delivered; "
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
        assert packet.message is not None
        self._emit_control(packet.source, packet.message.seq)
        return ()

    def _on_control(self, packet: Packet) -> Iterable[Need]:
        awaited = (packet.source, cast("int", packet.control))
        if awaited != self._awaited:
            return ()
        self._awaited = None
        return (Need(*awaited, "ack"),)
