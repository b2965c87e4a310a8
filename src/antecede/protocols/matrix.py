"""Causal order by a matrix of messages sent: Raynal, Schiper and Toueg [RST91]_.

Every message carries an n x n matrix: how many messages each process has sent to each other, as far
as the sender knows. A receiver holds a message until it has delivered as many messages from each
process as the matrix says were sent to it.

Guarantee
---------
Causal order; a message waits only while a real cause of it is missing.

Assumes
-------
Every packet arrives eventually; the network may reorder and duplicate packets. Processes may join
and leave.

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
``ST_M``        ``Packet.control``, the matrix before this send, by names
==============  ====================================================

Differences from the paper
--------------------------
Multicast is our extension: a send counts once per destination, and a delivery records the message
for all its destinations, not only for the receiver; otherwise order is lost. A message to oneself
is delivered by the base and not counted; the paper's literal rule would count it twice and block.
Rows name their processes, and both rows and columns are sorted by name, so processes may join and
leave; see :mod:`antecede.core.counted`. One that joined counts from 0. Nothing waits for what is
lost with one that left, but everything else stays in the matrix, so messages that are delivered
never overtake each other.

References
----------
.. [RST91] M. Raynal, A. Schiper and S. Toueg. "The causal ordering abstraction and a simple way to
   implement it". Information Processing Letters 39(6):343-350, 1991.
   https://doi.org/10.1016/0020-0190(91)90008-6
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, cast

from antecede.core.counted import Counted, aligned
from antecede.core.info import Formula, ProtocolInfo
from antecede.core.messages import CLOCK_BYTES, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.validation import are_keyed, check_claim, is_counts, malformed

Row = tuple[int, ...]
Control = tuple[tuple[str, Row], ...]


@register
class Matrix(Counted):
    """One process's matrix and counts."""

    INFO: ClassVar = ProtocolInfo(
        name="matrix",
        idea="an n x n matrix of messages sent",
        paper="Raynal, Schiper, Toueg 1991",
        assumptions="every packet arrives eventually; processes may join and leave",
        cost="n*n integers per copy",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        dynamic=True,
        short_name="RST",
        wire_number=6,
        bytes_per_entry=CLOCK_BYTES,
        formula=Formula(lambda n: n * n, lambda n: 4 * n * n, lambda n: 4 * n * n, cubic=True),
    )
    STATE: ClassVar = Counted.STATE | {"_sent": [[int]], "_counts": [int]}

    def _start(self) -> None:
        n = len(self._names)
        self._sent = [[0] * n for _ in range(n)]
        self._counts = [0] * n

    def _stamp(self, sending: Sending) -> dict[str, object]:
        before: Control = tuple(zip(self._names, map(tuple, self._sent), strict=True))
        row = self._sent[self._me]
        for dest in sending.others:
            row[self._index[dest]] += 1
        return dict.fromkeys(sending.others, before)

    def kept_entries(self) -> int:
        """Return the size of the matrix."""
        return len(self._names) ** 2

    @staticmethod
    def _entry_count(control: object) -> int:
        rows = cast("tuple[object, ...]", control)
        if rows[0] is None:
            rows = cast("Control", rows[3])
        return len(rows) ** 2

    def _check_levels(self, packet: Packet, control: object) -> None:
        if packet.kind != "data" or not _is_matrix(control, self._names):
            raise malformed(packet, "sorted rows (process, a count for each of these processes)")
        rows = self._aligned(cast("Control", control))
        source = self._index.get(packet.source, self._me)
        if max(rows[source]) >= packet.message_id.seq and source != self._me:
            raise malformed(packet, f"counts of {packet.source!r} below the number of its message")
        for claimed, made in zip(rows[self._me], self._sent[self._me], strict=True):
            if claimed > made:
                check_claim(self, packet, claimed, made)
        self._last = packet, rows

    @staticmethod
    def _names_in(control: object) -> tuple[str, ...]:
        return tuple([row[0] for row in cast("Control", control)])

    @staticmethod
    def _counted(control: object) -> set[str]:
        rows = cast("Control", control)
        columns = zip(rows, zip(*[row for _, row in rows], strict=True), strict=True)
        return {name for (name, row), column in columns if any(row) or any(column)}

    def _rows(self, packet: Packet) -> list[Row]:
        """Return the matrix that a packet carries, by our names."""
        if self._last[0] is not packet:
            self._last = packet, self._aligned(cast("Control", self._bare(packet)))
        return cast("list[Row]", self._last[1])

    def _aligned(self, control: Control) -> list[Row]:
        ours, names = self._names, self._names_in(control)
        if names == ours:
            return [row[1] for row in control]
        rows = {name: aligned(row, names, ours) for name, row in control}
        return [rows.get(name) or (0,) * len(ours) for name in ours]

    def _wanted(self, packet: Packet) -> Iterator[tuple[str, int]]:
        """[RST91] delivery rule: DELIV[k] >= ST_M[k, me] for all k."""
        me = self._me
        for name, row, count in zip(self._names, self._rows(packet), self._counts, strict=True):
            if count < row[me]:
                yield name, row[me]

    def _level(self, packet: Packet) -> int:
        return self._known(packet, packet.source) + 1

    def _known(self, packet: Packet, process: str) -> int:
        control = cast("Control", self._bare(packet))
        names = self._names_in(control)
        if process not in names:
            return 0
        return control[names.index(process)][1][names.index(self.process)]

    def _reached(self, process: str) -> int:
        return self._counts[self._index[process]]

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        rows = self._rows(packet)
        source = self._index[packet.source]
        for mine, theirs in zip(self._sent, rows, strict=True):
            mine[:] = map(max, mine, theirs)
        row = self._sent[source]
        for dest in packet.dests:
            column = self._index.get(dest)
            if column is not None and column != source:
                row[column] = max(row[column], rows[source][column] + 1)
        self._counts[source] += 1
        if packet.source in self._removed:  # some before it may be lost
            self._counts[source] = max(self._counts[source], rows[source][self._me] + 1)
        return (Need(packet.source, self._counts[source], "count"),)

    def _renamed(self, before: tuple[str, ...]) -> None:
        ours = self._names
        rows = {
            name: list(aligned(row, before, ours))
            for name, row in zip(before, self._sent, strict=True)
        }
        self._sent = [rows.get(name) or [0] * len(ours) for name in ours]
        self._counts = list(aligned(self._counts, before, ours))

    def _check_own_state(self) -> bool:
        n = len(self._names)
        rows = (*self._sent, self._counts)
        return len(self._sent) == n and all(
            type(row) is list and is_counts(tuple(row), n) for row in rows
        )


def _is_matrix(control: object, expected: tuple[str, ...]) -> bool:
    """Tell whether ``control`` has rows (name, counts), sorted, with as many counts as rows."""
    if not are_keyed(control, expected):
        return False
    rows = cast("Control", control)
    return all(is_counts(row, len(rows)) for _, row in rows)
