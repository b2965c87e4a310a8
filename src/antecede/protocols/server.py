"""Requests to one server in causal order: Kearns and Koodalattupuram [KK89]_.

Clients write to each other and to one server. Every message carries, for each process, how many
requests to the server its sender knows that process to have made; the server serves a request once
it has served all those.

Guarantee
---------
The server delivers messages in causal order. Other processes deliver at once and in any order.

Assumes
-------
A fixed membership, one server that all know, and a network that brings every packet eventually. It
may reorder and duplicate.

Cost
----
``n`` integers on every copy, between clients too. It is the column of the server in the matrix of
``matrix``.

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
The text of the paper could not be read; [MF95]_ section 2 states the rules. As stated there, the
server's test leaves out the sender's own entry, so it needs channels that keep order; ours compares
all entries with the vector as it was before the message, and needs none.

References
----------
.. [KK89] P. Kearns and B. Koodalattupuram. "Immediate ordered service in distributed systems". 9th
   International Conference on Distributed Computing Systems:611-618, 1989.
.. [MF95] F. Mattern and S. Fünfrocken. "A non-blocking lightweight implementation of causal order
   message delivery". Theory and Practice in Distributed Systems, LNCS 938:197-213, 1995.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.groups import as_member
from antecede.core.info import Citation, Formula, Option, ProtocolInfo
from antecede.core.messages import CLOCK_BYTES, ControlSize, Need, Packet, Sending
from antecede.core.plain import is_counts, malformed
from antecede.core.registry import register

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


Counts = tuple[int, ...]


@register
class Server(Endpoint):
    """A client's, or the server's, counts of requests."""

    INFO: ClassVar = ProtocolInfo(
        name="server",
        idea="the requests to one server in causal order",
        paper="Kearns, Koodalattupuram 1989",
        citation=Citation(
            tag="KK89",
            authors=("P. Kearns", "B. Koodalattupuram"),
            title="Immediate ordered service in distributed systems",
            venue="9th International Conference on Distributed Computing Systems:611-618",
            year=1989,
        ),
        casts=("unicast",),
        guarantee="the server alone delivers in causal order; messages between clients are not ordered",
        assumptions="one server that all know; any network that brings every packet eventually",
        cost="n integers per copy",
        promises=frozenset({"liveness", "quiescence", "no_overblocking"}),
        options={
            "server": Option(default=None, doc="the server's name, by default the first member")
        },
        wire_number=12,
        bytes_per_entry=CLOCK_BYTES,
        formula=Formula(lambda n: n, lambda n: 4 * n, lambda n: 4 * n),
        has_roles=True,
    )
    STATE: ClassVar = ("_counts", "_served")

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

    @classmethod
    def measure(cls, packet: Packet) -> ControlSize:
        """Return one entry of one clock for each process."""
        counts = len(cast("Counts", packet.control))
        return cls._sized(counts)
