"""Whether sends and deliveries that a log lacks could hide a violation.

A delivery without its send brought order that the log does not show: whatever does not follow the
delivery may have happened before it. A send without a delivery may have been delivered, though the
log does not say so: then it happened before every event of its destination from some place on, the
first one that is not in the past of the send at the earliest. Both matter only if the process sent
something afterwards, and only until its next event with a clock, because a clock states all that an
event follows.

So there are two orders: the one that the log shows, and what may be besides. A violation can be
hidden where a process delivered one message and then another, and the send of the second may have
happened before that of the first. If there is no such place, the log is as good as complete. What
may be is taken generously: two things may both be possible here that exclude each other.

A message without its send may have been sent before any other: nothing says when, and a clock does
not count what the log lacks. So its delivery may be late wherever the process had delivered a
message that has its send.

Everything is checked in this process, over the whole log, in as many passes as it takes until no
further order may be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from antecede.arrays import Flags, Ints, Vectors, inline, jit
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

#: More passes than this, or more events, and the log counts as one that may hide a violation.
PASSES_MAX = 100
EVENTS_MAX = 30_000_000
#: More pairs of a send and a process that may have delivered it than this count as that, too.
PAIRS_MAX = 3_000_000
#: How many events of one process are taken at a turn.
_TURN = 256


class Place(NamedTuple):
    """A delivery that may be late: process, seq and the message's key."""

    process: int
    seq: int
    key: int


@dataclass(frozen=True)
class Hidden:
    """What incomplete pairing can hide; without a place, it was too much to find out."""

    place: Place | None


class _Maybe(NamedTuple):
    """Deliveries that may have happened: of which send, where, after how many events at least."""

    process: Ints  # sorted
    after: Ints  # sorted for each process
    source: Ints  # number among the sources
    start: Ints  # those of process p: start[p] .. start[p + 1]


def find_hidden(
    events: Events, names: Ints, settled: Settled, undelivered: Iterable[tuple[int, int]]
) -> Hidden | None:
    """Return where a violation can be hidden, or None.

    ``events`` are all events of the log; ``undelivered`` are (key, process) of messages that the
    log names a destination for, but no delivery there.
    """
    none = np.empty(0, np.int64)
    m = match(events, names, closed=True, wanted=none, patch=settled.patch)
    strays = m.link < ALONE
    strays &= ~np.isin(m.key, _alone(settled, None))
    m.link[m.link < ALONE] = ALONE
    late = _first_late(m, strays & ~np.isin(m.key, _alone(settled, DELIVERY_AMBIGUOUS)))
    if late >= 0:
        return Hidden(_place(m, late))
    source, target = _pairs(m, settled, undelivered)
    if source.size > PAIRS_MAX:
        return Hidden(None)
    if not strays.any() and not source.size:
        return None
    return _exposed(m, (strays, _clocked(m, events)), source, target)


def _exposed(m: Matched, flags: tuple[Flags, Flags], source: Ints, target: Ints) -> Hidden | None:
    """Return where a message that has its send may be late, or None."""
    n = m.start.size - 1
    sources, number = np.unique(source, return_inverse=True)
    vectors, exposed = _pass(m, flags, sources, _no_maybe(n), None)
    if exposed >= 0:
        return Hidden(_place(m, exposed))
    after = vectors[number, 0, target].astype(np.int64)
    order = np.lexsort((after, target))
    start = np.searchsorted(target[order], np.arange(n + 1))
    maybe = _Maybe(target[order], after[order], number[order], start)
    known = np.zeros_like(vectors)
    for _ in range(PASSES_MAX):
        vectors, exposed = _pass(m, flags, sources, maybe, known)
        if exposed >= 0:
            return Hidden(_place(m, exposed))
        if (vectors == known).all():
            return None
        known = vectors
    return Hidden(None)


def _alone(settled: Settled, why: str | None) -> Ints:
    """Return the keys of deliveries that stand alone for this reason."""
    return np.array([key for key, reason in settled.alone.items() if reason == why], np.int64)


def _first_late(m: Matched, unsent: Flags) -> int:
    """Return the first delivery without a send that follows one with a send, or -1."""
    after = np.full(m.start.size - 1, m.kind.size, np.int64)
    paired = np.flatnonzero((m.kind == DELIVER) & (m.link >= 0))
    np.minimum.at(after, m.who[paired], paired)
    strays = np.flatnonzero(unsent)
    late = strays[strays > after[m.who[strays]]]
    return int(late[0]) if late.size else -1


def _place(m: Matched, i: int) -> Place:
    return Place(int(m.who[i]), int(m.seq[i]), int(m.key[i]))


def _no_maybe(n: int) -> _Maybe:
    none = np.empty(0, np.int64)
    return _Maybe(none, none, none, np.zeros(n + 1, np.int64))


