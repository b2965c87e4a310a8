"""Shortest chains and causal cycles among the messages of one window.

A chain leads from a message to the one that overtook it: each next message was sent by a process
that had sent or delivered the one before, or that knew of it by an edge. It lies between the two
sends, so only events after the first and in the past of the second are searched. The search is
breadth first, in the order of processes and places, so that every arrangement finds the same chain.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from antecede.arrays import Ints, Vectors, jit
from antecede.audit.windows.matching import DELIVER, SEND, Matched


@jit
def _by_source(size: int, source: Ints, target: Ints) -> tuple[Ints, Ints]:
    """Return (start, targets): the targets of each event, in their order."""
    start = np.zeros(size + 1, np.int64)
    for e in range(source.size):
        if source[e] >= 0:
            start[source[e] + 1] += 1
    for i in range(size):
        start[i + 1] += start[i]
    found, fill = np.empty(start[-1], np.int64), start[:-1].copy()
    for e in range(source.size):
        if source[e] >= 0:
            found[fill[source[e]]] = target[e]
            fill[source[e]] += 1
    return start, found


def _deliveries(matched: Matched) -> tuple[Ints, Ints]:
    """Return (start, deliveries): the deliveries of each send, in the order of processes."""
    size = matched.link.size
    start, found = _by_source(size, matched.link, np.arange(size))
    return start, found


def _edges(matched: Matched) -> tuple[Ints, Ints]:
    """Return (start, targets): the ends of the edges from each event."""
    start, found = _by_source(matched.link.size, matched.edges.source, matched.edges.target)
    return start, found


@jit
def _search(
    source: int,
    target: int,
    who: Vectors,
    kind: NDArray[np.int8],
    copies: Ints,
    delivery: Ints,
    edges: tuple[Ints, Ints],
    below: Ints,
    parent: Ints,
) -> Ints:
    """Return the sends from ``source`` to ``target``, both included; empty if there is no chain.

    ``below[p]`` is the first event of ``p`` that is out of bounds; ``parent`` is all -1, before and
    after.
    """
    reached, has_edges = below.copy(), edges[1].size > 0
    queue, head, tail = np.empty(1024, np.int64), 0, 1
    queue[0] = source
    parent[source] = source
    holders = [np.int64(0)]
    while head < tail and parent[target] < 0:
        send = queue[head]
        head += 1
        for step in range(copies[send] - 1, copies[send + 1]):
            holders.append(send if step < copies[send] else delivery[step])
            while len(holders) > 1:
                event = holders.pop()
                p = who[event]
                last = reached[p]
                reached[p] = min(last, event)
                for i in range(event, last):
                    if kind[i] == SEND and parent[i] < 0:
                        parent[i] = send
                        if tail == queue.size:
                            wider = np.empty(2 * tail, np.int64)
                            wider[:tail] = queue
                            queue = wider
                        queue[tail] = i
                        tail += 1
                    if has_edges:
                        holders.extend(edges[1][edges[0][i] : edges[0][i + 1]])
    length = 0
    if parent[target] >= 0:
        at, length = target, 1
        while at != source:
            at = parent[at]
            length += 1
    path = np.empty(length, np.int64)
    at = target
    for step in range(length - 1, -1, -1):
        path[step] = at
        at = parent[at]
    for step in range(tail):
        parent[queue[step]] = -1
    return path


class Chains:
    """A search for chains in one window; build it once for many searches."""

    def __init__(self, matched: Matched) -> None:
        self._matched = matched
        self._copies, self._delivery = _deliveries(matched)
        self._edges = _edges(matched)
        self._parent = np.full(matched.kind.size, -1, np.int64)

    def shortest(self, cause: int, effect: int, past: Vectors) -> Ints:
        """Return the sends of a shortest chain.

        ``past`` is the vector of ``effect``'s send, or a greater one: it only saves time.
        """
        m = self._matched
        known = np.maximum(past[: m.start.size - 1], 0)
        below = np.minimum(m.start[1:], m.start[:-1] + known)
        copies = self._copies, self._delivery, self._edges
        return _search(cause, effect, m.who, m.kind, *copies, below, self._parent)


@jit
def _components(place: Ints, start: Ints, who: Vectors, copies: Ints, delivery: Ints) -> Ints:
    """Return the strong component of each event, -1 before ``place``.

    This is Tarjan's algorithm without recursion.
    """
    size = who.size
    index, low = np.full(size, -1, np.int64), np.zeros(size, np.int64)
    component = np.full(size, -1, np.int64)
    path, edge = np.empty(size, np.int64), np.zeros(size, np.int64)
    stack = np.empty(size, np.int64)
    counter, stacked = 0, 0
    for p in range(place.size):
        for root in range(place[p], start[p + 1]):
            if index[root] >= 0:
                continue
            depth = 0
            path[0] = root
            while depth >= 0:
                v = path[depth]
                if index[v] < 0:
                    index[v] = low[v] = counter
                    counter += 1
                    stack[stacked] = v
                    stacked += 1
                # Edge 0 leads to the next event of the process, the others to deliveries.
                next_v = -1
                while edge[v] <= copies[v + 1] - copies[v] and next_v < 0:
                    if edge[v] > 0:
                        u = delivery[copies[v] + edge[v] - 1]
                    else:
                        u = v + 1 if v + 1 < start[who[v] + 1] else -1
                    edge[v] += 1
                    if u < 0:
                        continue
                    if index[u] < 0:
                        next_v = u
                    elif component[u] < 0:
                        low[v] = min(low[v], index[u])
                if next_v >= 0:
                    depth += 1
                    path[depth] = next_v
                    continue
                if low[v] == index[v]:
                    u = -1
                    while u != v:
                        stacked -= 1
                        u = stack[stacked]
                        component[u] = v
                depth -= 1
                if depth >= 0:
                    low[path[depth]] = min(low[path[depth]], low[v])
    return component


def find_cycles(matched: Matched, place: Ints) -> tuple[Ints, Ints]:
    """Return the deliveries and the edges on cycles.

    ``place`` is the event at which each process stopped. Without these deliveries and edges the
    window has no cycles.
    """
    m, size = matched, matched.link.size
    sources = np.concatenate((m.link, m.edges.source))
    targets = np.concatenate((np.arange(size), m.edges.target))
    component = _components(place, m.start, m.who, *_by_source(size, sources, targets))
    some = np.flatnonzero((sources >= 0) & (component[targets] >= 0))
    found = some[component[sources[some]] == component[targets[some]]]
    deliveries, edges = found[found < size], found[found >= size] - size
    assert (m.kind[deliveries] == DELIVER).all()
    return deliveries, edges
