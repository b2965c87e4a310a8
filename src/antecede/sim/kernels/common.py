"""What all kernels share: how they are compiled, the event heap, the lists of held copies.

A kernel is one compiled function over flat arrays, handed in by Python. It never allocates: it
looks at the headroom before it touches anything, gives back :data:`GROW` when an array is too
small, and goes on where it was when Python has made it larger. Everything that must survive such
a pause stands in the registers (:data:`REGISTERS` integers and one float, the present time).

Events are ordered by time, and at equal times by one number: first sends (by row), then arrivals
of copies (by row), then arrivals of packets a protocol added (in the order they were made). The
plain engine uses the same numbers, so both see the same run.

Two habits of Numba cost more than the algorithms and are switched off here: reference counting
of every array handed to a helper (``_nrt=False``, a private option, watched over by a test), and
the wrap-around of negative indices (indices are cast to ``uint64`` where they are used).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from importlib import resources
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])
# Kernels are written in Numba's types, which a type checker of Python does not know. These names
# say what is meant; to the checker they are anything.
Int: TypeAlias = Any
Real: TypeAlias = Any
Ints: TypeAlias = Any  # an array of int64
Small: TypeAlias = Any  # of int32
Floats: TypeAlias = Any  # of float64
Words: TypeAlias = Any  # of uint64
int64: Any = np.int64
_compile: Any = njit

DONE, GROW, PAUSE = 0, 1, 2

# The registers, by what they count. EVENT is an event taken from the heap but not yet carried
# out, READY the first of the copies that may be delivered now (both -1 when there is none);
# WIDEST is the most events one step can add, LIMIT how many events to record before a pause.
TIMED, HEAP, ORDER, ADDED, ARRIVALS, EVENT, READY, LIMIT, WIDEST, FREE, NODE, NODES = range(12)
REGISTERS = 32
NOTHING = -1
# An added packet's number has its slot in the low bits: see `added_key`.
SLOT_BITS = 24
# Kinds of delay model.
CONSTANT, EXPONENTIAL, LOGNORMAL, UNIFORM = range(4)


class Plan(NamedTuple):
    """A schedule as kernels read it."""

    timed: Ints  # rows of the messages sent at a set time, in order
    time: Floats
    sender: Small
    offsets: Ints
    dests: Small
    delays: Floats
    message: Small  # of each copy
    trigger_offsets: Ints  # per copy: which messages its delivery sets off; one zero: none at all
    triggered: Ints
    think: Floats
    rank: Small
    fifo: Floats  # newest arrival per channel; empty when channels need not be FIFO
    links: Floats  # delay factor per channel for added packets; empty: one for all
    model: Floats  # delay model of added packets: kind, two parameters
    seed: Words


class Heap(NamedTuple):
    """Events to come: a binary heap by (when, what)."""

    when: Floats
    what: Ints


class Trace(NamedTuple):
    """What happened: everything metrics and event logs are made from."""

    order: Ints  # events as they happened: a message's row, or message count + a copy's row
    kept: Small  # entries the acting process kept after that event
    sent: Floats  # per message
    number: Small  # per message: its number among its sender's sends, from 1
    posted: Floats  # per copy: when it left its sender's output queue
    arrived: Floats  # per copy
    delivered: Floats  # per copy
    entries: Small  # per copy: control entries it carried
    destinations: Small  # per copy: destinations named in them
    added: Small  # per event of `order`: packets the protocol added
    added_bytes: Small  # per event of `order`: model bytes of those
    noted: Small  # per event of `order`: what else a kernel counts (see there)


class Holding(NamedTuple):
    """Held copies: each waits in one list, for one message count or clock of one sender."""

    heads: Small  # per (receiver, sender): first copy that waits
    link: Small  # per copy: the next in its list
    need: Small  # per copy: what must be reached
    arrival: Small  # per copy: its number among all arrivals; of several ready ones the least goes
    reached: Small  # per (receiver, sender): what is reached


def _digest() -> bytes:
    """Hash every kernel's source: a cached entry point has its helpers compiled in."""
    sources = sorted(
        (file.name, file.read_bytes())
        for file in resources.files("antecede.sim.kernels").iterdir()
        if file.name.endswith(".py")
    )
    whole = hashlib.sha256()
    for name, text in sources:
        whole.update(name.encode() + b"\0" + text)
    return whole.digest()


