"""The kernel of `permits`: messages are delivered in channel order, and leave by permit.

A message that is sent while permits are needed gets a row of them (processes and levels), which
its copies share until they leave. The copies to one destination are in a linked list, and only
the first is tested: permits never fall, so its test continues where it stopped.

State is kept only for pairs of processes that exchange messages, so very many processes fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.endpoint.messages import CLOCK_BYTES
from antecede.sim.kernels.acks import (
    Acks,
    Chains,
    accept,
    all_pairs,
    channel_of,
    drop_open,
    emit,
    enter,
    first_of,
    new_acks,
    new_chains,
    owe,
    packet_bytes,
    pair_of,
    raise_mark,
    used_pairs,
    with_slots,
)
from antecede.sim.kernels.common import (
    FREE,
    ORDER,
    PACKETS,
    WIDEST,
    Copy,
    Core,
    append,
    hold,
    post,
)
from antecede.sim.kernels.compiling import Int, Small, at, helper, int64, separate
from antecede.sim.kernels.loop import Kernel, State, Steps, grown, wake_pair
from antecede.sim.plan import Plan
from antecede.sim.trace import NOTHING

DENSE_MAX = 1 << 22
"""The most pairs of processes that all get a place, so that no search for a pair is needed."""


class Rows(NamedTuple):
    """The permits that messages in output queues were sent with; FREE counts the free rows."""

    who: Small  # row x width: the pairs whose permits are needed
    levels: Small  # row x width: the number up to which they are needed
    counts: Small  # per row: how many permits
    owners: Small  # per row: copies that have not left
    free: Small  # a stack
    row: Small  # per message: its row, or NOTHING
    place: Small  # per copy: where its test continues
    width: Int  # the most permits that a process can need


class Permits(NamedTuple):
    """The arrays of this kernel; a pair is a channel in use."""

    acks: Acks
    rows: Rows
    output: Chains  # per pair: copies that wait
    queued: Small  # per process: how many copies wait
    needs: Small  # per pair: the permit that is needed, or 0
    many: Small  # per process: how many permits are needed
    had: Small  # per pair: the permit received last
    places: Small  # per pair: copies that have left
    number: Small  # per copy: its place on the channel
    mark: Small  # per copy: its sender's mark when it left


@helper
def may_leave(core: Core, own: Permits, me: Int, copy: Int) -> Int:
    """Return whether every permit that a copy needs has arrived."""
    rows = own.rows
    row = int64(rows.row[at(core.plan.message[at(copy)])])
    if row < 0:
        return True
    start = row * rows.width
    channel = me * core.n + int64(core.plan.dests[at(copy)])
    for k in range(int64(rows.place[at(copy)]), int64(rows.counts[at(row)])):
        pair = int64(rows.who[at(start + k)])
        is_late = rows.levels[at(start + k)] > own.had[at(pair)]
        if is_late and channel_of(own.acks.pairs, pair) != channel:
            rows.place[at(copy)] = k
            return False
    rows.owners[at(row)] -= 1
    if rows.owners[at(row)] == 0:
        rows.free[at(core.reg[FREE])] = row
        core.reg[FREE] += 1
    return True


@separate
def post_due(core: Core, own: Permits, me: Int, pair: Int) -> None:
    """Post the copies to one destination, in order, up to the first that needs a permit."""
    plan, trace = core.plan, core.trace
    while True:
        copy = int64(own.output.first[at(pair)])
        if copy < 0 or not may_leave(core, own, me, copy):
            return
        own.output.first[at(pair)] = own.output.following[at(copy)]
        own.queued[at(me)] -= 1
        core.reg[WIDEST] -= 1
        own.places[at(pair)] += 1
        own.number[at(copy)] = own.places[at(pair)]
        own.mark[at(copy)] = own.acks.mark[at(me)]
        trace.entries[at(copy)] = 2
        post(plan, core.heap, trace, core.reg, core.n, core.now[0], copy)
        owe(own.acks, me, pair, copy, level_of(core, int64(plan.message[at(copy)])))


@helper
def level_of(core: Core, message: Int) -> Int:
    """Return the number of the sender's message up to which a receiver needs a permit."""
    offsets = core.plan.offsets
    alone = offsets[at(message + 1)] - offsets[at(message)] == 1
    return int64(core.trace.number[at(message)]) - int64(alone)


