"""One process relays all messages: the centralised case of [KS98]_ section 7.1.

A sender hands its message to the relay, which sends everything on in order of arrival. Channels to
and from the relay keep order, so all processes see one order that extends causality.

Differences from the paper
--------------------------
[KS98]_ only names the case. A sender that is among its own destinations delivers at once. In pull
mode the relay also sends on messages that its own application has not taken yet; each application
takes messages in the relay's order.

References
----------
.. [KS98] A. D. Kshemkalyani and M. Singhal. "Necessary and sufficient conditions on information for
   causal message ordering and their optimal implementation". Distributed Computing
   11(2):91-111, 1998. https://doi.org/10.1007/s004460050044
"""

from typing import ClassVar, cast

from antecede.endpoint.arguments import as_member
from antecede.endpoint.info import Option, ProtocolInfo, Variant
from antecede.endpoint.relays import Chained
from antecede.endpoint.rules import Message, Packet, View


class Central(Chained):
    """The relay, or a process that it serves."""

    INFO: ClassVar = ProtocolInfo(
        idea="a relay sends all messages on, one after the other",
        paper="Kshemkalyani, Singhal 1998, section 7.1",
        guarantee="causal order; all deliver the messages of others in the same order, the relay's",
        assumptions="one known relay that does not fail; every packet arrives eventually",
        cost="the name of the message before on a channel; one more packet and hop per message",
        options={"relay": Option(None, "its name; by default the first member", check=as_member)},
        lost_by_skip="a relay that is gone takes along what it has not passed on",
        unmarked_by_skip="a message tells what went before it, but not what its sender knew of",
        bytes_per_entry=0,
        has_roles=True,
        relays=True,
        variants=(Variant("last", lambda members: {"relay": members[-1]}),),
    )

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._relay = view.numbers[cast("str", view.options["relay"])]
        """The centralised process; a packet to it is a request, whoever the message is for."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> None:
        """Send the message to the relay, or, as the relay, to its destinations."""
        for dest in others if self.me == self._relay else (self._relay,):
            self.post(dest, message)

    def check(self, packet: Packet) -> str:
        message, source = packet.content, packet.source_no
        if self.me == self._relay:
            is_right = message.sender == source and message.dests != 1 << source
        else:
            is_right = source == self._relay and message.dests >> self.me & 1 == 1
        if not is_right or not message.seq:
            return "is not a message by way of the relay"
        return super().check(packet)

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """As the relay, pass the message on in the order of arrival."""
        if self.me == self._relay:
            message = packet.content
            for dest in self.view.list(message.dests & ~(1 << self.me | 1 << message.sender)):
                self.post(dest, message)
        return super().taken(packet)
