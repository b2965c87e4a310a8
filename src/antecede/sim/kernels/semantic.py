"""The kernel of `semantic` [GK00]_: two n x n matrices, of what must and what need not be followed.

Plane 0 is SENT_PREV, plane 1 SENT_CONC, both transposed (row = destination). A copy carries them
as they were before step E7; it shares the sender's matrices after it, and the test and the merge
take the message itself off again. DELIV counts the unbroken beginning of each channel; the copies
of a channel are linked in the order they were sent, so that is a walk along the list.

References
----------
.. [GK00] P. Gambhire and A. D. Kshemkalyani. "Reducing false causality in causal message
   ordering". High Performance Computing, LNCS 1970, 2000.
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
    separate,
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


class Memory(NamedTuple):
    """What a process remembers beside its matrices."""

    events: Small  # per process: its sends and deliveries so far
    covered: Small  # per process: MCV(e)[i]
    copies: Small  # per process: copies sent so far
    first: Small  # per process: its oldest send above `covered`, or NOTHING
    last: Small  # per process: its newest
    following: Small  # per message: the next of these sends
    event: Small  # per message: number of its send event
    total: Small  # per message: copies its sender had sent then, its own included
    head: Small  # per channel: the first copy beyond the unbroken beginning, or NOTHING
    tail: Small  # per channel: the copy sent last, or NOTHING
    behind: Small  # per copy: the next on its channel


@separate
def join(cells: Small, target: Int, source: Int, count: Int) -> None:
    """E2 to E5: what need not be followed joins what must."""
    for i in range(count):
        value = cells[at(source + i)] + cells[at(source + count + i)]
        cells[at(target + i)] = value
        cells[at(target + count + i)] = 0


@separate
def merge_planes(cells: Small, target: Int, a: Int, b: Int, count: Int) -> None:
    """R5 to R8 for all cells."""
    for i in range(count):
        mine = cells[at(a + i)]
        theirs = cells[at(b + i)]
        known = max(mine + cells[at(a + count + i)], theirs + cells[at(b + count + i)])
        prev = max(mine, theirs)
        cells[at(target + i)] = prev
        cells[at(target + count + i)] = known - prev


@helper
def send(
    plan: Plan, squares: Squares, memory: Memory, trace: Trace, reg: Ints, n: Int, message: Int
) -> None:
    """E1 to E7."""
    me = int64(plan.sender[at(message)])
    squares.sent[at(me)] += 1
    trace.number[at(message)] = squares.sent[at(me)]
    rank = int64(plan.rank[at(message)])
    basis = int64(memory.events[at(me)])
    if rank >= 0:
        basis = max(0, basis - rank + 1) if rank > 0 else 0
    depends = basis > memory.covered[at(me)]
    memory.events[at(me)] += 1
    old = int64(squares.own[at(me)])
    new = take_slab(squares, reg)
    cells = n * n
    source = 2 * old * cells
    target = 2 * new * cells
    if depends:
        join(squares.cells, target, source, cells)
    else:
        for i in range(2 * cells):
            squares.cells[at(target + i)] = squares.cells[at(source + i)]
    start = plan.offsets[at(message)]
    stop = plan.offsets[at(message + 1)]
    plane = target if depends else target + cells
    for copy in range(start, stop):
        dest = int64(plan.dests[at(copy)])
        squares.cells[at(plane + dest * n + me)] += 1
        squares.place[at(copy)] = 0
        trace.entries[at(copy)] = 2 * cells
        channel = me * n + dest
        memory.behind[at(copy)] = NOTHING
        if memory.head[at(channel)] < 0:
            memory.head[at(channel)] = copy
        else:
            memory.behind[at(memory.tail[at(channel)])] = copy
        memory.tail[at(channel)] = copy
    memory.copies[at(me)] += stop - start
    if depends:
        memory.covered[at(me)] = memory.events[at(me)]
        memory.first[at(me)] = NOTHING
    else:
        memory.event[at(message)] = memory.events[at(me)]
        memory.total[at(message)] = memory.copies[at(me)]
        memory.following[at(message)] = NOTHING
        if memory.first[at(me)] < 0:
            memory.first[at(me)] = message
        else:
            memory.following[at(memory.last[at(me)])] = message
        memory.last[at(me)] = message
    squares.itself[at(message)] = np.int32(depends)
    squares.refs[at(new)] = 1 + stop - start
    squares.slab[at(message)] = new
    squares.own[at(me)] = new
    release(squares, reg, old)
    trace.noted[at(reg[ORDER])] = np.int32(depends)
    record(trace, reg, message, 2 * cells)


@helper
def merge(
    plan: Plan, squares: Squares, reg: Ints, column: Small, n: Int, me: Int, sender: Int,
    message: Int,
) -> None:  # fmt: skip
    """R3, R5 to R8. Where the message was counted in PREV, that is more than it carries."""
    cells = n * n
    other = 2 * int64(squares.slab[at(message)]) * cells
    mine = 2 * int64(squares.own[at(me)]) * cells
    itself = squares.itself[at(message)]
    start = plan.offsets[at(message)]
    stop = plan.offsets[at(message + 1)]
    if itself == 1:
        for copy in range(start, stop):
            cell = int64(plan.dests[at(copy)]) * n + sender
            column[at(copy - start)] = max(
                squares.cells[at(mine + cell)], squares.cells[at(other + cell)] - itself
            )
    target = 2 * renew(squares, reg, me) * cells
    merge_planes(squares.cells, target, mine, other, cells)
    if itself == 1:
        for copy in range(start, stop):
            cell = int64(plan.dests[at(copy)]) * n + sender
            less = squares.cells[at(target + cell)] - column[at(copy - start)]
            squares.cells[at(target + cell)] -= less
            squares.cells[at(target + cells + cell)] += less


@helper
def cover(squares: Squares, memory: Memory, n: Int, me: Int) -> None:
    """Definition 5.3 for the process's own events: those a peer's prefix covers."""
    own = 2 * int64(squares.own[at(me)]) * n * n
    copies = 0
    message = int64(memory.first[at(me)])
    if message < 0:
        return
    for dest in range(n):
        copies += int64(squares.cells[at(own + dest * n + me)])
    while message >= 0 and memory.total[at(message)] <= copies:
        memory.covered[at(me)] = memory.event[at(message)]
        message = int64(memory.following[at(message)])
    memory.first[at(me)] = message


@helper
def count(
    holding: Holding, memory: Memory, trace: Trace, n: Int, dest: Int, sender: Int, copy: Int
) -> Int:
    """R4: lengthen the unbroken beginning of the channel; tell whether it grew."""
    channel = sender * n + dest
    head = int64(memory.head[at(channel)])
    if head != copy:
        return False
    while head >= 0 and not np.isnan(trace.delivered[at(head)]):
        holding.reached[at(dest * n + sender)] += 1
        head = int64(memory.behind[at(head)])
    memory.head[at(channel)] = head
    return True


@entry
def run(
    plan: Plan, heap: Heap, trace: Trace, holding: Holding, squares: Squares, memory: Memory,
    column: Small, reg: Ints, now: Floats, n: Int,
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
            trace.delivered[at(copy)] = now[0]
            memory.events[at(dest)] += 1
            merge(plan, squares, reg, column, n, dest, sender, message)
            release(squares, reg, int64(squares.slab[at(message)]))
            cover(squares, memory, n, dest)
            record(trace, reg, messages + copy, 2 * n * n)
            if count(holding, memory, trace, n, dest, sender, copy):
                wake(plan, squares, holding, reg, n, 2, dest, sender)
            set_off(plan, heap, reg, now[0], copy)
            continue
        if reg[EVENT] < 0:
            reg[EVENT] = next_event(plan, heap, reg, now)
            if reg[EVENT] < 0:
                return DONE
        event = reg[EVENT]
        if event < messages:
            trace.sent[at(event)] = now[0]
            send(plan, squares, memory, trace, reg, n, event)
            post_all(plan, heap, trace, reg, n, now[0], event)
        else:
            copy = event - messages
            arrive(holding, trace, reg, now[0], copy)
            if advance(plan, squares, holding, n, 2, int64(plan.dests[at(copy)]), copy):
                make_ready(holding, reg, copy)
        reg[EVENT] = NOTHING


def simulate(plan: Plan, n: int, progress: Progress | None = None) -> SquareState:
    """Run `semantic` over a plan."""
    state = SquareState(plan, n, planes=2)
    messages = len(plan.time)
    memory = Memory(
        events=np.zeros(n, np.int32),
        covered=np.zeros(n, np.int32),
        copies=np.zeros(n, np.int32),
        first=np.full(n, NOTHING, np.int32),
        last=np.full(n, NOTHING, np.int32),
        following=np.full(messages, NOTHING, np.int32),
        event=np.zeros(messages, np.int32),
        total=np.zeros(messages, np.int32),
        head=np.full(n * n, NOTHING, np.int32),
        tail=np.full(n * n, NOTHING, np.int32),
        behind=np.full(len(plan.dests), NOTHING, np.int32),
    )
    column = np.zeros(n, np.int32)
    drive(
        state,
        lambda: run(
            plan, state.heap, state.trace, state.holding, state.squares, memory, column,
            state.reg, state.now, n,
        ),
        progress,
    )  # fmt: skip
    return state
