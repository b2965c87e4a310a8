"""Causal order by a vector clock and one vector per destination: [SES89]_.

Every message carries its own vector time, and the latest vector time of a message to each process,
as far as its sender knows. A receiver holds a message until its own clock has passed the vector
that the message carries for it.

Guarantee
---------
Causal order; a message waits only while a real cause of it is missing.

Assumes
-------
Every packet arrives eventually; the network may reorder and duplicate packets. Processes may join
and leave.

Cost
----
``n`` integers for the message, and ``n`` integers and an id per known destination: ``O(n * n)`` at
worst, little while few destinations are known.

Names
-----
================  ==================================================
paper             here
================  ==================================================
``T_P``           ``Vectors._clock``
``V_P``           ``Vectors._latest``
``t_M``, ``V_M``  ``Packet.control``: (process, count), then (dest, vector)
================  ==================================================

Differences from the paper
--------------------------
Multicast is our extension: a send is one event and enters the table for all its destinations, and
so does a delivery; otherwise order is lost. A message to oneself is delivered by the base and
leaves no trace in clock or table; the literal rules would lose order. The clock also ticks at a
delivery, which does not change when messages are delivered.

Processes may join and leave, which is our extension; see :mod:`antecede.core.counted`. Vectors
count the processes that the message's own time names, sorted. A vector for a destination is the
maximum over messages to it. If one of these is lost with a process that left, the vector may ask
for events of others that no message to this process will ever bring. So a receiver that holds a
message which rests on a lost one asks the others, by a control packet, and they answer with their
clock; a message with no gap before it is an answer too. Everything that they sent before has a
smaller number on the channel. When all of that has arrived, nothing more can come from events up to
that clock. See :mod:`antecede.core.assured`.

References
----------
.. [SES89] A. Schiper, J. Eggli and A. Sandoz. "A new algorithm to implement causal ordering". 3rd
   International Workshop on Distributed Algorithms, LNCS 392:219-232, 1989.
   https://doi.org/10.1007/3-540-51687-5_45
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from typing import ClassVar, cast

from antecede.core.assured import ASK, PROMISE, Assured
from antecede.core.casts import Targets
from antecede.core.counted_membership import aligned
from antecede.core.counts import Counts, larger
from antecede.core.info import Formula, ProtocolInfo
from antecede.core.kinds import NAME
from antecede.core.messages import CLOCK_BYTES, ID_BYTES, ControlSize, Need, Packet
from antecede.core.registry import register
from antecede.core.times import Control, Times, Vector, is_stamp
from antecede.core.validation import check_claim, is_count, is_counts, malformed


@register
class Vectors(Assured):
    """One process's clock, and the latest vector time of a message to each other process."""

    INFO: ClassVar = ProtocolInfo(
        name="vectors",
        idea="a vector clock and one vector per destination",
        paper="Schiper, Eggli, Sandoz 1989",
        assumptions="every packet arrives eventually; processes may join and leave",
        cost="n integers, and n more for each known destination",
        promises=frozenset({"safety", "liveness", "quiescence", "no_overblocking"}),
        dynamic=True,
        short_name="SES",
        wire_number=9,
        bytes_per_entry=None,
        formula=Formula(
            lambda n: n + 1,
            lambda n: 4 * n + n * (2 + 4 * n),
            lambda n: 4 * n * (n + 1),
            most=True,
            cubic=True,
        ),
    )
    STATE: ClassVar = Assured.STATE | {
        "_clock": (int, ...),
        "_latest": {NAME: (int, ...)},
        "_lost_events": {NAME: [int]},
        "_passed": {NAME: [int]},
    }
    UNIT: ClassVar = "event"
    STAMP: ClassVar = Times

    def _start(self) -> None:
        self._clock: Vector = (0,) * len(self._names)
        self._latest: dict[str, Vector] = {}
        self._lost_events: dict[str, list[int]] = {}
        """Of those who left: events whose messages to us are lost, and on which something rests."""
        self._passed: dict[str, list[int]] = {}
        """Of those who left: levels of messages that were delivered, not of what is lost."""
        super()._start()

    def _count_sends(self, to: Targets) -> Counts:
        self._tick()
        clock, latest, bits = self._clock, self._latest, self._roster.bits
        rows, mask = [clock], 0
        for number, name in enumerate(self._names):
            vector = latest.get(name)
            if vector is not None:
                rows.append(vector)
                mask |= bits[number]
        for name in to.others:
            latest[name] = clock
        return Times(rows, mask)

    # Checks.

    def _check(self, packet: Packet) -> None:
        if packet.kind == "data":
            super()._check(packet)
            return
        control = packet.control
        if type(control) is not tuple or len(control) != 2 or not is_count(control[1]):
            raise malformed(packet, "a vector time and sorted vectors, or a question or answer")
        if control[0] not in (ASK, PROMISE):
            raise malformed(packet, f"{ASK!r} or {PROMISE!r}, and a clock")

    def _check_form(self, packet: Packet, control: object) -> None:
        if not is_stamp(control, self._names):
            raise malformed(
                packet,
                "sorted pairs (process, count), and sorted pairs (destination, a count for each)",
            )
        stamp, table = cast("Control", control)
        if not {name for name, _ in stamp}.issuperset([dest for dest, _ in table]):
            raise malformed(packet, "vectors for processes that it counts")

    def _check_claims(self, packet: Packet) -> None:
        rows, me = self._carried(packet).rows, self._me
        claimed, made = max([row[me] for row in rows]), self._clock[me]
        if claimed > made:
            check_claim(self, packet, claimed, made)
        source = self._index.get(packet.source, me)
        own = rows[0][source]
        if source != me and (own < 1 or max([row[source] for row in rows[1:]], default=0) >= own):
            raise malformed(packet, f"earlier events of {packet.source!r} than its own")

    @staticmethod
    def _names_in(control: object) -> tuple[str, ...]:
        return tuple([name for name, _ in cast("Control", control)[0]])

    @staticmethod
    def _counted(control: object) -> set[str]:
        stamp, table = cast("Control", control)
        found = {dest for dest, _ in table}
        for vector in ([count for _, count in stamp], *(vector for _, vector in table)):
            found.update([pair[0] for pair, count in zip(stamp, vector, strict=True) if count])
        return found

    def _aligned(self, control: object) -> Times:
        stamp, table = cast("Control", control)
        names, ours = tuple([name for name, _ in stamp]), self._names
        vectors = dict(table)
        known = tuple([name for name in ours if name in vectors])
        rows = ([count for _, count in stamp], *[vectors[name] for name in known])
        mask = self._roster.mask_of(known)
        if names == ours:
            return Times([tuple(row) for row in rows], mask)
        return Times([aligned(row, names, ours) for row in rows], mask)

    # Deliver.

    def _wanted(self, packet: Packet) -> Iterator[tuple[str, int]]:
        """[SES89]: the clock must have passed the vector carried for this process."""
        for number, level in enumerate(self._vector_for_me(packet)):
            if self._clock[number] < level:
                yield self._names[number], level

    def _vector_for_me(self, packet: Packet) -> Vector:
        """Return the vector that a packet carries for this process, or nothing."""
        carried, me = self._carried(packet), self._me
        if not carried.mask >> me & 1:
            return ()
        return carried.rows[1 + (carried.mask & (1 << me) - 1).bit_count()]

    def _level(self, packet: Packet) -> int:
        return self._known(packet, packet.source)

    def _known(self, packet: Packet, process: str) -> int:
        number = self._index.get(process)
        return 0 if number is None else self._carried(packet).rows[0][number]

    def _reached(self, process: str) -> int:
        return self._clock[self._index[process]]

    def _absorb(self, packet: Packet) -> Iterable[Need]:
        carried, names, mask = self._carried(packet), self._names, self._mask_of_others
        time, *vectors = carried.rows
        rest = mask  # whom the time of the message does not replace the vectors of
        if packet.roster is self._roster:
            rest &= ~packet.dest_set
        for number, vector in zip(self._roster.members(carried.mask), vectors, strict=True):
            if rest >> number & 1:
                self._note(names[number], vector)
        for dest in packet.dests:
            if dest != packet.source and mask >> self._index.get(dest, self._me) & 1:
                self._note(dest, time)
        before, self._clock = self._clock, larger(self._clock, time)
        self._tick()
        levels = zip(names, before, self._clock, strict=True)
        return (Need(name, now, "event") for name, was, now in levels if now > was)

    def _note(self, dest: str, vector: Vector) -> None:
        mine = self._latest.get(dest)
        if mine is None:
            self._latest[dest] = vector
        elif mine is not vector and mine != vector:
            self._latest[dest] = larger(mine, vector)

    def _tick(self) -> None:
        me = self._me
        self._clock = (*self._clock[:me], self._clock[me] + 1, *self._clock[me + 1 :])

    # What is lost with those who left.

    def _lost(self, packet: Packet) -> Iterator[Need]:
        """Note what is lost according to a packet, then yield what it rests on.

        The vector for us takes its level of a process from a message to us: one of that process at
        this level, or one of another that knew this level. The first of the latter is delivered,
        and its own vector for us is lower. Any other level is that of a lost message, even if the
        clock has passed it since.
        """
        time, wanted = self._carried(packet).rows[0], self._vector_for_me(packet)
        for name in self._removed:
            number, before = self._index[name], self._closed[name][0]
            level, now = wanted[number] if wanted else 0, time[number]
            is_later = level > min(before, self._clock[number])
            if is_later and not _has(self._passed.get(name, []), level):
                _add(self._lost_events.setdefault(name, []), level)
            if now > max(level, before):
                _add(self._passed.setdefault(name, []), now)
        yield from super()._lost(packet)

    def _newest_lost(self, process: str, level: int) -> int:
        events = self._lost_events.get(process, [])
        place = bisect_right(events, level)
        return events[place - 1] if place else 0

    # Membership.

    def _left(self, process: str) -> None:
        super()._left(process)
        self._latest.pop(process, None)

    def _rename(self) -> None:
        super()._rename()
        self._mask_of_others = self._mask(set(self.members) - {self.process})

    def _renamed(self, before: tuple[str, ...]) -> None:
        ours = self._names
        self._clock = aligned(self._clock, before, ours)
        self._latest = {d: aligned(v, before, ours) for d, v in self._latest.items()}
        for kept in (self._lost_events, self._passed):
            for name in kept.keys() - self._removed:
                del kept[name]

    def _check_own_state(self) -> bool:
        n = len(self._names)
        vectors = (self._clock, *self._latest.values())
        return all(is_counts(vector, n) for vector in vectors) and set(self._latest) <= set(
            self.members
        )

    @classmethod
    def measure(cls, packet: Packet) -> ControlSize:
        """Return the message's vector, and a vector with an id for each known destination."""
        if packet.kind == "control":
            return ControlSize(1, 0, CLOCK_BYTES)
        if packet.roster is not None:
            size, known = len(packet.roster), cast("Counts", packet.stamp).mask.bit_count()
        else:
            size, known = map(len, cast("Control", cls._bare(packet)))
        vector_bytes = CLOCK_BYTES * size
        return ControlSize(1 + known, 0, vector_bytes + (ID_BYTES + vector_bytes) * known)


def _has(levels: list[int], level: int) -> bool:
    place = bisect_right(levels, level)
    return place > 0 and levels[place - 1] == level


def _add(levels: list[int], level: int) -> None:
    if not _has(levels, level):
        insort(levels, level)
