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
``ST_M``        ``SentBefore``, the matrix before this send
==============  ====================================================

Differences from the paper
--------------------------
Multicast is our extension: a send counts once per destination, and a delivery records the message
for all its destinations, not only for the receiver; otherwise order is lost. A message to oneself
is delivered by the base and not counted; the paper's literal rule would count it twice and block.
Controls name the processes of rows, and both rows and columns are sorted by name, so processes may
join and leave; see :mod:`antecede.core.counted`. One that joined counts from 0. Nothing waits for
what is lost with one that left, but everything else stays in the matrix, so messages that are
delivered never overtake each other.

References
----------
.. [RST91] M. Raynal, A. Schiper and S. Toueg. "The causal ordering abstraction and a simple way to
   implement it". Information Processing Letters 39(6):343-350, 1991.
   https://doi.org/10.1016/0020-0190(91)90008-6
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, cast

from antecede.core.casts import Targets
from antecede.core.counted import Counted
from antecede.core.counted_membership import aligned
from antecede.core.counts import Counts, Row, by_name, by_roster, larger, order_of
from antecede.core.info import Formula, ProtocolInfo
from antecede.core.messages import CLOCK_BYTES, ControlSize, Need, Packet
from antecede.core.registry import register
from antecede.core.roster import Roster
from antecede.core.validation import are_keyed, check_claim, is_counts, malformed

Control = tuple[tuple[str, Row], ...]


class SentBefore(Counts):
    """The matrix as it was before a message, by numbers."""

    __slots__ = ()
    PROTOCOL: ClassVar = "matrix"
    FORM: ClassVar = "square"

    @classmethod
    def read(cls, control: object, roster: Roster) -> Counts | None:
        """Return a control by numbers, if it is well-formed and counts exactly this roster."""
        if not _is_matrix(control, roster.names):
            return None
        rows = dict(cast("Control", control))
        if rows.keys() != roster.numbers.keys():
            return None
        names = tuple(rows)
        return cls([by_roster(rows[name], names, roster) for name in roster.names])

    def spell(self, roster: Roster) -> object:
        """Return the rows by names."""
        order, names = order_of(roster.names), roster.names
        if order is None:
            return tuple(zip(names, self.rows, strict=True))
        return tuple([(names[number], by_name(self.rows[number], order)) for number in order])


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
    STATE: ClassVar = Counted.STATE | {"_sent": [(int, ...)], "_counts": [int]}
    STAMP: ClassVar = SentBefore

    def _start(self) -> None:
        n = len(self._names)
        self._sent: list[Row] = [(0,) * n] * n
        self._counts = [0] * n

    def _count_sends(self, to: Targets) -> Counts:
        sent, me = self._sent, self._me
        before = SentBefore(sent.copy())
        row = list(sent[me])
        for dest in to.numbers:
            row[dest] += 1
        sent[me] = tuple(row)
        return before

    def kept_entries(self) -> int:
        """Return the size of the matrix."""
        return len(self._names) ** 2

    @classmethod
    def measure(cls, packet: Packet) -> ControlSize:
        """Return the size of the matrix by the model of [JPCY97]."""
        counted = packet.roster or cast("Control", cls._bare(packet))
        return ControlSize(len(counted) ** 2, 0, CLOCK_BYTES * len(counted) ** 2)

    def _check_form(self, packet: Packet, control: object) -> None:
        if packet.kind != "data" or not _is_matrix(control, self._names):
            raise malformed(packet, "sorted rows (process, a count for each of these processes)")

    def _check_claims(self, packet: Packet) -> None:
        rows = self._carried(packet).rows
        source, me = self._index.get(packet.source, self._me), self._me
        if source != me and max(rows[source]) >= packet.message_id.seq:
            raise malformed(packet, f"counts of {packet.source!r} below the number of its message")
        if rows[me] != self._sent[me]:
            for claimed, made in zip(rows[me], self._sent[me], strict=True):
                if claimed > made:
                    check_claim(self, packet, claimed, made)

    @staticmethod
    def _names_in(control: object) -> tuple[str, ...]:
        return tuple([row[0] for row in cast("Control", control)])

    @staticmethod
    def _counted(control: object) -> set[str]:
        rows = cast("Control", control)
        columns = zip(rows, zip(*[row for _, row in rows], strict=True), strict=True)
        return {name for (name, row), column in columns if any(row) or any(column)}

    def _aligned(self, control: object) -> SentBefore:
        ours, named = self._names, dict(cast("Control", control))
        names = tuple(named)
        rows = {name: aligned(row, names, ours) for name, row in named.items()}
        return SentBefore([rows.get(name) or (0,) * len(ours) for name in ours])

    def _wanted(self, packet: Packet) -> Iterator[tuple[str, int]]:
        """[RST91] delivery rule: DELIV[k] >= ST_M[k, me] for all k."""
        me, counts = self._me, self._counts
        for k, row in enumerate(self._carried(packet).rows):
            if counts[k] < row[me]:
                yield self._names[k], row[me]

    def _level(self, packet: Packet) -> int:
        return self._known(packet, packet.source) + 1

    def _known(self, packet: Packet, process: str) -> int:
        number = self._index.get(process)
        return 0 if number is None else self._carried(packet).rows[number][self._me]

    def _heard(self, process: str) -> int:
        return self._sent[self._index[process]][self._me]

    def _reached(self, process: str) -> int:
        return self._counts[self._index[process]]

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        rows, sent = self._carried(packet).rows, self._sent
        source = self._index[packet.source]
        for number, theirs in enumerate(rows):
            mine = sent[number]
            if mine is not theirs and mine != theirs:
                sent[number] = larger(mine, theirs)
        row, before = list(sent[source]), rows[source]
        for dest in packet.dests:
            column = self._index.get(dest, source)
            if column != source and row[column] <= before[column]:
                row[column] = before[column] + 1
        sent[source] = tuple(row)
        count = self._counts[source] + 1
        if packet.source in self._removed:  # some before it may be lost
            count = max(count, before[self._me] + 1)
        self._counts[source] = count
        return (Need(packet.source, count, "count"),)

    def _renamed(self, before: tuple[str, ...]) -> None:
        ours = self._names
        rows = {
            name: aligned(row, before, ours) for name, row in zip(before, self._sent, strict=True)
        }
        self._sent = [rows.get(name) or (0,) * len(ours) for name in ours]
        self._counts = list(aligned(self._counts, before, ours))

    def _check_own_state(self) -> bool:
        n = len(self._names)
        rows = (*self._sent, tuple(self._counts))
        return len(self._sent) == n and all(is_counts(row, n) for row in rows)


def _is_matrix(control: object, expected: tuple[str, ...]) -> bool:
    """Tell whether ``control`` has rows (name, counts), sorted, with as many counts as rows."""
    if not are_keyed(control, expected):
        return False
    rows = cast("Control", control)
    return all(is_counts(row, len(rows)) for _, row in rows)