@helper
def hear(core: Core, own: Permits, me: Int, pair: Int, mark: Int) -> None:
    """Note a permit, and post the copies that waited for it."""
    if mark <= own.had[at(pair)]:
        return
    own.had[at(pair)] = mark
    if 0 < own.needs[at(pair)] <= mark:
        own.needs[at(pair)] = 0
        own.many[at(me)] -= 1
    if own.queued[at(me)] > 0:
        pairs, n = own.acks.pairs, core.n
        for each in range(first_of(pairs, n, me), first_of(pairs, n, me + 1)):
            post_due(core, own, me, each)


@helper
def kept(own: Permits, me: Int) -> Int:
    """Return how many permits a process needs or owes."""
    return int64(own.many[at(me)] + own.acks.debts[at(me)])


@helper
def take_row(core: Core, own: Permits, me: Int, message: Int, copies: Int) -> None:
    """Write the permits that a process now needs, if any, into a row for a message."""
    rows, n, reg = own.rows, core.n, core.reg
    rows.row[at(message)] = NOTHING
    if own.many[at(me)] > 0:
        reg[FREE] -= 1
        row = int64(rows.free[at(reg[FREE])])
        count = int64(0)
        for pair in range(first_of(own.acks.pairs, n, me), first_of(own.acks.pairs, n, me + 1)):
            if own.needs[at(pair)] > 0:
                rows.who[at(row * rows.width + count)] = pair
                rows.levels[at(row * rows.width + count)] = own.needs[at(pair)]
                count += 1
        rows.counts[at(row)] = count
        rows.owners[at(row)] = copies
        rows.row[at(message)] = row


@helper
def send(core: Core, own: Permits, message: Int) -> Int:
    """Put the copies of a message into the output queues, and post those that need not wait."""
    plan = core.plan
    me = int64(plan.sender[at(message)])
    enter(core, own.acks, me, message)
    start = plan.offsets[at(message)]
    stop = plan.offsets[at(message + 1)]
    take_row(core, own, me, message, stop - start)
    own.queued[at(me)] += stop - start
    core.reg[WIDEST] += stop - start
    for copy in range(start, stop):
        pair = pair_of(own.acks.pairs, me * core.n + int64(plan.dests[at(copy)]))
        append(own.output.first, own.output.last, own.output.following, pair, copy)
        post_due(core, own, me, pair)
    return kept(own, me)


@helper
def back_of(core: Core, own: Permits, copy: Copy) -> Int:
    """Return the pair from a copy's destination back to its sender."""
    return pair_of(own.acks.pairs, copy.dest * core.n + copy.sender)


@helper
def arrive(core: Core, own: Permits, copy: Copy) -> None:
    """Note the permit that a copy carries."""
    hear(core, own, copy.dest, back_of(core, own, copy), int64(own.mark[at(copy.row)]))


@helper
def is_ready(core: Core, own: Permits, copy: Copy) -> Int:
    """Return whether every earlier copy on the channel is delivered; if not, hold the copy."""
    pair = back_of(core, own, copy)
    before = int64(own.number[at(copy.row)]) - 1
    if core.holding.reached[at(pair)] == before:
        return True
    hold(core.holding, pair, copy.row, before)
    return False


@helper
def deliver(core: Core, own: Permits, copy: Copy) -> Int:
    """Acknowledge a copy; from now on its sender's permit is needed."""
    pair = back_of(core, own, copy)
    core.holding.reached[at(pair)] += 1
    level = level_of(core, copy.message)
    if level > own.had[at(pair)]:
        own.many[at(copy.dest)] += np.int32(own.needs[at(pair)] == 0)
        own.needs[at(pair)] = level
    number = int64(core.trace.number[at(copy.message)])
    emit(core, own.acks, pair, number, int64(NOTHING), 2 * CLOCK_BYTES, core.reg[ORDER])
    return kept(own, copy.dest)


