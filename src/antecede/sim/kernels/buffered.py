"""The kernel of `buffered` [MF95]: no control information, acknowledged output queues.

Each process has one output queue. The message at its head leaves when no acknowledgement is
awaited, or, if pipelined, none from another receiver. Acknowledgements are added packets; the slot
of one is the process that waits for it, or, if pipelined, the copy that it acknowledges.

Pipelined buffers handle the messages of a channel in order, and acknowledgements as they come.
An early packet waits in the list of its (receiver, sender) pair for the packet before it:
`reached` counts the packets handled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.errors import UsageError
from antecede.sim.kernels.common import (
    ADDED,
    ORDER,
    SLOT_BITS,
    WIDEST,
    Copy,
    Core,
    Heap,
    add_packet,
    append,
    copy_at,
    hold,
    make_ready,
    post_all,
    slot_of,
)
from antecede.sim.kernels.compiling import Int, Small, at, helper, int64
from antecede.sim.kernels.loop import Kernel, State, Steps
from antecede.sim.plan import Plan
from antecede.sim.trace import NOTHING


class Queues(NamedTuple):
    """Output queues: linked lists of messages."""

    first: Small  # per process: the message to leave next, or NOTHING
    last: Small  # per process: the message that entered last
    following: Small  # per message: the next in its queue
    sent: Small  # per process: messages sent
    receiver: Small  # per process: the destination of the last message that left
    awaited: Small  # per process: acknowledgements to come
    counts: Small  # per channel: acknowledgements so far
    packets: Small  # per channel: packets so far
    number: Small  # per copy: its number among the packets of its channel, if pipelined
    answer: Small  # per copy: the number of its acknowledgement
    pipelined: Int


@helper
def post_due(core: Core, queues: Queues, me: Int) -> None:
    """Post the messages that need not wait any longer, the oldest first."""
    plan = core.plan
    while queues.first[at(me)] >= 0:
        message = int64(queues.first[at(me)])
        row = plan.offsets[at(message)]
        dest = int64(plan.dests[at(row)])
        if queues.awaited[at(me)] > 0 and not (
            queues.pipelined and dest == queues.receiver[at(me)]
        ):
            return
        queues.first[at(me)] = queues.following[at(message)]
        queues.receiver[at(me)] = dest
        queues.awaited[at(me)] += 1
        if queues.pipelined:
            queues.packets[at(me * core.n + dest)] += 1
            queues.number[at(row)] = queues.packets[at(me * core.n + dest)]
        post_all(core, message)


@helper
def send(core: Core, queues: Queues, message: Int) -> Int:
    """Put a message into its sender's queue, and post the messages that need not wait."""
    me = int64(core.plan.sender[at(message)])
    queues.sent[at(me)] += 1
    core.trace.number[at(message)] = queues.sent[at(me)]
    append(queues.first, queues.last, queues.following, me, message)
    post_due(core, queues, me)
    return 0


@helper
def is_ready(core: Core, queues: Queues, copy: Copy) -> Int:
    """Return whether every packet before the copy on its channel was handled, if pipelined."""
    if not queues.pipelined:
        return True
    pair = copy.dest * core.n + copy.sender
    before = int64(queues.number[at(copy.row)]) - 1
    if core.holding.reached[at(pair)] == before:
        return True
    hold(core.holding, pair, copy.row, before)
    return False


@helper
def deliver(core: Core, queues: Queues, copy: Copy) -> Int:
    """Acknowledge a copy."""
    channel = copy.dest * core.n + copy.sender
    slot = copy.sender
    if queues.pipelined:
        core.holding.reached[at(channel)] += 1
        queues.packets[at(channel)] += 1
        queues.answer[at(copy.row)] = queues.packets[at(channel)]
        slot = copy.row
    add_packet(core, queues.counts, channel, channel, slot, 0)
    core.trace.added[at(core.reg[ORDER])] += 1
    return 0