def _clocked(m: Matched, events: Events) -> Flags:
    """Return which events have a clock."""
    ends = split_ends(events)
    at = anchors(m.start, m.seq, ends.process, ends.seq, ends.need)
    found = np.zeros(m.seq.size, np.bool_)
    found[at[ends.key == CLOCK_HERE]] = True
    return found


def _pairs(
    m: Matched, settled: Settled, undelivered: Iterable[tuple[int, int]]
) -> tuple[Ints, Ints]:
    """Return (send, process): each may have been delivered there, though the log does not say."""
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
        unknown = np.repeat(unknown, 2)  # Too many either way.
    everyone = np.repeat(unknown, n), np.tile(np.arange(n), unknown.size)
    others = everyone[1] != m.who[everyone[0]]
    parts.append((everyone[0][others], everyone[1][others]))
    source, target = (np.concatenate(column) for column in zip(*parts, strict=True))
    return source, target


def _pass(
    m: Matched, flags: tuple[Flags, Flags], sources: Ints, maybe: _Maybe, known: Vectors | None
) -> tuple[Vectors, int]:
    """Return (vectors of the sources, the first delivery that may be late or -1)."""
    keep = np.full(m.kind.size, -1, np.int64)
    keep[sources] = np.arange(sources.size)
    n = m.start.size - 1
    if known is None:
        known = np.zeros((sources.size, 3, n), np.int32)
    edges = m.edges.first, m.edges.source
    events = m.start, m.who, m.kind, m.link, m.uses
    vectors, exposed = _sweep(n, events, edges, flags, keep, known, maybe[1:])
    return vectors, int(exposed)


@inline
def _merge(into: Vectors, vector: Vectors) -> None:
    for level in range(3):
        for s in range(into.shape[1]):
            into[level, s] = max(into[level, s], vector[level, s])


@inline
def _release(i: int, left: Vectors, slot: Ints, free: list[np.int64]) -> None:
    """Give the vectors of event ``i`` back after their last use."""
    left[i] -= 1
    if left[i] == 0:
        free.append(slot[i])


@jit
def _may_be_late(got: Vectors, vector: Vectors, sender: int, place: int) -> bool:
    """Return whether a message may be a cause of what was delivered."""
    late = got[1, sender] >= place
    for s in range(got.shape[1]):
        late |= got[2, s] > vector[0, s]
    return late


@jit
def _sweep(
    n: int,
    events: tuple[Ints, Vectors, NDArray[np.int8], Ints, Vectors],
    edges: tuple[Ints, Ints],
    flags: tuple[Flags, Flags],
    keep: Ints,
    known: Vectors,
    maybe: tuple[Ints, Ints, Ints],
) -> tuple[Vectors, int]:
    """Run three vectors per process: what is past, what may be, and the strays that may be.

    A stray is a delivery without its send; the third vector has the last one of each process.
    """
    start, who, kind, link, uses = events
    strays, clocked = flags
    after, number, begin = maybe
    state, got = np.zeros((n, 3, n), np.int32), np.zeros((n, 3, n), np.int32)
    pending, at = np.zeros((n, 3, n), np.int32), begin[:n].copy()
    place, slot = start[:n].copy(), np.full(kind.size, -1, np.int64)
    left, free = uses.copy(), [np.int64(0)]
    pool, used = np.zeros((1024, 3, n), np.int32), 0
    kept = np.zeros((known.shape[0], 3, n), np.int32)
    has_edges, moved = edges[0].size > 0, True
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
                        return kept, i
                    _merge(got[p], vector)
                    _merge(state[p], vector)
                    _release(follows, left, slot, free)
                while at[p] < begin[p + 1] and after[at[p]] < spot:
                    _merge(pending[p], known[number[at[p]]])
                    at[p] += 1
                state[p, 0, p] = spot
                for s in range(n):
                    state[p, 1, s] = max(state[p, 1, s], pending[p, 1, s], state[p, 0, s])
                    state[p, 2, s] = max(state[p, 2, s], pending[p, 2, s])
                if strays[i]:
                    state[p, 2, p] = spot
                if clocked[i]:
                    state[p, 1] = state[p, 0]
                    state[p, 2] = 0
                if left[i] > 0:
                    if len(free) > 1:
                        slot[i] = free.pop()
                    else:
                        if used == pool.shape[0]:
                            wider = np.zeros((2 * used, 3, n), np.int32)
                            wider[:used] = pool
                            pool = wider
                        slot[i] = used
                        used += 1
                    pool[slot[i]] = state[p]
                if keep[i] >= 0:
                    kept[keep[i]] = state[p]
                i += 1
            place[p] = i
            moved |= i > begun
    return kept, -1
