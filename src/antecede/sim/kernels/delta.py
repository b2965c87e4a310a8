"""The kernel of `delta` [BMR96]: a time, and per process the time of its last message before that.

No process reads a clock in a simulation, so no message expires, and a message's time is one more
than the latest before it. `reached` is the time of the last message from each sender.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.sim.kernels.common import Copy, Core, post_all
from antecede.sim.kernels.compiling import Int, Small, at, helper, int64
from antecede.sim.kernels.loop import Kernel, Steps, wake
from antecede.sim.kernels.square import (
    Squares,
    SquareState,
    begin_send,
    end_send,
    has_room,
    is_vector_ready,
    release,
    take_slab,
)
from antecede.sim.plan import Plan
from antecede.sim.trace import NOTHING


class Delta(NamedTuple):
    """The arrays of this kernel."""

    squares: Squares
    stamp: Small  # per message: its time


@helper
def send(core: Core, own: Delta, message: Int) -> Int:
    """Write the times known so far, which the copies share, and give the message its time."""
    plan, squares, n = core.plan, own.squares, core.n
    me = int64(plan.sender[at(message)])
    begin_send(plan, core.trace, squares, message)
    new = take_slab(squares, core.reg)
    latest = int64(0)
    for k in range(n):
        before = int64(core.holding.reached[at(me * n + k)])
        squares.cells[at(new * n + k)] = before
        latest = max(latest, before)
    core.holding.reached[at(me * n + me)] = latest + 1
    own.stamp[at(message)] = latest + 1
    for row in range(plan.offsets[at(message)], plan.offsets[at(message + 1)]):
        core.trace.entries[at(row)] = n + 1
    end_send(plan, squares, core.reg, message, new, new)
    post_all(core, message)
    return int64(NOTHING)


@helper
def deliver(core: Core, own: Delta, copy: Copy) -> Int:
    """Note the message's time."""
    core.holding.reached[at(copy.dest * core.n + copy.sender)] = own.stamp[at(copy.message)]
    release(own.squares, core.reg, int64(own.squares.slab[at(copy.message)]))
    return int64(NOTHING)


class DeltaState(SquareState):
    """The arrays of one run of this kernel."""

    def __init__(self, plan: Plan, n: int) -> None:
        super().__init__(plan, n, width=n)
        self.stamp = np.zeros(len(plan.time), np.int32)


KERNEL = Kernel(
    "delta", DeltaState, Delta,
    Steps(send=send, deliver=deliver, is_ready=is_vector_ready, after=wake, has_room=has_room),
    ahead=False,
)  # fmt: skip
