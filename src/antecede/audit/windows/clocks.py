"""The vectors of one window, in which everything outside it is symbolic.

Fact (Charron-Bost's characterisation of clocks, applied to messages): let *m* be sent as the a-th
event of *i*. Its delivery at *d* violates causal order if and only if a message delivered at *d*
earlier has that event in the causal past of its send. So two vectors per process suffice: the
causal past of its latest event, and the maximum over the messages delivered to it.

In a vector, one ``int32`` per process *s* holds all that a window can know. A positive number is
the latest event of *s* in this window that is in the past; ``0``: the state in which *s* entered
the window is in the past; ``-r``: the r-th latest message of *s* that entered the window is;
``NOTHING``: none of these. Merging is ``max``. Incoming messages whose sender is unknown have a bit
each, in words after the n integers.

An edge (see ``edges``) makes the event it ends in follow the event it starts from. It changes the
causal past like a message, but is never delivered: it is not judged and overtakes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antecede.arrays import Ints, Scalar, Vectors, inline, jit
from antecede.audit.windows.matching import ALONE, DELIVER, SEND, Matched

NOTHING = np.int32(-(2**31))
NEVER = np.int32(2**31 - 1)
#: How many events of one process are taken per turn, so that no process gets far ahead.
TURN = 256
#: How many deliveries of each process are remembered, and how many numbers for all of them.
RECENT_MAX, REMEMBERED_MAX = 64, 1 << 24


@dataclass
class Run:
    """The result of one sweep over a window."""

    stalled: bool
    place: Ints  # process -> the event it stopped at
    state: Vectors  # process -> vector at the window's end
    delivered: Vectors  # process -> maximum of what was delivered in the window
    kept: Vectors  # number in ``keep`` -> vector of that send
    rises: Ints  # (delivery i, symbol): it first brought that symbol to its process
    first: Ints  # query -> the first delivery that answers it, or -1
    overtakers: Ints  # (late delivery, the first that delivered an effect or -1 if forgotten)
    bounds: Vectors  # row of these -> what had been delivered just after the latter


@inline
def _grown(array: Scalar, count: int, more: int) -> Scalar:
    """Return ``array`` with room for some more rows."""
    if count + more <= array.shape[0]:
        return array
    wider = np.empty((2 * array.shape[0] + more, array.shape[1]), array.dtype)
    wider[:count] = array[:count]
    return wider


@jit
def _rises(
    mine: Vectors, vector: Vectors, n: int, event: int, cross: Ints, found: Ints, count: int
) -> tuple[Ints, int]:
    """Record every outside symbol that ``vector`` adds to ``mine``."""
    for s in range(n):
        if vector[s] > mine[s] and mine[s] < 0:
            found = _grown(found, count, 1)
            found[count, 0] = event
            found[count, 1] = s if vector[s] >= 0 else n + cross[s, -vector[s]]
            count += 1
    for word in range(n, vector.size):
        fresh = vector[word] & ~mine[word]
        for bit in range(32):
            if (fresh >> bit) & 1:
                found = _grown(found, count, 1)
                found[count, 0] = event
                found[count, 1] = n + 32 * (word - n) + bit
                count += 1
    return found, count


@inline
def _merge(into: Vectors, vector: Vectors, n: int) -> None:
    for s in range(n):
        into[s] = max(into[s], vector[s])
    for word in range(n, vector.size):
        into[word] |= vector[word]


#: The latest deliveries of each process: what had been delivered, the events, their number.
Recent = tuple[Vectors, Ints, Ints]


@jit
def _recent(n: int, asked: int) -> Recent:
    """Return room to remember deliveries, but none if queries are asked instead."""
    size = 0 if asked else min(RECENT_MAX, REMEMBERED_MAX // max(n * n, 1))
    events = np.empty((n, size), np.int64)
    return np.empty((n, size, n), np.int32), events, np.zeros(n, np.int64)


@inline
def _deliver(
    p: int, event: int, vectors: Vectors, row: int, state: Vectors, delivered: Vectors, past: Recent
) -> bool:
    """Merge a vector into the two of a process; return whether the process still lacks symbols.

    This is the innermost loop of the audit: one pass over the numbers, without views of arrays.
    """
    recent, events, counts = past
    size, n = recent.shape[1], recent.shape[2]
    k = counts[p] % size if size else 0
    least = np.int32(0)
    for s in range(n):
        delivered[p, s] = max(delivered[p, s], vectors[row, s])
    for s in range(n):
        state[p, s] = max(state[p, s], vectors[row, s])
    for s in range(n):
        least = min(least, delivered[p, s])
    if size:
        for s in range(n):
            recent[p, k, s] = delivered[p, s]
    for word in range(n, state.shape[1]):
        delivered[p, word] |= vectors[row, word]
        state[p, word] |= vectors[row, word]
    if size:
        events[p, k] = event
        counts[p] += 1
    return least < 0 or state.shape[1] > n


@inline
def _first_effect(recents: Recent, p: int, sender: int, rank: int) -> int:
    """Return where the first delivery that brought an event is remembered; -1 if it is not."""
    vectors, _, counts = recents
    size = vectors.shape[1]
    low, high = max(0, counts[p] - size), counts[p] - 1
    if size == 0 or low > high or (low > 0 and vectors[p, low % size, sender] >= rank):
        return -1
    while low < high:
        middle = (low + high) // 2
        if vectors[p, middle % size, sender] >= rank:
            high = middle
        else:
            low = middle + 1
    return low % size


@inline
def _note(
    overtakers: Ints, bounds: Vectors, at: int, late: int, recents: Recent, p: int, k: int
) -> None:
    """Record a late delivery, and what overtook it if that is remembered."""
    overtakers[at, 0], overtakers[at, 1] = late, -1
    if k >= 0:
        overtakers[at, 1] = recents[1][p, k]
        bounds[at] = recents[0][p, k]


@inline
def _is_rise(mine: Vectors, vector: Vectors, n: int) -> bool:
    fresh = 0
    for s in range(n):
        fresh |= (vector[s] > mine[s]) & (mine[s] < 0)
    for word in range(n, vector.size):
        fresh |= (vector[word] & ~mine[word]) != 0
    return fresh != 0


@jit
def _answer(
    vector: Vectors, limit: Vectors, at: Ints, asked: Ints, process: int, event: int, first: Ints
) -> None:
    """Answer the queries (process, s, rank) that this delivery is the first to reach."""
    for s in range(limit.size):
        if vector[s] < limit[s]:
            continue
        q = at[s]
        while q < first.size and asked[q, 0] == process and asked[q, 1] == s:
            if asked[q, 2] > vector[s]:
                break
            first[q] = event
            q += 1
        at[s] = q
        more = q < first.size and asked[q, 0] == process and asked[q, 1] == s
        limit[s] = np.int32(asked[q, 2]) if more else NEVER


@inline
def _reaches(vector: Vectors, limit: Vectors) -> bool:
    found = 0
    for s in range(limit.size):
        found |= vector[s] >= limit[s]
    return found != 0


@jit
def _limits(n: int, asked: Ints) -> tuple[Vectors, Ints]:
    """Return, per process and sender, the least rank asked for and that query's number."""
    limit, at = np.full((n, n), NEVER, np.int32), np.zeros((n, n), np.int64)
    for q in range(asked.shape[0] - 1, -1, -1):
        limit[asked[q, 0], asked[q, 1]] = asked[q, 2]
        at[asked[q, 0], asked[q, 1]] = q
    return limit, at


