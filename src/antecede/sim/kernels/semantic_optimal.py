"""The kernel of `semantic_optimal`: one log after each recent event; see `windows`.

A copy carries the log that its message depends on, unless that log names another of the message's
destinations.
"""

from __future__ import annotations

import numpy as np

from antecede.endpoint.messages import ID_BYTES, PAIR_BYTES
from antecede.sim.kernels.bits import ones
from antecede.sim.kernels.common import FREE, Copy, Core, hold, post_all
from antecede.sim.kernels.compiling import Int, at, helper, int64
from antecede.sim.kernels.exact import basis_of, is_delivered, note_send, wake_exactly
from antecede.sim.kernels.keys import CLOCK_MASK, END, SENDER_SHIFT, WORD_BITS, WORD_MASK
from antecede.sim.kernels.loop import Kernel, Steps
from antecede.sim.kernels.windows import (
    EMPTY,
    Windows,
    WindowsState,
    combine,
    log_after,
    release,
    take_slab,
)
from antecede.sim.plan import Sizes
from antecede.sim.trace import NOTHING


@helper
def keep(core: Core, own: Windows, me: Int, log: Int, sender: Int, number: Int) -> Int:
    """Combine a log and a message with the latest log; return the entries of the new log."""
    event = int64(own.sent.events[at(me)])
    latest = int64(EMPTY)
    if event > 1:
        latest = int64(own.ring[at(me * own.window + (event - 1) % own.window)])
    new = take_slab(own.slabs, core.reg, 1)
    combine(own, core.n, latest, log, new, sender, number)
    place = me * own.window + event % own.window
    if own.ring[at(place)] >= 0:
        release(own.slabs, core.reg, int64(own.ring[at(place)]))
    own.ring[at(place)] = new
    return int64(own.slabs.control[at(new)])


@helper
def mark_destinations(core: Core, own: Windows, message: Int, log: Int) -> Int:
    """Write a message's destinations as a set; return how many of them a log names."""
    plan, slabs, lists = core.plan, own.slabs, own.lists
    for w in range(len(lists.mask)):
        lists.mask[at(w)] = np.uint64(0)
        lists.hit[at(w)] = np.uint64(0)
    for row in range(plan.offsets[at(message)], plan.offsets[at(message + 1)]):
        dest = int64(plan.dests[at(row)])
        lists.mask[at(dest >> 6)] |= np.uint64(1) << np.uint64(dest & 63)
    start = log * own.size
    for e in range(start, start + int64(slabs.count[at(log)])):
        lists.hit[at(slabs.keys[at(e)] & WORD_MASK)] |= slabs.words[at(e)]
    hits = 0
    for w in range(len(lists.mask)):
        lists.hit[at(w)] &= lists.mask[at(w)]
        hits += ones(lists.hit[at(w)])
    return hits


@helper
def give_logs(core: Core, own: Windows, message: Int, log: Int, hits: Int) -> None:
    """SND(2): give each copy its log; copies to destinations that it does not name share one."""
    plan, lists, reg = core.plan, own.lists, core.reg
    shared = int64(NOTHING)
    for row in range(plan.offsets[at(message)], plan.offsets[at(message + 1)]):
        dest = int64(plan.dests[at(row)])
        w = dest >> 6
        bit = np.uint64(1) << np.uint64(dest & 63)
        is_named = lists.hit[at(w)] & bit != np.uint64(0)
        given = log
        if hits > int64(is_named):
            given = shared
            if is_named or shared < 0:
                given = take_slab(own.slabs, reg, 0)
                for k in range(len(lists.mask)):
                    lists.drop[at(k)] = lists.mask[at(k)]
                if is_named:
                    lists.drop[at(w)] &= ~bit
                else:
                    shared = given
                combine(own, core.n, int64(EMPTY), log, given, int64(NOTHING), int64(NOTHING))
        own.slabs.refs[at(given)] += 1
        own.slab[at(row)] = given
        own.place[at(row)] = 0
        core.trace.entries[at(row)] = own.slabs.control[at(given)]
        core.trace.destinations[at(row)] = own.slabs.named[at(given)]


