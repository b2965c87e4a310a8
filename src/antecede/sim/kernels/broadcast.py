"""The kernel of `broadcast` [BSS91] with one group of all: a vector of delivered broadcasts.

A process's vector counts the broadcasts delivered from every sender, and its own sends. A message
carries the vector that already counts the message; all its copies share that by a reference count,
and the test subtracts the message itself.
"""

from __future__ import annotations

from typing import NamedTuple

from antecede.sim.kernels.common import Copy, Core, post_all
from antecede.sim.kernels.compiling import Int, at, helper, int64
from antecede.sim.kernels.loop import Kernel, Steps, wake
from antecede.sim.kernels.square import (
    Squares,
    VectorState,
    begin_send,
    end_send,
    has_room,
    is_vector_ready,
    release,
    take_slab,
)
from antecede.sim.trace import NOTHING


class Broadcast(NamedTuple):
    """The arrays of this kernel."""

    squares: Squares


@helper
def send(core: Core, own: Broadcast, message: Int) -> Int:
    """Count the message, and write the vector that its copies share."""
    plan, squares, n = core.plan, own.squares, core.n
    me = int64(plan.sender[at(message)])
    core.holding.reached[at(me * n + me)] = begin_send(plan, core.trace, squares, message)
    new = take_slab(squares, core.reg)
    for k in range(n):
        squares.cells[at(new * n + k)] = core.holding.reached[at(me * n + k)]
    for row in range(plan.offsets[at(message)], plan.offsets[at(message + 1)]):
        core.trace.entries[at(row)] = n
    squares.itself[at(message)] = 1
    end_send(plan, squares, core.reg, message, new, new)
    post_all(core, message)
    return int64(NOTHING)


@helper
def deliver(core: Core, own: Broadcast, copy: Copy) -> Int:
    """Count the message; the receiver has already reached the rest of its vector."""
    core.holding.reached[at(copy.dest * core.n + copy.sender)] += 1
    release(own.squares, core.reg, int64(own.squares.slab[at(copy.message)]))
    return int64(NOTHING)


KERNEL = Kernel(
    "broadcast", VectorState, Broadcast,
    Steps(send=send, deliver=deliver, is_ready=is_vector_ready, after=wake, has_room=has_room),
)  # fmt: skip
