"""Whether events missing from a log can hide a violation, in plain Python.

A *completion* of a log adds sends and deliveries of messages that the log mentions, anywhere in the
order of the processes: the send of a delivery without one, by any process, also one without events;
and deliveries of a send at its destinations that have events. If a log states no destinations, a
message counts as sent to those that delivered it, and may have gone to any process if there is no
delivery at all. A clock states all that its event follows, unless it says that it is partial.

If each process's log is complete *until its end*, additions come after its last event, and only the
order in the log itself counts: a message that is late for an effect in the log.

``find_doubt`` finds a place where a completion may have a late delivery. If it finds none, no
completion has one. Possibilities are overestimated: two things may both count as possible here
although they exclude each other.

Each event has three vectors: what is surely in its past, what *may* be, and *strays*: for each
process, the last event in its past that brought unknown order. A delivery without its send is such
an event: anything that does not follow it may have happened before it. Deliveries that may have
happened add what their send may follow, from the first place where they can have been. A reply that
may belong to several sends (see ``copies``) may be late if any of those may be.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from antecede.audit.copies import AMBIGUOUS, COPY, REPLY, RETURNED, STRAY
from antecede.audit.plain import Order, Vector
from antecede.events.tables import DELIVER, SEND

#: With more passes or comparisons than this, the log counts as one that may hide a violation.
PASSES_MAX = 100
COMPARED_MAX = 20_000_000


class Place(NamedTuple):
    """A message (by one of its events) that may be late at a process; no event if undetermined."""

    process: int
    event: int | None


class _Vectors(NamedTuple):
    sure: Vector
    may: Vector
    stray: Vector


@dataclass
class _Pass:
    """The results of one pass over the log."""

    sent: dict[int, _Vectors] = field(default_factory=dict)
    late: Place | None = None
    may: list[Vector] = field(default_factory=list)  # what processes may have delivered, at the end
    stray: list[Vector] = field(default_factory=list)
    clocked: dict[int, list[tuple[int, Vector]]] = field(default_factory=lambda: defaultdict(list))


class _Doubt:
    """The search for a place where a message may be late."""

    def __init__(self, order: Order, *, until_end: bool) -> None:
        self.order = order
        self.until_end = until_end
        self.absent = order.undelivered()
        self.unsettled = [one for message in order.passed.values() for one in message.unsettled()]
        self.returned = [one for message in order.passed.values() for one in message.maybe()]
        unknown = {target for _, target, _ in self.returned}
        alone = order.alone.items()
        self.unsent = {i for i, why in alone if why == STRAY}
        self.strays = {i for i, why in alone if why in {STRAY, AMBIGUOUS}}
        for message in order.passed.values():
            for p, delivery in message.deliveries.items():
                if message.owner[delivery.number] == RETURNED and not message.causes[p]:
                    self.strays.add(delivery.number)
        self.strays -= unknown
        self.clocked = {i for i in range(len(order.events)) if order.states_all(i)}

    def find(self) -> Place | None:
        """Return a place where a message may be late, or None."""
        place = self._unsent_late()
        if place or not (self.strays or self.absent or self.returned):
            return place
        if self.unsettled and not self.until_end:
            send, p = min(self.unsettled)
            return Place(p, send)
        sources = {send for send, *_ in (*self.absent, *self.returned)}
        n = len(self.order.names)
        first = self._pass({}, {})
        if first.late:
            return first.late
        begin = {pair: self._earliest(first, *pair) for pair in self.absent}
        if self.until_end:
            begin = {}
        maybe: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for (send, p), after in begin.items():
            maybe[p].append((after, send, COPY))
        for send, target, what in self.returned:
            maybe[self.order.who[target]].append((self.order.place[target] - 1, send, what))
        known = {source: _Vectors([0] * n, [0] * n, [0] * n) for source in sources}
        for _ in range(PASSES_MAX):
            found = self._pass({p: sorted(rows) for p, rows in maybe.items()}, known)
            if found.late:
                return found.late
            new = {source: found.sent[source] for source in sources}
            if new == known or not maybe:
                return self._at_the_end(found, begin)
            known = new
        return Place(0, None)

    def _unsent_late(self) -> Place | None:
        """Find a delivery without a send that follows another delivery, which may be of an effect.

        If logs are complete until their end, the message was sent after its sender's last event.
        Then only deliveries that follow others without sends may be of an effect.
        """
        order = self.order
        may = self._after_unsent() if self.until_end else None
        first: dict[int, str | None] = {}
        for i, event in enumerate(order.events):
            if event.kind != DELIVER:
                continue
            p = order.who[i]
            if i in self.unsent and p in first and first[p] != event.message:
                return Place(p, i)
            send = order.link[i]
            if may is None or send < 0 or send in may:
                first.setdefault(p, event.message)
        return None

    def _after_unsent(self) -> set[int]:
        """Return the deliveries without sends, and the events that follow them."""
        order, found = self.order, set[int]()
        for i in order.run.sequence:
            before = (i - 1,) if order.place[i] > 1 else ()
            sources = (order.link[i], *order.edges.get(i, ()), *before)
            if i in self.strays or any(source in found for source in sources):
                found.add(i)
        return found

    def _earliest(self, found: _Pass, send: int, p: int) -> int:
        """Return after how many events of a process, at least, it may have delivered a message.

        It did not before events that the send follows, nor before a clock that lacks the send.
        """
        q, place = self.order.who[send], self.order.place[send]
        clocks = found.clocked.get(p, [])
        at = bisect_left(clocks, place, key=lambda row: row[1][q])
        clocked = clocks[at - 1][0] if at else 0
        return max(found.sent[send].sure[p], clocked)

    def _pass(
        self, maybe: dict[int, list[tuple[int, int, int]]], known: dict[int, _Vectors]
    ) -> _Pass:
        order, n = self.order, len(self.order.names)
        sure, may, stray, got_may, got_stray, pending_may, pending_stray, told = (
            [[0] * n for _ in range(n)] for _ in range(8)
        )
        found = _Pass(stray=got_stray)
        at = [0] * n
        needed = {source for sources in order.edges.values() for source in sources}
        for i in order.run.sequence:
            p, place = order.who[i], order.place[i]
            follows = [found.sent[source] for source in order.edges.get(i, ())]
            send = order.link[i]
            if send >= 0:
                vectors = found.sent[send]
                got = _merged(got_may[p], told[p])
                if self._may_be_late(got, got_stray[p], vectors, send):
                    found.late = Place(p, i)
                    return found
                got_may[p] = _merged(got_may[p], vectors.may)
                got_stray[p] = _merged(got_stray[p], vectors.stray)
                follows.append(vectors)
            for vectors in follows:
                sure[p] = _merged(sure[p], vectors.sure)
                may[p] = _merged(may[p], vectors.may)
                stray[p] = _merged(stray[p], vectors.stray)
            rows, heard = maybe.get(p, ()), told[p]
            while at[p] < len(rows) and rows[at[p]][0] < place:
                _, send, what = rows[at[p]]
                vectors = known[send]
                if what != COPY:
                    q, rank = order.who[send], order.place[send]
                    # What was heard before a further reply may include its send, but nothing later.
                    is_late = told[p][q] >= rank + (what != REPLY)
                    if is_late or got_may[p][q] >= rank or any(got_stray[p]):
                        found.late = Place(p, i)
                        return found
                    heard = _merged(heard, vectors.may)
                pending_may[p] = _merged(pending_may[p], vectors.may)
                pending_stray[p] = _merged(pending_stray[p], vectors.stray)
                at[p] += 1
            told[p] = heard
            sure[p][p] = place
            may[p] = list(map(max, may[p], pending_may[p], sure[p]))
            stray[p] = _merged(stray[p], pending_stray[p])
            is_clocked = i in self.clocked
            if i in self.strays:
                if is_clocked:  # Its clock counts everything that it brought.
                    got_may[p] = _merged(got_may[p], sure[p])
                else:
                    stray[p][p] = got_stray[p][p] = place
            if is_clocked:
                may[p], stray[p] = sure[p].copy(), [0] * n
                found.clocked[p].append((place, sure[p].copy()))
            if order.events[i].kind == SEND or i in needed:
                found.sent[i] = _Vectors(sure[p].copy(), may[p].copy(), stray[p].copy())
        found.may = list(map(_merged, got_may, told))
        return found

    def _may_be_late(self, may: Vector, stray: Vector, vectors: _Vectors, send: int) -> bool:
        """Return whether a message may be a cause of what was delivered."""
        if may[self.order.who[send]] >= self.order.place[send]:
            return True
        return any(place > sure for place, sure in zip(stray, vectors.sure, strict=True))

    def _at_the_end(self, found: _Pass, begin: dict[tuple[int, int], int]) -> Place | None:
        """Find a message without a delivery that may have come late, or before its cause."""
        for send, p in self.absent:
            if self._may_be_late(found.may[p], found.stray[p], found.sent[send], send):
                return Place(p, send)
        by_process: dict[int, list[int]] = defaultdict(list)
        for send, p in begin:
            by_process[p].append(send)
        compared = 0
        for (send, p), after in begin.items():
            later = range(self.order.start[p] + after, self.order.start[p + 1])
            others = [other for other in by_process[p] if other != send]
            compared += len(later) + len(others)
            if compared > COMPARED_MAX:
                return Place(p, None)
            if any(i in self.strays for i in later):
                return Place(p, send)
            sends = (self.order.link[i] for i in later)
            if self._may_follow(found, send, (*filter(lambda s: s >= 0, sends), *others)):
                return Place(p, send)
        return None

    def _may_follow(self, found: _Pass, send: int, others: Iterable[int]) -> bool:
        """Return whether a send may follow one of the others."""
        who, place = self.order.who, self.order.place
        vectors = found.sent[send]
        strays = [(q, at) for q, at in enumerate(vectors.stray) if at]
        for other in others:
            if other != send and vectors.may[who[other]] >= place[other]:
                return True
            if any(at > found.sent[other].sure[q] for q, at in strays):
                return True
        return False


def _merged(one: Vector, other: Vector) -> Vector:
    return list(map(max, one, other))


def find_doubt(order: Order, *, until_end: bool) -> Place | None:
    """Return a place where a completion of a log may have a late delivery, or None."""
    return _Doubt(order, until_end=until_end).find()
