"""The kernel of `acknowledged`: the logs of `optimal` without acknowledged messages; see `logs`.

A message known to be delivered everywhere is removed from a log: its elements, and the newest clock
of its sender unless that is newer. A process's own entries name only destinations that have not
acknowledged. Slabs are shared, so a change writes a new one, unless the slab has one owner. The
corrections in an acknowledgement use nodes of the lists by which copies wait.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.endpoint.messages import CLOCK_BYTES, ID_BYTES, PAIR_BYTES
from antecede.sim.kernels.acks import (
    Acks,
    accept,
    all_pairs,
    drop_open,
    emit,
    enter,
    new_acks,
    owe,
    packet_bytes,
    raise_mark,
    with_slots,
)
from antecede.sim.kernels.bits import lowest
from antecede.sim.kernels.common import (
    FREE,
    NODE,
    NODES,
    ORDER,
    PACKETS,
    WIDEST,
    Copy,
    Core,
    hold,
    post_all,
)
from antecede.sim.kernels.compiling import Int, Small, at, helper, int64, separate
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
    compact,
    free_node,
    release,
)
from antecede.sim.kernels.lookahead import merge_newest, take_slab
from antecede.sim.kernels.loop import Kernel, Steps, wake
from antecede.sim.plan import Plan, Sizes
from antecede.sim.trace import NOTHING


class Acknowledged(NamedTuple):
    """The arrays of this kernel; the first five as in `logs`."""

    logs: Logs
    cons: Constraints
    scratch: Scratch
    size: Int
    mode: Int
    acks: Acks
    stable: Small  # per (process, sender): messages up to it are known to be delivered everywhere
    mark: Small  # per message: its sender's mark
    next: Small  # per copy: the first in its list that it still waits for
    stale: Small  # scratch, per sender: whether a correction is due
    releases: Int


@helper
def send(core: Core, own: Acknowledged, message: Int) -> Int:
    """SND: write the sender's new log, which all copies share."""
    plan, n = core.plan, core.n
    me = int64(plan.sender[at(message)])
    clock = enter(core, own.acks, me, message)
    own.mark[at(message)] = own.acks.mark[at(me)]
    mark_destinations(plan, own.cons, own.scratch, message)
    old = int64(own.logs.own[at(me)])
    new = take_slab(own.logs, core.reg)
    tally = rewrite(own, core.trace, core.reg, n, me, clock, new, key_of(me, clock, 0))
    kept = take_over(core, own, message, me, clock, old, new, tally)
    release(own.logs, core.reg, old)
    for row in range(plan.offsets[at(message)], plan.offsets[at(message + 1)]):
        own.next[at(row)] = own.cons.first[at(row)]
        if own.releases:
            owe(own.acks, me, me * n + int64(plan.dests[at(row)]), row, clock)
    post_all(core, message)
    return kept


@helper
def is_ready(core: Core, own: Acknowledged, copy: Copy) -> Int:
    """RCV(1): hold the copy for the first missing message that its log names for the receiver."""
    node = int64(own.next[at(copy.row)])
    while node >= 0:
        pair = copy.dest * core.n + int64(own.cons.sender[at(node)])
        clock = own.cons.clock[at(node)]
        if clock > core.holding.reached[at(pair)]:
            own.next[at(copy.row)] = node
            hold(core.holding, pair, copy.row, clock)
            return False
        node = int64(own.cons.following[at(node)])
    own.next[at(copy.row)] = NOTHING
    return True


@helper
def find_stale(core: Core, own: Acknowledged, copy: Copy) -> None:
    """Mark the senders of messages that a copy names although they are delivered everywhere."""
    logs, n, reg = own.logs, core.n, core.reg
    other = int64(logs.slab[at(copy.message)])
    known = copy.dest * n
    for s in range(n):
        newest = logs.newest[at(other * n + s)]
        own.stale[at(s)] = np.int32(0 < newest <= own.stable[at(known + s)])
    i = other * own.size
    key = logs.keys[at(i)]
    while key != END:
        sender = key >> SENDER_SHIFT
        if (key >> WORD_BITS) & CLOCK_MASK <= own.stable[at(known + sender)]:
            own.stale[at(sender)] = 1
        i += 1
        key = logs.keys[at(i)]
    node = int64(own.cons.first[at(copy.row)])
    while node >= 0:
        sender = int64(own.cons.sender[at(node)])
        if own.cons.clock[at(node)] <= own.stable[at(known + sender)]:
            own.stale[at(sender)] = 1
        node = free_node(own.cons, reg, node)
    own.stale[at(copy.sender)] = 0
    own.stale[at(copy.dest)] = 0