@jit
def _nothing(rows: int, n: int, width: int) -> Vectors:
    """Return vectors with an empty past."""
    vectors = np.full((rows, width), NOTHING, np.int32)
    vectors[:, n:] = 0
    return vectors


@inline
def _mark(vector: Vectors, n: int, b: int, sender: int, code: int, bit: Scalar) -> None:
    """Mark the b-th incoming message: by a code if its sender is known, else by its bit."""
    if sender >= 0:
        vector[sender] = code
    else:
        vector[n + b // 32] = bit


@inline
def _store(
    i: int, p: int, state: Vectors, slot: Vectors, pool: Vectors, used: int, free: Ints, spare: int
) -> tuple[int, int]:
    """Store the vector of event ``i`` for the events that need it; return (used, spare)."""
    row = free[spare - 1, 0] if spare else used
    slot[i] = row
    for s in range(state.shape[1]):
        pool[row, s] = state[p, s]
    return (used, spare - 1) if spare else (used + 1, spare)


@jit
def _is_ready(
    i: int, kind: NDArray[np.int8], link: Ints, slot: Vectors, first: Ints, source: Ints
) -> bool:
    """Return whether everything that event ``i`` follows is known."""
    ready = kind[i] != DELIVER or link[i] < 0 or slot[link[i]] >= 0
    for e in range(first[i], first[i + 1]):
        ready &= source[e] < 0 or slot[source[e]] >= 0
    return ready


@jit
def _follow(
    state: Vectors,
    n: int,
    sources: Ints,
    incoming: tuple[Ints, Ints, Ints],
    shared: tuple[Vectors, Vectors, Vectors],
    free: Ints,
    spare: int,
) -> int:
    """Merge what an event follows by edges into a vector; return how many vectors are free."""
    senders, codes, _ = incoming
    slot, pool, left = shared
    for source in sources:
        b = -2 - source
        if b < 0:
            _merge(state, pool[slot[source]], n)
            left[source] -= 1
            if left[source] == 0:
                free[spare, 0] = slot[source]
                spare += 1
        elif senders[b] >= 0:
            state[senders[b]] = max(state[senders[b]], codes[b])
        else:
            state[n + b // 32] |= np.int32(1) << np.int32(b % 32)
    return spare


@jit
def _start(n: int, width: int) -> Vectors:
    """Return the vectors of processes at the start of a window."""
    state = _nothing(n, n, width)
    for p in range(n):
        state[p, p] = 0
    return state


@jit
def _sweep(
    n: int,
    words: int,
    events: tuple[Ints, Vectors, NDArray[np.int8], Ints, Vectors],
    edges: tuple[Ints, Ints] | None,
    keep: Ints,
    incoming: tuple[Ints, Ints, Ints],
    asked: Ints,
) -> tuple[Any, ...]:
    width = n + words
    start, who, kind, link, uses = events
    senders, codes, cross = incoming
    state, delivered, lacks = _start(n, width), _nothing(n, n, width), np.ones(n, np.bool_)
    place = start[:n].copy()
    slot, left = np.full(kind.size, -1, np.int32), uses.copy()
    # The first vector of the pool is for a message that enters the window.
    pool, free, used = _nothing(1024, n, width), np.empty((1024, 1), np.int64), 1
    kept = np.empty((max(1, (keep >= 0).sum()), width), np.int32)
    rises, risen, spare = np.empty((1024, 2), np.int64), 0, 0
    first = np.full(asked.shape[0], -1, np.int64)
    limit, at = _limits(n, asked)
    recents, lates = _recent(n, asked.shape[0]), 0
    overtakers, bounds = np.empty((1024, 2), np.int64), np.empty((1024, n), np.int32)
    moved = True
    while moved:
        moved = False
        for p in range(n):
            i, stop = place[p], min(start[p + 1], place[p] + TURN)
            begun = i
            # Make room for the whole turn: replacing an array during it would cost references.
            pool, free = _grown(pool, used, TURN), _grown(free, used, TURN)
            overtakers, bounds = _grown(overtakers, lates, TURN), _grown(bounds, lates, TURN)
            while i < stop:
                if edges is not None:  # Without edges, Numba removes this.
                    if not _is_ready(i, kind, link, slot, *edges):
                        break
                    follows, shared = edges[1][edges[0][i] : edges[0][i + 1]], (slot, pool, left)
                    spare = _follow(state[p], n, follows, incoming, shared, free, spare)
                if kind[i] == SEND:
                    state[p, p] = i - start[p] + 1
                    if left[i] > 0:
                        used, spare = _store(i, p, state, slot, pool, used, free, spare)
                    if keep[i] >= 0:
                        kept[keep[i]] = state[p]
                elif kind[i] == DELIVER and link[i] != ALONE:
                    send = link[i]
                    row = 0 if send < 0 else slot[send]
                    if row < 0:
                        break
                    if send >= 0:
                        sender, b = who[send], 0
                        rank = send - start[sender] + 1
                        if delivered[p, sender] >= rank:
                            k = _first_effect(recents, p, sender, rank)
                            _note(overtakers, bounds, lates, i, recents, p, k)
                            lates += 1
                        if asked.shape[0] and _reaches(pool[row, :n], limit[p]):
                            _answer(pool[row], limit[p], at[p], asked, p, i, first)
                        left[send] -= 1
                        if left[send] == 0:
                            free[spare, 0] = row
                            spare += 1
                    else:
                        b = -2 - send
                        _mark(pool[0], n, b, senders[b], codes[b], np.int32(1) << np.int32(b % 32))
                    if lacks[p] and _is_rise(delivered[p], pool[row], n):
                        rises, risen = _rises(delivered[p], pool[row], n, i, cross, rises, risen)
                    lacks[p] = _deliver(p, i, pool, row, state, delivered, recents)
                    if send < 0:
                        _mark(pool[0], n, b, senders[b], NOTHING, np.int32(0))
                if edges is not None and kind[i] != SEND and (left[i] > 0 or keep[i] >= 0):
                    state[p, p] = i - start[p] + 1
                    used, spare = _store(i, p, state, slot, pool, used, free, spare)
                    if keep[i] >= 0:
                        kept[keep[i]] = state[p]
                i += 1
            place[p] = i
            moved |= i > begun
    found = rises[:risen].copy(), first, overtakers[:lates], bounds[:lates]
    return bool(np.any(place < start[1:])), place, state, delivered, kept, *found


def sweep(m: Matched, senders: Ints, *, keep: Ints | None = None, asked: Ints | None = None) -> Run:
    """Run the vectors over a window.

    ``senders`` has the sender of each incoming key, or -1; keys of one sender are in the order of
    their sends. ``keep`` are sends whose vectors are wanted; ``asked`` are queries (process,
    sender, rank), sorted, for the first delivery of an effect of that event.
    """
    n = m.start.size - 1
    codes, cross = codes_of(senders, n)
    words = (m.incoming.size + 31) // 32 if (senders < 0).any() else 0
    kept = np.full(m.kind.size, -1, np.int64)
    once, again = np.unique(np.empty(0, int) if keep is None else keep, return_inverse=True)
    kept[once] = np.arange(once.size)
    queries = np.empty((0, 3), np.int64) if asked is None else asked
    edges = (m.edges.first, m.edges.source) if m.edges.first.size else None
    events = m.start, m.who, m.kind, m.link, m.uses
    incoming = senders, codes, cross
    run = Run(*_sweep(n, words, events, edges, kept, incoming, queries))
    run.kept = run.kept[again]
    order = np.argsort(run.overtakers[:, 0])
    run.overtakers, run.bounds = run.overtakers[order], run.bounds[order]
    return run


def codes_of(senders: Ints, n: int) -> tuple[Ints, Ints]:
    """Return each known incoming key's code ``-r``, and (sender, r) -> incoming key."""
    codes = np.zeros(senders.size, np.int64)
    counts = np.bincount(senders[senders >= 0], minlength=n) if senders.size else np.zeros(n, int)
    cross = np.full((n, int(counts.max(initial=0)) + 1), -1, np.int64)
    left = counts.astype(np.int64)
    for b in np.flatnonzero(senders >= 0):
        s = senders[b]
        codes[b] = -left[s]
        cross[s, left[s]] = b
        left[s] -= 1
    return codes, cross