_DIGEST = _digest()


def helper(function: Function) -> Function:
    """Compile a function that is inlined into the kernels that call it."""
    compiled: Function = _compile(_nrt=False, forceinline=True)(function)
    return compiled


def separate(function: Function) -> Function:
    """Compile a loop as a function of its own: inlined into a large kernel it stays scalar."""
    compiled: Function = _compile(_nrt=False, inline="never")(function)
    return compiled


def entry(function: Function) -> Function:
    """Compile a kernel and keep the result on disk where there is a place for it.

    Numba's own check looks only at the file of the entry point; ours covers all kernels.
    """
    try:
        compiled = _compile(_nrt=False, cache=True)(function)
        compiled._cache._cache_file._source_stamp = _DIGEST
    except RuntimeError:  # read-only or zipped installation: compile once per process
        compiled = _compile(_nrt=False)(function)
    kernel: Function = compiled
    return kernel


@helper
def at(index: Int) -> Int:
    """Cast an index so that Numba leaves out the check for negative ones."""
    return np.uint64(index)


@helper
def rise(heap: Heap, place: Int, when: Real, what: Int) -> None:
    """Put an event into a hole of the heap, or above it where it belongs."""
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

    The hole sinks to a leaf along the earlier children, then the last event rises from there: it
    came from the bottom and mostly stays there, which saves a comparison on every level.
    """
    size = reg[HEAP] - 1
    reg[HEAP] = size
    i = 0
    child = 1
    while child + 1 < size:
        w = heap.when[at(child)]
        v = heap.when[at(child + 1)]
        if v < w or (v == w and heap.what[at(child + 1)] < heap.what[at(child)]):
            child += 1
            w = v
        heap.when[at(i)] = w
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
    """Take the next event, set the time to its time, return its number (or NOTHING)."""
    position = reg[TIMED]
    if position < len(plan.timed):
        row = plan.timed[at(position)]
        when = plan.time[at(row)]
        if reg[HEAP] == 0:
            reg[TIMED] = position + 1
            now[0] = when
            return row
        top = heap.when[0]
        if when < top or (when == top and row < heap.what[0]):
            reg[TIMED] = position + 1
            now[0] = when
            return row
    elif reg[HEAP] == 0:
        return np.int64(NOTHING)
    what = heap.what[0]
    now[0] = heap.when[0]
    drop_top(heap, reg)
    return what


@helper
def on_channel(plan: Plan, channel: Int, when: Real) -> Real:
    """Return when a packet arrives: later than all before it where channels are FIFO."""
    if len(plan.fifo) == 0:
        return when
    newest = plan.fifo[at(channel)]
    if when <= newest:
        when = np.nextafter(newest, np.inf)
    plan.fifo[at(channel)] = when
    return when


@helper
def post(plan: Plan, heap: Heap, trace: Trace, reg: Ints, n: Int, now: Real, copy: Int) -> None:
    """Put a copy into the network."""
    trace.posted[at(copy)] = now
    source = np.int64(plan.sender[at(plan.message[at(copy)])])
    when = on_channel(plan, source * n + plan.dests[at(copy)], now + plan.delays[at(copy)])
    push(heap, reg, when, len(plan.time) + copy)


@helper
def post_all(
    plan: Plan, heap: Heap, trace: Trace, reg: Ints, n: Int, now: Real, message: Int
) -> None:
    """Put all copies of a message into the network."""
    for copy in range(plan.offsets[at(message)], plan.offsets[at(message + 1)]):
        post(plan, heap, trace, reg, n, now, copy)


@helper
def add_packet(
    plan: Plan, heap: Heap, reg: Ints, counts: Small, now: Real, channel: Int, slot: Int
) -> None:
    """Put a packet the protocol added into the network; `slot` says what it is."""
    number = counts[at(channel)] + 1
    counts[at(channel)] = number
    delay = added_delay(plan.model, plan.links, plan.seed[0], channel, number)
    when = on_channel(plan, channel, now + delay)
    push(heap, reg, when, added_key(plan, reg[ADDED], slot))
    reg[ADDED] += 1


@helper
def added_key(plan: Plan, number: Int, slot: Int) -> Int:
    """Return the number of an added packet's arrival: after all copies, in the order they were made."""
    return len(plan.time) + len(plan.dests) + ((number << SLOT_BITS) | slot)


