"""What the kernels of `flooding` and `tree` share: links, and packets that are relayed over them.

State is kept per link, not per pair of processes, so very many processes fit. Packets of a link
take effect in order; early ones are held in a list of the link. So at any time at most one copy
is ready, and its delivery can free only the next packet of the link that brought it.

All packets are numbered as added ones: first those that the schedule has delays for, by the row
of their copy, then those that really are added.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from antecede.errors import UsageError
from antecede.sim.delays import added_delay
from antecede.sim.kernels.common import (
    ADDED,
    HEAP,
    ORDER,
    PACKETS,
    SLOT_BITS,
    WIDEST,
    Copy,
    Core,
    Heap,
    control_bytes,
    find_from,
    make_ready,
    on_channel,
    on_link,
    push,
)
from antecede.sim.kernels.compiling import Int, Ints, Small, at, helper, int64, separate
from antecede.sim.kernels.loop import State, Steps, grown, longer
from antecede.sim.plan import Plan
from antecede.sim.trace import NOTHING

# The most packets that the next event may send.
WANTED = 20


class Packets(NamedTuple):
    """Packets under way or held; PACKETS counts the free slots."""

    message: Small  # per slot
    link: Small  # per slot
    number: Small  # per slot: its place among the packets of its link, from 1
    following: Small  # per slot: the next one held on the link
    free: Small  # a stack


class Overlay(NamedTuple):
    """Links, the packets on them, and the routes of messages."""

    start: Ints  # per process: its first link; its links are ordered by their other end
    near: Small  # per link: the process it leads to
    back: Small  # per link: the link in the opposite direction
    place: Small  # per process: its number in a tour of the tree, or else its own number
    stop: Small  # per process: the end of the numbers below it in the tree
    above: Small  # per process: its parent in the tree; empty if messages are flooded
    places: Small  # per copy: the tour numbers of a message's destinations, sorted
    rows: Small  # per copy: the copies in that order
    sent: Small  # per process: messages sent
    posted: Small  # per link: packets sent over it
    added: Small  # per link: how many of these were added
    taken: Small  # per link: packets that took effect
    held: Small  # per link: early packets that wait
    heads: Small  # per link: the first of these
    slot: Small  # per copy: its packet, if it goes directly to its destination
    via: Small  # per copy: the link that brought it
    packets: Packets
    entries: Int  # control entries of a packet
    size: Int  # bytes of these entries
    kept: Int  # entries that a process keeps, or NOTHING


@helper
def source_of(own: Overlay, link: Int) -> Int:
    """Return the process where a link begins."""
    return int64(own.near[at(own.back[at(link)])])


@helper
def first_from(core: Core, own: Overlay, message: Int, place: Int) -> Int:
    """Return the index of a message's first destination whose tour number is at least `place`."""
    begin, end = core.plan.offsets[at(message)], core.plan.offsets[at(message + 1)]
    return find_from(own.places, begin, end, place)


@helper
def row_of(core: Core, own: Overlay, message: Int, dest: Int) -> Int:
    """Return a message's copy for a process, or NOTHING."""
    place = int64(own.place[at(dest)])
    found = first_from(core, own, message, place)
    if found < core.plan.offsets[at(message + 1)] and own.places[at(found)] == place:
        return int64(own.rows[at(found)])
    return int64(NOTHING)


@helper
def leads(core: Core, own: Overlay, message: Int, me: Int, dest: Int) -> Int:
    """Return whether to relay to a neighbour: if flooding, or if a destination is on its side."""
    if len(own.above) == 0:
        return True
    below = dest
    if own.above[at(dest)] != me:
        below = me
    inside = first_from(core, own, message, int64(own.stop[at(below)]))
    inside -= first_from(core, own, message, int64(own.place[at(below)]))
    if below == dest:
        return inside > 0
    return core.plan.offsets[at(message + 1)] - core.plan.offsets[at(message)] > inside


