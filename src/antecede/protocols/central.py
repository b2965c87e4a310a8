"""One process relays all messages: the centralised case of [KS98]_ section 7.1.

A sender hands its message to the relay, which sends everything on in order of arrival. Channels to
and from the relay keep order, so all processes see one order that extends causality.

Guarantee
---------
Causal order; all processes even deliver the messages of others in the same order, the relay's.

Assumes
-------
A fixed membership, and one known relay that does not fail. Every packet arrives eventually; the
network may reorder and duplicate packets, and the base restores the order of each channel.

Cost
----
No control information. Each message that is not the relay's own takes one more packet and one more
hop, and the relay carries all traffic.

Names
-----
=======================  ===================================================
paper                    here
=======================  ===================================================
centralised process      ``Central._relay``
request                  a data packet to the relay, whoever it is for
=======================  ===================================================

Differences from the paper
--------------------------
[KS98]_ only names the case. A sender that is among its own destinations delivers at once, before
the relay has the message; the relay then skips it. In pull mode the relay sends on what it
received even if its own application has not taken it yet; each application takes in the relay's
order.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

from typing import ClassVar

from antecede.core.groups import as_member
from antecede.core.info import Option, ProtocolInfo, Variant
from antecede.core.messages import Packet, Sending
from antecede.core.registry import register
from antecede.core.relayed import Relayed
from antecede.core.validation import malformed


@register
class Central(Relayed):
    """The relay, or a process that it serves."""

    INFO: ClassVar = ProtocolInfo(
        name="central",
        idea="a relay sends all messages on, one after the other",
        paper="Kshemkalyani, Singhal 1998, section 7.1",
        assumptions="one known relay; every packet arrives eventually",
        cost="no control information; one more packet and hop per message",
        promises=frozenset({"safety", "liveness", "quiescence"}),
        options={"relay": Option(None, "the relay's name; by default the first member")},
        fixed_because="its relay orders everything, and only it would know who is there",
        wire_number=14,
        bytes_per_entry=0,
        has_roles=True,
        variants=(Variant("last", lambda members: {"relay": members[-1]}),),
    )

    def _start(self) -> None:
        super()._start()
        self._relay = as_member("relay", self.options["relay"], self.members)
        self.options["relay"] = self._relay

    def _post(self, sending: Sending) -> None:
        for dest in sending.others if self.process == self._relay else (self._relay,):
            self._emit(dest, None, sending)

    def _check(self, packet: Packet) -> None:
        message = packet.message
        if packet.kind != "data" or message is None or packet.control is not None:
            raise malformed(packet, "none")
        if self.process == self._relay:
            is_right = message.sender == packet.source and bool({*packet.dests} - {packet.source})
        else:
            is_right = packet.source == self._relay and self.process in packet.dests
        if not is_right or message.sender == self.process:
            raise malformed(packet, "a message by way of the relay")

    def _check_room(self, packet: Packet) -> None:
        is_passing = self.process not in packet.dests and self._channels.is_next(
            packet.source, packet.n
        )
        if not is_passing:  # a message that is only passed on needs no space
            super()._check_room(packet)

    def _on_data(self, packet: Packet) -> None:
        if self.process == self._relay:
            for dest in packet.dests:
                if dest not in (self._relay, packet.source):
                    self._emit(dest, None, packet)
        self._keep(packet)
