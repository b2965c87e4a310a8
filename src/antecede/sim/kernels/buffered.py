"""The kernel of `buffered` [MF95]: no control information, acknowledged output queues.

Each process has one output queue. The message at its head is on its way until the receiver's
acknowledgement is back; only then does the next one leave. Acknowledgements are added packets;
the slot of one is the process that waits for it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.sim.kernels.common import (
    ADDED,
    ORDER,
    Copy,
    Core,
    add_packet,
    append,
    post_all,
    slot_of,
)
from antecede.sim.kernels.compiling import Int, Small, at, helper, int64
from antecede.sim.kernels.loop import Kernel, State, Steps
from antecede.sim.plan import Plan
from antecede.sim.trace import NOTHING


class Queues(NamedTuple):
    """Output queues: linked lists of messages."""

    first: Small  # per process: the message on its way, or NOTHING
    last: Small  # per process: the message that entered last
    following: Small  # per message: the next in its queue
    sent: Small  # per process: messages sent
    counts: Small  # per channel: acknowledgements so far


@helper
def send(core: Core, queues: Queues, message: Int) -> Int:
    """Put a message into its sender's queue; if it is the first there, post it."""
    plan, trace = core.plan, core.trace
    me = int64(plan.sender[at(message)])
    queues.sent[at(me)] += 1
    trace.number[at(message)] = queues.sent[at(me)]
    if queues.first[at(me)] < 0:
        post_all(core, message)
    append(queues.first, queues.last, queues.following, me, message)
    return 0


@helper
def deliver(core: Core, queues: Queues, copy: Copy) -> Int:
    """Acknowledge a copy."""
    add_packet(core, queues.counts, copy.dest * core.n + copy.sender, copy.sender, 0)
    core.trace.added[at(core.reg[ORDER])] += 1
    return 0


@helper
def receive(core: Core, queues: Queues, event: Int) -> None:
    """Take in an acknowledgement: the next message of the queue leaves."""
    me = slot_of(core.plan, event)
    following = int64(queues.following[at(queues.first[at(me)])])
    queues.first[at(me)] = following
    if following >= 0:
        post_all(core, following)


class BufferedState(State):
    """The arrays of one run of this kernel."""

    def __init__(self, plan: Plan, n: int) -> None:
        super().__init__(plan, n)
        self.queues = Queues(
            first=np.full(n, NOTHING, np.int32),
            last=np.full(n, NOTHING, np.int32),
            following=np.full(len(plan.time), NOTHING, np.int32),
            sent=np.zeros(n, np.int32),
            counts=np.zeros(n * n, np.int32),
        )

    def own(self) -> Queues:
        """Return the arrays as they are now."""
        return self.queues

    def extras(self) -> dict[str, float | int]:
        """Return how many acknowledgements there were."""
        return {**super().extras(), "acknowledgements": int(self.reg[ADDED])}


KERNEL = Kernel(
    "buffered", BufferedState, Queues, Steps(send=send, deliver=deliver, receive=receive)
)