@helper
def put(core: Core, own: Overlay, link: Int, message: Int, event: Int) -> None:
    """Send a message over a link; added packets are counted at `event`."""
    plan, trace, reg, packets, now = core.plan, core.trace, core.reg, own.packets, core.now[0]
    source = source_of(own, link)
    dest = int64(own.near[at(link)])
    reg[PACKETS] -= 1
    slot = int64(packets.free[at(reg[PACKETS])])
    own.posted[at(link)] += 1
    packets.message[at(slot)] = message
    packets.link[at(slot)] = link
    packets.number[at(slot)] = own.posted[at(link)]
    row = int64(NOTHING)
    if source == plan.sender[at(message)]:
        row = row_of(core, own, message, dest)
    key = len(plan.time) + len(plan.dests)
    if row >= 0:
        trace.posted[at(row)] = now
        trace.entries[at(row)] = own.entries
        own.slot[at(row)] = slot
        delay = plan.delays[at(row)]
        size = control_bytes(plan, trace, row)
        key += row
    else:
        own.added[at(link)] += 1
        number = int64(own.added[at(link)])
        delay = added_delay(plan.model, plan.links, plan.seed[0], source * core.n + dest, number)
        size = float(own.size)
        trace.added[at(event)] += 1
        trace.added_bytes[at(event)] += own.size
        key += len(plan.dests) + ((reg[ADDED] << SLOT_BITS) | slot)
        reg[ADDED] += 1
    left = on_link(plan, source * core.n + dest, now, size, 1)
    push(core.heap, reg, on_channel(plan, source * core.n + dest, left + delay), key)


@separate
def pass_on(core: Core, own: Overlay, me: Int, message: Int, source: Int, event: Int) -> None:
    """Send a message over every link that it must take, except back to `source`."""
    for link in range(own.start[at(me)], own.start[at(me + 1)]):
        dest = int64(own.near[at(link)])
        if dest != source and leads(core, own, message, me, dest):
            put(core, own, link, message, event)


@helper
def send(core: Core, own: Overlay, message: Int) -> Int:
    """Send a message from its sender to the neighbours."""
    me = int64(core.plan.sender[at(message)])
    own.sent[at(me)] += 1
    core.trace.number[at(message)] = own.sent[at(me)]
    pass_on(core, own, me, message, int64(NOTHING), core.reg[ORDER])
    return int64(own.kept)


@helper
def slot_at(core: Core, own: Overlay, event: Int) -> Int:
    """Return the slot of a packet, from its event number."""
    copies = len(core.plan.dests)
    code = event - len(core.plan.time) - copies
    if code < copies:
        return int64(own.slot[at(code)])
    return (code - copies) & ((1 << SLOT_BITS) - 1)


@helper
def take_next(own: Overlay, link: Int) -> Int:
    """Remove and return the packet that takes effect next on a link, or NOTHING."""
    packets = own.packets
    number = own.taken[at(link)] + 1
    previous = int64(NOTHING)
    slot = int64(own.heads[at(link)])
    while slot >= 0 and packets.number[at(slot)] != number:
        previous = slot
        slot = int64(packets.following[at(slot)])
    if slot >= 0:
        own.taken[at(link)] = number
        own.held[at(link)] -= 1
        if previous < 0:
            own.heads[at(link)] = packets.following[at(slot)]
        else:
            packets.following[at(previous)] = packets.following[at(slot)]
    return slot


@separate
def advance(core: Core, own: Overlay, link: Int) -> None:
    """Carry out the next packets of a link, up to one that makes a copy ready."""
    packets, reg = own.packets, core.reg
    me = int64(own.near[at(link)])
    while True:
        slot = take_next(own, link)
        if slot < 0:
            return
        packets.free[at(reg[PACKETS])] = slot
        reg[PACKETS] += 1
        message = int64(packets.message[at(slot)])
        row = row_of(core, own, message, me)
        if row >= 0 and np.isnan(core.trace.delivered[at(row)]):
            own.via[at(row)] = link
            make_ready(core.holding, reg, row)
            return
        if len(own.above) > 0:
            pass_on(core, own, me, message, source_of(own, link), reg[ORDER] - 1)


@helper
def receive(core: Core, own: Overlay, event: Int) -> None:
    """Receive a packet, which takes effect once all packets before it on its link have."""
    trace, packets = core.trace, own.packets
    slot = slot_at(core, own, event)
    link = int64(packets.link[at(slot)])
    message = int64(packets.message[at(slot)])
    row = row_of(core, own, message, int64(own.near[at(link)]))
    if row >= 0 and np.isnan(trace.arrived[at(row)]):
        trace.arrived[at(row)] = core.now[0]
        core.holding.arrival[at(row)] = 0
        if np.isnan(trace.posted[at(row)]):
            trace.posted[at(row)] = trace.sent[at(message)]
    packets.following[at(slot)] = own.heads[at(link)]
    own.heads[at(link)] = slot
    own.held[at(link)] += 1
    advance(core, own, link)


@helper
def deliver(core: Core, own: Overlay, copy: Copy) -> Int:
    """Relay a message before anything else."""
    source = source_of(own, int64(own.via[at(copy.row)]))
    pass_on(core, own, copy.dest, copy.message, source, core.reg[ORDER])
    return int64(own.kept)


