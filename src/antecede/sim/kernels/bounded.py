"""The kernel of `bounded` [SA00]_: at most k constraints, by extra messages.

The constraints are one n x n matrix (row = the destination they are on, column = sender, 0 = none).
A message carries it as it was before the send, so copies share the sender's old matrix. An extra
message is one row; it waits like a copy, in the same lists, with a number beyond the copies', and
when its turn comes it is only counted, which may let others go on.

References
----------
.. [SA00] C. Sanchez and A. Alvarez. "A lightweight asynchronous algorithm for causal delivery
   using extra message insertion". DISC 2000.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.sim.kernels.common import (
    DONE,
    EVENT,
    FREE,
    GROW,
    HEAP,
    LIMIT,
    NODES,
    NOTHING,
    ORDER,
    PAUSE,
    READY,
    WIDEST,
    Floats,
    Heap,
    Holding,
    Int,
    Ints,
    Plan,
    Real,
    Small,
    Trace,
    add_packet,
    arrive,
    at,
    entry,
    helper,
    hold,
    int64,
    make_ready,
    next_event,
    post_all,
    record,
    set_off,
    slot_of,
    take_ready,
)
from antecede.sim.kernels.drive import Progress, drive, longer
from antecede.sim.kernels.square import Squares, SquareState, advance, release, renew, take_slab

FULLEST, SPARSEST, ROTATING = range(3)
CHOICES = {"fullest": FULLEST, "sparsest": SPARSEST, "rotating": ROTATING}
ENTRY_BYTES = 8


class Extras(NamedTuple):
    """Extra messages under way or held; NODES counts the free slots."""

    cells: Small  # slot x sender
    source: Small  # per slot
    dest: Small  # per slot
    place: Small  # per slot: where its test goes on
    free: Small  # a stack
    counts: Small  # per channel: extra messages so far
    turn: Small  # per process: where `rotating` goes on
    width: Small  # scratch, per row: how many constraints
    flags: Small  # scratch, per process: whether it is a destination


@helper
def advance_extra(extras: Extras, holding: Holding, n: Int, copies: Int, slot: Int) -> Int:
    """Test an extra message; hold it for the first message that is missing."""
    dest = int64(extras.dest[at(slot)])
    for k in range(int64(extras.place[at(slot)]), n):
        need = extras.cells[at(slot * n + k)]
        if need > holding.reached[at(dest * n + k)]:
            extras.place[at(slot)] = k
            hold(holding, dest * n + k, copies + slot, need)
            return False
    return True


@helper
def settle(
    plan: Plan, squares: Squares, holding: Holding, extras: Extras, reg: Ints, n: Int, dest: Int,
    sender: Int,
) -> None:  # fmt: skip
    """Count one packet of `sender` at `dest`, and all extra messages that this lets go."""
    copies = len(plan.dests)
    stack = int64(NOTHING)
    while True:
        pair = dest * n + sender
        holding.reached[at(pair)] += 1
        reached = holding.reached[at(pair)]
        item = int64(holding.heads[at(pair)])
        holding.heads[at(pair)] = NOTHING
        while item >= 0:
            following = int64(holding.link[at(item)])
            if holding.need[at(item)] > reached:
                holding.link[at(item)] = holding.heads[at(pair)]
                holding.heads[at(pair)] = item
            elif item < copies:
                if advance(plan, squares, holding, n, 1, dest, item):
                    make_ready(holding, reg, item)
            elif advance_extra(extras, holding, n, copies, item - copies):
                holding.link[at(item)] = stack
                stack = item
            item = following
        if stack < 0:
            return
        slot = stack - copies
        stack = int64(holding.link[at(stack)])
        sender = int64(extras.source[at(slot)])
        extras.free[at(reg[NODES])] = slot
        reg[NODES] += 1


@helper
def choose(extras: Extras, n: Int, me: Int, choice: Int) -> Int:
    """Return a row that would shrink, as the option says."""
    best = int64(NOTHING)
    if choice == ROTATING:
        for i in range(n):
            row = (int64(extras.turn[at(me)]) + i) % n
            if extras.width[at(row)] > 1:
                extras.turn[at(me)] = (row + 1) % n
                return row
    for row in range(n):
        width = extras.width[at(row)]
        if width > 1 and (
            best < 0
            or (choice == FULLEST and width > extras.width[at(best)])
            or (choice == SPARSEST and width < extras.width[at(best)])
        ):
            best = int64(row)
    return best


@helper
def trim(
    plan: Plan, heap: Heap, trace: Trace, squares: Squares, extras: Extras, reg: Ints, n: Int,
    k: Int, choice: Int, now: Real, me: Int,
) -> Int:  # fmt: skip
    """Send extra messages until no more than k constraints are left; return how many are.

    Counts them at the event that is recorded next.
    """
    own = int64(squares.own[at(me)])
    base = own * n * n
    total = int64(squares.count[at(own)])
    if total <= k:
        return total
    for row in range(n):
        width = 0
        for s in range(n):
            width += int64(squares.cells[at(base + row * n + s)] > 0)
        extras.width[at(row)] = width
    while total > k:
        dest = choose(extras, n, me, choice)
        reg[NODES] -= 1
        slot = int64(extras.free[at(reg[NODES])])
        row = base + dest * n
        sent = squares.cells[at(row + me)] + 1
        for s in range(n):
            extras.cells[at(slot * n + s)] = squares.cells[at(row + s)]
            squares.cells[at(row + s)] = 0
        squares.cells[at(row + me)] = sent
        extras.source[at(slot)] = me
        extras.dest[at(slot)] = dest
        extras.place[at(slot)] = 0
        add_packet(plan, heap, reg, extras.counts, now, me * n + dest, slot)
        width = int64(extras.width[at(dest)])
        trace.added[at(reg[ORDER])] += 1
        trace.added_bytes[at(reg[ORDER])] += ENTRY_BYTES * width
        extras.width[at(dest)] = 1
        total -= width - 1
    squares.count[at(own)] = total
    return total


@helper
def send(plan: Plan, squares: Squares, trace: Trace, reg: Ints, n: Int, message: Int) -> None:
    """Attach the constraints; then the message stands for those on its destinations."""
    me = int64(plan.sender[at(message)])
    squares.sent[at(me)] += 1
    trace.number[at(message)] = squares.sent[at(me)]
    old = int64(squares.own[at(me)])
    new = take_slab(squares, reg)
    base = new * n * n
    for i in range(n * n):
        squares.cells[at(base + i)] = squares.cells[at(old * n * n + i)]
    total = int64(squares.count[at(old)])
    start = plan.offsets[at(message)]
    stop = plan.offsets[at(message + 1)]
    for copy in range(start, stop):
        squares.place[at(copy)] = 0
        trace.entries[at(copy)] = total
    kept = total
    for copy in range(start, stop):
        row = base + int64(plan.dests[at(copy)]) * n
        sent = squares.cells[at(row + me)] + 1
        for s in range(n):
            kept -= int64(squares.cells[at(row + s)] > 0)
            squares.cells[at(row + s)] = 0
        squares.cells[at(row + me)] = sent
        kept += 1
    squares.count[at(new)] = kept
    squares.refs[at(new)] = 1
    squares.refs[at(old)] += stop - start
    squares.slab[at(message)] = old
    squares.own[at(me)] = new
    release(squares, reg, old)


@helper
def merge(
    plan: Plan, squares: Squares, extras: Extras, reg: Ints, n: Int, me: Int, sender: Int,
    message: Int,
) -> None:  # fmt: skip
    """Take in what the message carries; it stands for that at its other destinations."""
    other = int64(squares.slab[at(message)]) * n * n
    mine = int64(squares.own[at(me)]) * n * n
    new = renew(squares, reg, me)
    target = new * n * n
    start = plan.offsets[at(message)]
    stop = plan.offsets[at(message + 1)]
    for copy in range(start, stop):
        extras.flags[at(plan.dests[at(copy)])] = 1
    kept = 0
    for row in range(n):
        a0 = mine + row * n
        b0 = other + row * n
        c0 = target + row * n
        if row in (me, sender):
            for s in range(n):
                squares.cells[at(c0 + s)] = squares.cells[at(a0 + s)]
        elif extras.flags[at(row)] == 1:
            own = squares.cells[at(a0 + me)]
            sent = squares.cells[at(b0 + sender)] + 1
            for s in range(n):
                a = squares.cells[at(a0 + s)]
                squares.cells[at(c0 + s)] = a if a > squares.cells[at(b0 + s)] else np.int32(0)
            squares.cells[at(c0 + me)] = own
            squares.cells[at(c0 + sender)] = max(squares.cells[at(c0 + sender)], sent)
        else:
            for s in range(n):
                squares.cells[at(c0 + s)] = max(
                    squares.cells[at(a0 + s)], squares.cells[at(b0 + s)]
                )
        for s in range(n):
            kept += int64(squares.cells[at(c0 + s)] > 0)
    for copy in range(start, stop):
        extras.flags[at(plan.dests[at(copy)])] = 0
    squares.count[at(new)] = kept


@entry
def run(
    plan: Plan, heap: Heap, trace: Trace, holding: Holding, squares: Squares, extras: Extras,
    reg: Ints, now: Floats, n: Int, k: Int, choice: Int,
) -> Int:  # fmt: skip
    """Run until the end, or until an array must grow."""
    messages = len(plan.time)
    copies = len(plan.dests)
    while True:
        if reg[HEAP] + reg[WIDEST] > len(heap.when) or reg[FREE] < 2 or reg[NODES] < n:
            return GROW
        if reg[ORDER] >= reg[LIMIT]:
            return PAUSE
        if reg[READY] >= 0:
            copy = take_ready(holding, reg)
            dest = int64(plan.dests[at(copy)])
            message = int64(plan.message[at(copy)])
            sender = int64(plan.sender[at(message)])
            trace.delivered[at(copy)] = now[0]
            merge(plan, squares, extras, reg, n, dest, sender, message)
            release(squares, reg, int64(squares.slab[at(message)]))
            kept = trim(plan, heap, trace, squares, extras, reg, n, k, choice, now[0], dest)
            record(trace, reg, messages + copy, kept)
            settle(plan, squares, holding, extras, reg, n, dest, sender)
            set_off(plan, heap, reg, now[0], copy)
            continue
        if reg[EVENT] < 0:
            reg[EVENT] = next_event(plan, heap, reg, now)
            if reg[EVENT] < 0:
                return DONE
        event = reg[EVENT]
        if event < messages:
            trace.sent[at(event)] = now[0]
            send(plan, squares, trace, reg, n, event)
            post_all(plan, heap, trace, reg, n, now[0], event)
            me = int64(plan.sender[at(event)])
            kept = trim(plan, heap, trace, squares, extras, reg, n, k, choice, now[0], me)
            record(trace, reg, event, kept)
        elif event < messages + copies:
            copy = event - messages
            arrive(holding, trace, reg, now[0], copy)
            if advance(plan, squares, holding, n, 1, int64(plan.dests[at(copy)]), copy):
                make_ready(holding, reg, copy)
        else:
            slot = slot_of(plan, event)
            if advance_extra(extras, holding, n, copies, slot):
                dest = int64(extras.dest[at(slot)])
                sender = int64(extras.source[at(slot)])
                extras.free[at(reg[NODES])] = slot
                reg[NODES] += 1
                settle(plan, squares, holding, extras, reg, n, dest, sender)
        reg[EVENT] = NOTHING


class State(SquareState):
    """The arrays of one run of this kernel."""

    def __init__(self, plan: Plan, n: int) -> None:
        super().__init__(plan, n)
        self.extra = Extras(
            cells=np.zeros(0, np.int32),
            source=np.zeros(0, np.int32),
            dest=np.zeros(0, np.int32),
            place=np.zeros(0, np.int32),
            free=np.zeros(0, np.int32),
            counts=np.zeros(n * n, np.int32),
            turn=np.zeros(n, np.int32),
            width=np.zeros(n, np.int32),
            flags=np.zeros(n, np.int32),
        )
        self._grow_extras(4 * n + 64)

    def grow(self) -> None:
        """Make larger whatever may have been too small."""
        super().grow()
        if self.reg[NODES] < self.n:
            self._grow_extras(2 * len(self.extra.source))

    def bytes(self) -> int:
        """Return the memory of what grows with the messages in flight."""
        return super().bytes() + int(self.extra.cells.nbytes)

    def _grow_extras(self, slots: int) -> None:
        old, have, left = self.extra, len(self.extra.source), int(self.reg[NODES])
        free = longer(old.free, slots)
        fresh = np.arange(slots - 1, have - 1, -1)
        free[: left + len(fresh)] = np.concatenate([fresh, old.free[:left]])
        self.reg[NODES] = left + len(fresh)
        self.extra = old._replace(
            cells=longer(old.cells, slots * self.n),
            source=longer(old.source, slots),
            dest=longer(old.dest, slots),
            place=longer(old.place, slots),
            free=free,
        )
        size = len(self.plan.dests) + slots
        self.holding = self.holding._replace(
            link=longer(self.holding.link, size), need=longer(self.holding.need, size)
        )


def simulate(
    plan: Plan, n: int, k: int | None = None, column: str = "fullest",
    progress: Progress | None = None,
) -> State:  # fmt: skip
    """Run `bounded` over a plan."""
    state = State(plan, n)
    drive(
        state,
        lambda: run(
            plan, state.heap, state.trace, state.holding, state.squares, state.extra, state.reg,
            state.now, n, 2 * n if k is None else k, CHOICES[column],
        ),
        progress,
    )  # fmt: skip
    return state
