"""Causal order by a matrix of messages sent: Raynal, Schiper and Toueg [RST91]_.

Every message carries an n x n matrix: how many messages each process has sent to each other, as far
as the sender knows. A receiver holds a message until it has delivered as many messages from each
process as the matrix says were sent to it.

Guarantee
---------
Causal order; a message waits only while a real cause of it is missing.

Assumes
-------
A fixed membership. Every packet arrives eventually; the network may reorder and duplicate packets.

Cost
----
``n * n`` integers per packet; ``n * n + n`` integers of state.

Names
-----
==============  ====================================================
paper           here
==============  ====================================================
``SENT``        ``Matrix._sent`` (row: sender, column: destination)
``DELIV``       ``Matrix._counts``
``ST_M``        ``Packet.control``, the matrix before this send
==============  ====================================================

Differences from the paper
--------------------------
Multicast is our extension: a send counts once per destination, and a delivery records the message
for all its destinations, not only for the receiver; otherwise order is lost. A message to oneself
is delivered by the base and not counted; the paper's literal rule would count it twice and block.

References
----------
.. [RST91] M. Raynal, A. Schiper and S. Toueg. "The causal ordering abstraction and a simple way to
   implement it". Information Processing Letters 39(6):343-350, 1991.
   https://doi.org/10.1016/0020-0190(91)90008-6
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.info import Formula, ProtocolInfo
from antecede.core.messages import CLOCK_BYTES, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.validation import check_claim, is_counts, malformed

Rows = tuple[tuple[int, ...], ...]


@register
class Matrix(Endpoint):
    """One process's matrix and counts."""

    INFO: ClassVar = ProtocolInfo(
        name="matrix",
        idea="an n x n matrix of messages sent",
        paper="Raynal, Schiper, Toueg 1991",
        cost="n*n integers per copy",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        short_name="RST",
        fixed_because="counts are told apart by the positions of members, on which all must agree",
        wire_number=6,
        bytes_per_entry=CLOCK_BYTES,
        formula=Formula(lambda n: n * n, lambda n: 4 * n * n, lambda n: 4 * n * n, cubic=True),
    )
    STATE: ClassVar = ("_sent", "_counts")

    def _start(self) -> None:
        n = len(self.members)
        self._sent = [[0] * n for _ in range(n)]
        self._counts = [0] * n

    def _stamp(self, sending: Sending) -> dict[str, object]:
        before: Rows = tuple(map(tuple, self._sent))
        row = self._sent[self._positions[self.process]]
        for dest in sending.others:
            row[self._positions[dest]] += 1
        return dict.fromkeys(sending.others, before)

    def kept_entries(self) -> int:
        """Return the size of the matrix."""
        return len(self.members) ** 2

    @staticmethod
    def _entry_count(control: object) -> int:
        return len(cast("Rows", control)) ** 2

    def _check(self, packet: Packet) -> None:
        rows, n = packet.control, len(self.members)
        is_matrix = type(rows) is tuple and len(rows) == n and all(is_counts(r, n) for r in rows)
        if packet.kind != "data" or not is_matrix:
            raise malformed(packet, f"{n} rows of {n} counts")
        matrix = cast("Rows", rows)
        if max(matrix[self._positions[packet.source]]) >= packet.message_id.seq:
            raise malformed(packet, f"counts of {packet.source!r} below the number of its message")
        me = self._positions[self.process]
        for claimed, made in zip(matrix[me], self._sent[me], strict=True):
            check_claim(self, packet, claimed, made)

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        """[RST91] delivery rule: DELIV[k] >= ST_M[k, me] for all k."""
        rows = cast("Rows", packet.control)
        me = self._positions[self.process]
        for k, member in enumerate(self.members):
            if self._counts[k] < rows[k][me]:
                yield Need(member, rows[k][me], "count")

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        rows = cast("Rows", packet.control)
        source = self._positions[packet.source]
        self._counts[source] += 1
        for mine, theirs in zip(self._sent, rows, strict=True):
            mine[:] = map(max, mine, theirs)
        row = self._sent[source]
        for dest in packet.dests:
            if dest != packet.source:
                column = self._positions[dest]
                row[column] = max(row[column], rows[source][column] + 1)
        return (Need(packet.source, self._counts[source], "count"),)