@helper
def answer(core: Core, own: Acknowledged, copy: Copy) -> None:
    """Acknowledge a copy, with a correction for each marked sender."""
    reg, cons, n = core.reg, own.cons, core.n
    first = int64(NOTHING)
    pairs = 0
    for s in range(n):
        if own.stale[at(s)]:
            node = reg[NODE]
            reg[NODE] = int64(cons.following[at(node)])
            reg[NODES] -= 1
            cons.sender[at(node)] = s
            cons.clock[at(node)] = own.stable[at(copy.dest * n + s)]
            cons.following[at(node)] = first
            first = node
            pairs += 1
    control = 2 * CLOCK_BYTES + PAIR_BYTES * pairs
    number = int64(core.trace.number[at(copy.message)])
    emit(core, own.acks, copy.dest * n + copy.sender, number, first, control, reg[ORDER])


@helper
def first_open(core: Core, own: Acknowledged, channel: Int) -> Int:
    """Return the number of the first unacknowledged message of a channel."""
    row = int64(own.acks.open.first[at(channel)])
    if row < 0:
        return int64(CLOCK_MASK)
    return int64(core.trace.number[at(core.plan.message[at(row)])])


@separate
def purge(core: Core, own: Acknowledged, me: Int, source: Int, target: Int) -> Int:
    """Write a log without acknowledged messages; return how many entries it has.

    Source and target may be the same slab. The target already has the newest clocks.
    """
    logs, n, size = own.logs, core.n, own.size
    known = 0
    for s in range(n):
        if logs.newest[at(target * n + s)] <= own.stable[at(me * n + s)]:
            logs.newest[at(target * n + s)] = 0
        known += int64(logs.newest[at(target * n + s)] > 0)
    logs.known[at(target)] = known
    i = source * size
    j = target * size
    key = logs.keys[at(i)]
    while key != END:
        sender = key >> SENDER_SHIFT
        clock = (key >> WORD_BITS) & CLOCK_MASK
        word = logs.words[at(i)]
        if clock <= own.stable[at(me * n + sender)]:
            word = np.uint64(0)
        elif sender == me:
            left = word
            while left != np.uint64(0):
                bit = left & (~left + np.uint64(1))
                dest = ((key & WORD_MASK) << 6) + lowest(left)
                if clock < first_open(core, own, me * n + dest):
                    word &= ~bit
                left &= ~bit
        logs.keys[at(j)] = key
        logs.words[at(j)] = word
        i += 1
        j += 1
        key = logs.keys[at(i)]
    logs.keys[at(j)] = END
    return known + compact(logs, n, size, target)


@helper
def deliver(core: Core, own: Acknowledged, copy: Copy) -> Int:
    """RCV(2) to RCV(5), and the acknowledgement."""
    logs, reg, n, me = own.logs, core.reg, core.n, copy.dest
    clock = int64(core.trace.number[at(copy.message)])
    pair = me * n + copy.sender
    core.holding.reached[at(pair)] = clock  # RCV(2)
    find_stale(core, own, copy)
    own.stable[at(pair)] = max(own.stable[at(pair)], own.mark[at(copy.message)])
    mine = int64(logs.own[at(me)])
    other = int64(logs.slab[at(copy.message)])
    new = take_slab(logs, reg)
    merge_newest(logs, n, mine, other, new)
    own_key = key_of(copy.sender, clock, 0)
    merge(logs, core.trace, reg, n, own.size, 0, me, own_key, mine, other, new)
    kept = purge(core, own, me, new, new)
    logs.refs[at(new)] = 1
    logs.own[at(me)] = new
    release(logs, reg, mine)
    release(logs, reg, other)
    answer(core, own, copy)
    return kept


