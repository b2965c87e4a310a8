"""Sort a window's events and pair its deliveries with its sends, without a join.

The events of each process are sorted by ``seq``; contradictory rows with the same ``seq`` are
ordered by kind, hash and destinations, so that every arrangement gives the same answer. Messages
are looked up in one open-addressing table of 64-bit hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antecede.arrays import Flags, Ints, Scalar, Vectors, inline, jit
from antecede.audit.windows.edges import SIGNAL, Edges, Ends, anchors, find_edges

SEND, DELIVER, LOCAL = 0, 1, 2
#: Added to a send's kind if the log states its destinations.
KNOWN = 4

#: How an event compares with another of its process with the same seq: the same event again, a
#: different one, or a different one that is local.
REPEATED, TIED, TIED_LOCAL = 0, 1, 2

#: ``Matched.link`` of a delivery that stands alone: no send, a repeat, or part of a cycle.
ALONE = -1


@dataclass
class Events:
    """Columns of one window: ``process`` indexes the sorted names of all processes of the log.

    ``need`` is, for sends whose destinations are known (kind ``SEND + KNOWN``), the exclusive or of
    the hashes of their names. Rows of kind ``SIGNAL`` and ``OBSERVE`` are not events: each is one
    end of an edge, at the event with the same process and seq; if there are several, ``need``
    selects one.
    """

    process: Vectors
    seq: Ints
    kind: NDArray[np.int8]
    key: Ints
    need: Ints

    def __len__(self) -> int:
        return int(self.process.size)

    def take(self, rows: NDArray[Any]) -> Events:
        """Return the events at ``rows``."""
        return Events(
            self.process[rows], self.seq[rows], self.kind[rows], self.key[rows], self.need[rows]
        )


def joined(parts: Sequence[Events]) -> Events:
    """Return the events of all parts."""
    columns = zip(*((e.process, e.seq, e.kind, e.key, e.need) for e in parts), strict=True)
    return Events(*(np.concatenate(column) for column in columns))


def no_events() -> Events:
    """Return columns without events."""
    none = np.empty(0, np.int64)
    return Events(none.astype(np.int32), none, none.astype(np.int8), none, none)


class Patch(NamedTuple):
    """The settled events of messages that were sent several times (see ``copies``).

    ``rows`` are these events, in the order in which a window sorts its events; ``kind`` and ``key``
    replace theirs. ``source`` and ``target`` are the rows that edges lead from and to.
    """

    rows: Events
    kind: NDArray[np.int8]
    key: Ints
    source: Ints
    target: Ints
    edge_key: Ints


NO_PATCH = Patch(no_events(), np.empty(0, np.int8), *(np.empty(0, np.int64) for _ in range(4)))


@dataclass
class Matched:
    """The window's events sorted by process and seq (index *i* below), and their pairing."""

    start: Ints  # events of process p: start[p] .. start[p + 1]
    row: Ints  # i -> row of the input
    who: Vectors  # i -> process
    seq: Ints
    kind: NDArray[np.int8]  # i -> SEND, DELIVER; LOCAL also for sends that own nothing
    key: Ints
    link: Ints  # delivery i -> its send; ALONE; or -2 - b: the b-th incoming key
    uses: Vectors  # event i -> deliveries of it and edges from it in this window
    paired: int  # sends that were delivered in this window
    open: Flags  # send i -> it may be delivered in a later window, or is missing
    left: Ints  # send i -> exclusive or of the destinations that have not delivered it here
    known: Flags  # send i -> the log states its destinations
    incoming: Ints  # b -> key of a message sent outside this window
    redelivered: Ints  # deliveries (i) that repeat one at the same process
    resent: Ints  # sends (i) of a key that was sent before
    clash: Ints  # events (i) with the seq of the event before them
    tie: Ints  # for each of these: REPEATED, TIED or TIED_LOCAL
    original: NDArray[np.int8]  # i -> kind in the log
    edges: Edges
    patched: Ints  # row of the patch -> its event, -1 if it is not here


