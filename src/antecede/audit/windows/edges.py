"""Edges: order between events that no message shows.

Clocks say which events an event follows, and a message that was passed on arrived through its
relays. Each such fact becomes an edge from one event to another. In the columns of a window an edge
is two rows that are not events: a *signal* at the event it starts from and an *observation* at the
event it ends in, with the edge's key in both. So edges are matched and cross cuts like messages.
They are never judged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from antecede.arrays import Ints, Vectors, jit

#: The kinds of the rows that are the two ends of an edge.
SIGNAL, OBSERVE = 3, 7
#: The key of an ``OBSERVE`` row that is not the end of an edge, but marks an event with a clock.
CLOCK_HERE = 0


@dataclass
class Edges:
    """The edges that end in a window, and those that start in it and end elsewhere."""

    source: Ints  # edge -> the event it starts from, or -2 - b: the b-th incoming key
    target: Ints  # edge -> the event it ends in; sorted
    first: Ints  # edges that end in event i: first[i] .. first[i + 1]; empty if there are none
    open_at: Ints  # events where edges start that do not end in this window
    open_key: Ints  # keys of these edges
    keys: Ints  # keys of all edges that start here, sorted

    def without(self, cut: Ints) -> Edges:
        """Return the edges except some of those that end here."""
        if not cut.size:
            return self
        source, target = np.delete(self.source, cut), np.delete(self.target, cut)
        first = np.searchsorted(target, np.arange(self.first.size))
        return replace(self, source=source, target=target, first=first)


class Ends(NamedTuple):
    """The ends of edges: each one's event (-1 if it is elsewhere), kind and key of the edge."""

    at: Ints
    kind: NDArray[np.int8]
    key: Ints

    def and_edges(self, source: Ints, target: Ints, key: Ints) -> Ends:
        """Return these and the ends of more edges."""
        kinds = np.repeat(np.array([SIGNAL, OBSERVE], np.int8), key.size)
        at = np.concatenate((self.at, source, target))
        return Ends(at, np.concatenate((self.kind, kinds)), np.concatenate((self.key, key, key)))


def find_edges(ends: Ends, size: int, incoming: Ints) -> tuple[Edges, Ints]:
    """Join edges from their ends; return (edges, incoming keys with those of edges)."""
    none = np.empty(0, np.int64)
    at, kind, key = ends
    if not (at >= 0).any():
        return Edges(none, none, none, none, none, none), incoming
    signals = np.flatnonzero((kind == SIGNAL) & (at >= 0))
    signals = signals[np.argsort(key[signals], kind="stable")]
    keys = key[signals]
    seen = np.flatnonzero((kind == OBSERVE) & (at >= 0) & (key != CLOCK_HERE))
    seen = seen[np.lexsort((key[seen], at[seen]))]
    place = np.searchsorted(keys, key[seen])
    inside = place < keys.size
    inside[inside] = keys[place[inside]] == key[seen[inside]]
    source = np.empty(seen.size, np.int64)
    source[inside] = at[signals[place[inside]]]
    outside = np.flatnonzero(~inside)
    source[outside] = -2 - incoming.size - np.arange(outside.size)
    is_open = np.ones(keys.size, np.bool_)
    is_open[place[inside]] = False
    edges = Edges(
        source=source,
        target=at[seen],
        first=np.searchsorted(at[seen], np.arange(size + 1)),
        open_at=at[signals[is_open]],
        open_key=keys[is_open],
        keys=keys,
    )
    return edges, np.concatenate((incoming, key[seen[outside]]))


@jit
def anchors(start: Ints, seq: Ints, process: Vectors, place: Ints, tie: Ints) -> Ints:
    """Return the event of each end, or -1 if it is not in this window."""
    found = np.full(process.size, -1, np.int64)
    for e in range(process.size):
        low, high = start[process[e]], start[process[e] + 1]
        i = low + np.searchsorted(seq[low:high], place[e]) + tie[e]
        if i < high and seq[i] == place[e]:
            found[e] = i
    return found