@helper
def slot_of(plan: Plan, event: Int) -> Int:
    """Return what an added packet is, from its event number."""
    return (event - len(plan.time) - len(plan.dests)) & ((1 << SLOT_BITS) - 1)


@helper
def mix(x: Int, value: Int) -> Int:
    """Stir a value into a 64-bit hash (the finaliser of SplitMix64)."""
    x = (x ^ value) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@helper
def added_delay(model: Floats, links: Floats, seed: Int, channel: Int, number: Int) -> Real:
    """Return the delay of the `number`-th packet a protocol adds on a channel.

    A hash of (seed, channel, number), so that it does not depend on when it is asked for.
    """
    x = mix(mix(seed, np.uint64(channel)), np.uint64(number))
    y = mix(x, np.uint64(1))
    u = (np.float64(x >> np.uint64(12)) + 0.5) * 2.0**-52
    v = (np.float64(y >> np.uint64(12)) + 0.5) * 2.0**-52
    kind = model[0]
    if kind == CONSTANT:
        value = model[1]
    elif kind == EXPONENTIAL:
        value = -model[1] * math.log(u)
    elif kind == LOGNORMAL:
        normal = math.sqrt(-2.0 * math.log(u)) * math.cos(2.0 * math.pi * v)
        value = math.exp(model[1] + model[2] * normal)
    else:
        value = model[1] + (model[2] - model[1]) * u
    if len(links) > 0:
        value *= links[at(channel)]
    return value


@helper
def record(trace: Trace, reg: Ints, event: Int, kept: Int) -> None:
    """Append an event to the trace."""
    trace.order[at(reg[ORDER])] = event
    trace.kept[at(reg[ORDER])] = kept
    reg[ORDER] += 1


@helper
def set_off(plan: Plan, heap: Heap, reg: Ints, now: Real, copy: Int) -> None:
    """Schedule the sends that the delivery of `copy` triggers."""
    if len(plan.trigger_offsets) > 1:
        for k in range(plan.trigger_offsets[at(copy)], plan.trigger_offsets[at(copy + 1)]):
            row = plan.triggered[at(k)]
            push(heap, reg, now + plan.think[at(row)], row)


@helper
def arrive(holding: Holding, trace: Trace, reg: Ints, now: Real, copy: Int) -> None:
    """Note that a copy has arrived."""
    trace.arrived[at(copy)] = now
    holding.arrival[at(copy)] = reg[ARRIVALS]
    reg[ARRIVALS] += 1


@helper
def hold(holding: Holding, pair: Int, copy: Int, need: Int) -> None:
    """Let a copy wait until `reached` of the (receiver, sender) pair is at least `need`."""
    holding.need[at(copy)] = need
    holding.link[at(copy)] = holding.heads[at(pair)]
    holding.heads[at(pair)] = copy


@helper
def make_ready(holding: Holding, reg: Ints, copy: Int) -> None:
    """Put a copy among those that may be delivered now, the earliest arrival first."""
    number = holding.arrival[at(copy)]
    previous = np.int64(NOTHING)
    following = reg[READY]
    while following >= 0 and holding.arrival[at(following)] < number:
        previous = following
        following = np.int64(holding.link[at(following)])
    holding.link[at(copy)] = following
    if previous < 0:
        reg[READY] = copy
    else:
        holding.link[at(previous)] = copy


@helper
def take_ready(holding: Holding, reg: Ints) -> Int:
    """Remove and return the first of the copies that may be delivered now."""
    copy = reg[READY]
    reg[READY] = np.int64(holding.link[at(copy)])
    return copy
