"""Causal order with at most k matrix entries, by extra messages: Sanchez and Alvarez [SA00]_.

The matrix of messages sent is kept sparse, as a set of constraints. Zeros arise in three ways: a
process needs no constraint on itself; a message to a process replaces all constraints on that
process; and when more than ``k`` entries remain, the process sends an extra message, invisible to
applications, whose only purpose is to replace the constraints on one more process.

A message may also wait for extra messages, although nothing in the application requires it. They
have at most ``n - 1`` entries. There are many of them if ``k`` is close to ``n``, and none from
``(n - 1) * (n - 1)`` on (so none with three processes).

Differences from the paper
--------------------------
The paper is inconsistent on whether ``k`` entries are still allowed; here they are, and the next
one triggers an extra message. ``column`` chooses whose constraints are replaced: ``fullest`` is the
paper's rule (the column with most entries), ``sparsest`` the column with fewest among those with at
least two, ``rotating`` the next such column after the last choice; ties go to the first member.
Multicast is our extension: a send clears the column of every destination. A receiver replaces what
the message carries for its other destinations by the message itself, and drops what it kept for
them if the message carries it too, since the message waits for all of that there. Only the sender's
own row is always kept: it numbers the channels.

A count does not say which message it stands for, so each entry also has the number of that message
(for an extra message, of the one before it), for ``waiting()`` and ``skip``.

References
----------
.. [SA00] C. Sanchez and A. Alvarez. "A lightweight asynchronous algorithm for causal delivery using
   extra message insertion". 14th International Symposium on Distributed Computing (DISC), short
   paper, 2000.
"""

from collections import Counter
from typing import ClassVar, Final

from antecede.endpoint.counts import Counted, misplaced
from antecede.endpoint.info import Formula, Option, ProtocolInfo, Variant
from antecede.endpoint.messages import CLOCK_BYTES, COUNT_MAX, ID_BYTES
from antecede.endpoint.numbers import get_block, put_block, read_varint, varint
from antecede.endpoint.rules import Message, Packet, Saved, View, Wire, knows_too_much
from antecede.endpoint.series import ascending, gaps, stepped, steps
from antecede.errors import PeerError, UsageError

Cell = tuple[int, int]
"""How many packets a process sent to another, and the number of its message by then."""
Matrix = dict[int, Cell]
"""The cells that are not zero, by place: that of (k, d) is k * n + d."""
ZERO: Final = (0, 0)
CHOICES = ("fullest", "sparsest", "rotating")
ENTRY_BYTES: Final = 2 * ID_BYTES + CLOCK_BYTES


class BoundedWire(Wire):
    """M_m: how many entries; their places in the matrix; their counts; and their numbers."""

    def put(self, message: Message) -> bytes:
        places, cells = sorted(message.control), message.control
        counts = [cells[place][0] - 1 for place in places]
        numbers = steps([cells[place][1] for place in places], message.seq)
        return varint(len(places)) + put_block(gaps(places) + counts + numbers)

    def get(self, data: bytes, at: int, message: Message) -> tuple[Matrix, int]:
        n, sender, seq = self.view.n, message.sender, message.seq
        length, at = read_varint(data, at)
        if length > n * n or length > 8 * len(data):
            raise PeerError("has more entries than there can be")
        values, at = get_block(data, at, 3 * length)
        places, counts = ascending(values[:length]), values[length : 2 * length]
        numbers, matrix = stepped(values[2 * length :], seq), Matrix()
        for place, count, number in zip(places, counts, numbers, strict=True):
            k, dest = divmod(place, n)
            if k >= n or dest in {k, sender} or not 0 <= number <= COUNT_MAX or count >= COUNT_MAX:
                raise PeerError("has a constraint by or on someone who cannot have it")
            if k == sender and seq and number >= seq:
                raise PeerError("knows of later messages of its sender")
            matrix[place] = count + 1, number
        if not seq and len({place % n for place in matrix}) != 1:
            raise PeerError("is an extra message, but not for one column")
        return matrix, at

    def spell(self, packet: Packet) -> object:
        """Return M_m: entries (sender, destination, count), by member position."""
        return spelt(self.view, packet.content.control)

    def entries(self, packet: Packet) -> int:
        return len(packet.content.control)


