"""The kernel of `buffered` [MF95]_: no control information, acknowledged output queues.

Each process has one output queue. The message at its head is on its way until its receiver's
acknowledgement is back; only then does the next one leave. Acknowledgements are added packets;
the slot of one is the process that waits for it.

References
----------
.. [MF95] F. Mattern and S. Fünfrocken. "A non-blocking lightweight implementation of causal order
   message delivery". Theory and Practice in Distributed Systems, LNCS 938, 1995.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.sim.kernels.common import (
    ADDED,
    DONE,
    GROW,
    HEAP,
    LIMIT,
    NOTHING,
    ORDER,
    PAUSE,
    WIDEST,
    Floats,
    Heap,
    Int,
    Ints,
    Plan,
    Small,
    Trace,
    add_packet,
    at,
    entry,
    next_event,
    post,
    record,
    set_off,
    slot_of,
)
from antecede.sim.kernels.drive import Common, Progress, drive


class Queues(NamedTuple):
    """Output queues: linked lists of messages."""

    first: Small  # per process: the message on its way, or NOTHING
    last: Small  # per process: the message that entered last
    following: Small  # per message: the next in its queue
    sent: Small  # per process: messages sent
    counts: Small  # per channel: acknowledgements so far


@entry
def run(
    plan: Plan, heap: Heap, trace: Trace, queues: Queues, reg: Ints, now: Floats, n: Int
) -> Int:
    """Run until the end, or until an array must grow."""
    messages = len(plan.time)
    copies = len(plan.dests)
    while True:
        if reg[HEAP] + reg[WIDEST] > len(heap.when):
            return GROW
        if reg[ORDER] >= reg[LIMIT]:
            return PAUSE
        event = next_event(plan, heap, reg, now)
        if event < 0:
            return DONE
        if event < messages:
            me = np.int64(plan.sender[at(event)])
            queues.sent[at(me)] += 1
            trace.number[at(event)] = queues.sent[at(me)]
            trace.sent[at(event)] = now[0]
            record(trace, reg, event, 0)
            queues.following[at(event)] = NOTHING
            if queues.first[at(me)] < 0:
                queues.first[at(me)] = event
                post(plan, heap, trace, reg, n, now[0], plan.offsets[at(event)])
            else:
                queues.following[at(queues.last[at(me)])] = event
            queues.last[at(me)] = event
        elif event < messages + copies:
            copy = event - messages
            sender = np.int64(plan.sender[at(plan.message[at(copy)])])
            trace.arrived[at(copy)] = now[0]
            trace.delivered[at(copy)] = now[0]
            record(trace, reg, event, 0)
            set_off(plan, heap, reg, now[0], copy)
            channel = np.int64(plan.dests[at(copy)]) * n + sender
            add_packet(plan, heap, reg, queues.counts, now[0], channel, sender)
            trace.added[at(reg[ORDER] - 1)] += 1
        else:
            me = slot_of(plan, event)
            following = np.int64(queues.following[at(queues.first[at(me)])])
            queues.first[at(me)] = following
            if following >= 0:
                post(plan, heap, trace, reg, n, now[0], plan.offsets[at(following)])


class State(Common):
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

    def extras(self) -> dict[str, float | int]:
        """Return how many acknowledgements there were."""
        return {**super().extras(), "acknowledgements": int(self.reg[ADDED])}


def simulate(plan: Plan, n: int, progress: Progress | None = None) -> State:
    """Run `buffered` over a plan of unicast messages."""
    state = State(plan, n)
    drive(
        state,
        lambda: run(plan, state.heap, state.trace, state.queues, state.reg, state.now, n),
        progress,
    )
    return state
