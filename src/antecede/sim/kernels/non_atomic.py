"""The kernel of `non_atomic`: the logs of `optimal`, but parts do not replace each other.

See `logs`. A copy to d carries the sender's new log, the entries that name d, and the messages set
aside for d. It waits for the latter two; once delivered, they mean no more than their absence. So
copies share the new log here too. The messages set aside are in a linked list per channel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.endpoint.messages import CLOCK_BYTES, ID_BYTES, PAIR_BYTES
from antecede.sim.kernels.common import FREE, NODES, WIDEST, Copy, Core, find_from, hold, post_all
from antecede.sim.kernels.compiling import Int, Small, at, helper, int64
from antecede.sim.kernels.exact import (
    Sent,
    basis_of,
    is_delivered,
    note_send,
    nothing_sent,
    wake_exactly,
)
from antecede.sim.kernels.keys import (
    CLOCK_MASK,
    END,
    SENDER_SHIFT,
    WORD_BITS,
    WORD_MASK,
    key_of,
)
from antecede.sim.kernels.log_steps import mark_destinations, merge, rewrite, take_over
from antecede.sim.kernels.logs import (
    OPTIMAL,
    SLABS,
    Constraints,
    Logs,
    LogState,
    Scratch,
    add_node,
    compact,
    constrain,
    free_node,
    release,
)
from antecede.sim.kernels.lookahead import merge_newest, take_slab
from antecede.sim.kernels.loop import Kernel, Steps
from antecede.sim.plan import Plan, Sizes
from antecede.sim.trace import NOTHING


class Aside(NamedTuple):
    """The open non-atomic event of each process, and the messages it has set aside."""

    start: Small  # per process: the last local event before it, or -1
    first: Small  # per process: the number of its first message
    heads: Small  # per channel: first message set aside for the destination
    many: Small  # per process: how many messages are set aside


class NonAtomic(NamedTuple):
    """The arrays of this kernel; the first five as in `logs`."""

    logs: Logs
    cons: Constraints
    scratch: Scratch
    size: Int
    mode: Int
    sent: Sent
    aside: Aside


@helper
def begin_event(core: Core, own: NonAtomic, me: Int, number: Int) -> None:
    """Begin a non-atomic event with a message, with nothing set aside."""
    aside = own.aside
    aside.start[at(me)] = own.sent.events[at(me)]
    aside.first[at(me)] = number
    if aside.many[at(me)] > 0:
        aside.many[at(me)] = 0
        for channel in range(me * core.n, me * core.n + core.n):
            node = int64(aside.heads[at(channel)])
            while node >= 0:
                node = free_node(own.cons, core.reg, node)
            aside.heads[at(channel)] = NOTHING


@helper
def is_in(cons: Constraints, node: Int, sender: Int, clock: Int) -> Int:
    """Return whether a list contains a message, from a node on."""
    while node >= 0:
        if cons.sender[at(node)] == sender and cons.clock[at(node)] == clock:
            return True
        node = int64(cons.following[at(node)])
    return False


@helper
def has_entry(logs: Logs, size: Int, slab: Int, sender: Int, clock: Int) -> Int:
    """Return whether a log has an entry for a message that names a destination."""
    wanted = key_of(sender, clock, 0)
    begin = slab * size
    found = find_from(logs.keys, begin, begin + int64(logs.count[at(slab)]), wanted)
    return logs.keys[at(found)] >> WORD_BITS == wanted >> WORD_BITS


@helper
def carry_aside(core: Core, own: NonAtomic, me: Int, row: Int, old: Int, new: Int) -> None:
    """Attach the messages set aside for a copy's destination; set aside those it replaces."""
    logs, cons, trace, reg, n = own.logs, own.cons, core.trace, core.reg, core.n
    channel = me * n + int64(core.plan.dests[at(row)])
    named = int64(cons.first[at(row)])
    head = int64(own.aside.heads[at(channel)])
    node = head
    while node >= 0:
        sender = int64(cons.sender[at(node)])
        clock = cons.clock[at(node)]
        if not is_in(cons, named, sender, clock):
            constrain(cons, reg, row, sender, clock)
            trace.destinations[at(row)] += 1
            if clock != logs.newest[at(old * n + sender)] and not has_entry(
                logs, own.size, new, sender, clock
            ):
                trace.entries[at(row)] += 1
        node = int64(cons.following[at(node)])
    while named >= 0:
        sender = int64(cons.sender[at(named)])
        clock = cons.clock[at(named)]
        if not is_in(cons, head, sender, clock):
            add_node(cons, reg, own.aside.heads, channel, sender, clock)
            own.aside.many[at(me)] += 1
        named = int64(cons.following[at(named)])


