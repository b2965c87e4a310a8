"""What kernels with n x n matrices share: matrices that copies hold in common, and their tests.

A matrix is never changed while somebody else reads it: messages in flight share their sender's by
a reference count. Row = destination, so the delivery test of a copy reads one row from the left,
and goes on where it stopped. A slab may hold several matrices (`planes`); the first is tested.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.sim.kernels.common import (
    FREE,
    NOTHING,
    Holding,
    Int,
    Ints,
    Plan,
    Small,
    at,
    helper,
    hold,
    make_ready,
    separate,
)
from antecede.sim.kernels.drive import Common, longer


class Squares(NamedTuple):
    """All matrices, and who owns which."""

    cells: Small  # slab x plane x destination x sender
    count: Small  # per slab: cells in use, where the protocol counts them
    refs: Small  # per slab: owners
    free: Small  # a stack of slabs without owner; FREE counts them
    own: Small  # per process
    sent: Small  # per process: messages sent
    slab: Small  # per message
    itself: Small  # per message: 1 where the matrix it shares counts the message, else 0
    place: Small  # per copy: where its test goes on


@separate
def copy_cells(cells: Small, target: Int, source: Int, count: Int) -> None:
    """Copy `count` cells."""
    for i in range(count):
        cells[at(target + i)] = cells[at(source + i)]


@separate
def larger_cells(cells: Small, target: Int, a: Int, b: Int, count: Int) -> None:
    """Write the larger of each two cells."""
    for i in range(count):
        cells[at(target + i)] = max(cells[at(a + i)], cells[at(b + i)])


@helper
def take_slab(squares: Squares, reg: Ints) -> Int:
    """Take a slab without owner."""
    reg[FREE] -= 1
    return np.int64(squares.free[at(reg[FREE])])


@helper
def release(squares: Squares, reg: Ints, slab: Int) -> None:
    """Drop one owner of a slab."""
    squares.refs[at(slab)] -= 1
    if squares.refs[at(slab)] == 0:
        squares.free[at(reg[FREE])] = slab
        reg[FREE] += 1


@helper
def renew(squares: Squares, reg: Ints, me: Int) -> Int:
    """Return a slab that only `me` reads: its own, or a new one with undefined contents."""
    mine = np.int64(squares.own[at(me)])
    if squares.refs[at(mine)] == 1:
        return mine
    new = take_slab(squares, reg)
    squares.refs[at(new)] = 1
    squares.own[at(me)] = new
    release(squares, reg, mine)
    return new


@helper
def advance(
    plan: Plan, squares: Squares, holding: Holding, n: Int, planes: Int, dest: Int, copy: Int
) -> Int:
    """Test what is missing; hold the copy for the first that is."""
    message = plan.message[at(copy)]
    row = (np.int64(squares.slab[at(message)]) * planes * n + dest) * n
    sender = np.int64(plan.sender[at(message)])
    itself = np.int64(squares.itself[at(message)])
    for k in range(np.int64(squares.place[at(copy)]), n):
        need = np.int64(squares.cells[at(row + k)]) - (itself if k == sender else 0)
        if need > holding.reached[at(dest * n + k)]:
            squares.place[at(copy)] = k
            hold(holding, dest * n + k, copy, need)
            return False
    return True


@helper
def wake(
    plan: Plan, squares: Squares, holding: Holding, reg: Ints, n: Int, planes: Int,
    dest: Int, sender: Int,
) -> None:  # fmt: skip
    """Look again at the copies that waited for messages of `sender`."""
    pair = dest * n + sender
    reached = holding.reached[at(pair)]
    copy = np.int64(holding.heads[at(pair)])
    holding.heads[at(pair)] = NOTHING
    while copy >= 0:
        following = np.int64(holding.link[at(copy)])
        if holding.need[at(copy)] > reached:
            holding.link[at(copy)] = holding.heads[at(pair)]
            holding.heads[at(pair)] = copy
        elif advance(plan, squares, holding, n, planes, dest, copy):
            make_ready(holding, reg, copy)
        copy = following


class SquareState(Common):
    """The arrays of one run of a kernel with n x n matrices."""

    def __init__(self, plan: Plan, n: int, planes: int = 1) -> None:
        super().__init__(plan, n)
        slabs = 2 * n + 16
        self.planes = planes
        self.squares = Squares(
            cells=np.zeros(slabs * planes * n * n, np.int32),
            count=np.zeros(slabs, np.int32),
            refs=np.concatenate([np.ones(n, np.int32), np.zeros(slabs - n, np.int32)]),
            free=np.zeros(slabs, np.int32),
            own=np.arange(n, dtype=np.int32),
            sent=np.zeros(n, np.int32),
            slab=np.zeros(len(plan.time), np.int32),
            itself=np.zeros(len(plan.time), np.int32),
            place=np.zeros(len(plan.dests), np.int32),
        )
        self.reg[FREE] = slabs - n
        self.squares.free[: slabs - n] = np.arange(slabs - 1, n - 1, -1)

    def grow(self) -> None:
        """Make larger whatever may have been too small."""
        super().grow()
        if self.reg[FREE] >= 2:
            return
        old, slabs, have = self.squares, len(self.squares.refs), int(self.reg[FREE])
        more = 2 * slabs
        free = longer(old.free, more)
        fresh = np.arange(more - 1, slabs - 1, -1)
        free[: have + slabs] = np.concatenate([fresh, old.free[:have]])
        self.reg[FREE] = have + slabs
        self.squares = old._replace(
            cells=longer(old.cells, more * self.planes * self.n**2),
            count=longer(old.count, more),
            refs=longer(old.refs, more),
            free=free,
        )

    def bytes(self) -> int:
        """Return the memory of what grows with the messages in flight."""
        return super().bytes() + int(self.squares.cells.nbytes)
