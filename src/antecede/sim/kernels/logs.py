"""The logs of `optimal` [KS98] and `pruned` [JPCY97]: their arrays, and how they grow.

Both protocols keep the same information after every event and differ only in how a copy carries
it, so they share these logs and their steps.

How a log is kept
-----------------
A log is a *slab*: an int32 vector with the newest clock known of every sender, and the entries
that still name a destination, as elements (sender, clock, word of the set, 64 destinations),
sorted by one packed integer. Of an entry without destinations, only its clock matters: either it
is the newest of its sender and is in the vector, or PURGE_NULL_ENTRIES of [KS98] has removed it.
So

* an element found on only one side of a merge survives iff its clock exceeds the newest clock
  that the other side knows of that sender (both loops of RCV(4) in one comparison);
* sets may be of any width: an entry takes as many elements as its set has non-empty words.

A slab never changes once written. After a send, all copies carry the sender's new log, except for
the constraints on their own destination, so copies share it by a reference count. Those
constraints (at most one per sender and destination, lemma 1 of [KS98]) are in a linked list per
copy, until they are satisfied. With hardware multicast all copies carry the log as it was before
the send; receivers end up with the same log, so only the counting differs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.sim.kernels.common import FREE, NODE, NODES, WIDEST
from antecede.sim.kernels.compiling import Int, Ints, Small, Words, at, helper, int64
from antecede.sim.kernels.differences import Differences, no_differences, roomier
from antecede.sim.kernels.keys import CLOCK_BITS, CLOCK_MASK, END, WORD_BITS
from antecede.sim.kernels.loop import State, grown, longer, widened
from antecede.sim.plan import Plan
from antecede.sim.trace import NOTHING

# How many free slabs an event may take: two for lookahead's merge, one for the delivery after it.
SLABS = 3
# What a copy carries: what it needs, that split into entries and DC tuples, or the whole log.
OPTIMAL, PRUNED, HARDWARE = range(3)


class Logs(NamedTuple):
    """All slabs, and who owns which."""

    keys: Ints  # slab x capacity
    words: Words  # slab x capacity
    newest: Small  # slab x n
    count: Small  # per slab: elements
    known: Small  # per slab: senders with a newest clock
    refs: Small  # per slab: owners
    free: Small  # a stack of slabs without owner; FREE counts them
    own: Small  # per process: its log
    clock: Small  # per process: messages sent
    slab: Small  # per message: the log its copies carry


class Constraints(NamedTuple):
    """The linked lists of what each copy waits for."""

    sender: Small
    clock: Small
    following: Small
    first: Small  # per copy, once it is sent


class Scratch(NamedTuple):
    """Reused at every send."""

    mask: Words  # destinations of the message
    slot: Small  # per destination: its copy


class LogKernel(NamedTuple):
    """The arrays of these kernels."""

    logs: Logs
    cons: Constraints
    scratch: Scratch
    size: Int  # elements a slab has room for
    mode: Int  # how control is counted: OPTIMAL, PRUNED or HARDWARE
    diffs: Differences
    differential: Int  # 1 if copies carry differences, else 0
    lookahead: Int  # 1 if a copy's log is merged when it arrives, 0 if when it is delivered


@helper
def release(logs: Logs, reg: Ints, slab: Int) -> None:
    """Drop one owner of a slab; without owners, the slab is free."""
    logs.refs[at(slab)] -= 1
    if logs.refs[at(slab)] == 0:
        logs.free[at(reg[FREE])] = slab
        reg[FREE] += 1


@helper
def add_node(
    cons: Constraints, reg: Ints, first: Small, place: Int, sender: Int, clock: Int
) -> None:
    """Insert a message at the beginning of the list at `place`."""
    node = reg[NODE]
    reg[NODE] = int64(cons.following[at(node)])
    reg[NODES] -= 1
    cons.sender[at(node)] = sender
    cons.clock[at(node)] = clock
    cons.following[at(node)] = first[at(place)]
    first[at(place)] = node


@helper
def constrain(cons: Constraints, reg: Ints, copy: Int, sender: Int, clock: Int) -> None:
    """Make a copy wait for a message."""
    add_node(cons, reg, cons.first, copy, sender, clock)


@helper
def free_node(cons: Constraints, reg: Ints, node: Int) -> Int:
    """Free a node of a list; return the next one."""
    following = int64(cons.following[at(node)])
    cons.following[at(node)] = reg[NODE]
    reg[NODE] = node
    reg[NODES] += 1
    return following


@helper
def compact(logs: Logs, n: Int, size: Int, slab: Int) -> Int:
    """Remove empty elements; return how many entries are left besides the newest of a sender."""
    i = slab * size
    target = i
    entries = 0
    last = int64(NOTHING)
    while logs.keys[at(i)] != END:
        key = logs.keys[at(i)]
        word = logs.words[at(i)]
        i += 1
        if word == np.uint64(0):
            continue
        logs.keys[at(target)] = key
        logs.words[at(target)] = word
        target += 1
        if key >> WORD_BITS != last:
            last = key >> WORD_BITS
            newest = int64(logs.newest[at(slab * n + (last >> CLOCK_BITS))])
            entries += int64((last & CLOCK_MASK) != newest)
    logs.keys[at(target)] = END
    logs.count[at(slab)] = target - slab * size
    return entries


class LogState(State):
    """The arrays of one run of this kernel."""

    def __init__(
        self, plan: Plan, n: int, *, mode: int = OPTIMAL, lookahead: bool = False,
        differential: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(plan, n)
        self.mode = mode
        self.lookahead, self.differential = int(lookahead), int(differential)
        slabs = 2 * n + 64
        self.size = 4 * n + 64
        self.words = (n + 63) // 64
        self.logs = Logs(
            keys=np.full(slabs * self.size, END, np.int64),
            words=np.zeros(slabs * self.size, np.uint64),
            newest=np.zeros(slabs * n, np.int32),
            count=np.zeros(slabs, np.int32),
            known=np.zeros(slabs, np.int32),
            refs=np.concatenate([np.ones(n, np.int32), np.zeros(slabs - n, np.int32)]),
            free=np.zeros(slabs, np.int32),
            own=np.arange(n, dtype=np.int32),
            clock=np.zeros(n, np.int32),
            slab=np.zeros(len(plan.time), np.int32),
        )
        self.reg[FREE] = slabs - n
        self.logs.free[: slabs - n] = np.arange(slabs - 1, n - 1, -1)
        self.cons = Constraints(
            sender=np.zeros(0, np.int32),
            clock=np.zeros(0, np.int32),
            following=np.zeros(0, np.int32),
            first=np.empty(len(plan.dests), np.int32),
        )
        self.reg[NODE] = NOTHING
        self.scratch = Scratch(np.zeros(self.words, np.uint64), np.zeros(n, np.int32))
        self._grow_nodes(int(self.reg[WIDEST]) * n)
        self.diffs = no_differences()
        if differential:
            self.diffs = no_differences(n * n, len(plan.dests), self.size + n)

    def grow(self) -> None:
        """Enlarge the arrays that may be too small."""
        super().grow()
        if self.reg[FREE] < SLABS:
            self._grow_slabs()
        if self.reg[NODES] < self.reg[WIDEST] * self.n:
            self._grow_nodes(len(self.cons.sender) + int(self.reg[WIDEST]) * self.n)
        longest = np.partition(self.logs.count[self.logs.refs > 0], -2)[-2:]
        needs = self.n * self.lookahead
        if int(longest.sum()) + needs + self.words + 2 > self.size:
            self._widen(2 * self.size)

    def bytes(self) -> int:
        """Return the memory of what grows with the messages in flight."""
        own = sum(array.nbytes for array in (*self.logs[:7], *self.cons[:3]))
        return super().bytes() + int(own)

    def _grow_slabs(self) -> None:
        slabs, left = len(self.logs.count), int(self.reg[FREE])
        self.logs = grown(
            self.logs, left, 2 * slabs, keys=self.size, words=self.size, newest=self.n, count=1,
            known=1, refs=1,
        )  # fmt: skip
        self.reg[FREE] = left + slabs

    def _widen(self, size: int) -> None:
        slabs = len(self.logs.count)
        keys = widened(self.logs.keys, slabs, size, END)
        self.logs = self.logs._replace(keys=keys, words=widened(self.logs.words, slabs, size))
        self.size = size
        self.diffs = roomier(self.diffs, size + self.n)

    def _grow_nodes(self, size: int) -> None:
        cons, have = self.cons, len(self.cons.sender)
        following = longer(cons.following, size)
        following[have:] = np.arange(have + 1, size + 1)
        following[-1] = self.reg[NODE]
        self.cons = cons._replace(
            sender=longer(cons.sender, size), clock=longer(cons.clock, size), following=following
        )
        self.reg[NODE] = have
        self.reg[NODES] += size - have
