"""Which of its messages a process knows to be acknowledged, and the packets that report this.

`acknowledged` and `permits` share this. A process's *mark* is the number up to which all its
messages are acknowledged by all their destinations. When it rises, a packet reports it to each
destination that is owed that mark. So every mark that is still owed is above the current one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.endpoint.messages import CLOCK_BYTES
from antecede.sim.kernels.common import ORDER, PACKETS, Core, add_packet, append, find_from, slot_of
from antecede.sim.kernels.compiling import Int, Ints, Small, at, helper, int64, separate
from antecede.sim.kernels.loop import grown
from antecede.sim.plan import Plan
from antecede.sim.trace import NOTHING


class Pairs(NamedTuple):
    """The channels in use, in order; a *pair* is a place among them.

    If both arrays are empty, all n * n are in use, and a pair is its channel.
    """

    channel: Ints  # per pair: source * n + destination, ascending
    start: Ints  # per process: its first pair, and the end of the last


class Chains(NamedTuple):
    """Linked lists, each with the oldest item first."""

    first: Small  # per list: its first item, or NOTHING
    last: Small  # per list
    following: Small  # per item


class Packets(NamedTuple):
    """Added packets under way; PACKETS counts the free slots."""

    pair: Small  # per slot
    number: Small  # per slot: the message that is acknowledged, or 0 for a mark alone
    mark: Small  # per slot: its source's mark
    node: Small  # per slot: further contents, known to the kernel, or NOTHING
    free: Small  # a stack
    counts: Small  # per pair: packets so far


class Acks(NamedTuple):
    """Which messages are acknowledged, and which destinations must still learn of it."""

    sent: Small  # per process: messages sent
    mark: Small  # per process
    debts: Small  # per process: copies in its `owed` lists
    awaited: Small  # per message: acknowledgements to come
    own: Chains  # per process: its messages that are not acknowledged by all
    open: Chains  # per pair: copies that are not acknowledged
    owed: Chains  # per pair: copies whose destination must hear of a mark
    level: Small  # per copy: of which mark
    packets: Packets
    pairs: Pairs


@helper
def pair_of(pairs: Pairs, channel: Int) -> Int:
    """Return the pair of a channel that is in use."""
    if len(pairs.channel) == 0:
        return channel
    return find_from(pairs.channel, int64(0), int64(len(pairs.channel)), channel)


@helper
def channel_of(pairs: Pairs, pair: Int) -> Int:
    """Return the channel of a pair."""
    if len(pairs.channel) == 0:
        return int64(pair)
    return int64(pairs.channel[at(pair)])


@helper
def first_of(pairs: Pairs, n: Int, process: Int) -> Int:
    """Return the first pair of a process; its pairs are ordered by destination."""
    if len(pairs.channel) == 0:
        return process * n
    return int64(pairs.start[at(process)])


@helper
def enter(core: Core, acks: Acks, me: Int, message: Int) -> Int:
    """Give a message its number, and expect an acknowledgement per copy; return the number."""
    plan = core.plan
    acks.sent[at(me)] += 1
    number = acks.sent[at(me)]
    core.trace.number[at(message)] = number
    start = plan.offsets[at(message)]
    stop = plan.offsets[at(message + 1)]
    acks.awaited[at(message)] = stop - start
    append(acks.own.first, acks.own.last, acks.own.following, me, message)
    for row in range(start, stop):
        pair = pair_of(acks.pairs, me * core.n + int64(plan.dests[at(row)]))
        append(acks.open.first, acks.open.last, acks.open.following, pair, row)
    return int64(number)


@helper
def owe(acks: Acks, me: Int, pair: Int, row: Int, level: Int) -> None:
    """Note that a copy's destination must hear when the mark reaches `level`, unless it has."""
    if level > acks.mark[at(me)]:
        acks.level[at(row)] = level
        append(acks.owed.first, acks.owed.last, acks.owed.following, pair, row)
        acks.debts[at(me)] += 1


