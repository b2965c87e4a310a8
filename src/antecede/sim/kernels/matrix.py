"""The kernel of `matrix` [RST91]: n x n counters on every message.

The matrix is kept transposed (row = destination), so that the delivery test reads one row. A
message carries the matrix from before it counted the message itself. The sender's matrix after
that differs only in the cells of the message's destinations, so copies share the later matrix by a
reference count, and the test subtracts the message itself.
"""

from __future__ import annotations

from typing import NamedTuple

from antecede.sim.kernels.common import Copy, Core, post_all
from antecede.sim.kernels.compiling import Int, at, helper, int64
from antecede.sim.kernels.loop import Kernel, Steps, wake
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


class Matrix(NamedTuple):
    """The arrays of this kernel."""

    squares: Squares


@helper
def send(core: Core, own: Matrix, message: Int) -> Int:
    """Write the sender's next matrix; all copies share it."""
    plan, squares, n = core.plan, own.squares, core.n
    cells = n * n
    me = int64(plan.sender[at(message)])
    begin_send(plan, core.trace, squares, message)
    new = take_slab(squares, core.reg)
    copy_cells(squares.cells, new * cells, int64(squares.own[at(me)]) * cells, cells)
    for row in range(plan.offsets[at(message)], plan.offsets[at(message + 1)]):
        squares.cells[at(new * cells + int64(plan.dests[at(row)]) * n + me)] += 1
        core.trace.entries[at(row)] = cells
    squares.itself[at(message)] = 1
    end_send(plan, squares, core.reg, message, new, new)
    post_all(core, message)
    return cells


@helper
def deliver(core: Core, own: Matrix, copy: Copy) -> Int:
    """Merge both matrices: the maximum of each cell."""
    squares, cells = own.squares, core.n * core.n
    other = int64(squares.slab[at(copy.message)])
    core.holding.reached[at(copy.dest * core.n + copy.sender)] += 1
    mine = int64(squares.own[at(copy.dest)])
    new = renew(squares, core.reg, copy.dest)
    larger_cells(squares.cells, new * cells, mine * cells, other * cells, cells)
    release(squares, core.reg, other)
    return cells


KERNEL = Kernel(
    "matrix", SquareState, Matrix,
    Steps(send=send, deliver=deliver, is_ready=is_ready, after=wake, has_room=has_room),
)  # fmt: skip
