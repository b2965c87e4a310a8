"""The kernel of `direct` [PRS97]: direct predecessors per destination.

The vector of sets CB is one n x n matrix: cell (destination, sender) is the number of the one
message from the sender that the next message to the destination must follow, 0 for none. The set
of the process itself holds the direct predecessors of its next message. A message carries CB as
it was before the send, so copies share the sender's old matrix.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.sim.kernels.common import Copy, Core, post_all
from antecede.sim.kernels.compiling import Int, Small, at, helper, int64
from antecede.sim.kernels.loop import Kernel, Steps, wake
from antecede.sim.kernels.square import (
    Squares,
    SquareState,
    begin_send,
    end_send,
    has_room,
    is_ready,
    mark,
    release,
    renew,
    take_slab,
)
from antecede.sim.plan import Plan

LITERAL, DIRECT, FULL = range(3)
VARIANTS = {"literal": LITERAL, "direct": DIRECT, "full": FULL}
EMPTIED, KEPT = range(2)
OWN_SLOTS = {"emptied": EMPTIED, "kept": KEPT}


class Direct(NamedTuple):
    """The arrays of this kernel."""

    squares: Squares
    delivered: Small  # per (process, peer, sender): newest message the peer is known to have
    flags: Small  # scratch, per process: whether it is a destination
    variant: Int
    own_slot: Int


@helper
def send(core: Core, own: Direct, message: Int) -> Int:
    """Attach CB, then make the new message a constraint on its destinations."""
    plan, squares, flags, n, variant = core.plan, own.squares, own.flags, core.n, own.variant
    me = int64(plan.sender[at(message)])
    number = begin_send(plan, core.trace, squares, message)
    old = int64(squares.own[at(me)])
    new = take_slab(squares, core.reg)
    for row in range(plan.offsets[at(message)], plan.offsets[at(message + 1)]):
        core.trace.entries[at(row)] = squares.count[at(old)]
    mark(plan, flags, message, 1)
    source = int64(squares.own[at(me)]) * n * n
    target = new * n * n
    mine = source + me * n
    kept = 0
    for k in range(n):
        if (k == me and own.own_slot == EMPTIED) or (variant == FULL and flags[at(k)] == 1):
            for s in range(n):
                squares.cells[at(target + k * n + s)] = 0
        elif flags[at(k)] == 1:
            for s in range(n):
                value = squares.cells[at(source + k * n + s)]
                value = value if value > squares.cells[at(mine + s)] else np.int32(0)
                squares.cells[at(target + k * n + s)] = value
        else:
            for s in range(n):
                squares.cells[at(target + k * n + s)] = squares.cells[at(source + k * n + s)]
        if k == me or flags[at(k)] == 1:
            squares.cells[at(target + k * n + me)] = number
        for s in range(n):
            kept += int64(squares.cells[at(target + k * n + s)] > 0)
    mark(plan, flags, message, 0)
    squares.count[at(new)] = kept
    end_send(plan, squares, core.reg, message, new, old)
    post_all(core, message)
    return kept


@helper
def merge(core: Core, own: Direct, copy: Copy, number: Int) -> Int:
    """Do the delivery step: union, minus predecessors, minus what is known to be delivered."""
    squares, delivered, flags, n, variant = (
        own.squares,
        own.delivered,
        own.flags,
        core.n,
        own.variant,
    )
    me, sender, message = copy.dest, copy.sender, copy.message
    other = int64(squares.slab[at(message)]) * n * n
    mine = int64(squares.own[at(me)]) * n * n
    new = renew(squares, core.reg, me)
    target = new * n * n
    pred = other + sender * n  # the message's direct predecessors
    known = (me * n + sender) * n
    for s in range(n):  # its sender has delivered them
        delivered[at(known + s)] = max(delivered[at(known + s)], squares.cells[at(pred + s)])
    mark(core.plan, own.flags, message, 1)
    kept = 0
    for k in range(n):
        a0 = mine + k * n
        b0 = other + k * n
        c0 = target + k * n
        done = (me * n + k) * n
        if k == me:
            for s in range(n):
                a = squares.cells[at(a0 + s)]
                squares.cells[at(c0 + s)] = a if a > squares.cells[at(pred + s)] else np.int32(0)
            squares.cells[at(c0 + sender)] = number
            for s in range(n):
                kept += int64(squares.cells[at(c0 + s)] > 0)
            continue
        if k == sender:  # on the message, this set does not constrain `sender`
            for s in range(n):
                squares.cells[at(c0 + s)] = squares.cells[at(a0 + s)]
        elif flags[at(k)] == 1:
            for s in range(n):
                a = squares.cells[at(a0 + s)]
                b = squares.cells[at(b0 + s)]
                p = squares.cells[at(pred + s)]
                if variant == FULL:
                    v = a if a > p and a > b else np.int32(0)
                elif variant == DIRECT:
                    v = max(a if a > p else np.int32(0), b if b > p else np.int32(0))
                else:
                    v = max(a, b if b > p else np.int32(0))
                squares.cells[at(c0 + s)] = v
            squares.cells[at(c0 + sender)] = max(squares.cells[at(c0 + sender)], number)
        else:
            for s in range(n):
                squares.cells[at(c0 + s)] = max(
                    squares.cells[at(a0 + s)], squares.cells[at(b0 + s)]
                )
        for s in range(n):
            v = squares.cells[at(c0 + s)]
            v = v if v > delivered[at(done + s)] else np.int32(0)
            squares.cells[at(c0 + s)] = v
            kept += int64(v > 0)
    mark(core.plan, own.flags, message, 0)
    squares.count[at(new)] = kept
    return kept


@helper
def deliver(core: Core, own: Direct, copy: Copy) -> Int:
    """Merge what the message carries, and release its matrix."""
    number = core.trace.number[at(copy.message)]
    core.holding.reached[at(copy.dest * core.n + copy.sender)] = number
    kept = merge(core, own, copy, number)
    release(own.squares, core.reg, int64(own.squares.slab[at(copy.message)]))
    return kept


class DirectState(SquareState):
    """The arrays of one run of this kernel."""

    def __init__(
        self, plan: Plan, n: int, prune: str = "direct", own_slot: str = "emptied"
    ) -> None:
        super().__init__(plan, n)
        self.delivered = np.zeros(n * n * n, np.int32)
        self.flags = np.zeros(n, np.int32)
        self.variant = VARIANTS[prune]
        self.own_slot = OWN_SLOTS[own_slot]


KERNEL = Kernel(
    "direct", DirectState, Direct,
    Steps(send=send, deliver=deliver, is_ready=is_ready, after=wake, has_room=has_room),
    options=frozenset({"prune", "own_slot"}),
)  # fmt: skip
