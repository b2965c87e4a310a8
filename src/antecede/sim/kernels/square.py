"""What kernels with matrices or vectors share: slabs with reference counts, and the test of a copy.

A matrix does not change while anyone else reads it: messages in flight share their sender's by a
reference count. Row = destination, so the delivery test of a copy reads one row from the left,
and continues where it stopped. A slab may hold several matrices; the first is tested.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from antecede.sim.kernels.common import FREE, Copy, Core, hold
from antecede.sim.kernels.compiling import Int, Ints, Small, at, helper, int64, separate
from antecede.sim.kernels.loop import State, grown
from antecede.sim.plan import Plan
from antecede.sim.trace import Trace


class Squares(NamedTuple):
    """All matrices, and who owns which."""

    cells: Small  # per slab: one or more matrices (destination x sender), or one vector
    count: Small  # per slab: cells in use, where the protocol counts them
    refs: Small  # per slab: owners
    free: Small  # a stack of slabs without owner; FREE counts them
    own: Small  # per process
    sent: Small  # per process: messages sent
    slab: Small  # per message
    itself: Small  # per message: 1 where the matrix it shares counts the message, else 0
    place: Small  # per copy: where its test continues
    width: Int  # cells of a slab


@separate
def copy_cells(cells: Small, target: Int, source: Int, count: Int) -> None:
    """Copy `count` cells."""
    for i in range(count):
        cells[at(target + i)] = cells[at(source + i)]


@separate
def larger_cells(cells: Small, target: Int, a: Int, b: Int, count: Int) -> None:
    """Write the maximum of each two cells."""
    for i in range(count):
        cells[at(target + i)] = max(cells[at(a + i)], cells[at(b + i)])


@helper
def take_slab(squares: Squares, reg: Ints) -> Int:
    """Take a slab without owner."""
    reg[FREE] -= 1
    return int64(squares.free[at(reg[FREE])])


@helper
def release(squares: Squares, reg: Ints, slab: Int) -> None:
    """Drop one owner of a slab."""
    squares.refs[at(slab)] -= 1
    if squares.refs[at(slab)] == 0:
        squares.free[at(reg[FREE])] = slab
        reg[FREE] += 1


@helper
def renew(squares: Squares, reg: Ints, me: Int) -> Int:
    """Return a slab that only `me` reads: the current one, or a new one with undefined contents."""
    mine = int64(squares.own[at(me)])
    if squares.refs[at(mine)] == 1:
        return mine
    new = take_slab(squares, reg)
    squares.refs[at(new)] = 1
    squares.own[at(me)] = new
    release(squares, reg, mine)
    return new


@helper
def begin_send(plan: Plan, trace: Trace, squares: Squares, message: Int) -> Int:
    """Give a message its number, and reset the test of its copies; return the number."""
    me = int64(plan.sender[at(message)])
    squares.sent[at(me)] += 1
    number = squares.sent[at(me)]
    trace.number[at(message)] = number
    for row in range(plan.offsets[at(message)], plan.offsets[at(message + 1)]):
        squares.place[at(row)] = 0
    return number


@helper
def end_send(plan: Plan, squares: Squares, reg: Ints, message: Int, new: Int, shared: Int) -> None:
    """Give the sender its `new` slab, and the copies the `shared` one: the new or the old."""
    me = int64(plan.sender[at(message)])
    old = int64(squares.own[at(me)])
    squares.refs[at(new)] = 1
    squares.refs[at(shared)] += plan.offsets[at(message + 1)] - plan.offsets[at(message)]
    squares.slab[at(message)] = shared
    squares.own[at(me)] = new
    release(squares, reg, old)


@helper
def mark(plan: Plan, flags: Small, message: Int, value: Int) -> None:
    """Set the flag of every destination of a message."""
    for row in range(plan.offsets[at(message)], plan.offsets[at(message + 1)]):
        flags[at(plan.dests[at(row)])] = value


@helper
def is_ready(core: Core, own: Any, copy: Copy) -> Int:
    """Return whether a copy lacks no message; if it does, hold it for the first missing one."""
    row = int64(own.squares.slab[at(copy.message)]) * own.squares.width + copy.dest * core.n
    return is_reached(core, own.squares, copy, row)


@helper
def is_vector_ready(core: Core, own: Any, copy: Copy) -> Int:
    """Test a copy whose message carries one vector for all destinations."""
    row = int64(own.squares.slab[at(copy.message)]) * core.n
    return is_reached(core, own.squares, copy, row)


@helper
def is_reached(core: Core, squares: Squares, copy: Copy, row: Int) -> Int:
    """Test a copy against the n cells from `row`; hold it for the first cell not yet reached."""
    holding, n = core.holding, core.n
    itself = int64(squares.itself[at(copy.message)])
    for k in range(int64(squares.place[at(copy.row)]), n):
        need = int64(squares.cells[at(row + k)]) - (itself if k == copy.sender else 0)
        if need > holding.reached[at(copy.dest * n + k)]:
            squares.place[at(copy.row)] = k
            hold(holding, copy.dest * n + k, copy.row, need)
            return False
    return True


@helper
def has_room(core: Core, _own: Any, _event: Int) -> Int:
    """Return whether there are slabs for a send or a delivery."""
    return core.reg[FREE] >= 2


class SquareState(State):
    """The arrays of one run; a slab has `width` cells, n x n if `width` is 0."""

    def __init__(self, plan: Plan, n: int, width: int = 0) -> None:
        super().__init__(plan, n)
        slabs = 2 * n + 16
        width = width or n * n
        self.squares = Squares(
            cells=np.zeros(slabs * width, np.int32),
            count=np.zeros(slabs, np.int32),
            refs=np.concatenate([np.ones(n, np.int32), np.zeros(slabs - n, np.int32)]),
            free=np.zeros(slabs, np.int32),
            own=np.arange(n, dtype=np.int32),
            sent=np.zeros(n, np.int32),
            slab=np.zeros(len(plan.time), np.int32),
            itself=np.zeros(len(plan.time), np.int32),
            place=np.zeros(len(plan.dests), np.int32),
            width=width,
        )
        self.reg[FREE] = slabs - n
        self.squares.free[: slabs - n] = np.arange(slabs - 1, n - 1, -1)

    def grow(self) -> None:
        """Enlarge the arrays that may be too small."""
        super().grow()
        if self.reg[FREE] >= 2:
            return
        old, slabs, left = self.squares, len(self.squares.refs), int(self.reg[FREE])
        self.squares = grown(old, left, 2 * slabs, cells=old.width, count=1, refs=1)
        self.reg[FREE] = left + slabs

    def bytes(self) -> int:
        """Return the memory of what grows with the messages in flight."""
        return super().bytes() + int(self.squares.cells.nbytes)


class VectorState(SquareState):
    """The arrays of a kernel whose slabs have one vector each."""

    def __init__(self, plan: Plan, n: int) -> None:
        super().__init__(plan, n, width=n)
