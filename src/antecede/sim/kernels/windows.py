"""The logs of `semantic_optimal`, which list what they know: their arrays, and how they combine.

A log is a slab: elements as in `logs` (sender, clock, word of the set), the known prefix of each
sender, and the points beyond it. A slab never changes. Processes share it with the copies that
carry it. A send, a delivery, and removing the other destinations from a copy's log are all one
step, `combine`; the last combines that log with an empty one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.errors import UsageError
from antecede.sim.kernels.bits import ones
from antecede.sim.kernels.common import FREE, WIDEST
from antecede.sim.kernels.compiling import Int, Ints, Small, Words, at, helper, int64, separate
from antecede.sim.kernels.exact import Sent, nothing_sent
from antecede.sim.kernels.keys import CLOCK_MASK, END, SENDER_SHIFT, WORD_BITS, key_of
from antecede.sim.kernels.loop import State, grown, widened
from antecede.sim.plan import Plan
from antecede.sim.trace import NOTHING

EMPTY = 0  # the slab of the log before anything happened
NEVER = np.iinfo(np.int32).max
# The most points that the slabs of a run have room for, all together.
POINTS_MAX = 1 << 28


class Slabs(NamedTuple):
    """All logs; FREE counts the slabs without owner."""

    keys: Ints  # slab x capacity
    words: Words  # slab x capacity
    prefix: Small  # slab x n
    points: Small  # slab x n x limit: ascending, then NEVER
    count: Small  # per slab: elements
    control: Small  # per slab: entries, prefixes and points, as a packet counts them
    named: Small  # per slab: destinations in the entries
    refs: Small  # per slab: owners
    free: Small  # a stack


class Lists(NamedTuple):
    """Reused by every step."""

    mask: Words  # the destinations of a message
    drop: Words  # the destinations that `combine` drops from the second log
    rest: Words  # the destinations of the message that it adds
    hit: Words  # the destinations of a message that a log names
    clocks: Small  # of one sender, ascending
    entered: Small  # per clock: whether it has an entry
    beyond: Small  # a ring of points: the newest replace the oldest


class Windows(NamedTuple):
    """The arrays of this kernel."""

    slabs: Slabs
    lists: Lists
    sent: Sent
    ring: Small  # process x window: the log after each recent event
    slab: Small  # per copy: the log that it carries
    place: Small  # per copy: where its test continues
    size: Int  # elements a slab has room for
    window: Int
    limit: Int  # points per sender


@helper
def release(slabs: Slabs, reg: Ints, slab: Int) -> None:
    """Drop one owner of a slab; without owners, the slab is free."""
    slabs.refs[at(slab)] -= 1
    if slabs.refs[at(slab)] == 0:
        slabs.free[at(reg[FREE])] = slab
        reg[FREE] += 1


@helper
def take_slab(slabs: Slabs, reg: Ints, owners: Int) -> Int:
    """Take a slab without owner."""
    reg[FREE] -= 1
    slab = int64(slabs.free[at(reg[FREE])])
    slabs.refs[at(slab)] = owners
    return slab


@helper
def log_after(own: Windows, me: Int, event: Int) -> Int:
    """Return the log after an event; if that is too old, the oldest log kept."""
    if event == 0:
        return int64(EMPTY)
    oldest = int64(own.sent.events[at(me)]) - own.window + 1
    return int64(own.ring[at(me * own.window + max(event, oldest) % own.window)])


@helper
def knows(own: Windows, known: Int, clock: Int) -> Int:
    """Return whether a log knows of a message; `known` is slab x n + sender."""
    if clock <= own.slabs.prefix[at(known)]:
        return True
    for t in range(known * own.limit, known * own.limit + own.limit):
        if own.slabs.points[at(t)] == clock:
            return True
    return False


@helper
def clock_in(key: Int, end: Int) -> Int:
    """Return the clock in a key, or NEVER if the key is of a later sender."""
    return (key >> WORD_BITS) & CLOCK_MASK if key < end else int64(NEVER)


@helper
def unite(own: Windows, a: Int, b: Int, new: Int, seen: Int, newest: Int) -> Int:
    """Merge what two logs know of a sender; return how many prefixes and points a packet counts.

    `a`, `b` and `new` are slab x n + sender; `seen` is the number of clocks in the scratch list.
    """
    slabs, lists, limit = own.slabs, own.lists, own.limit
    prefix = max(int64(slabs.prefix[at(a)]), int64(slabs.prefix[at(b)]))
    found = 0
    i = 0
    j = a * limit
    k = b * limit
    while True:
        x = int64(lists.clocks[at(i)]) if i < seen else int64(NEVER)
        y = int64(slabs.points[at(j)]) if j < (a + 1) * limit else int64(NEVER)
        z = int64(slabs.points[at(k)]) if k < (b + 1) * limit else int64(NEVER)
        clock = min(x, y, z)
        if clock == NEVER:
            break
        entered = x == clock and lists.entered[at(i)] > 0
        i += int64(x == clock)
        j += int64(y == clock)
        k += int64(z == clock)
        if clock == prefix + 1:
            prefix = clock
        elif clock > prefix and not entered and limit > 0:
            lists.beyond[at(found % limit)] = clock
            found += 1
    slabs.prefix[at(new)] = prefix
    left = min(found, limit)
    for t in range(limit):
        value = lists.beyond[at((found - left + t) % limit)] if t < left else np.int32(NEVER)
        slabs.points[at(new * limit + t)] = value
    return left + int64(prefix != newest)


@separate
def combine(own: Windows, n: Int, a: Int, b: Int, new: Int, sender: Int, number: Int) -> None:
    """RCV(4) and RCV(5) for logs that list what they know; write the result into `new`.

    First remove the destinations `drop` from the log `b`; then add the message (sender, number), if
    there is one, with the destinations `rest`.
    """
    slabs, lists, size = own.slabs, own.lists, own.size
    i = a * size
    j = b * size
    target = new * size
    control = 0
    named = 0
    for s in range(n):
        end = int64(s + 1) << SENDER_SHIFT
        added = int64(number) if s == sender else int64(NEVER)
        seen = 0
        newest = int64(0)
        while True:
            mine = clock_in(slabs.keys[at(i)], end)
            theirs = clock_in(slabs.keys[at(j)], end)
            clock = min(mine, theirs, added)
            if clock == NEVER:
                break
            in_a = mine == clock
            in_b = clock in (theirs, added)
            stays = in_a or not knows(own, a * n + s, clock)
            stays = stays and (in_b or not knows(own, b * n + s, clock))
            before = target
            for w in range(len(lists.mask)):
                key = key_of(s, clock, w)
                one = ~np.uint64(0)
                other = ~np.uint64(0)
                if in_a:
                    one = np.uint64(0)
                    if slabs.keys[at(i)] == key:
                        one = slabs.words[at(i)]
                        i += 1
                if in_b:
                    other = np.uint64(0)
                    if added == clock:
                        other = lists.rest[at(w)]
                    elif slabs.keys[at(j)] == key:
                        other = slabs.words[at(j)] & ~lists.drop[at(w)]
                        j += 1
                both = one & other
                if stays and both != np.uint64(0):
                    slabs.keys[at(target)] = key
                    slabs.words[at(target)] = both
                    target += 1
                    named += ones(both)
            if added == clock:
                added = int64(NEVER)
            lists.clocks[at(seen)] = clock
            lists.entered[at(seen)] = np.int32(target > before)
            seen += 1
            if target > before:
                newest = clock
                control += 1
        control += unite(own, a * n + s, b * n + s, new * n + s, seen, newest)
    slabs.keys[at(target)] = END
    slabs.count[at(new)] = target - new * size
    slabs.control[at(new)] = control
    slabs.named[at(new)] = named


class WindowsState(State):
    """The arrays of one run of this kernel."""

    def __init__(self, plan: Plan, n: int, *, window: int = 16, points: int = 2) -> None:
        super().__init__(plan, n)
        most = int(np.bincount(plan.sender, minlength=n).max())
        self.limit = min(points, most)
        self.window = min(window, len(plan.time) + len(plan.dests) + 1)
        slabs = 2 * n + 64
        if max(slabs, n * self.window) * n * self.limit > POINTS_MAX:
            msg = (
                f"window={window} and points={points} take too much memory for {n} processes; "
                "use engine='plain' or lower limits"
            )
            raise UsageError(msg)
        self.size = 2 * n + 32
        self.words = (n + 63) // 64
        self.sent = nothing_sent(plan, n)
        self.ring = np.full(n * self.window, NOTHING, np.int32)
        self.slab = np.zeros(len(plan.dests), np.int32)
        self.place = np.zeros(len(plan.dests), np.int32)
        self.slabs = Slabs(
            keys=np.full(slabs * self.size, END, np.int64),
            words=np.zeros(slabs * self.size, np.uint64),
            prefix=np.zeros(slabs * n, np.int32),
            points=np.full(slabs * n * self.limit, NEVER, np.int32),
            count=np.zeros(slabs, np.int32),
            control=np.zeros(slabs, np.int32),
            named=np.zeros(slabs, np.int32),
            refs=np.zeros(slabs, np.int32),
            free=np.zeros(slabs, np.int32),
        )
        self.slabs.refs[EMPTY] = 1
        self.reg[FREE] = slabs - 1
        self.slabs.free[: slabs - 1] = np.arange(slabs - 1, 0, -1)
        self._make_lists()

    def _make_lists(self) -> None:
        mask, drop, rest, hit = np.zeros((4, self.words), np.uint64)
        clocks, entered = np.zeros((2, self.size), np.int32)
        beyond = np.zeros(self.limit, np.int32)
        self.lists = Lists(mask, drop, rest, hit, clocks, entered, beyond)

    def grow(self) -> None:
        """Enlarge the arrays that may be too small."""
        super().grow()
        if self.reg[FREE] < self.reg[WIDEST]:
            self._grow_slabs()
        if 2 * int(self.slabs.count.max()) + self.words + 2 > self.size:
            self._widen(2 * self.size)

    def bytes(self) -> int:
        """Return the memory of what grows with the messages in flight."""
        return super().bytes() + int(sum(array.nbytes for array in self.slabs))

    def _grow_slabs(self) -> None:
        have, left = len(self.slabs.count), int(self.reg[FREE])
        more = 2 * have + int(self.reg[WIDEST])
        self.slabs = grown(
            self.slabs, left, more, keys=self.size, words=self.size, prefix=self.n,
            points=self.n * self.limit, count=1, control=1, named=1, refs=1,
        )  # fmt: skip
        self.reg[FREE] = left + more - have

    def _widen(self, size: int) -> None:
        slabs = len(self.slabs.count)
        keys = widened(self.slabs.keys, slabs, size, END)
        self.slabs = self.slabs._replace(keys=keys, words=widened(self.slabs.words, slabs, size))
        self.size = size
        self._make_lists()
