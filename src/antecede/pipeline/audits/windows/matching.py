"""Sort a window's events and pair its deliveries with its sends, without a join.

The events of each process are sorted by ``seq``; rows that contradict each other by having the same
``seq`` are ordered by kind, hash and destinations, so that every arrangement gives the same answer.
Messages are looked up in one open-addressing table of 64-bit hashes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antecede.pipeline.audits.windows.jit import Flags, Ints, Scalar, Vectors, inline, jit

SEND, DELIVER, LOCAL = 0, 1, 2
#: Added to a send's kind if the log states its destinations.
KNOWN = 4

#: ``Matched.link`` of a delivery that stands alone: no send, a repeat, or part of a cycle.
ALONE = -1


@dataclass
class Events:
    """Columns of one window: ``process`` indexes the sorted names of all processes of the log.

    ``need`` is, for sends whose destinations are known (kind ``SEND + KNOWN``), the exclusive
    or of the hashes of their names.
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


class Owners(NamedTuple):
    """Which send owns each message that was sent more than once."""

    keys: Ints  # sorted
    process: Ints
    seq: Ints


NO_OWNERS = Owners(*(np.empty(0, np.int64) for _ in range(3)))


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
    uses: Vectors  # send i -> deliveries of it in this window
    open: Flags  # send i -> it may be delivered in a later window, or is missing
    left: Ints  # send i -> exclusive or of the destinations that have not delivered it here
    known: Flags  # send i -> the log states its destinations
    incoming: Ints  # b -> key of a message sent outside this window
    redelivered: Ints  # deliveries (i) that repeat one at the same process
    resent: Ints  # sends (i) of a key that another send owns
    clash: Ints  # events (i) that have the seq of the event before them


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
    """Return where ``key`` is or would be; hashes are spread already."""
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
def _own_sends(
    who: Vectors,
    seq: Ints,
    kind: NDArray[np.int8],
    key: Ints,
    owner_key: Ints,
    owner_process: Ints,
    owner_seq: Ints,
) -> tuple[Ints, Ints, Ints]:
    """Enter every send; return (table, owner, sends that own nothing and become local events).

    Of several sends of a key, the one with the least process and seq owns it. The driver says so
    for keys that are sent in several windows.
    """
    sends = 0
    for i in range(kind.size):
        sends += (kind[i] & 3) == SEND
    size = _table_size(sends)
    table, owner = np.empty(size, np.int64), np.full(size, -1, np.int64)
    resent, count = np.empty(sends, np.int64), 0
    for i in range(kind.size):
        if (kind[i] & 3) != SEND:
            continue
        mine = True
        if owner_key.size and _contains(owner_key, key[i]):
            at = np.searchsorted(owner_key, key[i])
            mine = owner_process[at] == who[i] and owner_seq[at] == seq[i]
        at = _slot(table, owner, key[i])
        if mine and owner[at] < 0:
            table[at], owner[at] = key[i], i
        else:
            resent[count] = i
            count += 1
    return table, owner, resent[:count].copy()


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


def match(events: Events, names: Ints, *, closed: bool, wanted: Ints, owners: Owners) -> Matched:
    """Sort and pair a window's events.

    ``names`` are the hashes of the processes' names. A ``closed`` window has nothing outside it.
    ``wanted`` are the keys that other windows ask for (sorted).
    """
    start, row = _in_order(
        events.process, events.seq, events.kind, events.key, events.need, names.size
    )
    ordered = events.take(row)
    who, seq, key = ordered.process, ordered.seq, ordered.key
    clash = np.flatnonzero((seq[1:] == seq[:-1]) & (who[1:] == who[:-1])) + 1
    table, owner, resent = _own_sends(who, seq, ordered.kind, key, *owners)
    kind = (ordered.kind & 3).astype(np.int8)
    kind[resent] = LOCAL
    link, uses, got, incoming, redelivered = _pair(who, kind, key, table, owner, names)
    known = ordered.kind == SEND + KNOWN
    is_open = (kind == SEND) & known & (got != ordered.need)
    if not closed:
        is_open |= (kind == SEND) & ~known & (uses == 0)
        if wanted.size:
            at = np.minimum(np.searchsorted(wanted, key), wanted.size - 1)
            is_open |= (kind == SEND) & (wanted[at] == key)
    return Matched(
        start=start,
        row=row,
        who=who,
        seq=seq,
        kind=kind,
        key=key,
        link=link,
        uses=uses,
        open=is_open,
        left=got ^ ordered.need,
        known=known,
        incoming=incoming,
        redelivered=redelivered,
        resent=resent,
        clash=clash,
    )
