"""Causal order with at most k matrix entries, by extra messages: Sanchez and Alvarez [SA00]_.

The matrix of messages sent is kept sparse, as a set of constraints. Zeros arise in three ways: a
process needs no constraint on itself; a message to a process replaces all constraints on that
process; and when more than ``k`` entries remain, the process sends an extra message, invisible to
applications, whose only purpose is to replace the constraints on one more process.

Guarantee
---------
Causal order, with at most ``k`` entries ever kept by a process or carried by a message. A message
may also wait for extra messages, although nothing in the application requires it.

Assumes
-------
A fixed membership. Every packet arrives eventually; the network may reorder and duplicate packets.

Cost
----
At most ``k`` entries per copy, ``n < k <= n * n``; extra messages of at most ``n - 1`` entries:
many if ``k`` is close to ``n``, none from ``(n - 1) * (n - 1)`` on (so none with three processes).

Names
-----
==============  ==========================================================================
paper           here
==============  ==========================================================================
``M_i``         ``Bounded._columns``: for each destination, sender -> count, zeros left out
``DELIV_i``     ``Rules.reached``, extra messages among them
``M_m``         ``Message.control``: the columns that are not empty
extra message   a control packet with one column
``k``           option ``k``; None stands for ``2 * n``
==============  ==========================================================================

Differences from the paper
--------------------------
The paper is inconsistent on whether ``k`` entries are still allowed or already too many. Here they
are allowed, and the next one triggers an extra message. ``column`` chooses whose constraints are
replaced: ``fullest`` is the paper's rule (the column with most entries), ``sparsest`` the column
with fewest among those with at least two, ``rotating`` the next such column after the last choice;
ties go to the first in order of membership. Multicast is our extension: a send clears the column of
every destination. A receiver replaces what the message carries for its other destinations by the
message itself, and drops what it kept for them if the message carries it too, since the message
waits for all of that there. Only the sender's own row is always kept: it numbers the channels.

A count does not say which message it stands for, so each entry also has the number of that message;
for an extra message, of the one before it. ``waiting()`` and ``skip`` need it.

References
----------
.. [SA00] C. Sanchez and A. Alvarez. "A lightweight asynchronous algorithm for causal delivery using
   extra message insertion". 14th International Symposium on Distributed Computing (DISC), short
   paper, 2000.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final, cast

from antecede.endpoint.arguments import as_choice
from antecede.endpoint.fields import Fields
from antecede.endpoint.info import Formula, Option, ProtocolInfo, Variant
from antecede.endpoint.messages import (
    CLOCK_BYTES,
    COUNT_MAX,
    FREE,
    ID_BYTES,
    ControlSize,
    Message,
    Packet,
)
from antecede.endpoint.numbers import get_block, put_block, read_varint, varint
from antecede.endpoint.registry import register
from antecede.endpoint.rules import NOBODY, Own, Rules, State, Wire, knows_too_much
from antecede.endpoint.view import View
from antecede.errors import PeerError, UsageError

Cell = tuple[int, int]
"""How many packets a process sent to another, and the number of its message by then."""
Column = dict[int, Cell]
"""The constraints on one process, by sender."""
Columns = dict[int, Column]
"""The columns that are not empty, by destination."""
NONE: Final[Column] = {}
CHOICES = ("fullest", "sparsest", "rotating")
ENTRY_BYTES: Final = 2 * ID_BYTES + CLOCK_BYTES


class BoundedWire(Wire):
    """M_m: how many entries; their places in the matrix; their counts; and their numbers."""

    def put(self, message: Message) -> bytes:
        """Return M_m."""
        places, cells = _sorted(cast("Columns", message.control), self.view.n)
        gaps = [place - before - 1 for before, place in zip([-1, *places], places)]  # noqa: B905
        steps = [message.seq - number for _, number in cells]
        steps = [2 * step if step >= 0 else -2 * step - 1 for step in steps]
        return varint(len(places)) + put_block(gaps + [count - 1 for count, _ in cells] + steps)

    def get(self, data: bytes, at: int, message: Message) -> tuple[object, int]:
        """Read M_m."""
        n, sender, seq = self.view.n, message.sender, message.seq
        length, at = read_varint(data, at)
        if length > n * n or length > 8 * len(data):
            raise PeerError(_STRANGE)
        values, at = get_block(data, at, 3 * length)
        gaps, counts, steps = values[:length], values[length : 2 * length], values[2 * length :]
        place, columns = -1, Columns()
        for gap, count, step in zip(gaps, counts, steps, strict=True):
            place += gap + 1
            k, dest = divmod(place, n)
            number = seq + (step + 1 >> 1) if step & 1 else seq - (step >> 1)
            if k >= n or dest in {k, sender} or not 0 <= number <= COUNT_MAX or count >= COUNT_MAX:
                raise PeerError(_STRANGE)
            if k == sender and seq and number >= seq:
                msg = "knows of later messages of its sender"
                raise PeerError(msg)
            columns.setdefault(dest, {})[k] = count + 1, number
        if not seq and len(columns) != 1:
            msg = "is an extra message, but not for one column"
            raise PeerError(msg)
        return columns, at

    def spell(self, packet: Packet) -> object:
        """Return M_m: entries (sender, destination, count), by member position."""
        return spelt(self.view, cast("Columns", packet.content.control))

    def measure(self, packet: Packet) -> ControlSize:
        """Return the entries."""
        entries = sum(map(len, cast("Columns", packet.content.control).values()))
        return ControlSize(entries, 0, ENTRY_BYTES * entries)


_STRANGE: Final = "has a constraint by or on someone who cannot have it, or of an impossible count"


class Bounded(Rules):
    """One process's constraints, by the process that they constrain.

    A packet, with a message or an extra one, is told by its place on the channel from its sender.
    Columns are replaced, never changed, so messages share them.
    """

    INFO: ClassVar = ProtocolInfo(
        name="bounded",
        idea="at most k entries, by extra messages",
        paper="Sanchez, Alvarez 2000",
        guarantee="causal order; never more than k entries kept or sent",
        cost="at most k entries per copy; extra messages when k would be exceeded",
        promises=frozenset({"safety", "liveness", "quiescence"}),
        options={
            "k": Option(None, "maximum of entries kept or sent, n < k <= n*n; None means 2n"),
            "column": Option(
                "fullest",
                "whose constraints an extra message replaces: fullest, sparsest or rotating",
                CHOICES,
            ),
        },
        lost_by_skip=(
            "a message stands for what it replaced; if it is lost, later ones do not show what "
            "that was"
        ),
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
        self._k = cast("int", view.options["k"])
        self._choice = view.options["column"]
        self._columns: Columns = {}
        self._entries = 0
        self._turn = 0
        self._newest = [0] * view.n
        """Of each process, the number of the last message delivered."""

    @classmethod
    def check_options(cls, options: dict[str, object], members: tuple[str, ...]) -> None:
        """Refuse an unknown choice, and a limit that cannot be kept."""
        as_choice("column", options["column"], CHOICES)
        k, n = options["k"], len(members)
        if k is None:
            options["k"] = 2 * n
        elif type(k) is not int or not n < k <= n * n:
            msg = f"k={k!r} is out of bounds; with {n} members use {n + 1} to {n * n}, or None"
            raise UsageError(msg)

    # Send.

    def stamp(
        self, message: Message, others: tuple[int, ...], event: int, after: int
    ) -> Own | None:
        """Send M; the message then replaces all constraints on its destinations."""
        message.control = self._columns.copy()
        self.outbox += [(dest, message, None) for dest in others]
        for dest in self.view.list(message.dests & ~(1 << self.me)):
            self._stand_in(dest, message.seq)
        self._trim()
        return None

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
            extra = Message(self.view, self.me, 0, 0, b"", {dest: self._columns[dest]})
            self.outbox.append((dest, extra, None))
            self._stand_in(dest, self.made)

    def _chosen_column(self) -> int:
        """Return a column that would shrink; one exists, because k is more than n."""
        sizes = sorted([(dest, len(column)) for dest, column in self._columns.items()])
        if self._choice == "fullest":
            return max(sizes, key=lambda pair: (pair[1], -pair[0]))[0]
        wide = [(dest, size) for dest, size in sizes if size > 1]
        if self._choice == "sparsest":
            return min(wide, key=lambda pair: (pair[1], pair[0]))[0]
        chosen = min(wide, key=lambda pair: (pair[0] < self._turn, pair[0]))[0]
        self._turn = (chosen + 1) % self.view.n
        return chosen

    # Receive.

    def check(self, packet: Packet) -> str:
        """Refuse counts that cannot be: of our packets, and of those before this on its channel."""
        me, columns = self.me, cast("Columns", packet.content.control)
        before, _ = columns.get(me, NONE).get(packet.source_no, (0, 0))
        if before != packet.n - 1:
            return f"says that {before} packets came before it, but it is number {packet.n}"
        if not packet.content.seq and me not in columns:
            return "is an extra message for another process"
        if not self.is_stale:
            for dest, column in columns.items():
                mine = self._columns.get(dest, NONE).get(me, (0, 0))
                if me in column and column[me] > mine:
                    return knows_too_much(self.made)
        return ""

    def needs(self, packet: Packet) -> list[int]:
        """Return the constraints on this process."""
        column = cast("Columns", packet.content.control).get(self.me)
        if column is None:
            return NOBODY
        return [count << self.shift | k for k, (count, _) in column.items()]

    def blocker(self, packet: Packet) -> int:
        """Deliver when DELIV[k] is at least the constraint by k, for all k."""
        column = cast("Columns", packet.content.control).get(self.me)
        if column is not None:
            reached, shift = self.reached, self.shift
            for k, (count, _) in column.items():
                if count > reached[k] >> shift:
                    return count << shift | k
        return FREE

    def key(self, packet: Packet) -> int:
        """Return the packet's place on its channel."""
        return packet.n << self.shift | packet.source_no

    def wanted(self, packet: Packet, key: int) -> tuple[int, int]:
        """Return the message that a constraint stands for, or the one before an extra message."""
        sender, columns = key & self.view.low, cast("Columns", packet.content.control)
        return sender, max(columns.get(self.me, NONE).get(sender, (0, 0))[1], 1)

    def taken(self, packet: Packet) -> tuple[int, ...]:
        """DELIV rises; constraints on others are merged, and the message stands for some."""
        message, me, sender = packet.content, self.me, packet.source_no
        self.reached[sender] = packet.n << self.shift | sender
        if not message.seq:
            return self.places[sender]
        self._newest[sender] = message.seq
        carried = cast("Columns", message.control)
        dests = message.dests & ~(1 << me | 1 << sender)
        for dest, theirs in carried.items():
            if dest != me and not dests >> dest & 1:
                self._put(dest, larger(self._columns.get(dest, NONE), theirs))
        for dest in self.view.list(dests):  # the message waits there for all that it carries
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

    def newest(self, sender: int) -> int:
        """Return the number of the last message delivered from a process."""
        return self._newest[sender]

    def knows(self, packet: Packet, sender: int, seq: int) -> bool:
        """Tell whether a packet has a constraint by this message, or by a later one."""
        columns = cast("Columns", packet.content.control).values()
        return any(column.get(sender, (0, 0))[1] >= seq for column in columns)

    # What is kept.

    def kept(self) -> object:
        """Return M."""
        return spelt(self.view, self._columns)

    def kept_entries(self) -> int:
        """Return how many constraints are kept; never more than ``k``."""
        return self._entries

    def state(self) -> State:
        """Return M as (place, count, number), whose turn it is, and the last messages delivered."""
        places, cells = _sorted(self._columns, self.view.n)
        entries = [[place, *cell] for place, cell in zip(places, cells, strict=True)]
        return {"entries": entries, "turn": self._turn, "newest": list(self._newest)}

    def load(self, state: Fields) -> None:
        """Take over all of these."""
        n = self.view.n
        for entry in state.list("entries"):
            place, count, number = Fields("entries", {"entry": entry}).numbers("entry", 3)
            k, dest = divmod(place, n)
            column = self._columns.setdefault(dest, {})
            if k >= n or dest in {k, self.me} or k in column or not count:
                raise state.wrong("entries", entry, "one count for a sender and another process")
            if k == self.me and number > self.made:
                raise state.wrong("entries", entry, f"at most {self.made} messages of its own")
            column[k] = count, number
            self._entries += 1
        self._turn, self._newest = state.number("turn", 0, n - 1), state.numbers("newest", n)
        if self._entries > self._k:
            raise state.wrong("entries", self._entries, f"at most {self._k}")


def larger(one: Column, two: Column) -> Column:
    """Return both, with the larger count of each sender; change neither."""
    if not one or not two:
        return one or two
    result = dict(one)
    for k, cell in two.items():
        if cell > result.get(k, (0, 0)):
            result[k] = cell
    return result


def _sorted(columns: Columns, n: int) -> tuple[list[int], list[Cell]]:
    """Return the places of all entries in the matrix, ascending, and the entries."""
    entries = [(k * n + d, cell) for d, column in columns.items() for k, cell in column.items()]
    entries.sort()
    return [place for place, _ in entries], [cell for _, cell in entries]


def spelt(view: View, columns: Columns) -> tuple[tuple[str, str, int], ...]:
    """Return entries (sender, destination, count) by member position."""
    places, cells = _sorted(columns, view.n)
    pairs: Iterable[tuple[int, int]] = [divmod(place, view.n) for place in places]
    names = view.members
    return tuple(
        [(names[k], names[d], count) for (k, d), (count, _) in zip(pairs, cells, strict=True)]
    )


register(Bounded)
