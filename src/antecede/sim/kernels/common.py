"""What all kernels share: registers, the event heap, the lists of held copies.

A kernel never allocates. It checks the room in its arrays before it touches anything, returns
:data:`GROW` if an array is too small, and continues where it was once Python has enlarged it.
Everything that must survive such a pause is in the registers (:data:`REGISTERS` integers) and in
one float, the present time.

Events are ordered by time, and at equal times by one number: first sends (by row), then arrivals
of copies (by row), then arrivals of packets that a protocol added (in the order they were made).
The plain engine uses the same numbers, so both engines see the same run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from antecede.sim.delays import added_delay
from antecede.sim.kernels.compiling import Floats, Int, Ints, Real, Small, at, helper, int64
from antecede.sim.plan import Plan
from antecede.sim.trace import NOTHING, Trace

DONE, GROW, PAUSE = 0, 1, 2

# The registers, named by what they count. EVENT is an event taken from the heap but not yet
# carried out, READY the first of the copies that may be delivered now (both -1 if there is none);
# WIDEST is the most events that one step can add, LIMIT how many events to record before a pause.
FIXED, HEAP, ORDER, ADDED, ARRIVALS, EVENT, READY, LIMIT, WIDEST, FREE, NODE, NODES = range(12)
# Free slots for packets that the protocol added: see `acks`.
PACKETS = 12
REGISTERS = 32
# An added packet's number has its slot in the low bits: see `add_packet`.
SLOT_BITS = 24


@helper
def find_from(values: Ints | Small, low: Int, high: Int, wanted: Int) -> Int:
    """Return the first place from ``low`` to ``high`` whose value is at least ``wanted``."""
    while low < high:
        middle = (low + high) >> 1
        if values[at(middle)] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


class Heap(NamedTuple):
    """Future events: a binary heap by (when, what)."""

    when: Floats
    what: Ints


class Holding(NamedTuple):
    """Held copies: each waits in one list for a message count or clock of one sender."""

    heads: Small  # per (receiver, sender): first copy that waits
    link: Small  # per copy: the next in its list
    need: Small  # per copy: the value of `reached` that it waits for
    arrival: Small  # per copy: its number among all arrivals; of ready copies, the least goes first
    reached: Small  # per (receiver, sender): how far the receiver has got


class Core(NamedTuple):
    """The arrays that every kernel works on."""

    plan: Plan
    heap: Heap
    trace: Trace
    holding: Holding
    reg: Ints
    now: Floats  # one number: the present time
    n: Int


class Copy(NamedTuple):
    """A copy that has arrived, with its message, sender and receiver."""

    row: Int
    message: Int
    sender: Int
    dest: Int


@helper
def rise(heap: Heap, place: Int, when: Real, what: Int) -> None:
    """Fill a hole of the heap with an event, which first rises to where it belongs."""
    i = place
    while i > 0:
        parent = (i - 1) >> 1
        w = heap.when[at(parent)]
        if w < when or (w == when and heap.what[at(parent)] < what):
            break
        heap.when[at(i)] = w
        heap.what[at(i)] = heap.what[at(parent)]
        i = parent
    heap.when[at(i)] = when
    heap.what[at(i)] = what


@helper
def push(heap: Heap, reg: Ints, when: Real, what: Int) -> None:
    """Add an event to the heap."""
    reg[HEAP] += 1
    rise(heap, reg[HEAP] - 1, when, what)


@helper
def drop_top(heap: Heap, reg: Ints) -> None:
    """Remove the heap's first event.

    The hole sinks to a leaf along the earlier children, then the last event rises from there: as
    it came from the bottom it mostly stays there, which saves a comparison on every level.
    """
    size = reg[HEAP] - 1
    reg[HEAP] = size
    i = 0
    child = 1
    while child + 1 < size:
        w = heap.when[at(child)]
        v = heap.when[at(child + 1)]
        right = int64(v < w)  # arithmetic, not a branch: both outcomes are equally likely
        if v == w:
            right = int64(heap.what[at(child + 1)] < heap.what[at(child)])
        child += right
        heap.when[at(i)] = heap.when[at(child)]
        heap.what[at(i)] = heap.what[at(child)]
        i = child
        child = 2 * i + 1
    if child < size:
        heap.when[at(i)] = heap.when[at(child)]
        heap.what[at(i)] = heap.what[at(child)]
        i = child
    rise(heap, i, heap.when[at(size)], heap.what[at(size)])


@helper
def next_event(plan: Plan, heap: Heap, reg: Ints, now: Floats) -> Int:
    """Take the next event and set the time to its time; return its number, or NOTHING."""
    position = reg[FIXED]
    if position < len(plan.fixed):
        event = plan.fixed[at(position)]
        when = plan.when[at(position)]
        if reg[HEAP] == 0:
            reg[FIXED] = position + 1
            now[0] = when
            return event
        top = heap.when[0]
        if when < top or (when == top and event < heap.what[0]):
            reg[FIXED] = position + 1
            now[0] = when
            return event
    elif reg[HEAP] == 0:
        return int64(NOTHING)
    what = heap.what[0]
    now[0] = heap.when[0]
    drop_top(heap, reg)
    return what


@helper
def copy_at(plan: Plan, row: Int) -> Copy:
    """Return a copy by its row."""
    message = int64(plan.message[at(row)])
    return Copy(row, message, int64(plan.sender[at(message)]), int64(plan.dests[at(row)]))


@helper
def on_channel(plan: Plan, channel: Int, when: Real) -> Real:
    """Return when a packet arrives: on a FIFO channel, after every packet before it."""
    if len(plan.fifo) == 0:
        return when
    newest = plan.fifo[at(channel)]
    if when <= newest:
        when = np.nextafter(newest, np.inf)
    plan.fifo[at(channel)] = when
    return when


@helper
def on_link(plan: Plan, channel: Int, now: Real, control: Real, payload: Int) -> Real:
    """Return when a packet has left, on a link that sends packets one by one."""
    if len(plan.link) == 0:
        return now
    size = plan.link[1] + control
    if payload:
        size += plan.link[2]
    start = max(now, plan.free[at(channel)])
    plan.free[at(channel)] = start + size / plan.link[0]
    return plan.free[at(channel)]


@helper
def control_bytes(plan: Plan, trace: Trace, row: Int) -> Real:
    """Return the bytes of a copy's control, if links have a limited bandwidth."""
    if len(plan.link) == 0:
        return 0.0
    entries = plan.link[3] * trace.entries[at(row)]
    return entries + plan.link[4] * trace.destinations[at(row)] + plan.link[5]