@jit
def _in_order(
    process: Vectors, seq: Ints, kind: NDArray[np.int8], key: Ints, need: Ints, n: int
) -> tuple[Ints, Ints]:
    """Return (start, row): a stable counting sort by process, then by seq where needed."""
    start = np.zeros(n + 1, np.int64)
    for at in range(process.size):
        start[process[at] + 1] += 1
    for p in range(n):
        start[p + 1] += start[p]
    fill = start[:n].copy()
    row = np.empty(process.size, np.int64)
    for at in range(process.size):
        row[fill[process[at]]] = at
        fill[process[at]] += 1
    for p in range(n):
        low, high = start[p], start[p + 1]
        is_sorted, has_ties = True, False
        for i in range(low + 1, high):
            is_sorted &= seq[row[i - 1]] <= seq[row[i]]
            has_ties |= seq[row[i - 1]] == seq[row[i]]
        if not is_sorted:
            part = row[low:high].copy()
            row[low:high] = part[np.argsort(seq[part], kind="mergesort")]
            has_ties = True
        if has_ties:
            _order_ties(row[low:high], seq, kind, key, need)
    return start, row


def sort_rows(events: Events, n: int) -> tuple[Ints, Ints]:
    """Return (start, row): the rows of ``n`` processes, each process's rows in order."""
    e = events
    start, row = _in_order(e.process, e.seq, e.kind, e.key, e.need, n)
    return start, row


@jit
def _order_ties(row: Ints, seq: Ints, kind: NDArray[np.int8], key: Ints, need: Ints) -> None:
    """Sort rows of equal seq by their other columns; insertion sort, because ties are few."""
    for i in range(1, row.size):
        moved, j = row[i], i - 1
        while j >= 0 and seq[row[j]] == seq[moved]:
            at = row[j]
            mine = (kind[at] & 3, key[at], need[at], kind[at])
            if mine <= (kind[moved] & 3, key[moved], need[moved], kind[moved]):
                break
            row[j + 1] = row[j]
            j -= 1
        row[j + 1] = moved


@inline
def _slot(table: Ints, owner: Ints, key: Scalar) -> Scalar:
    """Return the slot that has or will get ``key``, which is already well spread."""
    mask = owner.size - 1
    at = np.int64(key) & mask
    while owner[at] >= 0 and table[at] != key:
        at = (at + 1) & mask
    return at


@jit
def _table_size(count: int) -> int:
    size = 16
    while size < 2 * count:
        size *= 2
    return size


@jit
def _contains(ordered: Ints, key: Scalar) -> bool:
    at = np.searchsorted(ordered, key)
    return bool(at < ordered.size and ordered[at] == key)


@jit
def _own_sends(kind: NDArray[np.int8], key: Ints) -> tuple[Ints, Ints, Ints]:
    """Enter every send; return (table, owner, sends of keys that were sent before)."""
    sends = 0
    for i in range(kind.size):
        sends += (kind[i] & 3) == SEND
    size = _table_size(sends)
    table, owner = np.empty(size, np.int64), np.full(size, -1, np.int64)
    resent, count = np.empty(sends, np.int64), 0
    for i in range(kind.size):
        if (kind[i] & 3) != SEND:
            continue
        at = _slot(table, owner, key[i])
        if owner[at] < 0:
            table[at], owner[at] = key[i], i
        else:
            resent[count] = i
            count += 1
    return table, owner, resent[:count].copy()


@jit
def _apply(
    who: Vectors,
    seq: Ints,
    kind: NDArray[np.int8],
    key: Ints,
    need: Ints,
    rows: tuple[Vectors, Ints, NDArray[np.int8], Ints, Ints],
    new_kind: NDArray[np.int8],
    new_key: Ints,
) -> Ints:
    """Replace kind and key of the events named by ``rows``, in the same sort order.

    The result is the event of each row, or -1 if it is not here.
    """
    where, j = np.full(new_key.size, -1, np.int64), 0
    for i in range(who.size):
        mine = (np.int64(who[i]), seq[i], kind[i] & 3, key[i], need[i], kind[i])
        while j < new_key.size:
            at = (
                np.int64(rows[0][j]),
                rows[1][j],
                rows[2][j] & 3,
                rows[3][j],
                rows[4][j],
                rows[2][j],
            )
            if at >= mine:
                if at == mine:
                    kind[i], key[i], where[j] = new_kind[j], new_key[j], i
                    j += 1
                break
            j += 1
    return where