@helper
def send(core: Core, own: NonAtomic, message: Int) -> Int:
    """SND, but without replacing parts of the open event; all copies share the new log."""
    plan, logs, n, aside = core.plan, own.logs, core.n, own.aside
    me = int64(plan.sender[at(message)])
    number = int64(logs.clock[at(me)]) + 1
    logs.clock[at(me)] = number
    if basis_of(plan, int64(own.sent.events[at(me)]), message) > aside.start[at(me)]:
        begin_event(core, own, me, number)
    note_send(core, own.sent, me, number, message)
    mark_destinations(plan, own.cons, own.scratch, message)
    old = int64(logs.own[at(me)])
    new = take_slab(logs, core.reg)
    part = key_of(me, aside.first[at(me)], 0)
    tally = rewrite(own, core.trace, core.reg, n, me, number, new, part)
    kept = take_over(core, own, message, me, number, old, new, tally)
    for row in range(plan.offsets[at(message)], plan.offsets[at(message + 1)]):
        carry_aside(core, own, me, row, old, new)
    release(logs, core.reg, old)
    post_all(core, message)
    return kept + int64(aside.many[at(me)])


@helper
def is_ready(core: Core, own: NonAtomic, copy: Copy) -> Int:
    """Hold the copy for the first missing message that it names for its receiver."""
    cons = own.cons
    node = int64(cons.first[at(copy.row)])
    while node >= 0:
        sender = int64(cons.sender[at(node)])
        clock = int64(cons.clock[at(node)])
        if not is_delivered(core, own.sent, sender, clock, copy.dest):
            cons.first[at(copy.row)] = node
            hold(core.holding, copy.dest * core.n + sender, copy.row, clock)
            return False
        node = free_node(cons, core.reg, node)
    cons.first[at(copy.row)] = NOTHING
    return True


@helper
def drop_delivered(core: Core, own: NonAtomic, me: Int, slab: Int) -> Int:
    """Drop a process from entries it has delivered; return the number of entries left."""
    logs = own.logs
    bit = np.uint64(1) << np.uint64(me & 63)
    i = slab * own.size
    key = logs.keys[at(i)]
    while key != END:
        if key & WORD_MASK == me >> 6 and logs.words[at(i)] & bit != np.uint64(0):
            clock = (key >> WORD_BITS) & CLOCK_MASK
            if is_delivered(core, own.sent, key >> SENDER_SHIFT, clock, me):
                logs.words[at(i)] &= ~bit
        i += 1
        key = logs.keys[at(i)]
    return compact(logs, core.n, own.size, slab)


@helper
def deliver(core: Core, own: NonAtomic, copy: Copy) -> Int:
    """RCV(2) to RCV(5)."""
    logs, reg, n, me = own.logs, core.reg, core.n, copy.dest
    own.sent.events[at(me)] += 1
    mine = int64(logs.own[at(me)])
    other = int64(logs.slab[at(copy.message)])
    new = take_slab(logs, reg)
    known = merge_newest(logs, n, mine, other, new)
    own_key = key_of(copy.sender, core.trace.number[at(copy.message)], 0)
    merge(logs, core.trace, reg, n, own.size, 0, me, own_key, mine, other, new)
    entries = drop_delivered(core, own, me, new)
    logs.known[at(new)] = known
    logs.refs[at(new)] = 1
    logs.own[at(me)] = new
    release(logs, reg, mine)
    release(logs, reg, other)
    return known + entries + int64(own.aside.many[at(me)])


@helper
def has_room(core: Core, own: NonAtomic, event: Int) -> Int:
    """Return whether there are slabs, elements and nodes for an event."""
    plan, logs, reg = core.plan, own.logs, core.reg
    messages = len(plan.time)
    if reg[FREE] < SLABS:
        return False
    if event >= messages:
        row = event - messages
        mine = int64(logs.own[at(plan.dests[at(row)])])
        other = int64(logs.slab[at(plan.message[at(row)])])
        return logs.count[at(mine)] + logs.count[at(other)] + 2 <= own.size
    me = int64(plan.sender[at(event)])
    have = int64(logs.count[at(logs.own[at(me)])])
    many = plan.offsets[at(event + 1)] - plan.offsets[at(event)]
    nodes = 2 * have * min(many, 64) + own.aside.many[at(me)]
    return have + len(own.scratch.mask) + 1 <= own.size and reg[NODES] >= nodes


class NonAtomicState(LogState):
    """The arrays of one run of this kernel."""

    def __init__(self, plan: Plan, n: int) -> None:
        super().__init__(plan, n, mode=OPTIMAL)
        self.sent = nothing_sent(plan, n)
        self.aside = Aside(
            start=np.full(n, NOTHING, np.int32),
            first=np.zeros(n, np.int32),
            heads=np.full(n * n, NOTHING, np.int32),
            many=np.zeros(n, np.int32),
        )

    def grow(self) -> None:
        """Enlarge the arrays that may be too small."""
        super().grow()
        most = 2 * int(self.logs.count.max()) * min(int(self.reg[WIDEST]), 64)
        most += int(self.aside.many.max())
        if self.reg[NODES] < most:
            self._grow_nodes(len(self.cons.sender) + most)


def sizes(_n: int) -> Sizes:
    """Return the model bytes of an entry, a destination, and the first message's number."""
    return Sizes(PAIR_BYTES, ID_BYTES, CLOCK_BYTES)


KERNEL = Kernel(
    "non_atomic", NonAtomicState, NonAtomic,
    Steps(send=send, deliver=deliver, is_ready=is_ready, after=wake_exactly, has_room=has_room),
    sizes=sizes,
    ahead=False,
)  # fmt: skip
