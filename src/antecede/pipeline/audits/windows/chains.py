"""Shortest chains and causal cycles among the messages of one window.

A chain leads from a message to the one that overtook it: each next message was sent by a process
that had sent or delivered the one before. All of it lies between the two sends, so only events
after the first and in the past of the second are searched. The search is breadth first, in the
order of processes and places, so that every arrangement finds the same chain.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from antecede.pipeline.audits.windows.jit import Flags, Ints, Vectors, jit
from antecede.pipeline.audits.windows.matching import DELIVER, SEND, Matched


@jit
def _deliveries(link: Ints) -> tuple[Ints, Ints]:
    """Return (start, delivery): the deliveries of each send, in the order of processes."""
    start = np.zeros(link.size + 1, np.int64)
    for i in range(link.size):
        if link[i] >= 0:
            start[link[i] + 1] += 1
    for i in range(link.size):
        start[i + 1] += start[i]
    delivery, fill = np.empty(start[-1], np.int64), start[:-1].copy()
    for i in range(link.size):
        if link[i] >= 0:
            delivery[fill[link[i]]] = i
            fill[link[i]] += 1
    return start, delivery


@jit
def _search(
    source: int,
    target: int,
    who: Vectors,
    kind: NDArray[np.int8],
    copies: Ints,
    delivery: Ints,
    below: Ints,
    parent: Ints,
) -> Ints:
    """Return the sends from ``source`` to ``target``, both included, or nothing.

    ``below[p]`` is the first event of ``p`` that is out of bounds; ``parent`` is all -1 and is
    left so.
    """
    reached = below.copy()
    queue, head, tail = np.empty(1024, np.int64), 0, 1
    queue[0] = source
    parent[source] = source
    while head < tail and parent[target] < 0:
        send = queue[head]
        head += 1
        for step in range(copies[send] - 1, copies[send + 1]):
            event = send if step < copies[send] else delivery[step]
            p = who[event]
            for i in range(event + 1, reached[p]):
                if kind[i] == SEND and parent[i] < 0:
                    parent[i] = send
                    if tail == queue.size:
                        wider = np.empty(2 * tail, np.int64)
                        wider[:tail] = queue
                        queue = wider
                    queue[tail] = i
                    tail += 1
            reached[p] = min(reached[p], event + 1)
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
        self._copies, self._delivery = _deliveries(matched.link)
        self._parent = np.full(matched.kind.size, -1, np.int64)

    def shortest(self, cause: int, effect: int, past: Vectors) -> Ints:
        """Return the sends of a shortest chain; ``past`` is the vector of ``effect``'s send."""
        m = self._matched
        known = np.maximum(past[: m.start.size - 1], 0)
        below = np.minimum(m.start[1:], m.start[:-1] + known)
        return _search(
            cause, effect, m.who, m.kind, self._copies, self._delivery, below, self._parent
        )


@jit
def _cyclic(
    place: Ints, start: Ints, who: Vectors, link: Ints, copies: Ints, delivery: Ints
) -> Flags:
    """Return which deliveries lie on a cycle, by Tarjan's algorithm without recursion."""
    size = link.size
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
    found = np.zeros(size, np.bool_)
    for i in range(size):
        if link[i] >= 0:
            found[i] = component[i] >= 0 and component[i] == component[link[i]]
    return found


def cyclic_deliveries(matched: Matched, place: Ints) -> NDArray[Any]:
    """Return the deliveries from which their own send can be reached.

    ``place`` is the event at which each process stopped. Without these deliveries the window has no
    cycles.
    """
    copies, delivery = _deliveries(matched.link)
    found = _cyclic(place, matched.start, matched.who, matched.link, copies, delivery)
    assert (matched.kind[found] == DELIVER).all()
    return np.flatnonzero(found)
