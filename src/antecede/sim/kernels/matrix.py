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

from typing import NamedTuple

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
    Ints,
    Plan,
    Small,
    Trace,
    arrive,
    at,
    entry,
    helper,
    hold,
    make_ready,
    next_event,
    post_all,
    record,
    set_off,
    take_ready,
)
from antecede.sim.kernels.drive import Common, Progress, drive, longer


class Matrices(NamedTuple):
    """All matrices, and who owns which."""

    cells: Small  # slab x destination x sender
    refs: Small  # per slab: owners
    free: Small  # a stack of slabs without owner; FREE counts them
    own: Small  # per process
    sent: Small  # per process: messages sent
    slab: Small  # per message
    place: Small  # per copy: where its test goes on


@helper
def release(matrices: Matrices, reg: Ints, slab: int) -> None:
    """Drop one owner of a matrix."""
    matrices.refs[at(slab)] -= 1
    if matrices.refs[at(slab)] == 0:
        matrices.free[at(reg[FREE])] = slab
        reg[FREE] += 1


@helper
def advance(plan: Plan, matrices: Matrices, holding: Holding, n: int, dest: int, copy: int) -> bool:
    """Test what is missing; hold the copy for the first that is."""
    message = plan.message[at(copy)]
    row = (np.int64(matrices.slab[at(message)]) * n + dest) * n
    sender = np.int64(plan.sender[at(message)])
    for k in range(np.int64(matrices.place[at(copy)]), n):
        need = matrices.cells[at(row + k)] - np.int32(k == sender)
        if need > holding.reached[at(dest * n + k)]:
            matrices.place[at(copy)] = k
            hold(holding, dest * n + k, copy, need)
            return False
    return True


@helper
def wake(
    plan: Plan, matrices: Matrices, holding: Holding, reg: Ints, n: int, dest: int, sender: int
) -> None:
    """Look again at the copies that waited for a message of `sender`."""
    pair = dest * n + sender
    reached = holding.reached[at(pair)]
    copy = np.int64(holding.heads[at(pair)])
    holding.heads[at(pair)] = NOTHING
    while copy >= 0:
        following = np.int64(holding.link[at(copy)])
        if holding.need[at(copy)] > reached:
            holding.link[at(copy)] = holding.heads[at(pair)]
            holding.heads[at(pair)] = copy
        elif advance(plan, matrices, holding, n, dest, copy):
            make_ready(holding, reg, copy)
        copy = following


@helper
def send(plan: Plan, matrices: Matrices, trace: Trace, reg: Ints, n: int, message: int) -> None:
    """Write the sender's next matrix; all copies share it."""
    me = np.int64(plan.sender[at(message)])
    matrices.sent[at(me)] += 1
    trace.number[at(message)] = matrices.sent[at(me)]
    old = np.int64(matrices.own[at(me)])
    reg[FREE] -= 1
    new = np.int64(matrices.free[at(reg[FREE])])
    cells = n * n
    for i in range(cells):
        matrices.cells[at(new * cells + i)] = matrices.cells[at(old * cells + i)]
    start = plan.offsets[at(message)]
    stop = plan.offsets[at(message + 1)]
    for copy in range(start, stop):
        matrices.cells[at(new * cells + np.int64(plan.dests[at(copy)]) * n + me)] += 1
        matrices.place[at(copy)] = 0
        trace.entries[at(copy)] = cells
    matrices.refs[at(new)] = 1 + stop - start
    matrices.slab[at(message)] = new
    matrices.own[at(me)] = new
    release(matrices, reg, old)
    record(trace, reg, message, cells)


@helper
def merge(matrices: Matrices, reg: Ints, n: int, me: int, other: int) -> None:
    """Take the maximum of both matrices, in place where nobody else reads ours."""
    mine = np.int64(matrices.own[at(me)])
    cells = n * n
    if matrices.refs[at(mine)] == 1:
        new = mine
    else:
        reg[FREE] -= 1
        new = np.int64(matrices.free[at(reg[FREE])])
        matrices.refs[at(new)] = 1
        matrices.own[at(me)] = new
        release(matrices, reg, mine)
    for i in range(cells):
        matrices.cells[at(new * cells + i)] = max(
            matrices.cells[at(mine * cells + i)], matrices.cells[at(other * cells + i)]
        )


@entry
def run(
    plan: Plan, heap: Heap, trace: Trace, holding: Holding, matrices: Matrices,
    reg: Ints, now: Floats, n: int,
) -> int:  # fmt: skip
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
            other = np.int64(matrices.slab[at(message)])
            holding.reached[at(dest * n + sender)] += 1
            trace.delivered[at(copy)] = now[0]
            merge(matrices, reg, n, dest, other)
            release(matrices, reg, other)
            record(trace, reg, messages + copy, n * n)
            wake(plan, matrices, holding, reg, n, dest, sender)
            set_off(plan, heap, reg, now[0], copy)
            continue
        if reg[EVENT] < 0:
            reg[EVENT] = next_event(plan, heap, reg, now)
            if reg[EVENT] < 0:
                return DONE
        event = reg[EVENT]
        if event < messages:
            trace.sent[at(event)] = now[0]
            send(plan, matrices, trace, reg, n, event)
            post_all(plan, heap, trace, reg, n, now[0], event)
        else:
            copy = event - messages
            arrive(holding, trace, reg, now[0], copy)
            if advance(plan, matrices, holding, n, np.int64(plan.dests[at(copy)]), copy):
                make_ready(holding, reg, copy)
        reg[EVENT] = NOTHING


class State(Common):
    """The arrays of one run of this kernel."""

    def __init__(self, plan: Plan, n: int) -> None:
        super().__init__(plan, n)
        slabs = 2 * n + 16
        self.matrices = Matrices(
            cells=np.zeros(slabs * n * n, np.int32),
            refs=np.concatenate([np.ones(n, np.int32), np.zeros(slabs - n, np.int32)]),
            free=np.zeros(slabs, np.int32),
            own=np.arange(n, dtype=np.int32),
            sent=np.zeros(n, np.int32),
            slab=np.zeros(len(plan.time), np.int32),
            place=np.zeros(len(plan.dests), np.int32),
        )
        self.reg[FREE] = slabs - n
        self.matrices.free[: slabs - n] = np.arange(slabs - 1, n - 1, -1)

    def grow(self) -> None:
        """Make larger whatever may have been too small."""
        super().grow()
        if self.reg[FREE] >= 2:
            return
        old, slabs, have = self.matrices, len(self.matrices.refs), int(self.reg[FREE])
        more = 2 * slabs
        free = longer(old.free, more)
        free[: have + slabs] = np.concatenate([np.arange(more - 1, slabs - 1, -1), old.free[:have]])
        self.reg[FREE] = have + slabs
        self.matrices = old._replace(
            cells=longer(old.cells, more * self.n**2), refs=longer(old.refs, more), free=free
        )

    def bytes(self) -> int:
        """Return the memory of what grows with the messages in flight."""
        return super().bytes() + int(self.matrices.cells.nbytes)


def simulate(plan: Plan, n: int, progress: Progress | None = None) -> State:
    """Run `matrix` over a plan."""
    state = State(plan, n)
    drive(
        state,
        lambda: run(
            plan, state.heap, state.trace, state.holding, state.matrices, state.reg, state.now, n
        ),
        progress,
    )
    return state