class Bounded(Counted):
    """One process's constraints, a sparse matrix."""

    INFO: ClassVar = ProtocolInfo(
        idea="at most k entries, by extra messages",
        guarantee="causal order; never more than k entries kept or sent",
        cost="at most k entries per copy; extra messages when k would be exceeded",
        options={
            "k": Option(None, "maximum of entries kept or sent, n < k <= n*n; None means 2n"),
            "column": Option(
                "fullest",
                "whose constraints an extra message replaces: fullest, sparsest or rotating",
                CHOICES,
            ),
        },
        lost_by_skip="a message stands for what it replaced; if it is lost, later ones do not "
        "show what that was",
        unmarked_by_skip="later messages do not show that they follow a lost one",
        bytes_per_entry=ENTRY_BYTES,
        formula=Formula(
            lambda n: n * n, lambda n: 8 * n * n, lambda n: 8 * n * n, most=True, cubic=True
        ),
        has_roles=True,
        variants=(
            Variant("tight", lambda members: {"k": len(members) + 1}),
            Variant("rotating", lambda members: {"k": len(members) + 1, "column": "rotating"}),
        ),
    )
    WIRE: ClassVar = BoundedWire

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._k: int = view.options["k"]
        self._choice = view.options["column"]
        self._matrix: Matrix = {}
        """M_i; ``reached`` is DELIV_i, extra messages among them."""
        self._turn = 0

    @classmethod
    def check_options(cls, options: dict[str, object], members: tuple[str, ...]) -> None:
        k, n = options["k"], len(members)
        most = max(n * n, 2 * n)
        if k is None:
            options["k"] = 2 * n
        elif type(k) is not int or not n < k <= most:
            msg = f"k={k!r} is out of bounds; with {n} members use {n + 1} to {most}, or None"
            raise UsageError(msg)

    def stamp(self, message: Message, others: tuple[int, ...], event: int, after: int) -> None:
        """Send M; the message then replaces all constraints on its destinations."""
        message.control = self._matrix.copy()
        for dest in others:
            self.outbox.append((dest, message, None))
        self._stand_in(others, message.seq)
        self._trim()

    def _stand_in(self, dests: tuple[int, ...], number: int) -> None:
        """Replace all constraints on these by the packets that now go to them."""
        n, matrix, gone = self.view.n, self._matrix, {*dests}
        self._matrix = {place: cell for place, cell in matrix.items() if place % n not in gone}
        for place in [self.me * n + dest for dest in dests]:
            self._matrix[place] = matrix.get(place, ZERO)[0] + 1, number

    def _trim(self) -> None:
        """Send extra messages until at most k entries are left."""
        n = self.view.n
        while len(self._matrix) > self._k:
            dest = self._chosen_column()
            self.say(dest, {place: c for place, c in self._matrix.items() if place % n == dest})
            self._stand_in((dest,), self.made)

    def _chosen_column(self) -> int:
        """Return a column that would shrink; one exists, because k is more than n."""
        sizes = Counter([place % self.view.n for place in self._matrix])
        wide = [dest for dest, size in sizes.items() if size > 1]
        if self._choice == "rotating":
            chosen = min(wide, key=lambda dest: (dest < self._turn, dest))
            self._turn = (chosen + 1) % self.view.n
            return chosen
        sign = -1 if self._choice == "fullest" else 1
        return min(wide, key=lambda dest: (sign * sizes[dest], dest))

    def check(self, packet: Packet) -> str:
        n, me, mine, theirs = self.view.n, self.me, self._matrix, packet.content.control
        if fault := misplaced(packet, theirs.get(packet.source_no * n + me, ZERO)[0]):
            return fault
        if not packet.content.seq and me not in {place % n for place in theirs}:
            return "is an extra message for another process"
        for place, cell in theirs.items():
            if place // n == me and cell > mine.get(place, ZERO) and not self.is_stale:
                return knows_too_much(self.made)
        return ""

    def needs(self, packet: Packet) -> list[int]:
        """Deliver when DELIV[k] is at least the constraint by k, for all k."""
        n, me, shift, matrix = self.view.n, self.me, self.shift, packet.content.control
        return [cell[0] << shift | place // n for place, cell in matrix.items() if place % n == me]

    def wanted(self, packet: Packet, key: int) -> tuple[int, int]:
        """Return the message that a constraint stands for, or the one before an extra message."""
        sender, matrix = key & self.low, packet.content.control
        return sender, max(matrix.get(sender * self.view.n + self.me, ZERO)[1], 1)

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """DELIV rises; constraints on others are merged, and the message stands for some."""
        message, me, sender, n = packet.content, self.me, packet.source_no, self.view.n
        self.reached[sender] = self.key(packet)
        if not message.seq:
            return self.places[sender]
        self._newest[sender] = message.seq
        mine, theirs, own = self._matrix, message.control, range(me * n, me * n + n)
        if dests := message.dests & ~(1 << me | 1 << sender):
            # The message waits there for all that it carries, and stands for it.
            mine = self._matrix = {
                place: cell
                for place, cell in mine.items()
                if not dests >> place % n & 1 or place in own or cell > theirs.get(place, ZERO)
            }
        done = dests | 1 << me
        for place, cell in theirs.items():
            if not done >> place % n & 1 and cell > mine.get(place, ZERO):
                mine[place] = cell
        for place in [sender * n + dest for dest in self.view.list(dests)]:
            cell = theirs.get(place, ZERO)[0] + 1, message.seq
            mine[place] = max(mine.get(place, ZERO), cell)
        self._trim()
        return self.places[sender]

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        """Tell whether a packet has a constraint by this message, or by a later one."""
        n, matrix = self.view.n, packet.content.control
        return any(place // n == sender and cell[1] >= seq for place, cell in matrix.items())

    def kept(self) -> object:
        """Return M."""
        return spelt(self.view, self._matrix)

    def kept_entries(self) -> int:
        return len(self._matrix)

    def keep(self, saved: Saved) -> None:
        """Keep M as (place, count, number), whose turn it is, and the last messages delivered."""
        n, me = self.view.n, self.me
        cells = [(place, *cell) for place, cell in sorted(self._matrix.items())]
        cells = saved.tuples("entries", cells, 3)
        self._turn = saved.number("turn", self._turn, 0, n - 1)
        self._newest = saved.numbers("newest", self._newest)
        matrix = self._matrix = {place: (count, number) for place, count, number in cells}
        saved.require(len(matrix) == len(cells) <= self._k, "entries", cells, f"up to {self._k}")
        for place, (count, number) in matrix.items():
            is_right = place < n * n and place % n not in {place // n, me} and count
            saved.require(is_right, "entries", place, "one count for each two processes")
            if place // n == me:
                self.require_own(saved, "entries", number)


def spelt(view: View, matrix: Matrix) -> tuple[tuple[str, str, int], ...]:
    """Return entries (sender, destination, count) by member position."""
    names, n = view.members, view.n
    return tuple([(names[p // n], names[p % n], cell[0]) for p, cell in sorted(matrix.items())])