@helper
def post(plan: Plan, heap: Heap, trace: Trace, reg: Ints, n: Int, now: Real, row: Int) -> None:
    """Put a copy into the network."""
    trace.posted[at(row)] = now
    if plan.arrivals:
        return
    source = int64(plan.sender[at(plan.message[at(row)])])
    channel = source * n + plan.dests[at(row)]
    left = on_link(plan, channel, now, control_bytes(plan, trace, row), 1)
    when = on_channel(plan, channel, left + plan.delays[at(row)])
    push(heap, reg, when, len(plan.time) + row)


@helper
def post_all(core: Core, message: Int) -> None:
    """Put all copies of a message into the network."""
    plan, heap, trace, reg, now = core.plan, core.heap, core.trace, core.reg, core.now[0]
    for row in range(plan.offsets[at(message)], plan.offsets[at(message + 1)]):
        post(plan, heap, trace, reg, core.n, now, row)


@helper
def add_packet(
    core: Core, counts: Small, place: Int, channel: Int, slot: Int, control: Int
) -> None:
    """Put a packet that the protocol added into the network; `slot` identifies it.

    `counts[place]` counts the packets of the channel, and `control` is the size of the packet's
    control in bytes. It has no payload.

    Its event number comes after those of all copies, in the order in which packets are added.
    """
    plan, reg = core.plan, core.reg
    number = counts[at(place)] + 1
    counts[at(place)] = number
    delay = added_delay(plan.model, plan.links, plan.seed[0], channel, number)
    left = on_link(plan, channel, core.now[0], float(control), 0)
    when = on_channel(plan, channel, left + delay)
    key = len(plan.time) + len(plan.dests) + ((reg[ADDED] << SLOT_BITS) | slot)
    push(core.heap, reg, when, key)
    reg[ADDED] += 1


@helper
def slot_of(plan: Plan, event: Int) -> Int:
    """Return the slot of an added packet, from its event number."""
    return (event - len(plan.time) - len(plan.dests)) & ((1 << SLOT_BITS) - 1)


@helper
def record(trace: Trace, reg: Ints, event: Int, kept: Int) -> None:
    """Append an event to the trace."""
    trace.order[at(reg[ORDER])] = event
    trace.kept[at(reg[ORDER])] = kept
    reg[ORDER] += 1


@helper
def trigger(plan: Plan, heap: Heap, reg: Ints, now: Real, row: Int) -> None:
    """Schedule the sends that the delivery of a copy triggers."""
    if len(plan.trigger_offsets) > 1:
        for k in range(plan.trigger_offsets[at(row)], plan.trigger_offsets[at(row + 1)]):
            send = plan.triggered[at(k)]
            push(heap, reg, now + plan.think[at(send)], send)


@helper
def hold(holding: Holding, pair: Int, row: Int, need: Int) -> None:
    """Hold a copy until `reached` of the (receiver, sender) pair is at least `need`."""
    holding.need[at(row)] = need
    holding.link[at(row)] = holding.heads[at(pair)]
    holding.heads[at(pair)] = row


@helper
def append(first: Small, last: Small, following: Small, queue: Int, item: Int) -> None:
    """Append an item to one of many linked lists."""
    following[at(item)] = NOTHING
    if first[at(queue)] < 0:
        first[at(queue)] = item
    else:
        following[at(last[at(queue)])] = item
    last[at(queue)] = item


@helper
def make_ready(holding: Holding, reg: Ints, row: Int) -> None:
    """Add a copy to those that may be delivered now, the earliest arrival first."""
    number = holding.arrival[at(row)]
    previous = int64(NOTHING)
    following = reg[READY]
    while following >= 0 and holding.arrival[at(following)] < number:
        previous = following
        following = int64(holding.link[at(following)])
    holding.link[at(row)] = following
    if previous < 0:
        reg[READY] = row
    else:
        holding.link[at(previous)] = row


@helper
def take_ready(holding: Holding, reg: Ints) -> Int:
    """Remove and return the first of the copies that may be delivered now."""
    row = reg[READY]
    reg[READY] = int64(holding.link[at(row)])
    return row