@helper
def acknowledge(core: Core, queues: Queues, me: Int) -> None:
    """Count one acknowledgement, and post the messages that need not wait any longer."""
    queues.awaited[at(me)] -= 1
    post_due(core, queues, me)


@helper
def take_waiting(core: Core, pair: Int) -> Int:
    """Remove and return the waiting packet that is next on a channel (its copy), or NOTHING."""
    holding = core.holding
    previous = int64(NOTHING)
    row = int64(holding.heads[at(pair)])
    while row >= 0 and holding.need[at(row)] != holding.reached[at(pair)]:
        previous = row
        row = int64(holding.link[at(row)])
    if row >= 0:
        if previous < 0:
            holding.heads[at(pair)] = holding.link[at(row)]
        else:
            holding.link[at(previous)] = holding.link[at(row)]
    return row


@helper
def advance(core: Core, pair: Int) -> None:
    """Handle the packets that waited: count acknowledgements, and make a copy ready."""
    while True:
        row = take_waiting(core, pair)
        if row < 0:
            return
        waiting = copy_at(core.plan, row)
        if waiting.dest == pair // core.n:
            make_ready(core.holding, core.reg, row)
            return
        core.holding.reached[at(pair)] += 1


@helper
def after(core: Core, queues: Queues, delivered: Copy) -> None:
    """Handle the packets that waited for the copy on its channel."""
    if queues.pipelined:
        advance(core, delivered.dest * core.n + delivered.sender)


@helper
def receive(core: Core, queues: Queues, event: Int) -> None:
    """Handle an acknowledgement: at once, in any order, but it has a place on its channel."""
    slot = slot_of(core.plan, event)
    if not queues.pipelined:
        acknowledge(core, queues, slot)
        return
    acknowledged = copy_at(core.plan, slot)
    acknowledge(core, queues, acknowledged.sender)
    pair = acknowledged.sender * core.n + acknowledged.dest
    before = int64(queues.answer[at(slot)]) - 1
    if core.holding.reached[at(pair)] != before:
        hold(core.holding, pair, slot, before)
        return
    core.holding.reached[at(pair)] += 1
    advance(core, pair)


class BufferedState(State):
    """The arrays of one run of this kernel."""

    def __init__(self, plan: Plan, n: int, *, pipelined: bool = False) -> None:
        super().__init__(plan, n)
        copies = len(plan.dests) if pipelined else 0
        if copies >= 1 << SLOT_BITS:
            most = (1 << SLOT_BITS) - 1
            msg = f"{copies} messages: pipelined buffers run at most {most}; use engine='plain'"
            raise UsageError(msg)
        if pipelined:  # one acknowledgement may let a whole queue leave: its events have no bound
            size = int(self.reg[WIDEST]) + len(plan.time) + copies
            self.heap = Heap(np.empty(size), np.empty(size, np.int64))
        self.queues = Queues(
            first=np.full(n, NOTHING, np.int32),
            last=np.full(n, NOTHING, np.int32),
            following=np.full(len(plan.time), NOTHING, np.int32),
            sent=np.zeros(n, np.int32),
            receiver=np.full(n, NOTHING, np.int32),
            awaited=np.zeros(n, np.int32),
            counts=np.zeros(n * n, np.int32),
            packets=np.zeros(n * n if pipelined else 0, np.int32),
            number=np.zeros(copies, np.int32),
            answer=np.zeros(copies, np.int32),
            pipelined=int(pipelined),
        )

    def own(self, _kind: type) -> Queues:
        """Return the arrays as they are now."""
        return self.queues

    def extras(self) -> dict[str, float | int]:
        """Return the number of acknowledgements."""
        return {**super().extras(), "acknowledgements": int(self.reg[ADDED])}


KERNEL = Kernel(
    "buffered", BufferedState, Queues,
    Steps(send=send, deliver=deliver, is_ready=is_ready, after=after, receive=receive),
    options=frozenset({"pipelined"}),
    posts_at_once=False,
)  # fmt: skip
