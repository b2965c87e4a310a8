"""The kernel of `semantic` [GK00]: two n x n matrices, of messages to follow and not to follow.

Plane 0 is SENT_PREV, plane 1 SENT_CONC, both transposed (row = destination). A copy carries them
as they were before step E7; it shares the sender's matrices from after it, and the test and the
merge subtract the message itself. DELIV counts the unbroken beginning of each channel; the copies
of a channel are linked in the order they were sent, so extending it is a walk along the list.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.sim.kernels.common import ORDER, Copy, Core, append, post_all
from antecede.sim.kernels.compiling import Int, Small, at, helper, int64, separate
from antecede.sim.kernels.exact import basis_of
from antecede.sim.kernels.loop import Kernel, Steps, wake
from antecede.sim.kernels.square import (
    Squares,
    SquareState,
    begin_send,
    copy_cells,
    end_send,
    has_room,
    is_ready,
    release,
    renew,
    take_slab,
)
from antecede.sim.plan import Plan
from antecede.sim.trace import NOTHING


class Memory(NamedTuple):
    """What a process remembers besides its matrices."""

    events: Small  # per process: its sends and deliveries so far
    covered: Small  # per process: MCV(e)[i]
    copies: Small  # per process: copies sent so far
    first: Small  # per process: its oldest send above `covered`, or NOTHING
    last: Small  # per process: the newest of these sends
    following: Small  # per message: the next of these sends
    event: Small  # per message: number of its send event
    total: Small  # per message: copies its sender had sent by then, including its own
    head: Small  # per channel: the first copy beyond the unbroken beginning, or NOTHING
    tail: Small  # per channel: the copy sent last, or NOTHING
    behind: Small  # per copy: the next on its channel


class Semantic(NamedTuple):
    """The arrays of this kernel."""

    squares: Squares
    memory: Memory
    column: Small  # scratch, per destination


@separate
def join(cells: Small, target: Int, source: Int, count: Int) -> None:
    """E2 to E5: the messages that need not be followed join those that must be."""
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
def depends(core: Core, memory: Memory, message: Int) -> Int:
    """Return whether a message depends on a local event that its sender has not covered."""
    me = int64(core.plan.sender[at(message)])
    basis = basis_of(core.plan, int64(memory.events[at(me)]), message)
    return basis > memory.covered[at(me)]


@helper
def send(core: Core, own: Semantic, message: Int) -> Int:
    """E1 to E7."""
    plan, squares, memory, n = core.plan, own.squares, own.memory, core.n
    me = int64(plan.sender[at(message)])
    cells = n * n
    begin_send(plan, core.trace, squares, message)
    dependent = depends(core, memory, message)
    memory.events[at(me)] += 1
    new = take_slab(squares, core.reg)
    source = 2 * int64(squares.own[at(me)]) * cells
    target = 2 * new * cells
    if dependent:
        join(squares.cells, target, source, cells)
    else:
        copy_cells(squares.cells, target, source, 2 * cells)
    plane = target if dependent else target + cells
    start = plan.offsets[at(message)]
    stop = plan.offsets[at(message + 1)]
    for row in range(start, stop):
        dest = int64(plan.dests[at(row)])
        squares.cells[at(plane + dest * n + me)] += 1
        core.trace.entries[at(row)] = 2 * cells
        append(memory.head, memory.tail, memory.behind, me * n + dest, row)
    memory.copies[at(me)] += stop - start
    if dependent:
        memory.covered[at(me)] = memory.events[at(me)]
        memory.first[at(me)] = NOTHING
    else:
        memory.event[at(message)] = memory.events[at(me)]
        memory.total[at(message)] = memory.copies[at(me)]
        append(memory.first, memory.last, memory.following, me, message)
    squares.itself[at(message)] = np.int32(dependent)
    end_send(plan, squares, core.reg, message, new, new)
    core.trace.noted[at(core.reg[ORDER])] = np.int32(dependent)
    post_all(core, message)
    return 2 * cells


@helper
def merge(core: Core, own: Semantic, copy: Copy) -> None:
    """R3, R5 to R8. PREV may already count the message, which is more than the copy carries."""
    plan, squares, column, n = core.plan, own.squares, own.column, core.n
    cells = n * n
    other = 2 * int64(squares.slab[at(copy.message)]) * cells
    mine = 2 * int64(squares.own[at(copy.dest)]) * cells
    itself = squares.itself[at(copy.message)]
    start = plan.offsets[at(copy.message)]
    stop = plan.offsets[at(copy.message + 1)]
    if itself == 1:
        for row in range(start, stop):
            cell = int64(plan.dests[at(row)]) * n + copy.sender
            column[at(row - start)] = max(
                squares.cells[at(mine + cell)], squares.cells[at(other + cell)] - itself
            )
    target = 2 * renew(squares, core.reg, copy.dest) * cells
    merge_planes(squares.cells, target, mine, other, cells)
    if itself == 1:
        for row in range(start, stop):
            cell = int64(plan.dests[at(row)]) * n + copy.sender
            less = squares.cells[at(target + cell)] - column[at(row - start)]
            squares.cells[at(target + cell)] -= less
            squares.cells[at(target + cells + cell)] += less


@helper
def cover(squares: Squares, memory: Memory, n: Int, me: Int) -> None:
    """Definition 5.3 for the process's own events: those that a peer's prefix covers."""
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
def deliver(core: Core, own: Semantic, copy: Copy) -> Int:
    """R3 to R8, except for the copies that R4 makes ready."""
    own.memory.events[at(copy.dest)] += 1
    merge(core, own, copy)
    release(own.squares, core.reg, int64(own.squares.slab[at(copy.message)]))
    cover(own.squares, own.memory, core.n, copy.dest)
    return 2 * core.n * core.n


@helper
def lengthen(core: Core, own: Semantic, copy: Copy) -> None:
    """R4: lengthen the unbroken beginning of the channel, and wake copies that waited for it."""
    memory, n = own.memory, core.n
    channel = copy.sender * n + copy.dest
    head = int64(memory.head[at(channel)])
    if head != copy.row:
        return
    while head >= 0 and not np.isnan(core.trace.delivered[at(head)]):
        core.holding.reached[at(copy.dest * n + copy.sender)] += 1
        head = int64(memory.behind[at(head)])
    memory.head[at(channel)] = head
    wake(core, own, copy)


class SemanticState(SquareState):
    """The arrays of one run of this kernel."""

    def __init__(self, plan: Plan, n: int) -> None:
        super().__init__(plan, n, width=2 * n * n)
        messages = len(plan.time)
        self.memory = Memory(
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
        self.column = np.zeros(n, np.int32)


KERNEL = Kernel(
    "semantic", SemanticState, Semantic,
    Steps(send=send, deliver=deliver, is_ready=is_ready, after=lengthen, has_room=has_room),
)  # fmt: skip