@helper
def after(core: Core, own: Overlay, delivered: Copy) -> None:
    """Continue with the link that brought the copy."""
    advance(core, own, int64(own.via[at(delivered.row)]))


@helper
def has_room(core: Core, own: Overlay, event: Int) -> Int:
    """Return whether there is room for all packets that an event may send."""
    messages, reg = len(core.plan.time), core.reg
    many = int64(1)
    if event < messages:
        me = int64(core.plan.sender[at(event)])
    else:
        if event < messages + len(core.plan.dests):
            link = int64(own.via[at(event - messages)])
        else:
            link = int64(own.packets.link[at(slot_at(core, own, event))])
        me = int64(own.near[at(link)])
        many += own.held[at(link)]
    reg[WANTED] = many * (own.start[at(me + 1)] - own.start[at(me)])
    room = len(core.heap.when) - reg[HEAP] - reg[WIDEST]
    return reg[PACKETS] >= reg[WANTED] and room >= reg[WANTED]


STEPS = Steps(
    send=send, deliver=deliver, after=after, receive=receive, has_room=has_room
)  # fmt: skip


class OverlayState(State):
    """The arrays of one run over undirected links; `above` gives each process's tree parent."""

    def __init__(
        self, plan: Plan, n: int, links: list[tuple[int, int]], *, above: list[int] | None = None,
        entries: int = 0, size: int = 0, kept: int = NOTHING,
    ) -> None:  # fmt: skip
        super().__init__(plan, n, pairs=0)
        ends = np.array(links, np.int64).reshape(-1, 2)
        ends = np.concatenate([ends, ends[:, ::-1]])
        order = np.lexsort((ends[:, 1], ends[:, 0]))
        back = np.empty(len(ends), np.int32)
        back[order] = np.arange(len(ends))
        back = np.roll(back, len(links))[order]
        copies, many = len(plan.dests), len(ends)
        place, stop = _tour(above) if above else (np.arange(n, dtype=np.int32),) * 2
        rows = np.lexsort((place[plan.dests], plan.message)).astype(np.int32)
        empty = np.zeros(0, np.int32)
        self.overlay = Overlay(
            start=np.searchsorted(ends[order, 0], np.arange(n + 1)).astype(np.int64),
            near=ends[order, 1].astype(np.int32),
            back=back,
            place=place,
            stop=stop,
            above=np.array(above or [], np.int32),
            places=place[plan.dests[rows]],
            rows=rows,
            sent=np.zeros(n, np.int32),
            posted=np.zeros(many, np.int32),
            added=np.zeros(many, np.int32),
            taken=np.zeros(many, np.int32),
            held=np.zeros(many, np.int32),
            heads=np.full(many, NOTHING, np.int32),
            slot=np.zeros(copies, np.int32),
            via=np.zeros(copies, np.int32),
            packets=Packets(empty, empty, empty, empty, empty),
            entries=entries,
            size=size,
            kept=kept,
        )
        self.reg[WANTED] = 64
        self.grow()

    def own(self, _kind: type) -> Overlay:
        """Return the arrays as they are now."""
        return self.overlay

    def grow(self) -> None:
        """Enlarge the arrays that may be too small."""
        super().grow()
        reg, old = self.reg, self.overlay.packets
        wanted, have = int(reg[WANTED]), len(old.message)
        if len(self.heap.when) - int(reg[HEAP] + reg[WIDEST]) < wanted:
            size = 2 * len(self.heap.when) + wanted
            self.heap = Heap(longer(self.heap.when, size), longer(self.heap.what, size))
        if reg[PACKETS] < wanted:
            slots = 2 * have + wanted
            if slots > 1 << SLOT_BITS:
                msg = f"more than {have:,} packets are under way at once; use a shorter --received"
                raise UsageError(msg)
            packets = grown(old, int(reg[PACKETS]), slots, message=1, link=1, number=1, following=1)
            self.overlay = self.overlay._replace(packets=packets)
            reg[PACKETS] += slots - have

    def bytes(self) -> int:
        """Return the memory of what grows with the messages in flight."""
        return super().bytes() + sum(array.nbytes for array in self.overlay.packets)


def _tour(above: list[int]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return each process's number in a tour of the tree, and the end of the numbers below it.

    A parent must have a lower number than its children.
    """
    n = len(above)
    below = [1] * n
    for one in range(n - 1, 0, -1):
        below[above[one]] += below[one]
    place, used = [0] * n, [1] * n
    for one in range(1, n):
        place[one] = place[above[one]] + used[above[one]]
        used[above[one]] += below[one]
    first = np.array(place, np.int32)
    return first, first + np.array(below, np.int32)
