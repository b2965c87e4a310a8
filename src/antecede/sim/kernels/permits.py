"""The kernel of `permits`: messages are delivered in channel order, and leave by permit.

A message that is sent while permits are needed takes a row of them along (level by process, 0 =
none); its copies share it until they leave. The copies to one destination are in a linked list,
and only the first is tested: permits never fall, so its test continues where it stopped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.endpoint.messages import CLOCK_BYTES
from antecede.sim.kernels.acks import (
    Acks,
    Chains,
    accept,
    drop_open,
    emit,
    enter,
    new_acks,
    new_chains,
    owe,
    packet_bytes,
    raise_mark,
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
from antecede.sim.kernels.loop import Kernel, State, Steps, longer, refilled, wake
from antecede.sim.plan import Plan
from antecede.sim.trace import NOTHING


class Rows(NamedTuple):
    """The permits that messages in output queues were sent with; FREE counts the free rows."""

    levels: Small  # row x process
    owners: Small  # per row: copies that have not left
    free: Small  # a stack
    row: Small  # per message: its row, or NOTHING
    place: Small  # per copy: where its test continues


class Permits(NamedTuple):
    """What this kernel works on; a pair is (process, other)."""

    acks: Acks
    rows: Rows
    output: Chains  # per channel: copies that wait
    queued: Small  # per process: how many
    needs: Small  # per pair: the permit that is needed, or 0
    many: Small  # per process: how many are needed
    had: Small  # per pair: the permit that was given
    places: Small  # per channel: copies that have left
    number: Small  # per copy: its place on the channel
    mark: Small  # per copy: its sender's mark when it left


@helper
def may_leave(core: Core, own: Permits, me: Int, copy: Int) -> Int:
    """Tell whether every permit has come that a copy needs."""
    rows, n = own.rows, core.n
    row = int64(rows.row[at(core.plan.message[at(copy)])])
    if row < 0:
        return True
    dest = int64(core.plan.dests[at(copy)])
    for k in range(int64(rows.place[at(copy)]), n):
        if k != dest and rows.levels[at(row * n + k)] > own.had[at(me * n + k)]:
            rows.place[at(copy)] = k
            return False
    rows.owners[at(row)] -= 1
    if rows.owners[at(row)] == 0:
        rows.free[at(core.reg[FREE])] = row
        core.reg[FREE] += 1
    return True


@separate
def post_due(core: Core, own: Permits, me: Int, channel: Int) -> None:
    """Let the copies to one destination leave, in order, that need no more permits."""
    plan, trace = core.plan, core.trace
    while True:
        copy = int64(own.output.first[at(channel)])
        if copy < 0 or not may_leave(core, own, me, copy):
            return
        own.output.first[at(channel)] = own.output.following[at(copy)]
        own.queued[at(me)] -= 1
        core.reg[WIDEST] -= 1
        own.places[at(channel)] += 1
        own.number[at(copy)] = own.places[at(channel)]
        own.mark[at(copy)] = own.acks.mark[at(me)]
        trace.entries[at(copy)] = 2
        post(plan, core.heap, trace, core.reg, core.n, core.now[0], copy)
        owe(own.acks, me, channel, copy, level_of(core, int64(plan.message[at(copy)])))


@helper
def level_of(core: Core, message: Int) -> Int:
    """Return up to which of the sender's messages a receiver needs a permit."""
    offsets = core.plan.offsets
    alone = offsets[at(message + 1)] - offsets[at(message)] == 1
    return int64(core.trace.number[at(message)]) - int64(alone)


@helper
def hear(core: Core, own: Permits, me: Int, source: Int, mark: Int) -> None:
    """Take a permit, and let go what waited for it."""
    pair = me * core.n + source
    if mark <= own.had[at(pair)]:
        return
    own.had[at(pair)] = mark
    if 0 < own.needs[at(pair)] <= mark:
        own.needs[at(pair)] = 0
        own.many[at(me)] -= 1
    if own.queued[at(me)] > 0:
        for channel in range(me * core.n, me * core.n + core.n):
            post_due(core, own, me, channel)


@helper
def kept(own: Permits, me: Int) -> Int:
    """Return how many permits a process needs or owes."""
    return int64(own.many[at(me)] + own.acks.debts[at(me)])


@helper
def take_row(core: Core, own: Permits, me: Int, message: Int, copies: Int) -> None:
    """Write down the permits that a process needs now, if any."""
    rows, n, reg = own.rows, core.n, core.reg
    rows.row[at(message)] = NOTHING
    if own.many[at(me)] > 0:
        reg[FREE] -= 1
        row = int64(rows.free[at(reg[FREE])])
        for k in range(n):
            rows.levels[at(row * n + k)] = own.needs[at(me * n + k)]
        rows.owners[at(row)] = copies
        rows.row[at(message)] = row


