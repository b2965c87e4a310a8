"""The kernel of `vectors` [SES89]: a vector clock, and one vector per destination.

The table of a process is one n x n matrix: row d is the latest vector time of a message to d, or
zero if none is known. A process's clock is its `reached`, against which copies are tested. Its
table needs no row for itself, so the sender's row in the matrix that copies share is free: it
holds the message's own vector time.
"""

from __future__ import annotations

from typing import NamedTuple

from antecede.endpoint.messages import CLOCK_BYTES, ID_BYTES
from antecede.sim.kernels.common import Copy, Core, Holding, post_all
from antecede.sim.kernels.compiling import Int, Small, at, helper, int64
from antecede.sim.kernels.loop import Kernel, Steps, wake_pair
from antecede.sim.kernels.square import (
    Squares,
    SquareState,
    begin_send,
    copy_cells,
    end_send,
    has_room,
    is_ready,
    larger_cells,
    release,
    renew,
    take_slab,
)
from antecede.sim.plan import Sizes
from antecede.sim.trace import NOTHING


class Vectors(NamedTuple):
    """The arrays of this kernel."""

    squares: Squares


@helper
def rows_known(cells: Small, begin: Int, n: Int, me: Int) -> Int:
    """Count the rows of a table that are not zero, except the sender's."""
    known = 0
    for row in range(n):
        k = 0 if row != me else n
        while k < n and cells[at(begin + row * n + k)] == 0:
            k += 1
        known += int64(k < n)
    return known


@helper
def send(core: Core, own: Vectors, message: Int) -> Int:
    """Tick; attach the clock and the old table, then enter the clock for all destinations."""
    plan, squares, holding, n = core.plan, own.squares, core.holding, core.n
    me = int64(plan.sender[at(message)])
    begin_send(plan, core.trace, squares, message)
    holding.reached[at(me * n + me)] += 1
    old = int64(squares.own[at(me)])
    shared = renew(squares, core.reg, me)
    if shared != old:
        copy_cells(squares.cells, shared * n * n, old * n * n, n * n)
    clock = (shared * n + me) * n
    for k in range(n):
        squares.cells[at(clock + k)] = holding.reached[at(me * n + k)]
    entries = 1 + rows_known(squares.cells, shared * n * n, n, me)
    new = take_slab(squares, core.reg)
    copy_cells(squares.cells, new * n * n, shared * n * n, n * n)
    for row in range(plan.offsets[at(message)], plan.offsets[at(message + 1)]):
        target = (new * n + int64(plan.dests[at(row)])) * n
        copy_cells(squares.cells, target, clock, n)
        core.trace.entries[at(row)] = entries
    end_send(plan, squares, core.reg, message, new, shared)
    post_all(core, message)
    return int64(NOTHING)


@helper
def larger_rows(squares: Squares, n: Int, new: Int, mine: Int, other: Int, rows: Copy) -> None:
    """Write the maximum of both tables, without the rows of a copy's sender and receiver."""
    low = min(rows.sender, rows.dest)
    high = max(rows.sender, rows.dest)
    begin = 0
    for end in (low, high, n):
        start = begin * n
        a, b, c = mine * n * n + start, other * n * n + start, new * n * n + start
        larger_cells(squares.cells, c, a, b, (end - begin) * n)
        begin = end + 1


@helper
def tick(holding: Holding, cells: Small, stamp: Int, n: Int, me: Int) -> None:
    """Take the maximum of both clocks, and tick."""
    for k in range(n):
        level = cells[at(stamp + k)]
        holding.reached[at(me * n + k)] = max(holding.reached[at(me * n + k)], level)
    holding.reached[at(me * n + me)] += 1


@helper
def deliver(core: Core, own: Vectors, copy: Copy) -> Int:
    """Merge the tables, enter the message for its other destinations, and merge the clocks."""
    plan, squares, n, me = core.plan, own.squares, core.n, copy.dest
    other = int64(squares.slab[at(copy.message)])
    mine = int64(squares.own[at(me)])
    new = renew(squares, core.reg, me)
    larger_rows(squares, n, new, mine, other, copy)
    if new != mine:
        for row in (copy.sender, me):
            start = row * n
            copy_cells(squares.cells, new * n * n + start, mine * n * n + start, n)
    stamp = (other * n + copy.sender) * n
    for row in range(plan.offsets[at(copy.message)], plan.offsets[at(copy.message + 1)]):
        dest = int64(plan.dests[at(row)])
        if dest != me:
            target = (new * n + dest) * n
            larger_cells(squares.cells, target, target, stamp, n)
    tick(core.holding, squares.cells, stamp, n, me)
    release(squares, core.reg, other)
    return int64(NOTHING)


@helper
def wake_all(core: Core, own: Vectors, delivered: Copy) -> None:
    """Test again the copies that waited for any clock: a delivery may raise all of them."""
    for k in range(core.n):
        wake_pair(core, own, delivered.dest * core.n + k)


def sizes(n: int) -> Sizes:
    """Return the model bytes: a vector and an id per entry; the message's own vector has no id."""
    return Sizes(entry=CLOCK_BYTES * n + ID_BYTES, rest=-ID_BYTES)


KERNEL = Kernel(
    "vectors", SquareState, Vectors,
    Steps(send=send, deliver=deliver, is_ready=is_ready, after=wake_all, has_room=has_room),
    sizes=sizes,
)  # fmt: skip
