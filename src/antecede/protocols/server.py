"""Requests to one server in causal order: Kearns and Koodalattupuram [KK89]_.

Clients send to each other and to one server. Every message carries, for each process, the latest
request to the server that the sender knows of. The server serves a request once it has served all
of those.

Differences from the paper
--------------------------
We could not read the paper itself; [MF95]_ section 2 states the rules. There the server's test
leaves out the sender's own entry, so it needs channels that keep order. Ours compares all entries
with the vector before the message, so it does not. The number of a process's latest request stands
for the count of its requests.

References
----------
.. [KK89] P. Kearns and B. Koodalattupuram. "Immediate ordered service in distributed systems". 9th
   International Conference on Distributed Computing Systems:611-618, 1989.
.. [MF95] F. Mattern and S. Fünfrocken. "A non-blocking lightweight implementation of causal order
   message delivery". Theory and Practice in Distributed Systems, LNCS 938:197-213, 1995.
"""

from typing import ClassVar, cast

from antecede.endpoint.arguments import as_member
from antecede.endpoint.counts import VectorWire
from antecede.endpoint.info import Formula, Option, ProtocolInfo
from antecede.endpoint.messages import CLOCK_BYTES, Message, Packet
from antecede.endpoint.rules import ALIKE, NOBODY, Own, Rules, Saved, View


class Server(Rules):
    """The latest requests that a client or the server knows of."""

    INFO: ClassVar = ProtocolInfo(
        idea="requests to one server in causal order",
        casts=("unicast",),
        guarantee="only the server delivers in causal order; clients deliver in any order",
        assumptions="one known server; every packet arrives eventually",
        cost="n integers per copy, also between clients: the server's column of matrix",
        promises=frozenset({"liveness", "quiescence", "no_overblocking"}),
        missing_promises={"safety": "only the server's deliveries are ordered"},
        options={"server": Option(None, "its name; by default the first member", check=as_member)},
        unmarked_by_skip="clients wait for nothing, so they do not miss what is lost",
        bytes_per_entry=CLOCK_BYTES,
        formula=Formula(lambda n: n, lambda n: 4 * n, lambda n: 4 * n),
        has_roles=True,
    )
    WIRE: ClassVar = VectorWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._server = view.numbers[cast("str", view.options["server"])]
        self._is_server = me == self._server
        self._latest = list(range(view.n))
        """``V_i``: by process, the key of its latest request. The server's V_s is ``reached``."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """Carry V_i as it was (V_m); then enter the message into V_i if it is a request."""
        message.control = self._latest.copy()
        if others == (self._server,):
            self._latest[self.me] = message.seq << self.view.shift | self.me
        return ALIKE

    def needs(self, packet: Packet) -> list[int]:
        """Return V_m at the server; a client waits for nothing."""
        return packet.content.control if self._is_server else NOBODY

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Merge V_m; at the server, the request is served."""
        sender, latest = packet.content.sender, self._latest
        latest[:] = map(max, latest, packet.content.control)
        if self._is_server:
            latest[sender] = self.reached[sender] = packet.content.seq << self.view.shift | sender
        return self.places[sender]

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        return packet.content.control[sender] >> self.view.shift >= seq

    def keep(self, saved: Saved) -> None:
        self._latest = saved.keys("latest", self._latest, self.view.shift)
        self.require_own(saved, "latest", self._latest[self.me] >> self.view.shift)
