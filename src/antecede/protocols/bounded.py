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
Each process may have its own ``k``.

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
``DELIV_i``     ``Bounded._counts``, extra messages among them
``M_m``         ``Packet.control``: (sender, destination, count), by member position
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

References
----------
.. [SA00] C. Sanchez and A. Alvarez. "A lightweight asynchronous algorithm for causal delivery using
   extra message insertion". 14th International Symposium on Distributed Computing (DISC), short
   paper, 2000.
"""

from collections.abc import Iterable, Iterator
from operator import eq
from typing import ClassVar, cast

from antecede.core.endpoint import Endpoint
from antecede.core.groups import as_choice
from antecede.core.info import Formula, Option, ProtocolInfo, Variant
from antecede.core.kinds import PLACE
from antecede.core.messages import CLOCK_BYTES, ID_BYTES, Need, Packet, Sending
from antecede.core.registry import register
from antecede.core.validation import COUNT_MAX, check_claim, is_counts, malformed
from antecede.errors import UsageError

Entry = tuple[str, str, int]
Column = dict[int, int]

CHOICES = ("fullest", "sparsest", "rotating")


@register
class Bounded(Endpoint):
    """One process's constraints, by the process that they constrain."""

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
        fixed_because=(
            "a message stands for what it replaced; if it is lost, later ones do not show that "
            "they rest on it"
        ),
        wire_number=4,
        bytes_per_entry=2 * ID_BYTES + CLOCK_BYTES,
        formula=Formula(
            lambda n: n * n, lambda n: 8 * n * n, lambda n: 8 * n * n, most=True, cubic=True
        ),
        has_roles=True,
        variants=(
            Variant("tight", lambda members: {"k": len(members) + 1}),
            Variant("rotating", lambda members: {"k": len(members) + 1, "column": "rotating"}),
        ),
    )
    STATE: ClassVar = {"_columns": [{PLACE: int}], "_counts": [int], "_turn": int}

    def _start(self) -> None:
        n = len(self.members)
        self._k = _limit(self.options["k"], n)
        self._choice = as_choice("column", self.options["column"], CHOICES)
        self._columns: list[Column] = [{} for _ in range(n)]
        self._counts = [0] * n
        self._turn = 0

    def kept_entries(self) -> int:
        """Return how many constraints are kept; never more than ``k``."""
        return sum(map(len, self._columns))

    def _post(self, sending: Sending) -> None:
        super()._post(sending)
        self._trim()

    def _stamp(self, sending: Sending) -> dict[str, object]:
        carried = self._entries_of(range(len(self.members)))
        for dest in sending.others:
            self._stand_in(self._positions[dest])
        return dict.fromkeys(sending.others, carried)

    def _stand_in(self, dest: int) -> None:
        """Replace all constraints on ``dest`` by the message that now goes to it."""
        me = self._positions[self.process]
        self._columns[dest] = {me: self._columns[dest].get(me, 0) + 1}

    def _trim(self) -> None:
        """Send extra messages until at most k entries are left."""
        excess = self.kept_entries() - self._k
        while excess > 0:
            dest = self._chosen_column()
            excess -= len(self._columns[dest]) - 1
            self._emit_control(self.members[dest], self._entries_of((dest,)))
            self._stand_in(dest)

    def _chosen_column(self) -> int:
        """Return a column that would shrink; one exists, because k is more than n."""
        if self._choice == "fullest":
            sizes = list(map(len, self._columns))
            return sizes.index(max(sizes))
        wide = [dest for dest, column in enumerate(self._columns) if len(column) > 1]
        if self._choice == "rotating":
            chosen = min(wide, key=lambda dest: (dest < self._turn, dest))
            self._turn = (chosen + 1) % len(self.members)
            return chosen
        return min(wide, key=lambda dest: (len(self._columns[dest]), dest))

    def _entries_of(self, dests: Iterable[int]) -> tuple[Entry, ...]:
        columns, names = self._columns, self.members
        cells = sorted([(k, dest, n) for dest in dests for k, n in columns[dest].items()])
        return tuple([(names[k], names[dest], n) for k, dest, n in cells])

    def _check(self, packet: Packet) -> None:
        entries = packet.control
        columns = _columns_of(entries) if type(entries) is tuple else None
        if columns is None:
            raise malformed(packet, "entries (sender, destination, count)")
        senders, dests, numbers = columns
        positions, me, source = self._positions, self.process, packet.source
        if not positions.keys() >= {*senders, *dests}:
            self._check_names(packet, (*senders, *dests))
        place, pairs = positions.__getitem__, zip(senders, dests, strict=True)
        counts = dict(zip(pairs, numbers, strict=True))
        cells = list(zip(map(place, senders), map(place, dests), strict=True))
        if sorted(cells) != cells or len(counts) != len(cells):
            raise malformed(packet, "entries sorted by member position, each once")
        if source in dests or any(map(eq, senders, dests)):
            raise malformed(packet, f"no constraint on {source!r} or by one on itself")
        if packet.kind == "control" and dests.count(me) != len(dests):
            raise malformed(packet, f"constraints on {me!r} only")
        if me in senders:
            for (sender, dest), number in counts.items():
                if sender == me:
                    made = self._columns[positions[dest]].get(positions[me], 0)
                    check_claim(self, packet, number, made)
        if COUNT_MAX in numbers and (source, COUNT_MAX) in zip(senders, numbers, strict=True):
            raise malformed(packet, f"counts of {source!r} below {COUNT_MAX}")
        sent = counts.get((source, me), 0)
        if sent + 1 != packet.n:
            raise malformed(packet, f"{packet.n - 1} packets before it on this channel, not {sent}")

    def _unmet(self, packet: Packet) -> Iterator[Need]:
        me, counts, positions = self.process, self._counts, self._positions
        for sender, dest, number in cast("tuple[Entry, ...]", packet.control):
            if dest == me and counts[positions[sender]] < number:
                yield Need(sender, number, "count")

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        carried: list[Column] = [{} for _ in self.members]
        positions = self._positions
        for sender, dest, number in cast("tuple[Entry, ...]", packet.control):
            carried[positions[dest]][positions[sender]] = number
        me, source = positions[self.process], positions[packet.source]
        dests = {positions[dest] for dest in packet.dests}
        for place, theirs in enumerate(carried):
            if place in (me, source):
                continue
            mine = self._columns[place]
            if not theirs and place not in dests:
                continue
            if place in dests:  # the message waits there for all it carries
                mine = {k: n for k, n in mine.items() if k == me or n > theirs.get(k, 0)}
                carried[place] = {source: theirs.get(source, 0) + 1}
            self._columns[place] = _larger(mine, carried[place])
        self._trim()
        return (self._count(packet),)

    def _count(self, packet: Packet) -> Need:
        source = self._positions[packet.source]
        self._counts[source] += 1
        return Need(packet.source, self._counts[source], "count")

    # Extra messages: held like the others, but absorbed by the protocol itself.

    def _is_blocked(self, packet: Packet) -> bool:
        return self._first_unmet(packet) is not None

    def _on_control(self, packet: Packet) -> Iterable[Need]:
        self._refile([self._hold.take_in(packet)])
        return ()

    def _refile(self, arrivals: Iterable[int]) -> None:
        due = list(arrivals)
        for arrival in due:
            packet = self._hold.packets[arrival]
            need = self._first_unmet(packet)
            if need is None and packet.kind == "control":
                self._hold.take_out(arrival)
                due.extend(self._hold.wake(self._count(packet)))
            else:
                self._hold.file(arrival, need)


def _limit(k: object, n: int) -> int:
    if k is None:
        return 2 * n
    if type(k) is not int or not n < k <= n * n:
        msg = f"k={k!r} is out of bounds; with {n} members use {n + 1} to {n * n}, or None"
        raise UsageError(msg)
    return k


def _larger(one: Column, two: Column) -> Column:
    if not one or not two:
        return one or two
    result = one | two
    for k in one.keys() & two.keys():
        result[k] = max(one[k], two[k])
    return dict(sorted(result.items()))


def _columns_of(
    entries: tuple[object, ...],
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[int, ...]] | None:
    """Return senders, destinations and counts of entries, or None if they are malformed."""
    if not entries:
        return (), (), ()
    if set(map(type, entries)) != {tuple}:
        return None
    rows = cast("tuple[Entry, ...]", entries)
    if set(map(len, rows)) != {3}:
        return None
    senders, dests, numbers = zip(*rows, strict=True)
    if set(map(type, senders)) != {str} or set(map(type, dests)) != {str}:
        return None
    return (senders, dests, numbers) if is_counts(numbers, len(rows)) and min(numbers) else None