@helper
def send(core: Core, own: Windows, message: Int) -> Int:
    """SND, on the log after the event that the message depends on."""
    plan, lists = core.plan, own.lists
    me = int64(plan.sender[at(message)])
    log = log_after(own, me, basis_of(plan, int64(own.sent.events[at(me)]), message))
    number = int64(own.sent.count[at(me)]) + 1
    hits = mark_destinations(core, own, message, log)
    give_logs(core, own, message, log, hits)
    note_send(core, own.sent, me, number, message)
    for w in range(len(lists.mask)):
        lists.drop[at(w)] = lists.mask[at(w)]
        lists.rest[at(w)] = lists.mask[at(w)]
    kept = keep(core, own, me, log, me, number)
    post_all(core, message)
    return kept


@helper
def is_ready(core: Core, own: Windows, copy: Copy) -> Int:
    """RCV(1): hold the copy for the first missing message that its log names for the receiver."""
    slabs = own.slabs
    start = int64(own.slab[at(copy.row)]) * own.size
    bit = np.uint64(1) << np.uint64(copy.dest & 63)
    e = start + int64(own.place[at(copy.row)])
    key = slabs.keys[at(e)]
    while key != END:
        if key & WORD_MASK == copy.dest >> 6 and slabs.words[at(e)] & bit != np.uint64(0):
            sender = key >> SENDER_SHIFT
            clock = (key >> WORD_BITS) & CLOCK_MASK
            if not is_delivered(core, own.sent, sender, clock, copy.dest):
                own.place[at(copy.row)] = e - start
                hold(core.holding, copy.dest * core.n + sender, copy.row, clock)
                return False
        e += 1
        key = slabs.keys[at(e)]
    own.place[at(copy.row)] = e - start
    return True


@helper
def deliver(core: Core, own: Windows, copy: Copy) -> Int:
    """RCV(2) to RCV(5)."""
    plan, lists, me = core.plan, own.lists, copy.dest
    own.sent.events[at(me)] += 1
    for w in range(len(lists.mask)):
        lists.rest[at(w)] = np.uint64(0)
        lists.drop[at(w)] = np.uint64(0)
    lists.drop[at(me >> 6)] = np.uint64(1) << np.uint64(me & 63)
    for row in range(plan.offsets[at(copy.message)], plan.offsets[at(copy.message + 1)]):
        dest = int64(plan.dests[at(row)])
        if dest != me:
            lists.rest[at(dest >> 6)] |= np.uint64(1) << np.uint64(dest & 63)
    log = int64(own.slab[at(copy.row)])
    number = int64(core.trace.number[at(copy.message)])
    kept = keep(core, own, me, log, copy.sender, number)
    release(own.slabs, core.reg, log)
    return kept


@helper
def has_room(core: Core, own: Windows, event: Int) -> Int:
    """Return whether there are slabs and elements for an event."""
    plan, count = core.plan, own.slabs.count
    messages = len(plan.time)
    row = event - messages
    if event < messages:
        me = int64(plan.sender[at(event)])
        events = int64(own.sent.events[at(me)])
        other = log_after(own, me, basis_of(plan, events, event))
        slabs = plan.offsets[at(event + 1)] - plan.offsets[at(event)] + 2
    else:
        me = int64(plan.dests[at(row)])
        events = int64(own.sent.events[at(me)])
        other = int64(own.slab[at(row)])
        slabs = int64(1)
    mine = log_after(own, me, events)
    need = int64(count[at(mine)]) + int64(count[at(other)]) + len(own.lists.mask) + 2
    return core.reg[FREE] >= slabs and need <= own.size


def sizes(_n: int) -> Sizes:
    """Return the model bytes of an entry, prefix or point, and of a destination."""
    return Sizes(PAIR_BYTES, ID_BYTES)


KERNEL = Kernel(
    "semantic_optimal", WindowsState, Windows,
    Steps(send=send, deliver=deliver, is_ready=is_ready, after=wake_exactly, has_room=has_room),
    options=frozenset({"window", "points"}),
    sizes=sizes,
    ahead=False,
)  # fmt: skip
