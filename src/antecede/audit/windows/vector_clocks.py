"""The clocks that a log states, as edges: each event follows what its clock counts.

An entry of a clock names a process q and a number r: the event follows the r-th event of q, by seq,
or, if the clocks of all events of q count q itself, those that they count up to r: so a log that
lacks events of q is read correctly. Only what is new to the process needs an edge. An entry above
q's last event counts as that event, and is reported. Entries below 1, of the event's own process
and of processes without events mean nothing; but an entry below 1 of the event's own process says
that the event may follow more than its clock states.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from antecede.arrays import Column, Flags, Ints, Scalar, Vectors, inline, jit
from antecede.audit.windows.edges import CLOCK_HERE, OBSERVE, SIGNAL
from antecede.audit.windows.matching import LOCAL, Events, sort_rows
from antecede.audit.windows.window import NO_KEY
from antecede.events.arrow_columns import codes_of


def clock_edges(
    events: Events, clock: Column, names: list[str]
) -> tuple[Events, list[tuple[int, int, int]]]:
    """Return (ends of edges, (process, seq, key) of events whose clock is ahead of the log).

    ``events`` are all events of the log, and ``clock`` is the column of their clocks.
    """
    start, row = sort_rows(events, len(names))
    seq, who = events.seq[row], events.process[row]
    tie = np.arange(seq.size) - _first_of_ties(who, seq)
    offsets, stated, process, count = _entries(clock, names)
    numbers = _numbers(start, row, _repeats(events, row), offsets, process, count)
    at, q, r, ahead = _news(start, row, numbers, offsets, process, count)
    source = start[q] + r - 1
    key = _edge_keys(at.size)
    owner = np.repeat(np.arange(stated.size), np.diff(offsets))
    stated[owner[(process == events.process[owner]) & (count < 1)]] = False
    here = np.flatnonzero(stated[row])
    order = np.concatenate((source, at, here))
    sizes = (source.size, at.size, here.size)
    kinds = np.repeat(np.array([SIGNAL, OBSERVE, OBSERVE], np.int8), sizes)
    keys = np.concatenate((key, key, np.full(here.size, CLOCK_HERE, np.int64)))
    ends = Events(who[order], seq[order], kinds, keys, tie[order])
    is_local = events.kind[row[ahead]] == LOCAL
    named = np.where(is_local, NO_KEY, events.key[row[ahead]])
    rows = zip(who[ahead].tolist(), seq[ahead].tolist(), named.tolist(), strict=True)
    return ends, list(rows)


def _first_of_ties(who: Vectors, seq: Ints) -> Ints:
    """Return, per event, the first event of its process with the same seq."""
    new = np.ones(seq.size, np.bool_)
    new[1:] = (seq[1:] != seq[:-1]) | (who[1:] != who[:-1])
    return np.asarray(np.maximum.accumulate(np.where(new, np.arange(seq.size), 0)))


def _entries(clock: Column, names: list[str]) -> tuple[Ints, Flags, Ints, Ints]:
    """Return (offsets, whether there is a clock, process and count of each entry)."""
    numbers = {name: p for p, name in enumerate(names)}
    sizes: list[NDArray[Any]] = []
    process: list[NDArray[Any]] = []
    count: list[NDArray[Any]] = []
    for chunk in clock.chunks:
        bounds = np.asarray(chunk.offsets).astype(np.int64)
        valid = np.asarray(chunk.is_valid())
        bounds -= bounds[0]
        inside = np.repeat(valid, np.diff(bounds))
        sizes.append(np.where(valid, np.diff(bounds), -1))
        process.append(codes_of(pa.chunked_array([chunk.keys]), numbers)[inside])
        items = chunk.items.cast(pa.int64()).fill_null(0)
        count.append(np.asarray(items)[inside])
    none = np.empty(0, np.int64)
    every = np.concatenate([none, *sizes])
    offsets = np.zeros(every.size + 1, np.int64)
    np.cumsum(np.maximum(every, 0), out=offsets[1:])
    return offsets, every >= 0, np.concatenate([none, *process]), np.concatenate([none, *count])


def _repeats(events: Events, row: Ints) -> Flags:
    """Return which events, in order, repeat the one before them."""
    found = np.zeros(row.size, np.bool_)
    found[1:] = True
    for column in (events.process, events.seq, events.kind & 3, events.key):
        ordered = column[row]
        found[1:] &= ordered[1:] == ordered[:-1]
    return found


@jit
def _numbers(
    start: Ints, row: Ints, repeats: Flags, offsets: Ints, process: Ints, count: Ints
) -> Ints:
    """Return the numbers by which clocks count events, in order.

    They come from the clocks of a process's own events, if all of them give one. Otherwise its
    events are counted; rows that repeat an event have its number.
    """
    own, counted = np.zeros(row.size, np.int64), np.zeros(row.size, np.int64)
    for p in range(start.size - 1):
        low, high = start[p], start[p + 1]
        are_own = True
        for i in range(low, high):
            for e in range(offsets[row[i]], offsets[row[i] + 1]):
                if process[e] == p:
                    own[i] = count[e]
            is_again = i > low and repeats[i]
            last = own[i - 1] if i > low else 0
            counted[i] = (counted[i - 1] if i > low else 0) + (not is_again)
            are_own &= own[i] > last or (is_again and own[i] == last and last > 0)
        if not are_own:
            own[low:high] = counted[low:high]
    return own


@jit
def _news(
    start: Ints, row: Ints, numbers: Ints, offsets: Ints, process: Ints, count: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return (event, process, rank) of what is new in clocks, and the events ahead of the log."""
    n = start.size - 1
    size, found = 0, np.empty((process.size, 3), np.int64)
    ahead, many = np.empty(row.size, np.int64), 0
    known, most = np.zeros(n, np.int64), np.zeros(n, np.int64)
    for p in range(n):
        known[:], most[:] = 0, 0
        for i in range(start[p], start[p + 1]):
            is_ahead = False
            for e in range(offsets[row[i]], offsets[row[i] + 1]):
                q, r = process[e], count[e]
                if q < 0 or q == p or r <= most[q]:
                    continue
                most[q] = r
                mine = numbers[start[q] : start[q + 1]]
                is_ahead |= r > mine[-1]
                rank = np.searchsorted(mine, r, side="right")
                if rank > known[q]:
                    known[q] = rank
                    found[size] = i, q, rank
                    size += 1
            if is_ahead:
                ahead[many] = i
                many += 1
    return found[:size, 0].copy(), found[:size, 1].copy(), found[:size, 2].copy(), ahead[:many]


@inline
def _mixed(value: Scalar) -> Scalar:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


@jit
def _edge_keys(count: int) -> Ints:
    """Return distinct keys that look like hashes."""
    keys = np.empty(count, np.int64)
    for e in range(count):
        keys[e] = np.int64(_mixed(np.uint64(e + 1) * np.uint64(0x9E3779B97F4A7C15)))
    return keys