@helper
def learn(own: Acknowledged, pair: Int, mark: Int) -> None:
    """Note the number up to which a sender's messages are delivered everywhere."""
    own.stable[at(pair)] = max(own.stable[at(pair)], mark)


@helper
def receive(core: Core, own: Acknowledged, event: Int) -> None:
    """Take in an acknowledgement or a release."""
    logs, packets, n = own.logs, own.acks.packets, core.n
    slot = accept(core, own.acks, event)
    source = int64(packets.pair[at(slot)]) // n
    me = int64(packets.pair[at(slot)]) % n
    number = packets.number[at(slot)]
    learn(own, me * n + source, packets.mark[at(slot)])
    node = int64(packets.node[at(slot)])
    while node >= 0:
        learn(own, me * n + int64(own.cons.sender[at(node)]), own.cons.clock[at(node)])
        node = free_node(own.cons, core.reg, node)
    if number > 0:
        drop_open(core, own.acks, me * n + source, number)
        if raise_mark(core, own.acks, me):
            learn(own, me * n + me, own.acks.mark[at(me)])
    old = int64(logs.own[at(me)])
    new = old
    if logs.refs[at(old)] > 1:
        new = take_slab(logs, core.reg)
        for s in range(n):
            logs.newest[at(new * n + s)] = logs.newest[at(old * n + s)]
        logs.refs[at(new)] = 1
        logs.own[at(me)] = new
        release(logs, core.reg, old)
    purge(core, own, me, old, new)


@helper
def has_room(core: Core, own: Acknowledged, event: Int) -> Int:
    """Return whether there are slabs, elements, nodes and slots for an event."""
    plan, logs, reg, n = core.plan, own.logs, core.reg, core.n
    messages = len(plan.time)
    if reg[FREE] < SLABS or reg[PACKETS] < n or reg[NODES] < n:
        return False
    if event >= messages + len(plan.dests):
        return True
    if event >= messages:
        row = event - messages
        mine = int64(logs.own[at(plan.dests[at(row)])])
        other = int64(logs.slab[at(plan.message[at(row)])])
        return logs.count[at(mine)] + logs.count[at(other)] + 2 <= own.size
    have = int64(logs.count[at(logs.own[at(plan.sender[at(event)])])])
    many = plan.offsets[at(event + 1)] - plan.offsets[at(event)]
    need = have + len(own.scratch.mask) + 1
    return need <= own.size and reg[NODES] >= have * min(many, 64)


class AcknowledgedState(LogState):
    """The arrays of one run of this kernel."""

    def __init__(self, plan: Plan, n: int, *, releases: bool = True) -> None:
        super().__init__(plan, n, mode=OPTIMAL)
        self.releases = int(releases)
        self.acks = new_acks(plan, n, all_pairs())
        self.stable = np.zeros(n * n, np.int32)
        self.mark = np.zeros(len(plan.time), np.int32)
        self.next = np.full(len(plan.dests), NOTHING, np.int32)
        self.stale = np.zeros(n, np.int32)
        self.grow()

    def grow(self) -> None:
        """Enlarge the arrays that may be too small."""
        super().grow()
        have = len(self.acks.packets.pair)
        if self.reg[PACKETS] < self.n:
            slots = max(2 * have, 4 * self.n + 64)
            self.acks = with_slots(self.acks, int(self.reg[PACKETS]), slots)
            self.reg[PACKETS] += slots - have
        most = int(self.logs.count.max()) * min(int(self.reg[WIDEST]), 64)
        if self.reg[NODES] < most:
            self._grow_nodes(len(self.cons.sender) + most)

    def bytes(self) -> int:
        """Return the memory of what grows with the messages in flight."""
        return super().bytes() + packet_bytes(self.acks)


def sizes(_n: int) -> Sizes:
    """Return the model bytes of an entry, a destination, and the mark."""
    return Sizes(PAIR_BYTES, ID_BYTES, CLOCK_BYTES)


KERNEL = Kernel(
    "acknowledged", AcknowledgedState, Acknowledged,
    Steps(send=send, deliver=deliver, is_ready=is_ready, after=wake, receive=receive,
          has_room=has_room),
    options=frozenset({"releases"}),
    sizes=sizes,
    ahead=False,
)  # fmt: skip
