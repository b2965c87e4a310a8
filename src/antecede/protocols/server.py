"""Requests to one server in causal order: Kearns and Koodalattupuram [KK89]_.

Clients send to each other and to one server. Every message carries, for each process, how many
requests to the server that process has made as far as the sender knows. The server serves a request
once it has served all of those.

Guarantee
---------
The server delivers messages in causal order. Other processes deliver at once and in any order.

Assumes
-------
A fixed membership with one known server. Every packet arrives eventually; the network may reorder
and duplicate packets.

Cost
----
``n`` integers per copy, also between clients: the server's column of the matrix of ``matrix``.

Names
-----
==============================  ===========================================
paper                           here
==============================  ===========================================
message-count-vector ``V_i``    ``Server._counts``
``V_s`` at the server           ``Server._served``
``V_m``                         ``Packet.control``, before this message
==============================  ===========================================

Differences from the paper
--------------------------
We could not read the paper itself; [MF95]_ section 2 states the rules. As stated there, the
server's test leaves out the sender's own entry, so it needs channels that keep order. Ours
compares all entries with the vector as it was before the message, and does not.

References
----------
.. [KK89] P. Kearns and B. Koodalattupuram. "Immediate ordered service in distributed systems". 9th
   International Conference on Distributed Computing Systems:611-618, 1989.
.. [MF95] F. Mattern and S. Fünfrocken. "A non-blocking lightweight implementation of causal order
   message delivery". Theory and Practice in Distributed Systems, LNCS 938:197-213, 1995.
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.groups import as_member
from antecede.core.info import Formula, Option, ProtocolInfo
from antecede.core.messages import CLOCK_BYTES, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.validation import check_claim, is_counts, malformed

Counts = tuple[int, ...]


@register
class Server(Endpoint):
    """The counts of requests at a client or at the server."""

    INFO: ClassVar = ProtocolInfo(
        name="server",
        idea="requests to one server in causal order",
        paper="Kearns, Koodalattupuram 1989",
        casts=("unicast",),
        guarantee="only the server delivers in causal order; clients deliver in any order",
        assumptions="one known server; every packet arrives eventually",
        cost="n integers per copy",
        promises=frozenset({"liveness", "quiescence", "no_overblocking"}),
        missing_promises={"safety": "only the server's deliveries are ordered"},
        options={"server": Option(None, "the server's name; by default the first member")},
        fixed_because="counts are told apart by the positions of members, on which all must agree",
        wire_number=12,
        bytes_per_entry=CLOCK_BYTES,
        formula=Formula(lambda n: n, lambda n: 4 * n, lambda n: 4 * n),
        has_roles=True,
    )
    STATE: ClassVar = {"_counts": [int], "_served": [int]}

    def _start(self) -> None:
        self._server = as_member("server", self.options["server"], self.members)
        self.options["server"] = self._server
        self._counts = [0] * len(self.members)
        self._served = [0] * len(self.members)

    def _stamp(self, sending: Sending) -> dict[str, object]:
        before: Counts = tuple(self._counts)
        if self._server in sending.others:
            self._counts[self._positions[self.process]] += 1
        return dict.fromkeys(sending.others, before)

    def _check(self, packet: Packet) -> None:
        if packet.kind != "data" or not is_counts(packet.control, len(self.members)):
            raise malformed(packet, f"{len(self.members)} counts of requests")
        counts = cast("Counts", packet.control)
        if counts[self._positions[packet.source]] >= packet.message_id.seq:
            raise malformed(packet, f"fewer requests of {packet.source!r} than messages")
        me = self._positions[self.process]
        check_claim(self, packet, counts[me], self._counts[me])

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        if self.process != self._server:
            return
        wanted = cast("Counts", packet.control)
        for member, served, count in zip(self.members, self._served, wanted, strict=True):
            if served < count:
                yield Need(member, count, "count")

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        before = cast("Counts", packet.control)
        self._counts[:] = map(max, self._counts, before)
        if self.process != self._server:
            return ()
        source = self._positions[packet.source]
        self._served[source] += 1
        self._counts[source] = max(self._counts[source], before[source] + 1)
        return (Need(packet.source, self._served[source], "count"),)