@helper
def send(core: Core, own: Permits, message: Int) -> Int:
    """Put the copies of a message into the output queues, and post what is due."""
    plan = core.plan
    me = int64(plan.sender[at(message)])
    enter(core, own.acks, me, message)
    start = plan.offsets[at(message)]
    stop = plan.offsets[at(message + 1)]
    take_row(core, own, me, message, stop - start)
    own.queued[at(me)] += stop - start
    core.reg[WIDEST] += stop - start
    for copy in range(start, stop):
        channel = me * core.n + int64(plan.dests[at(copy)])
        append(own.output.first, own.output.last, own.output.following, channel, copy)
        post_due(core, own, me, channel)
    return kept(own, me)


@helper
def arrive(core: Core, own: Permits, copy: Copy) -> None:
    """Take the permit that a copy carries."""
    hear(core, own, copy.dest, copy.sender, int64(own.mark[at(copy.row)]))


@helper
def is_ready(core: Core, own: Permits, copy: Copy) -> Int:
    """Tell whether every copy before it on the channel is delivered; if not, hold it."""
    pair = copy.dest * core.n + copy.sender
    before = int64(own.number[at(copy.row)]) - 1
    if core.holding.reached[at(pair)] == before:
        return True
    hold(core.holding, pair, copy.row, before)
    return False


@helper
def deliver(core: Core, own: Permits, copy: Copy) -> Int:
    """Acknowledge a copy; from now on its sender's permit is needed."""
    pair = copy.dest * core.n + copy.sender
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
    """Take in an acknowledgement or a permit."""
    packets, n = own.acks.packets, core.n
    slot = accept(core, own.acks, event)
    source = int64(packets.channel[at(slot)]) // n
    me = int64(packets.channel[at(slot)]) % n
    number = packets.number[at(slot)]
    mark = int64(packets.mark[at(slot)])
    if number > 0:
        drop_open(core, own.acks, me * n + source, number)
        raise_mark(core, own.acks, me)
    hear(core, own, me, source, mark)


@helper
def has_room(core: Core, _own: Permits, _event: Int) -> Int:
    """Tell whether there are a row for a send, and slots for the packets of an event."""
    return core.reg[FREE] >= 1 and core.reg[PACKETS] >= core.n


class PermitsState(State):
    """The arrays of one run of this kernel."""

    def __init__(self, plan: Plan, n: int) -> None:
        super().__init__(plan, n)
        messages, copies = len(plan.time), len(plan.dests)
        rows = Rows(
            levels=np.zeros(0, np.int32),
            owners=np.zeros(0, np.int32),
            free=np.zeros(0, np.int32),
            row=np.zeros(messages, np.int32),
            place=np.zeros(copies, np.int32),
        )
        self.permits = Permits(
            acks=new_acks(plan, n),
            rows=rows,
            output=new_chains(n * n, copies),
            queued=np.zeros(n, np.int32),
            needs=np.zeros(n * n, np.int32),
            many=np.zeros(n, np.int32),
            had=np.zeros(n * n, np.int32),
            places=np.zeros(n * n, np.int32),
            number=np.zeros(copies, np.int32),
            mark=np.zeros(copies, np.int32),
        )
        self.grow()

    def own(self) -> Permits:
        """Return the arrays as they are now."""
        return self.permits

    def grow(self) -> None:
        """Make larger whatever may be too small."""
        super().grow()
        reg, n, own = self.reg, self.n, self.permits
        if reg[PACKETS] < n:
            have = len(own.acks.packets.channel)
            slots = max(2 * have, 4 * n + 64)
            own = own._replace(acks=with_slots(own.acks, int(reg[PACKETS]), slots))
            reg[PACKETS] += slots - have
        if reg[FREE] < 1:
            old, have = own.rows, len(own.rows.owners)
            many = max(2 * have, 2 * n + 64)
            own = own._replace(
                rows=old._replace(
                    levels=longer(old.levels, many * n),
                    owners=longer(old.owners, many),
                    free=refilled(old.free, int(reg[FREE]), have, many),
                )
            )
            reg[FREE] += many - have
        self.permits = own

    def bytes(self) -> int:
        """Return the memory of what grows with the messages in flight."""
        rows = self.permits.rows
        own = rows.levels.nbytes + rows.owners.nbytes + rows.free.nbytes
        return super().bytes() + int(own) + packet_bytes(self.permits.acks)


KERNEL = Kernel(
    "permits", PermitsState, Permits,
    Steps(send=send, deliver=deliver, arrive=arrive, is_ready=is_ready, after=wake,
          receive=receive, has_room=has_room),
    posts_at_once=False,
    ahead=False,
)  # fmt: skip
