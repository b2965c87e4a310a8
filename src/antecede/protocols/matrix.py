"""Causal order by a matrix of messages sent: Raynal, Schiper and Toueg [RST91]_.

Every message carries an n x n matrix: how many messages each process has sent to each other, as far
as the sender knows. A receiver holds a message until it has delivered as many messages from each
process as the matrix says were sent to it.

Differences from the paper
--------------------------
Multicast is our extension: a send counts once per destination, and a delivery counts the message
for all its destinations, not only for the receiver; otherwise order is lost. A message to oneself
is delivered at once and not counted; the paper's literal rule would count it twice and block.

A row changes only when its sender sends, so the maximum of two rows of one sender is the greater
row as a whole. A count does not say which message it stands for. So the number of the last known
message of each process travels too, for ``waiting()`` and ``skip``: a missing message is no later
than that. The order of deliveries does not depend on these numbers.

References
----------
.. [RST91] M. Raynal, A. Schiper and S. Toueg. "The causal ordering abstraction and a simple way to
   implement it". Information Processing Letters 39(6):343-350, 1991.
   https://doi.org/10.1016/0020-0190(91)90008-6
"""

from collections.abc import Iterator
from operator import gt
from typing import ClassVar

from antecede.endpoint.counts import Counted, Row, counted, misplaced
from antecede.endpoint.info import Formula, ProtocolInfo
from antecede.endpoint.messages import CLOCK_BYTES, COUNT_MAX, Message, Packet
from antecede.endpoint.numbers import get_block, put_block, read_varint, varint
from antecede.endpoint.rules import ALIKE, Own, Saved, Wire, knows_too_much
from antecede.endpoint.view import CACHE_MAX, View
from antecede.errors import PeerError

Control = tuple[list[Row], list[int]]
"""ST_M, and the key of the last known message of each process."""
Parts = tuple[int, list[int], int]
"""The least count of a row, how far the others are above it, and the sum of the row."""


