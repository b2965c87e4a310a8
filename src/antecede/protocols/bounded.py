"""Causal order with at most k matrix entries, by extra messages: Sanchez and Alvarez [SA00]_.

The matrix of messages sent is kept sparse, as a set of constraints. Zeros arise in three ways: a
process needs no constraint on itself; a message to a process replaces all constraints on that
process; and when more than ``k`` entries remain, the process sends an extra message, invisible to
applications, whose only purpose is to replace the constraints on one more process.

Guarantee
---------
Causal order, with at most ``k`` entries ever kept by a process or carried by a message. A message
may also wait for extra messages, although nothing in the application requires it.

Cost
----
Extra messages have at most ``n - 1`` entries: many of them if ``k`` is close to ``n``, none from
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

from typing import ClassVar, Final

from antecede.endpoint.counts import Counted, larger, misplaced
from antecede.endpoint.info import Formula, Option, ProtocolInfo, Variant
from antecede.endpoint.messages import CLOCK_BYTES, COUNT_MAX, ID_BYTES
from antecede.endpoint.numbers import get_block, put_block, read_varint, varint
from antecede.endpoint.rules import Message, Packet, Saved, View, Wire, knows_too_much
from antecede.endpoint.series import ascending, gaps, stepped, steps
from antecede.errors import PeerError, UsageError

Cell = tuple[int, int]
"""How many packets a process has sent to another, and the number of its last message by then."""
Column = dict[int, Cell]
"""The constraints on one process, by sender."""
Columns = dict[int, Column]
"""The columns that are not empty, by destination."""
NONE: Final[Column] = {}
CHOICES = ("fullest", "sparsest", "rotating")
ENTRY_BYTES: Final = 2 * ID_BYTES + CLOCK_BYTES


class BoundedWire(Wire):
    """M_m: the number of entries; their places in the matrix, counts, and message numbers."""

    def put(self, message: Message) -> bytes:
        entries = entries_of(message.control, self.view.n)
        places, counts = [place for place, _, _ in entries], [count - 1 for _, count, _ in entries]
        numbers = steps([number for _, _, number in entries], message.seq)
        return varint(len(entries)) + put_block(gaps(places) + counts + numbers)

    def get(self, data: bytes, at: int, message: Message) -> tuple[Columns, int]:
        n, sender, seq = self.view.n, message.sender, message.seq
        length, at = read_varint(data, at)
        if length > n * n or length > 8 * len(data):
            raise PeerError("has more entries than there can be")
        values, at = get_block(data, at, 3 * length)
        places, counts = ascending(values[:length]), values[length : 2 * length]
        numbers, columns = stepped(values[2 * length :], seq), Columns()
        for place, count, number in zip(places, counts, numbers, strict=True):
            k, dest = divmod(place, n)
            if k >= n or dest in {k, sender} or not 0 <= number <= COUNT_MAX or count >= COUNT_MAX:
                raise PeerError("has a constraint by or on someone who cannot have it")
            if k == sender and seq and number >= seq:
                raise PeerError("knows of later messages of its sender")
            columns.setdefault(dest, {})[k] = count + 1, number
        if not seq and len(columns) != 1:
            raise PeerError("is an extra message, but not for one column")
        return columns, at

    def spell(self, packet: Packet) -> object:
        """Return M_m: entries (sender, destination, count), by member position."""
        return spelt(self.view, packet.content.control)

    def entries(self, packet: Packet) -> int:
        return sum(map(len, packet.content.control.values()))


class Bounded(Counted):
    """One process's constraints, by the process that they constrain; columns are never modified."""

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
        self._columns: Columns = {}
        """M_i, by columns, and its size; ``reached`` is DELIV_i and counts extra messages too."""
        self._entries = 0
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
        message.control = self._columns.copy()
        for dest in others:
            self.outbox.append((dest, message, None))
            self._stand_in(dest, message.seq)
        self._trim()

    def _stand_in(self, dest: int, number: int) -> None:
        """Replace all constraints on ``dest`` by the packet that now goes to it."""
        count, _ = self._columns.get(dest, NONE).get(self.me, (0, 0))
        self._put(dest, {self.me: (count + 1, number)})

    def _put(self, dest: int, column: Column) -> None:
        self._entries += len(column) - len(self._columns.get(dest, NONE))
        self._columns[dest] = column

    def _trim(self) -> None:
        """Send extra messages until at most k entries are left."""
        while self._entries > self._k:
            dest = self._chosen_column()
            self.say(dest, {dest: self._columns[dest]})
            self._stand_in(dest, self.made)

    def _chosen_column(self) -> int:
        """Return a column with more than one entry; there is one, because k is more than n."""
        wide = {dest: len(column) for dest, column in self._columns.items() if len(column) > 1}
        if self._choice == "rotating":
            chosen = min(wide, key=lambda dest: (dest < self._turn, dest))
            self._turn = (chosen + 1) % self.view.n
            return chosen
        sign = -1 if self._choice == "fullest" else 1
        return min(wide, key=lambda dest: (sign * wide[dest], dest))

    def check(self, packet: Packet) -> str:
        me, columns = self.me, packet.content.control
        if fault := misplaced(packet, columns.get(me, NONE).get(packet.source_no, (0, 0))[0]):
            return fault
        if not packet.content.seq and me not in columns:
            return "is an extra message for another process"
        for dest, column in columns.items():
            mine = self._columns.get(dest, NONE).get(me, (0, 0))
            if me in column and column[me] > mine and not self.is_stale:
                return knows_too_much(self.made)
        return ""

    def needs(self, packet: Packet) -> list[int]:
        """Wait until for all k DELIV[k] is at least the constraint by k."""
        column = packet.content.control.get(self.me, NONE)
        return [count << self.shift | k for k, (count, _) in column.items()]

    def wanted(self, packet: Packet, key: int) -> tuple[int, int]:
        """Return the message that a constraint stands for, or the one before an extra message."""
        sender, columns = key & self.low, packet.content.control
        return sender, max(columns.get(self.me, NONE).get(sender, (0, 0))[1], 1)

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """Raise DELIV; merge constraints on others, some of which the message replaces."""
        message, me, sender = packet.content, self.me, packet.source_no
        self.reached[sender] = self.key(packet)
        if not message.seq:
            return self.places[sender]
        self._newest[sender] = message.seq
        carried: Columns = message.control
        dests = message.dests & ~(1 << me | 1 << sender)
        for dest, theirs in carried.items():
            if dest != me and not dests >> dest & 1:
                self._put(dest, larger(self._columns.get(dest, NONE), theirs))
        for dest in self.view.list(dests):  # it waits there for these, so it replaces them
            theirs = carried.get(dest, NONE)
            mine = {
                k: cell
                for k, cell in self._columns.get(dest, NONE).items()
                if k == me or cell > theirs.get(k, (0, 0))
            }
            newest = theirs.get(sender, (0, 0))[0] + 1, message.seq
            self._put(dest, larger(mine, {sender: newest}))
        self._trim()
        return self.places[sender]

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        """Return whether a packet has a constraint by this message, or by a later one."""
        columns = packet.content.control.values()
        return any(column.get(sender, (0, 0))[1] >= seq for column in columns)

    def kept(self) -> object:
        """Return M."""
        return spelt(self.view, self._columns)

    def kept_entries(self) -> int:
        return self._entries

    def keep(self, saved: Saved) -> None:
        """Save or restore M as (place, count, number), the turn, and the last deliveries."""
        n, me = self.view.n, self.me
        entries = saved.field("entries", entries_of(self._columns, n), [(int, int, int)])
        self._turn = saved.number("turn", self._turn, 0, n - 1)
        self._newest = saved.numbers("newest", self._newest)
        if not saved.is_read:
            return
        for place, count, number in entries:
            k, dest = divmod(place, n)
            column = self._columns.setdefault(dest, {})
            is_right = k < n and dest not in {k, me} and k not in column and count
            saved.require(is_right, "entries", place, "one count for each two processes")
            if k == me:
                self.require_own(saved, "entries", number)
            column[k] = count, number
        self._entries = len(entries)
        saved.require(len(entries) <= self._k, "entries", len(entries), f"at most {self._k}")


def entries_of(columns: Columns, n: int) -> list[tuple[int, int, int]]:
    """Return the entries by their places in the matrix: place, count, and number."""
    entries = [(k * n + d, *cell) for d, column in columns.items() for k, cell in column.items()]
    return sorted(entries)


def spelt(view: View, columns: Columns) -> tuple[tuple[str, str, int], ...]:
    """Return entries (sender, destination, count) by member position."""
    names, n = view.members, view.n
    entries = entries_of(columns, n)
    return tuple([(names[place // n], names[place % n], count) for place, count, _ in entries])