@jit
def _pair(
    who: Vectors, kind: NDArray[np.int8], key: Ints, table: Ints, owner: Ints, names: Ints
) -> tuple[Any, Any, Any, Any, Any]:
    """Link deliveries to sends; return (link, uses, got, incoming, redelivered)."""
    size = kind.size
    link = np.full(size, ALONE, np.int64)
    uses, last = np.zeros(size, np.int32), np.full(size, -1, np.int32)
    got = np.zeros(size, np.int64)
    strangers, repeats = 0, 0
    for i in range(size):
        if kind[i] != DELIVER:
            continue
        send = owner[_slot(table, owner, key[i])]
        if send < 0:
            strangers += 1
            link[i] = -2
        elif last[send] == who[i]:
            repeats += 1
            link[i] = -3
        else:
            link[i] = send
            last[send] = who[i]
            uses[send] += 1
            got[send] ^= names[who[i]]
    cells = _table_size(strangers)
    foreign, number = np.empty(cells, np.int64), np.full(cells, -1, np.int64)
    seen = np.full(strangers, -1, np.int32)
    incoming, redelivered = np.empty(strangers, np.int64), np.empty(repeats + strangers, np.int64)
    count, repeats = 0, 0
    for i in range(size):
        if kind[i] != DELIVER or link[i] >= 0:
            continue
        is_again = link[i] == -3
        if not is_again:
            at = _slot(foreign, number, key[i])
            if number[at] < 0:
                foreign[at], number[at] = key[i], count
                incoming[count] = key[i]
                count += 1
            b = number[at]
            is_again = seen[b] == who[i]
            seen[b] = who[i]
            link[i] = -2 - b
        if is_again:
            link[i] = ALONE
            redelivered[repeats] = i
            repeats += 1
    return link, uses, got, incoming[:count].copy(), redelivered[:repeats].copy()


def match(events: Events, names: Ints, wanted: Ints, patch: Patch = NO_PATCH) -> Matched:
    """Sort and pair a window's events.

    ``names`` are the hashes of the processes' names. ``wanted`` are the keys that other windows
    asked for (sorted).
    """
    events, real, ends = _split(events)
    start, row = sort_rows(events, names.size)
    ordered = events.take(row)
    who, seq, key, marked = ordered.process, ordered.seq, ordered.key, ordered.kind
    clash = np.flatnonzero((seq[1:] == seq[:-1]) & (who[1:] == who[:-1])) + 1
    tie, original = _ties(marked, key, clash), marked & 3
    at = anchors(start, seq, ends.process, ends.seq, ends.need)
    found, where = Ends(at, ends.kind, ends.key), patch.key
    if patch.key.size:
        rows = patch.rows
        columns = rows.process, rows.seq, rows.kind, rows.key, rows.need
        where = _apply(who, seq, marked, key, ordered.need, columns, patch.kind, patch.key)
        found = found.and_edges(where[patch.source], where[patch.target], patch.edge_key)
    table, owner, resent = _own_sends(marked, key)
    kind = (marked & 3).astype(np.int8)
    kind[resent] = LOCAL
    link, uses, got, incoming, redelivered = _pair(who, kind, key, table, owner, names)
    known = marked == SEND + KNOWN
    is_open = (kind == SEND) & np.where(known, got != ordered.need, uses == 0)
    if wanted.size:
        at = np.minimum(np.searchsorted(wanted, key), wanted.size - 1)
        is_open |= (kind == SEND) & (wanted[at] == key)
    paired = int(np.count_nonzero(uses))
    edges, incoming = find_edges(found, seq.size, incoming)
    np.add.at(uses, edges.source[edges.source >= 0], 1)
    return Matched(
        start=start,
        row=row if real is None else real[row],
        who=who,
        seq=seq,
        kind=kind,
        key=key,
        link=link,
        uses=uses,
        paired=paired,
        open=is_open,
        left=got ^ ordered.need,
        known=known,
        incoming=incoming,
        redelivered=redelivered,
        resent=resent,
        clash=clash,
        tie=tie,
        original=original,
        edges=edges,
        patched=where,
    )


def _ties(marked: NDArray[np.int8], key: Ints, clash: Ints) -> Ints:
    """Compare each event with the previous one if they share a seq; return the results."""
    kind = marked[clash] & 3
    is_same = (kind == marked[clash - 1] & 3) & (key[clash] == key[clash - 1])
    return np.where(is_same, REPEATED, np.where(kind == LOCAL, TIED_LOCAL, TIED)).astype(np.int64)


def split_ends(events: Events) -> Events:
    """Return the rows of ``events`` that are ends of edges."""
    return events.take(np.flatnonzero((events.kind & 3) == SIGNAL))


def _split(events: Events) -> tuple[Events, Ints | None, Events]:
    """Return (events, their rows, ends of edges); rows are None without edges, meaning all."""
    is_end = (events.kind & 3) == SIGNAL
    if not is_end.any():
        return events, None, no_events()
    real = np.flatnonzero(~is_end)
    return events.take(real), real, events.take(np.flatnonzero(is_end))
