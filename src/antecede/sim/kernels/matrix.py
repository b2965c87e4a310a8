"""The kernel of `matrix` [RST91]_: n x n counters on every message.

The matrix is kept transposed (row = destination), so that the delivery test reads one row. A
message carries the matrix from before its own counting; the sender's matrix after it differs
only in the cells of the message's own destinations, so copies share that one by a reference
count and the test subtracts the message itself.

References
----------
.. [RST91] M. Raynal, A. Schiper and S. Toueg. "The causal ordering abstraction and a simple way
   to implement it". Information Processing Letters 39, 1991.
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
    Trace,
    arrive,
    at,
    entry,
    helper,
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
    copy_cells,
    larger_cells,
    release,
    renew,
    take_slab,
    wake,
)


@helper
def send(plan: Plan, squares: Squares, trace: Trace, reg: Ints, n: Int, message: Int) -> None:
    """Write the sender's next matrix; all copies share it."""
    me = np.int64(plan.sender[at(message)])
    squares.sent[at(me)] += 1
    trace.number[at(message)] = squares.sent[at(me)]
    old = np.int64(squares.own[at(me)])
    new = take_slab(squares, reg)
    cells = n * n
    copy_cells(squares.cells, new * cells, old * cells, cells)
    start = plan.offsets[at(message)]
    stop = plan.offsets[at(message + 1)]
    for copy in range(start, stop):
        squares.cells[at(new * cells + np.int64(plan.dests[at(copy)]) * n + me)] += 1
        squares.place[at(copy)] = 0
        trace.entries[at(copy)] = cells
    squares.refs[at(new)] = 1 + stop - start
    squares.slab[at(message)] = new
    squares.itself[at(message)] = 1
    squares.own[at(me)] = new
    release(squares, reg, old)
    record(trace, reg, message, cells)


@helper
def merge(squares: Squares, reg: Ints, n: Int, me: Int, other: Int) -> None:
    """Take the maximum of both matrices."""
    mine = np.int64(squares.own[at(me)])
    new = renew(squares, reg, me)
    cells = n * n
    larger_cells(squares.cells, new * cells, mine * cells, other * cells, cells)


@entry
def run(
    plan: Plan, heap: Heap, trace: Trace, holding: Holding, squares: Squares,
    reg: Ints, now: Floats, n: Int,
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
            dest = np.int64(plan.dests[at(copy)])
            message = np.int64(plan.message[at(copy)])
            sender = np.int64(plan.sender[at(message)])
            other = np.int64(squares.slab[at(message)])
            holding.reached[at(dest * n + sender)] += 1
            trace.delivered[at(copy)] = now[0]
            merge(squares, reg, n, dest, other)
            release(squares, reg, other)
            record(trace, reg, messages + copy, n * n)
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
            send(plan, squares, trace, reg, n, event)
            post_all(plan, heap, trace, reg, n, now[0], event)
        else:
            copy = event - messages
            arrive(holding, trace, reg, now[0], copy)
            if advance(plan, squares, holding, n, 1, np.int64(plan.dests[at(copy)]), copy):
                make_ready(holding, reg, copy)
        reg[EVENT] = NOTHING


def simulate(plan: Plan, n: int, progress: Progress | None = None) -> SquareState:
    """Run `matrix` over a plan."""
    state = SquareState(plan, n)
    drive(
        state,
        lambda: run(
            plan, state.heap, state.trace, state.holding, state.squares, state.reg, state.now, n
        ),
        progress,
    )
    return state
