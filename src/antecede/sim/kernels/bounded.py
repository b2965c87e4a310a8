"""The kernel of `bounded` [SA00]: at most k constraints, by extra messages.

The constraints are one n x n matrix (row = constrained destination, column = sender, 0 = none). A
message carries the matrix from before the send, so copies share the sender's old matrix. An extra
message is one row; it waits like a copy, in the same lists, with a number beyond the copies', and
when its turn comes it is only counted, which may make others ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import antecede
from antecede.sim.kernels.common import (
    FREE,
    NODES,
    ORDER,
    Copy,
    Core,
    add_packet,
    copy_at,
    hold,
    make_ready,
    post_all,
    slot_of,
)
from antecede.sim.kernels.compiling import Int, Small, at, helper, int64
from antecede.sim.kernels.loop import Kernel, Steps, grown, longer
from antecede.sim.kernels.square import (
    Squares,
    SquareState,
    begin_send,
    copy_cells,
    end_send,
    is_ready,
    mark,
    release,
    renew,
    take_slab,
)
from antecede.sim.plan import Plan
from antecede.sim.trace import NOTHING

FULLEST, SPARSEST, ROTATING = range(3)
CHOICES = {"fullest": FULLEST, "sparsest": SPARSEST, "rotating": ROTATING}
ENTRY_BYTES = antecede.PROTOCOLS["bounded"].bytes_per_entry


class Extras(NamedTuple):
    """Extra messages under way or held; NODES counts the free slots."""

    cells: Small  # slot x sender
    source: Small  # per slot
    dest: Small  # per slot
    place: Small  # per slot: where its test continues
    free: Small  # a stack
    counts: Small  # per channel: extra messages so far
    turn: Small  # per process: where `rotating` continues
    width: Small  # scratch, per row: how many constraints
    flags: Small  # scratch, per process: whether it is a destination


class Bounded(NamedTuple):
    """The arrays of this kernel."""

    squares: Squares
    extra: Extras
    k: Small  # per process
    choice: Int


@helper
def is_extra_ready(core: Core, extras: Extras, slot: Int) -> Int:
    """Return whether an extra message is ready; if not, hold it for the first missing message."""
    holding, n = core.holding, core.n
    dest = int64(extras.dest[at(slot)])
    for k in range(int64(extras.place[at(slot)]), n):
        need = extras.cells[at(slot * n + k)]
        if need > holding.reached[at(dest * n + k)]:
            extras.place[at(slot)] = k
            hold(holding, dest * n + k, len(core.plan.dests) + slot, need)
            return False
    return True


@helper
def free_slot(core: Core, extras: Extras, slot: Int) -> Int:
    """Free the slot of an extra message, and return its sender."""
    extras.free[at(core.reg[NODES])] = slot
    core.reg[NODES] += 1
    return int64(extras.source[at(slot)])


@helper
def count_packet(core: Core, own: Bounded, dest: Int, sender: Int) -> None:
    """Count one packet of `sender` at `dest`, and all extra messages that this makes ready."""
    holding, copies = core.holding, len(core.plan.dests)
    stack = int64(NOTHING)
    while True:
        pair = dest * core.n + sender
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
                if is_ready(core, own, copy_at(core.plan, item)):
                    make_ready(holding, core.reg, item)
            elif is_extra_ready(core, own.extra, item - copies):
                holding.link[at(item)] = stack
                stack = item
            item = following
        if stack < 0:
            return
        slot = stack - copies
        stack = int64(holding.link[at(stack)])
        sender = free_slot(core, own.extra, slot)


@helper
def after(core: Core, own: Bounded, copy: Copy) -> None:
    """Count a delivered copy."""
    count_packet(core, own, copy.dest, copy.sender)


@helper
def receive(core: Core, own: Bounded, event: Int) -> None:
    """Take in an extra message."""
    slot = slot_of(core.plan, event)
    if is_extra_ready(core, own.extra, slot):
        dest = int64(own.extra.dest[at(slot)])
        count_packet(core, own, dest, free_slot(core, own.extra, slot))


@helper
def has_room(core: Core, _own: Bounded, _event: Int) -> Int:
    """Return whether there are slabs for an event, and slots for the extra messages it causes."""
    return core.reg[FREE] >= 2 and core.reg[NODES] >= core.n


@helper
def choose(extras: Extras, n: Int, me: Int, choice: Int) -> Int:
    """Return a row with several constraints, chosen as the option says, or NOTHING."""
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
def send_extra(core: Core, own: Bounded, me: Int, dest: Int) -> Int:
    """Send the constraints on `dest` as an extra message; return how many that removes."""
    squares, extras, reg, trace, n = own.squares, own.extra, core.reg, core.trace, core.n
    reg[NODES] -= 1
    slot = int64(extras.free[at(reg[NODES])])
    row = (int64(squares.own[at(me)]) * n + dest) * n
    sent = squares.cells[at(row + me)] + 1
    for s in range(n):
        extras.cells[at(slot * n + s)] = squares.cells[at(row + s)]
        squares.cells[at(row + s)] = 0
    squares.cells[at(row + me)] = sent
    extras.source[at(slot)] = me
    extras.dest[at(slot)] = dest
    extras.place[at(slot)] = 0
    width = int64(extras.width[at(dest)])
    channel = me * n + dest
    add_packet(core, extras.counts, channel, channel, slot, ENTRY_BYTES * width)
    trace.added[at(reg[ORDER])] += 1
    trace.added_bytes[at(reg[ORDER])] += ENTRY_BYTES * width
    extras.width[at(dest)] = 1
    return width - 1


@helper
def trim(core: Core, own: Bounded, me: Int) -> Int:
    """Send extra messages until at most k constraints are left; return the number left.

    The extra messages are counted at the event that is recorded next.
    """
    squares, n = own.squares, core.n
    slab = int64(squares.own[at(me)])
    total = int64(squares.count[at(slab)])
    limit = int64(own.k[at(me)])
    if total <= limit:
        return total
    for row in range(n):
        width = 0
        for s in range(n):
            width += int64(squares.cells[at((slab * n + row) * n + s)] > 0)
        own.extra.width[at(row)] = width
    while total > limit:
        total -= send_extra(core, own, me, choose(own.extra, n, me, own.choice))
    squares.count[at(slab)] = total
    return total


@helper
def send(core: Core, own: Bounded, message: Int) -> Int:
    """Attach the constraints; then the message replaces those on its destinations."""
    plan, squares, n = core.plan, own.squares, core.n
    me = int64(plan.sender[at(message)])
    begin_send(plan, core.trace, squares, message)
    old = int64(squares.own[at(me)])
    new = take_slab(squares, core.reg)
    base = new * n * n
    copy_cells(squares.cells, base, old * n * n, n * n)
    kept = int64(squares.count[at(old)])
    start = plan.offsets[at(message)]
    stop = plan.offsets[at(message + 1)]
    for copy in range(start, stop):
        core.trace.entries[at(copy)] = squares.count[at(old)]
        row = base + int64(plan.dests[at(copy)]) * n
        sent = squares.cells[at(row + me)] + 1
        for s in range(n):
            kept -= int64(squares.cells[at(row + s)] > 0)
            squares.cells[at(row + s)] = 0
        squares.cells[at(row + me)] = sent
        kept += 1
    squares.count[at(new)] = kept
    end_send(plan, squares, core.reg, message, new, old)
    post_all(core, message)
    return trim(core, own, me)


@helper
def merge(core: Core, own: Bounded, copy: Copy) -> None:
    """Merge the constraints of a message, which replaces those on its other destinations."""
    squares, extras, n = own.squares, own.extra, core.n
    me, sender = copy.dest, copy.sender
    other = int64(squares.slab[at(copy.message)]) * n * n
    mine = int64(squares.own[at(me)]) * n * n
    new = renew(squares, core.reg, me)
    target = new * n * n
    mark(core.plan, extras.flags, copy.message, 1)
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
    mark(core.plan, extras.flags, copy.message, 0)
    squares.count[at(new)] = kept


@helper
def deliver(core: Core, own: Bounded, copy: Copy) -> Int:
    """Merge, then send extra messages if there are too many constraints."""
    merge(core, own, copy)
    release(own.squares, core.reg, int64(own.squares.slab[at(copy.message)]))
    return trim(core, own, copy.dest)


class BoundedState(SquareState):
    """The arrays of one run of this kernel."""

    def __init__(
        self,
        plan: Plan,
        n: int,
        k: int | Sequence[int] | None = None,
        column: str = "fullest",
    ) -> None:
        super().__init__(plan, n)
        self.k = np.zeros(n, np.int32)
        self.k[:] = 2 * n if k is None else k
        self.choice = CHOICES[column]
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
        """Enlarge the arrays that may be too small."""
        super().grow()
        if self.reg[NODES] < self.n:
            self._grow_extras(2 * len(self.extra.source))

    def bytes(self) -> int:
        """Return the memory of what grows with the messages in flight."""
        return super().bytes() + int(self.extra.cells.nbytes)

    def _grow_extras(self, slots: int) -> None:
        old, have, left = self.extra, len(self.extra.source), int(self.reg[NODES])
        self.reg[NODES] = left + slots - have
        self.extra = grown(old, left, slots, cells=self.n, source=1, dest=1, place=1)
        size = len(self.plan.dests) + slots
        self.holding = self.holding._replace(
            link=longer(self.holding.link, size), need=longer(self.holding.need, size)
        )


KERNEL = Kernel(
    "bounded", BoundedState, Bounded,
    Steps(send=send, deliver=deliver, is_ready=is_ready, after=after, receive=receive,
          has_room=has_room),
    options=frozenset({"k", "column"}),
)  # fmt: skip
