"""The kernel of `direct` [PRS97]_: direct predecessors per destination.

The vector of sets CB is one n x n matrix: cell (destination, sender) is the number of the one
message of that sender that the next message to that destination must follow, 0 for none. The set
of the process itself holds the direct predecessors of its next message. A message carries CB as
it was before the send, so copies share the sender's old matrix.

References
----------
.. [PRS97] R. Prakash, M. Raynal and M. Singhal. "An adaptive causal ordering algorithm suited to
   mobile computing environments". Journal of Parallel and Distributed Computing 41, 1997.
"""

from __future__ import annotations

import numpy as np

from antecede.sim.kernels.common import (
    DONE,
    EVENT,
    FREE,
    GROW,
    HEAP,
    LIMIT,
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
    Small,
    Trace,
    arrive,
    at,
    entry,
    helper,
    int64,
    make_ready,
    next_event,
    post_all,
    record,
    set_off,
    take_ready,
)
from antecede.sim.kernels.drive import Progress, drive
from antecede.sim.kernels.square import (
    Squares,
    SquareState,
    advance,
    release,
    renew,
    take_slab,
    wake,
)

LITERAL, DIRECT, FULL = range(3)
VARIANTS = {"literal": LITERAL, "direct": DIRECT, "full": FULL}


@helper
def send(
    plan: Plan, squares: Squares, flags: Small, trace: Trace, reg: Ints, n: Int, variant: Int,
    message: Int,
) -> None:  # fmt: skip
    """Attach CB, then let the new message guard its destinations."""
    me = int64(plan.sender[at(message)])
    number = squares.sent[at(me)] + 1
    squares.sent[at(me)] = number
    trace.number[at(message)] = number
    old = int64(squares.own[at(me)])
    new = take_slab(squares, reg)
    start = plan.offsets[at(message)]
    stop = plan.offsets[at(message + 1)]
    entries = squares.count[at(old)]
    for copy in range(start, stop):
        flags[at(plan.dests[at(copy)])] = 1
        squares.place[at(copy)] = 0
        trace.entries[at(copy)] = entries
    source = old * n * n
    target = new * n * n
    own = source + me * n
    kept = 0
    for k in range(n):
        if k == me or (variant == FULL and flags[at(k)] == 1):
            for s in range(n):
                squares.cells[at(target + k * n + s)] = 0
        elif flags[at(k)] == 1:
            for s in range(n):
                value = squares.cells[at(source + k * n + s)]
                value = value if value > squares.cells[at(own + s)] else np.int32(0)
                squares.cells[at(target + k * n + s)] = value
        else:
            for s in range(n):
                squares.cells[at(target + k * n + s)] = squares.cells[at(source + k * n + s)]
        if k == me or flags[at(k)] == 1:
            squares.cells[at(target + k * n + me)] = number
        for s in range(n):
            kept += int64(squares.cells[at(target + k * n + s)] > 0)
    for copy in range(start, stop):
        flags[at(plan.dests[at(copy)])] = 0
    squares.count[at(new)] = kept
    squares.refs[at(new)] = 1
    squares.refs[at(old)] += stop - start
    squares.slab[at(message)] = old
    squares.own[at(me)] = new
    release(squares, reg, old)
    record(trace, reg, message, kept)


@helper
def merge(
    plan: Plan, squares: Squares, delivered: Small, flags: Small, reg: Ints, n: Int, variant: Int,
    me: Int, sender: Int, number: Int, message: Int,
) -> Int:  # fmt: skip
    """Do the delivery step: union, minus predecessors, minus what is known to be delivered."""
    other = int64(squares.slab[at(message)]) * n * n
    mine = int64(squares.own[at(me)]) * n * n
    new = renew(squares, reg, me)
    target = new * n * n
    pred = other + sender * n  # the message's direct predecessors
    known = (me * n + sender) * n
    for s in range(n):  # its sender has delivered them
        delivered[at(known + s)] = max(delivered[at(known + s)], squares.cells[at(pred + s)])
    for copy in range(plan.offsets[at(message)], plan.offsets[at(message + 1)]):
        flags[at(plan.dests[at(copy)])] = 1
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
        if k == sender:  # that set has another meaning on the message: not constraints on `sender`
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
    for copy in range(plan.offsets[at(message)], plan.offsets[at(message + 1)]):
        flags[at(plan.dests[at(copy)])] = 0
    squares.count[at(new)] = kept
    return kept


@entry
def run(
    plan: Plan, heap: Heap, trace: Trace, holding: Holding, squares: Squares, delivered: Small,
    flags: Small, reg: Ints, now: Floats, n: Int, variant: Int,
) -> Int:  # fmt: skip
    """Run until the end, or until an array must grow."""
    messages = len(plan.time)
    while True:
        if reg[HEAP] + reg[WIDEST] > len(heap.when) or reg[FREE] < 2:
            return GROW
        if reg[ORDER] >= reg[LIMIT]:
            return PAUSE
        if reg[READY] >= 0:
            copy = take_ready(holding, reg)
            dest = int64(plan.dests[at(copy)])
            message = int64(plan.message[at(copy)])
            sender = int64(plan.sender[at(message)])
            number = trace.number[at(message)]
            holding.reached[at(dest * n + sender)] = number
            trace.delivered[at(copy)] = now[0]
            kept = merge(
                plan, squares, delivered, flags, reg, n, variant, dest, sender, number, message
            )
            release(squares, reg, int64(squares.slab[at(message)]))
            record(trace, reg, messages + copy, kept)
            wake(plan, squares, holding, reg, n, 1, dest, sender)
            set_off(plan, heap, reg, now[0], copy)
            continue
        if reg[EVENT] < 0:
            reg[EVENT] = next_event(plan, heap, reg, now)
            if reg[EVENT] < 0:
                return DONE
        event = reg[EVENT]
        if event < messages:
            trace.sent[at(event)] = now[0]
            send(plan, squares, flags, trace, reg, n, variant, event)
            post_all(plan, heap, trace, reg, n, now[0], event)
        else:
            copy = event - messages
            arrive(holding, trace, reg, now[0], copy)
            if advance(plan, squares, holding, n, 1, int64(plan.dests[at(copy)]), copy):
                make_ready(holding, reg, copy)
        reg[EVENT] = NOTHING


def simulate(
    plan: Plan, n: int, prune: str = "direct", progress: Progress | None = None
) -> SquareState:
    """Run `direct` over a plan, pruning as its option says."""
    state = SquareState(plan, n)
    delivered = np.zeros(n * n * n, np.int32)
    flags = np.zeros(n, np.int32)
    drive(
        state,
        lambda: run(
            plan, state.heap, state.trace, state.holding, state.squares, delivered, flags,
            state.reg, state.now, n, VARIANTS[prune],
        ),
        progress,
    )  # fmt: skip
    return state
