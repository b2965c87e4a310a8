"""Waiting for single messages, for protocols that deliver a channel's messages in any order.

A copy names the messages that it waits for by sender and number. A table maps these to the
message, and so to its copy, which may be delivered or not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.sim.kernels.common import Copy, Core, copy_at, make_ready
from antecede.sim.kernels.compiling import Int, Ints, Small, at, helper, int64
from antecede.sim.kernels.loop import Own, is_ready
from antecede.sim.plan import Plan
from antecede.sim.trace import NOTHING


class Sent(NamedTuple):
    """Messages by sender and number."""

    begin: Ints  # per sender: where its messages begin
    count: Small  # per sender: how many it has sent
    message: Small  # in the order they were sent
    events: Small  # per process: its sends and deliveries so far


@helper
def note_send(core: Core, sent: Sent, me: Int, number: Int, message: Int) -> None:
    """Note the number of a message, and a local event."""
    core.trace.number[at(message)] = number
    sent.count[at(me)] = number
    sent.message[at(sent.begin[at(me)] + number - 1)] = message
    sent.events[at(me)] += 1


@helper
def basis_of(plan: Plan, events: Int, message: Int) -> Int:
    """Return the number of the last local event that a message depends on, or 0."""
    rank = int64(plan.rank[at(message)])
    if rank < 0:
        return int64(events)
    return max(int64(0), events - rank + 1) if rank > 0 else int64(0)


@helper
def is_delivered(core: Core, sent: Sent, sender: Int, number: Int, dest: Int) -> Int:
    """Return whether a message that is addressed to a process is delivered there."""
    plan = core.plan
    message = int64(sent.message[at(sent.begin[at(sender)] + number - 1)])
    row = plan.offsets[at(message)]
    while plan.dests[at(row)] != dest:
        row += 1
    return not np.isnan(core.trace.delivered[at(row)])


@helper
def wake_exactly(core: Core, own: Own, delivered: Copy) -> None:
    """Test again the copies that waited for the message just delivered."""
    holding = core.holding
    pair = delivered.dest * core.n + delivered.sender
    number = core.trace.number[at(delivered.message)]
    row = int64(holding.heads[at(pair)])
    holding.heads[at(pair)] = NOTHING
    while row >= 0:
        following = int64(holding.link[at(row)])
        if holding.need[at(row)] != number:
            holding.link[at(row)] = holding.heads[at(pair)]
            holding.heads[at(pair)] = row
        elif is_ready(core, own, copy_at(core.plan, row)):
            make_ready(holding, core.reg, row)
        row = following


def nothing_sent(plan: Plan, n: int) -> Sent:
    """Return the table before anything is sent."""
    many = np.bincount(plan.sender, minlength=n)
    return Sent(
        begin=np.concatenate([[0], np.cumsum(many)[:-1]]).astype(np.int64),
        count=np.zeros(n, np.int32),
        message=np.zeros(len(plan.time), np.int32),
        events=np.zeros(n, np.int32),
    )