class MatrixWire(Wire):
    """The last numbers; the least count of each row; and how far the row's others are above it."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._known: list[dict[Row, Parts]] = [{} for _ in range(view.n)]
        """Rows that were written before and their parts, by sender."""

    def put(self, message: Message) -> bytes:
        rows, tops = message.control
        shift, sender = self.view.shift, message.sender
        least, above, sums = list[int](), list[int](), list[int]()
        for k, row in enumerate(rows):
            low, others, total = self._known[k].get(row) or self._parts(k, row)
            least.append(low)
            above += others
            sums.append(total)
        base, guesses = min(least), _guesses(sums, sender, message.seq)
        steps = [
            2 * step if (step := (key >> shift) - guess) >= 0 else -2 * step - 1
            for key, guess in zip(tops, guesses)
        ]
        del steps[sender]
        return varint(base) + put_block(steps + [count - base for count in least] + above)

    def _parts(self, k: int, row: Row) -> Parts:
        if len(self._known[k]) >= CACHE_MAX:
            self._known[k].clear()
        others = row[:k] + row[k + 1 :]
        least = min(others)
        self._known[k][row] = parts = least, [count - least for count in others], sum(row)
        return parts

    def get(self, data: bytes, at: int, message: Message) -> tuple[Control, int]:
        n, shift, sender = self.view.n, self.view.shift, message.sender
        base, at = read_varint(data, at)
        values, at = get_block(data, at, n - 1 + n + n * (n - 1))
        steps, least = (*values[:sender], 0, *values[sender : n - 1]), values[n - 1 : 2 * n - 1]
        rows, first, zeros = list[Row](), 2 * n - 1, 0
        for k, more in enumerate(least):
            part = values[first : first + n - 1]
            first += n - 1
            zeros += 0 in part
            more += base
            row = [more + count for count in part] if more else list(part)
            row.insert(k, 0)
            rows.append(tuple(row))
        if zeros < n or 0 not in least:
            raise PeerError("has a matrix in another form than it should have")
        guesses = _guesses(list(map(sum, rows)), sender, message.seq)
        tops = [
            guess + (-(step >> 1) - 1 if step & 1 else step >> 1)
            for guess, step in zip(guesses, steps)
        ]
        if any(map(gt, map(max, rows), tops)) or max(tops) > COUNT_MAX:
            raise PeerError("counts more messages of a process than its last one says")
        return (rows, [top << shift | k for k, top in enumerate(tops)]), at

    def spell(self, packet: Packet) -> object:
        """Return ST_M: sorted rows (process, a count for each)."""
        return spelt(self.view, packet.content.control[0])


def _guesses(sums: list[int], sender: int, seq: int) -> list[int]:
    """Estimate how many messages each process sent, as if all had as many destinations as ours."""
    ours = sums[sender] or 1
    guesses = [min(total * (seq - 1) // ours, total) for total in sums]
    guesses[sender] = seq - 1
    return guesses


class Matrix(Counted):
    """One process's matrix."""

    INFO: ClassVar = ProtocolInfo(
        idea="an n x n matrix of messages sent",
        guarantee="causal order; a message waits only for real causes",
        cost="n*n integers per copy",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        short_name="RST",
        bytes_per_entry=CLOCK_BYTES,
        formula=Formula(lambda n: n * n, lambda n: 4 * n * n, lambda n: 4 * n * n, cubic=True),
    )
    WIRE: ClassVar = MatrixWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._sent: list[Row] = [(0,) * view.n] * view.n
        """SENT (row: sender, column: destination); ``reached`` is DELIV."""
        self._tops = list(range(view.n))
        """The key of the last known message of each process."""

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> Own:
        """Send SENT as it was, then count the message for each destination."""
        me, key = self.me, message.seq << self.shift | self.me
        self._tops[me] = key - self.low - 1
        message.control = self._sent.copy(), self._tops.copy()
        self._sent[me] = counted(self._sent[me], others)
        self._tops[me] = key
        return ALIKE

    def check(self, packet: Packet) -> str:
        (rows, tops), me = packet.content.control, self.me
        if fault := misplaced(packet, rows[packet.source_no][me]):
            return fault
        mine = self._sent[me]
        if rows[me] is not mine and (tops[me] > self._tops[me] or any(map(gt, rows[me], mine))):
            return "" if self.is_stale else knows_too_much(self.made)
        return ""

    def needs(self, packet: Packet) -> Iterator[int]:
        """Wait until DELIV[k] >= ST_M[k, me] for all k."""
        me, shift = self.me, self.shift
        for k, row in enumerate(packet.content.control[0]):
            yield row[me] << shift | k

    def wanted(self, packet: Packet, key: int) -> tuple[int, int]:
        """Return the last known message of a process: the missing one is no later than that."""
        sender = key & self.low
        return sender, packet.content.control[1][sender] >> self.shift

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Raise DELIV; SENT becomes the maximum of both, and counts the message for all dests."""
        message, sender = packet.content, packet.content.sender
        rows, tops = message.control
        self.reached[sender] = self.key(packet)
        self._newest[sender] = message.seq
        row = counted(rows[sender], self.view.list(message.dests & ~(1 << sender)))
        self._sent = sent = list(map(max, self._sent, rows))
        sent[sender] = max(sent[sender], row)
        self._tops = mine = list(map(max, self._tops, tops))
        mine[sender] = max(mine[sender], message.seq << self.shift | sender)
        return self.places[sender]

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        return packet.content.control[1][sender] >> self.shift >= seq

    def kept(self) -> object:
        return spelt(self.view, self._sent)

    def kept_entries(self) -> int:
        return self.view.n**2

    def keep(self, saved: Saved) -> None:
        n, shift = self.view.n, self.shift
        self._sent = rows = saved.rows("sent", self._sent, n)
        self._tops = saved.keys("tops", self._tops, shift)
        self._newest = saved.numbers("newest", self._newest)
        wrong = [k for k, row in enumerate(rows) if row[k] or max(row) > self._tops[k] >> shift]
        saved.require(not wrong, "sent", rows, "counts up to the last number, and 0 for itself")
        self.require_own(saved, "tops", self._tops[self.me] >> shift)


def spelt(view: View, rows: list[Row]) -> tuple[tuple[str, Row], ...]:
    """Return a matrix with names, rows and columns sorted."""
    order = [view.numbers[name] for name in sorted(view.members)]
    return tuple([(view.members[k], tuple([rows[k][d] for d in order])) for k in order])
