"""Whether events that a log lacks could hide a violation: ``antecede.audit.doubt`` on arrays.

Everything is checked in this process, over the whole log, in as many passes as it takes until no
further order is possible.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from antecede.arrays import Flags, Ints, Scalar, Vectors, inline, jit
from antecede.audit.copies import COPY, REPLY
from antecede.audit.windows.copies import Settled
from antecede.audit.windows.edges import CLOCK_HERE, anchors
from antecede.audit.windows.matching import (
    ALONE,
    DELIVER,
    SEND,
    Events,
    Matched,
    match,
    split_ends,
)
from antecede.events.tables import DELIVERY_AMBIGUOUS

#: With more passes or events than this, the log counts as one that may hide a violation.
PASSES_MAX = 100
EVENTS_MAX = 30_000_000
#: The same holds with more pairs of a send and a process that may have delivered it.
PAIRS_MAX = 3_000_000
#: The same holds with more comparisons of such sends with others, or more numbers to keep.
COMPARED_MAX, KEPT_MAX = 2_000_000_000, 200_000_000
#: How many events of one process are taken per turn.
_TURN = 256


class Place(NamedTuple):
    """A message that may be late: process, key and seq; no seq if the log has no delivery."""

    process: int
    key: int
    seq: int | None


@dataclass(frozen=True)
class Hidden:
    """What incomplete pairing can hide; without a place, the search was too expensive."""

    place: Place | None


class _Maybe(NamedTuple):
    """Deliveries that may have happened: of which send, where, and its least place there."""

    process: Ints  # sorted
    after: Ints  # sorted for each process
    source: Ints  # number among the sources
    what: Ints  # COPY, or which reply it may be
    start: Ints  # those of process p: start[p] .. start[p + 1]


class _Swept(NamedTuple):
    """What one pass found: vectors of the sources and of deliveries, and a late delivery."""

    vectors: Vectors
    got: Vectors
    late: int


def find_hidden(
    events: Events,
    names: Ints,
    settled: Settled,
    undelivered: Iterable[tuple[int, int]],
    *,
    until_end: bool,
) -> Hidden | None:
    """Return where a violation can be hidden, or None.

    ``events`` are all events of the log; ``undelivered`` are (key, process) where a message has a
    stated destination, but no delivery. ``until_end``: the log of each process is complete up to
    its last event.
    """
    none = np.empty(0, np.int64)
    m = match(events, names, none, settled.patch)
    strays = m.link < ALONE
    strays &= ~np.isin(m.key, _alone(settled, None))
    m.link[m.link < ALONE] = ALONE
    unsent = strays & ~np.isin(m.key, _alone(settled, DELIVERY_AMBIGUOUS))
    returned = np.array(settled.maybe, np.int64).reshape(-1, 3)
    returned[:, :2] = m.patched[returned[:, :2]]
    strays[returned[:, 1]] = False
    strays[m.patched[sorted(settled.unknown)]] = True
    late = _first_late(m, unsent, strays if until_end else None)
    if late >= 0:
        return Hidden(_place(m, late))
    if settled.unsettled and not until_end:
        send, process = min((int(m.patched[row]), p) for row, p in settled.unsettled)
        return Hidden(Place(process, int(m.key[send]), None))
    absent = _absent(m, settled, undelivered)
    if absent[0].size > PAIRS_MAX:
        return Hidden(None)
    if not strays.any() and not absent[0].size and not returned.size:
        return None
    search = _Search(m, strays, _clocked(m, events), absent, returned)
    return search.find(until_end=until_end)


class _Search:
    """The search for a message that may be late; see ``antecede.audit.doubt``."""

    def __init__(
        self, m: Matched, strays: Flags, clocked: Flags, absent: tuple[Ints, Ints], returned: Ints
    ) -> None:
        self.m = m
        self.n = m.start.size - 1
        self.strays, self.clocked = strays, clocked
        self.send, self.target = absent
        self.returned = returned
        self.sources = np.unique(np.concatenate((self.send, returned[:, 0])))

    def find(self, *, until_end: bool) -> Hidden | None:
        """Return where a message may be late, or None."""
        nowhere = np.empty(0, np.int64)
        first, bound = self._first_pass()
        if first.late >= 0:
            return Hidden(_place(self.m, first.late))
        begin = nowhere
        if not until_end:
            number = np.searchsorted(self.sources, self.send)
            begin = np.maximum(first.vectors[number, 0, self.target].astype(np.int64), bound)
        maybe = self._maybe(begin)
        known = np.zeros_like(first.vectors)
        for _ in range(PASSES_MAX):
            found = self._pass(self.sources, maybe, known)
            if found.late >= 0:
                return Hidden(_place(self.m, found.late))
            if not maybe.source.size or (found.vectors == known).all():
                return self._at_the_end(found, maybe, known, begin)
            known = found.vectors
        return Hidden(None)

    def _first_pass(self) -> tuple[_Swept, Ints]:
        """Run without possible deliveries; return also the last clocks that lack absent sends."""
        m, n = self.m, self.n
        who = m.who[self.send].astype(np.int64)
        rank = self.send - m.start[who] + 1
        order = np.lexsort((rank, who, self.target))
        cells = self.target[order] * n + who[order]
        begin = np.searchsorted(cells, np.arange(n * n + 1))
        asked = begin, rank[order], np.zeros(order.size, np.int64)
        none = np.empty(0, np.int64)
        empty = _Maybe(none, none, none, none, np.zeros(n + 1, np.int64))
        found = self._pass(self.sources, empty, None, asked)
        bound = np.empty(order.size, np.int64)
        bound[order] = asked[2]
        return found, bound

    def _maybe(self, begin: Ints) -> _Maybe:
        """Return the deliveries that may have happened, where absent ones may ``begin``."""
        m = self.m
        send, target = (self.send, self.target) if begin.size else (begin, begin)
        back = self.returned[:, 1]
        who = m.who[back].astype(np.int64)
        process = np.concatenate((target, who))
        after = np.concatenate((begin, back - m.start[who]))
        source = np.searchsorted(self.sources, np.concatenate((send, self.returned[:, 0])))
        what = np.concatenate((np.full(begin.size, COPY), self.returned[:, 2]))
        order = np.lexsort((after, process))
        start = np.searchsorted(process[order], np.arange(self.n + 1))
        return _Maybe(process[order], after[order], source[order], what[order], start)

    def _pass(
        self,
        sources: Ints,
        maybe: _Maybe,
        known: Vectors | None,
        asked: tuple[Ints, Ints, Ints] | None = None,
    ) -> _Swept:
        m, n = self.m, self.n
        keep = np.full(m.kind.size, -1, np.int64)
        keep[sources] = np.arange(sources.size)
        if known is None:
            known = np.zeros((sources.size, 3, n), np.int32)
        if asked is None:
            none = np.empty(0, np.int64)
            asked = np.zeros(n * n + 1, np.int64), none, none
        edges = m.edges.first, m.edges.source
        events = m.start, m.who, m.kind, m.link, m.uses
        flags = self.strays, self.clocked
        wanted = keep, sources
        return _Swept(*_sweep(n, events, edges, flags, wanted, known, maybe[1:], asked))

    def _at_the_end(
        self, found: _Swept, maybe: _Maybe, known: Vectors, begin: Ints
    ) -> Hidden | None:
        """Find a message without a delivery that may have come late, or before its cause."""
        m = self.m
        number = np.searchsorted(self.sources, self.send)
        sender = m.who[self.send].astype(np.int64)
        rank = self.send - m.start[sender] + 1
        for k in range(self.send.size):
            got, vectors = found.got[self.target[k]], found.vectors[number[k]]
            if got[1::2, sender[k]].max() >= rank[k] or (got[2] > vectors[0]).any():
                return self._absent_at(k)
        if not begin.size:
            return None
        sure = self._sure_of_others(found, maybe, known)
        if sure is None:
            return Hidden(None)
        compared = 0
        for k in range(self.send.size):
            p = self.target[k]
            low, high = m.start[p] + begin[k], m.start[p + 1]
            others = self.send[self.target == p]
            compared += high - low + others.size
            if compared > COMPARED_MAX:
                return Hidden(None)
            links = m.link[low:high]
            others = np.concatenate((links[links >= 0], others[others != self.send[k]]))
            if self.strays[low:high].any() or self._may_follow(
                found.vectors[number[k]], self.send[k], others, sure
            ):
                return self._absent_at(k)
        return None

    def _absent_at(self, k: int) -> Hidden:
        return Hidden(Place(int(self.target[k]), int(self.m.key[self.send[k]]), None))

    def _sure_of_others(
        self, found: _Swept, maybe: _Maybe, known: Vectors
    ) -> tuple[Ints, Vectors] | None:
        """Return sends with their pasts, if strays require them; None if there are too many."""
        m, none = self.m, np.empty(0, np.int64)
        if not found.vectors[:, 2].any():
            return none, np.empty((0, self.n), np.int32)
        here = np.isin(m.who, self.target) & (m.link >= 0)
        others = np.unique(np.concatenate((m.link[here], self.sources)))
        if others.size * self.n > KEPT_MAX:
            return None
        wide = np.zeros((others.size, 3, self.n), np.int32)
        at = np.searchsorted(others, self.sources)
        wide[at] = known
        moved = maybe._replace(source=at[maybe.source])
        return others, self._pass(others, moved, wide).vectors[:, 0]

    def _may_follow(
        self, vectors: Vectors, send: int, others: Ints, sure: tuple[Ints, Vectors]
    ) -> bool:
        """Return whether a send may follow one of the others."""
        m = self.m
        who = m.who[others].astype(np.int64)
        rank = others - m.start[who] + 1
        if ((vectors[1, who] >= rank) & (others != send)).any():
            return True
        if not vectors[2].any():
            return False
        pasts = sure[1][np.searchsorted(sure[0], others)]
        return bool((vectors[2] > pasts).any())


def _alone(settled: Settled, why: str | None) -> Ints:
    """Return the keys of deliveries that stand alone for a reason."""
    return np.array([key for key, reason in settled.alone.items() if reason == why], np.int64)


def _first_late(m: Matched, unsent: Flags, strays: Flags | None) -> int:
    """Return the first delivery without a send after another, which may be an effect's, or -1.

    With ``strays``, logs are complete until their end: only what follows these may be an effect.
    """
    first = np.full(m.start.size - 1, m.kind.size, np.int64)
    delivered = np.flatnonzero(m.kind == DELIVER)
    if strays is not None:
        edges = m.edges.first, m.edges.source
        may = _after(m.start, m.who, m.link, *edges, strays.copy())
        link = m.link[delivered]
        delivered = delivered[(link < 0) | may[link]]
    np.minimum.at(first, m.who[delivered], delivered)
    late = np.flatnonzero(unsent)
    late = late[late > first[m.who[late]]]
    return int(late[0]) if late.size else -1


@jit
def _after(start: Ints, who: Vectors, link: Ints, first: Ints, source: Ints, found: Flags) -> Flags:
    """Add to ``found`` the events that follow those in it."""
    n = start.size - 1
    place, moved = start[:n].copy(), True
    while moved:
        moved = False
        for p in range(n):
            while place[p] < start[p + 1]:
                i = place[p]
                send = link[i]
                ready = send < 0 or place[who[send]] > send
                after = (i > start[p] and found[i - 1]) or (send >= 0 and found[send])
                for e in range(first[i], first[i + 1]) if first.size else range(0):
                    ready &= source[e] < 0 or place[who[source[e]]] > source[e]
                    after |= source[e] >= 0 and found[source[e]]
                if not ready:
                    break
                found[i] |= after
                place[p] = i + 1
                moved = True
    return found


def _place(m: Matched, i: int) -> Place:
    return Place(int(m.who[i]), int(m.key[i]), int(m.seq[i]))


def _clocked(m: Matched, events: Events) -> Flags:
    """Return which events have a clock."""
    ends = split_ends(events)
    at = anchors(m.start, m.seq, ends.process, ends.seq, ends.need)
    found = np.zeros(m.seq.size, np.bool_)
    found[at[ends.key == CLOCK_HERE]] = True
    return found


def _absent(
    m: Matched, settled: Settled, undelivered: Iterable[tuple[int, int]]
) -> tuple[Ints, Ints]:
    """Return (send, process) where the log lacks a delivery that the send should have."""
    sends = np.flatnonzero(m.kind == SEND)
    sends = sends[np.argsort(m.key[sends], kind="stable")]
    rows = np.array(list(undelivered), np.int64).reshape(-1, 2)
    parts = [(sends[np.searchsorted(m.key[sends], rows[:, 0])], rows[:, 1])]
    relayed = np.array(settled.undelivered, np.int64).reshape(-1, 2)
    parts.append((m.patched[relayed[:, 0]], relayed[:, 1]))
    delivered = np.bincount(m.link[m.link >= 0], minlength=m.kind.size) > 0
    unknown = sends[~delivered[sends] & ~m.known[sends]]
    n = m.start.size - 1
    if unknown.size * n > PAIRS_MAX:
        unknown = np.repeat(unknown, 2)  # Too many in either case.
    everyone = np.repeat(unknown, n), np.tile(np.arange(n), unknown.size)
    others = everyone[1] != m.who[everyone[0]]
    parts.append((everyone[0][others], everyone[1][others]))
    source, target = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((target, source))
    return source[order], target[order]


@inline
def _merge(into: Vectors, vector: Vectors) -> None:
    for level in range(3):
        for s in range(into.shape[1]):
            into[level, s] = max(into[level, s], vector[level, s])


@inline
def _release(i: int, left: Vectors, slot: Ints, free: list[np.int64]) -> None:
    """Free the vectors of event ``i`` after their last use."""
    left[i] -= 1
    if left[i] == 0:
        free.append(slot[i])


@jit
def _may_be_late(got: Vectors, vector: Vectors, sender: int, place: int) -> bool:
    """Return whether a message may be a cause of what was delivered."""
    late = max(got[1, sender], got[3, sender]) >= place
    for s in range(got.shape[1]):
        late |= got[2, s] > vector[0, s]
    return late


@jit
def _bounds(row: Vectors, p: int, clocked: int, at: Ints, asked: tuple[Ints, Ints, Ints]) -> None:
    """Record, for sends that a process now follows, which clock was its last without them."""
    begin, rank, bound = asked
    n = row.size
    for s in range(n):
        cell = p * n + s
        while at[cell] < begin[cell + 1] and rank[at[cell]] <= row[s]:
            bound[at[cell]] = clocked
            at[cell] += 1


@jit
def _grown(pool: Vectors, used: int) -> Vectors:
    """Return a pool with room for one more vector."""
    if used < pool.shape[0]:
        return pool
    wider = np.zeros((2 * used, *pool.shape[1:]), np.int32)
    wider[:used] = pool
    return wider


@jit
def _stray(state: Vectors, got: Vectors, p: int, is_clocked: Scalar) -> None:
    """Record a delivery without its send; a clock counts all that such a delivery brought."""
    if is_clocked:
        for s in range(state.shape[1]):
            got[1, s] = max(got[1, s], state[0, s])
    else:
        state[2, p] = state[0, p]
        got[2, p] = state[0, p]


@jit
def _hear(
    at: int,
    p: int,
    spot: int,
    maybe: tuple[Ints, Ints, Ints, Ints],
    sources: Ints,
    known: Vectors,
    got: Vectors,
    pending: Vectors,
    start: Ints,
    who: Vectors,
) -> int:
    """Add what a process may have delivered by now; return the next, or -1 for a late reply.

    Replies at one place are judged by what came before all of them. The replies before a further
    one may have brought its send itself, but nothing that follows it.
    """
    (after, number, what, begin), first = maybe, at
    while at < begin[p + 1] and after[at] < spot:
        send = sources[number[at]]
        sender = who[send]
        rank = send - start[sender] + 1
        if what[at] != COPY and (got[1, sender] >= rank or got[2].any()):
            return -1
        if what[at] != COPY and got[3, sender] >= rank + (what[at] != REPLY):
            return -1
        _merge(pending, known[number[at]])
        at += 1
    for k in range(first, at):
        if what[k] != COPY:
            got[3] = np.maximum(got[3], known[number[k], 1])
    return at


@jit
def _sweep(
    n: int,
    events: tuple[Ints, Vectors, NDArray[np.int8], Ints, Vectors],
    edges: tuple[Ints, Ints],
    flags: tuple[Flags, Flags],
    wanted: tuple[Ints, Ints],
    known: Vectors,
    maybe: tuple[Ints, Ints, Ints, Ints],
    asked: tuple[Ints, Ints, Ints],
) -> tuple[Vectors, Vectors, int]:
    """Run three vectors per process: what is past, what may be past, and strays that may be.

    A stray is a delivery without its send. A fourth vector of what was delivered serves replies.
    """
    start, who, kind, link, uses = events
    (strays, clocked), (keep, sources) = flags, wanted
    state, got = np.zeros((n, 3, n), np.int32), np.zeros((n, 4, n), np.int32)
    pending, at = np.zeros((n, 3, n), np.int32), maybe[3][:n].copy()
    place, slot, left = start[:n].copy(), np.full(kind.size, -1, np.int64), uses.copy()
    pool, used, free = np.zeros((1024, 3, n), np.int32), 0, [np.int64(0)]
    kept = np.zeros((sources.size, 3, n), np.int32)
    has_edges, moved = edges[0].size > 0, True
    asked_at, last_clock = asked[0][:-1].copy(), np.zeros(n, np.int64)
    while moved:
        moved = False
        for p in range(n):
            i, stop = place[p], min(start[p + 1], place[p] + _TURN)
            begun = i
            while i < stop:
                follows = link[i] if kind[i] == DELIVER else ALONE
                ready = follows < 0 or slot[follows] >= 0
                if has_edges:
                    for e in range(edges[0][i], edges[0][i + 1]):
                        ready &= edges[1][e] < 0 or slot[edges[1][e]] >= 0
                if not ready:
                    break
                spot = i - start[p] + 1
                if has_edges:
                    for e in range(edges[0][i], edges[0][i + 1]):
                        if edges[1][e] >= 0:
                            _merge(state[p], pool[slot[edges[1][e]]])
                            _release(edges[1][e], left, slot, free)
                if follows >= 0:
                    vector, sender = pool[slot[follows]], who[follows]
                    if _may_be_late(got[p], vector, sender, follows - start[sender] + 1):
                        return kept, got, i
                    _merge(got[p], vector)
                    _merge(state[p], vector)
                    _release(follows, left, slot, free)
                at[p] = _hear(at[p], p, spot, maybe, sources, known, got[p], pending[p], start, who)
                if at[p] < 0:
                    return kept, got, i
                state[p, 0, p] = spot
                if asked[1].size:
                    _bounds(state[p, 0], p, last_clock[p], asked_at, asked)
                for s in range(n):
                    state[p, 1, s] = max(state[p, 1, s], pending[p, 1, s], state[p, 0, s])
                    state[p, 2, s] = max(state[p, 2, s], pending[p, 2, s])
                if strays[i]:
                    _stray(state[p], got[p], p, clocked[i])
                if clocked[i]:
                    state[p, 1] = state[p, 0]
                    state[p, 2] = 0
                    last_clock[p] = spot
                if left[i] > 0:
                    if len(free) > 1:
                        slot[i] = free.pop()
                    else:
                        pool = _grown(pool, used)
                        slot[i] = used
                        used += 1
                    pool[slot[i]] = state[p]
                if keep[i] >= 0:
                    kept[keep[i]] = state[p]
                i += 1
            place[p] = i
            moved |= i > begun
    for p in range(n):
        _bounds(np.full(n, np.int32(2**31 - 1)), p, last_clock[p], asked_at, asked)
    return kept, got, -1