@separate
def emit(
    core: Core, acks: Acks, pair: Int, number: Int, node: Int, control: Int, place: Int
) -> None:
    """Send a packet with the sender's mark; `place` is the event at which to count it."""
    packets, reg = acks.packets, core.reg
    reg[PACKETS] -= 1
    slot = int64(packets.free[at(reg[PACKETS])])
    channel = channel_of(acks.pairs, pair)
    packets.pair[at(slot)] = pair
    packets.number[at(slot)] = number
    packets.mark[at(slot)] = acks.mark[at(channel // core.n)]
    packets.node[at(slot)] = node
    add_packet(core, packets.counts, pair, channel, slot, control)
    core.trace.added[at(place)] += 1
    core.trace.added_bytes[at(place)] += control


@helper
def accept(core: Core, acks: Acks, event: Int) -> Int:
    """Receive a packet; return its slot, which is free from now on."""
    slot = slot_of(core.plan, event)
    acks.packets.free[at(core.reg[PACKETS])] = slot
    core.reg[PACKETS] += 1
    return slot


@helper
def drop_open(core: Core, acks: Acks, pair: Int, number: Int) -> None:
    """Note that the messages of a pair are acknowledged up to a number."""
    row = int64(acks.open.first[at(pair)])
    while row >= 0:
        message = int64(core.plan.message[at(row)])
        if core.trace.number[at(message)] > number:
            break
        acks.awaited[at(message)] -= 1
        row = int64(acks.open.following[at(row)])
    acks.open.first[at(pair)] = row


@separate
def raise_mark(core: Core, acks: Acks, me: Int) -> Int:
    """Raise a process's mark and report it to those who are owed it; return whether it rose."""
    n = core.n
    mark = acks.mark[at(me)]
    message = int64(acks.own.first[at(me)])
    while message >= 0 and acks.awaited[at(message)] == 0:
        mark = core.trace.number[at(message)]
        message = int64(acks.own.following[at(message)])
    acks.own.first[at(me)] = message
    if mark == acks.mark[at(me)]:
        return False
    acks.mark[at(me)] = mark
    for pair in range(first_of(acks.pairs, n, me), first_of(acks.pairs, n, me + 1)):
        row = int64(acks.owed.first[at(pair)])
        if row < 0 or acks.level[at(row)] > mark:
            continue
        emit(core, acks, pair, 0, int64(NOTHING), CLOCK_BYTES, core.reg[ORDER] - 1)
        while row >= 0 and acks.level[at(row)] <= mark:
            acks.debts[at(me)] -= 1
            row = int64(acks.owed.following[at(row)])
        acks.owed.first[at(pair)] = row
    return True


def new_chains(lists: int, items: int) -> Chains:
    """Return empty lists."""
    nothing = np.full(lists, NOTHING, np.int32)
    return Chains(nothing, nothing.copy(), np.full(items, NOTHING, np.int32))


def all_pairs() -> Pairs:
    """Return every channel."""
    return Pairs(np.zeros(0, np.int64), np.zeros(0, np.int64))


def used_pairs(plan: Plan, n: int) -> Pairs:
    """Return the channels of a plan's copies and of their acknowledgements."""
    sender, dest = plan.sender[plan.message].astype(np.int64), plan.dests.astype(np.int64)
    channel = np.unique(np.concatenate([sender * n + dest, dest * n + sender]))
    return Pairs(channel, np.searchsorted(channel, np.arange(n + 1) * n).astype(np.int64))


def new_acks(plan: Plan, n: int, pairs: Pairs) -> Acks:
    """Return the state before anything is sent."""
    messages, copies = len(plan.time), len(plan.dests)
    count = len(pairs.channel) or n * n
    empty = np.zeros(0, np.int32)
    packets = Packets(empty, empty, empty, empty, empty, counts=np.zeros(count, np.int32))
    return Acks(
        sent=np.zeros(n, np.int32),
        mark=np.zeros(n, np.int32),
        debts=np.zeros(n, np.int32),
        awaited=np.zeros(messages, np.int32),
        own=new_chains(n, messages),
        open=new_chains(count, copies),
        owed=new_chains(count, copies),
        level=np.zeros(copies, np.int32),
        packets=packets,
        pairs=pairs,
    )


def with_slots(acks: Acks, left: int, slots: int) -> Acks:
    """Return a copy with more slots for packets; `left` of the old slots are free."""
    packets = grown(acks.packets, left, slots, pair=1, number=1, mark=1, node=1)
    return acks._replace(packets=packets)


def packet_bytes(acks: Acks) -> int:
    """Return the memory of the packets under way."""
    return int(sum(array.nbytes for array in acks.packets[:5]))