@helper
def receive(core: Core, own: Permits, event: Int) -> None:
    """Handle an acknowledgement or a permit."""
    packets, n = own.acks.packets, core.n
    slot = accept(core, own.acks, event)
    channel = channel_of(own.acks.pairs, int64(packets.pair[at(slot)]))
    source, me = channel // n, channel % n
    number = packets.number[at(slot)]
    mark = int64(packets.mark[at(slot)])
    pair = pair_of(own.acks.pairs, me * n + source)
    if number > 0:
        drop_open(core, own.acks, pair, number)
        raise_mark(core, own.acks, me)
    hear(core, own, me, pair, mark)


@helper
def wake(core: Core, own: Permits, delivered: Copy) -> None:
    """Test again the copies that waited for the delivered one."""
    wake_pair(core, own, back_of(core, own, delivered))


@helper
def has_room(core: Core, _own: Permits, _event: Int) -> Int:
    """Return whether there is a row for a send, and slots for the packets of an event."""
    return core.reg[FREE] >= 1 and core.reg[PACKETS] >= core.n


class PermitsState(State):
    """The arrays of one run of this kernel."""

    def __init__(self, plan: Plan, n: int) -> None:
        pairs = all_pairs() if n * n <= DENSE_MAX else used_pairs(plan, n)
        count = len(pairs.channel) or n * n
        super().__init__(plan, n, pairs=count)
        messages, copies = len(plan.time), len(plan.dests)
        empty = np.zeros(0, np.int32)
        rows = Rows(
            who=empty,
            levels=empty,
            counts=empty,
            owners=empty,
            free=empty,
            row=np.zeros(messages, np.int32),
            place=np.zeros(copies, np.int32),
            width=_most_senders(plan, n),
        )
        self.permits = Permits(
            acks=new_acks(plan, n, pairs),
            rows=rows,
            output=new_chains(count, copies),
            queued=np.zeros(n, np.int32),
            needs=np.zeros(count, np.int32),
            many=np.zeros(n, np.int32),
            had=np.zeros(count, np.int32),
            places=np.zeros(count, np.int32),
            number=np.zeros(copies, np.int32),
            mark=np.zeros(copies, np.int32),
        )
        self.grow()

    def own(self, _kind: type) -> Permits:
        """Return the arrays as they are now."""
        return self.permits

    def grow(self) -> None:
        """Enlarge the arrays that may be too small."""
        super().grow()
        reg, n, own = self.reg, self.n, self.permits
        if reg[PACKETS] < n:
            have = len(own.acks.packets.pair)
            slots = max(2 * have, 4 * n + 64)
            own = own._replace(acks=with_slots(own.acks, int(reg[PACKETS]), slots))
            reg[PACKETS] += slots - have
        if reg[FREE] < 1:
            old, have = own.rows, len(own.rows.owners)
            many = max(2 * have, 2 * n + 64)
            rows = grown(
                old, int(reg[FREE]), many, who=old.width, levels=old.width, counts=1, owners=1
            )
            own = own._replace(rows=rows)
            reg[FREE] += many - have
        self.permits = own

    def bytes(self) -> int:
        """Return the memory of what grows with the messages in flight."""
        rows = self.permits.rows
        own = sum(array.nbytes for array in rows[:5])
        return super().bytes() + int(own) + packet_bytes(self.permits.acks)


def _most_senders(plan: Plan, n: int) -> int:
    """Return the largest number of processes that send to the same one."""
    channel = np.unique(plan.dests.astype(np.int64) * n + plan.sender[plan.message])
    return int(np.bincount(channel // n).max(initial=1)) if len(channel) else 1


KERNEL = Kernel(
    "permits", PermitsState, Permits,
    Steps(send=send, deliver=deliver, arrive=arrive, is_ready=is_ready, after=wake,
          receive=receive, has_room=has_room),
    posts_at_once=False,
    ahead=False,
    is_sparse=True,
)  # fmt: skip
