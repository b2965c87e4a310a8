"""The event loop that all kernels share, and the record that describes a kernel.

A kernel keeps its own arrays in one named tuple and supplies six steps (:class:`Steps`). The loop
is compiled once for each such tuple type. The steps are chosen by that type while Numba compiles,
so they are inlined as if written in place; and as the loop is an ordinary module-level function,
its compiled form is cached on disk, which a loop made by a closure over its steps would not be.

Runs are as fast as with a loop per kernel (1.00 times the time, over all kernels, n = 10 and 50).
Compiling takes 1.6 times as long, because every step takes the whole record :class:`Core`; helpers
below the steps take only the parts they need.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba.extending import overload
from numpy.typing import NDArray

import antecede
from antecede.sim.kernels.common import (
    ARRIVALS,
    DONE,
    EVENT,
    GROW,
    HEAP,
    LIMIT,
    ORDER,
    PAUSE,
    READY,
    REGISTERS,
    WIDEST,
    Copy,
    Core,
    Heap,
    Holding,
    copy_at,
    make_ready,
    next_event,
    record,
    take_ready,
    trigger,
)
from antecede.sim.kernels.compiling import CALLED, Int, at, entry, helper, int64
from antecede.sim.plan import Plan, Sizes
from antecede.sim.schedule import Schedule
from antecede.sim.trace import NOTHING, Progress, Trace, new_trace

INLINED: Any = {"forceinline": True, **CALLED}
# How many events to run between two updates of the progress bar and checks for Ctrl-C, which
# Python notices only when compiled code returns. An event may cost n * n steps.
CHUNK = 1 << 18
WORK = 1 << 28
Own = Any  # a kernel's own arrays: a named tuple of its own type
Figures = Callable[["Schedule", Trace, int], dict[str, Any]]


@helper
def always(_core: Core, _own: Own, _what: Any) -> Int:
    """Return True: the step of a kernel that never has to wait or grow."""
    return True


@helper
def nothing(_core: Core, _own: Own, _what: Any) -> None:
    """Do nothing: the step of a kernel that does not need it."""


@dataclass(frozen=True)
class Steps:
    """The steps of a kernel, one for each kind of event; each takes (core, own, what).

    If the protocol's ``kept_entries()`` is None, ``send`` and ``deliver`` return ``NOTHING``.

    Attributes
    ----------
    send
        Send a message and post its copies; return how many entries its sender keeps.
    arrive
        Note a :class:`Copy` that has just arrived.
    is_ready
        Return whether a :class:`Copy` can be delivered; if not, hold it.
    deliver
        Update the receiver of a :class:`Copy`; return how many entries it keeps.
    after
        Wake the copies that waited for the delivered :class:`Copy`.
    receive
        Handle a packet that the protocol added, given its event number.
    has_room
        Return whether the arrays have room for an event: a message's row, messages + copy's row,
        which may arrive and be delivered, or the number of a packet that the protocol added.
    """

    send: Callable[..., Any]
    deliver: Callable[..., Any]
    arrive: Callable[..., Any] = nothing
    is_ready: Callable[..., Any] = always
    after: Callable[..., Any] = nothing
    receive: Callable[..., Any] = nothing
    has_room: Callable[..., Any] = always


STEPS: dict[type, Steps] = {}


def _step(name: str) -> Callable[[Any, Any, Any], Any]:
    """Return a function that calls step `name` of the kernel whose arrays are its argument."""

    def call(core: Any, own: Any, what: Any) -> Any:
        return getattr(STEPS[type(own)], name)(core, own, what)

    @overload(call, jit_options=INLINED, strict=False)
    def choose(_core: Any, own: Any, _what: Any) -> Any:
        return getattr(STEPS[own.instance_class], name).py_func

    return call


send, is_ready, deliver, arrive = map(_step, ("send", "is_ready", "deliver", "arrive"))
after, receive, has_room = _step("after"), _step("receive"), _step("has_room")


@helper
def wake(core: Core, own: Own, delivered: Copy) -> None:
    """Test again the copies that waited for the sender of the delivered copy."""
    wake_pair(core, own, delivered.dest * core.n + delivered.sender)


@helper
def wake_pair(core: Core, own: Own, pair: Int) -> None:
    """Test again the copies that waited for what a (receiver, sender) pair has now reached."""
    holding = core.holding
    row = int64(holding.heads[at(pair)])
    if row < 0:
        return
    reached = holding.reached[at(pair)]
    holding.heads[at(pair)] = NOTHING
    while row >= 0:
        following = int64(holding.link[at(row)])
        if holding.need[at(row)] > reached:
            holding.link[at(row)] = holding.heads[at(pair)]
            holding.heads[at(pair)] = row
        elif is_ready(core, own, copy_at(core.plan, row)):
            make_ready(holding, core.reg, row)
        row = following


@entry
def event_loop(core: Core, own: Own) -> Int:
    """Run until the end, or until an array must grow or the progress bar is due."""
    plan, heap, trace, holding, reg, now, _ = core
    messages = len(plan.time)
    copies = len(plan.dests)
    while True:
        if reg[HEAP] + reg[WIDEST] > len(heap.when):
            return GROW
        if reg[ORDER] >= reg[LIMIT]:
            return PAUSE
        is_waiting = reg[READY] >= 0
        if is_waiting:
            event = messages + reg[READY]
        elif reg[EVENT] >= 0:
            event = reg[EVENT]
            reg[EVENT] = NOTHING
        else:
            event = next_event(plan, heap, reg, now)
            if event < 0:
                return DONE
        if not has_room(core, own, event):
            if not is_waiting:
                reg[EVENT] = event
            return GROW
        if event >= messages + copies:
            receive(core, own, event)
            continue
        if event < messages:
            trace.sent[at(event)] = now[0]
            record(trace, reg, event, send(core, own, event))
            continue
        copy = copy_at(plan, event - messages)
        if is_waiting:
            take_ready(holding, reg)
        else:
            trace.arrived[at(copy.row)] = now[0]
            holding.arrival[at(copy.row)] = reg[ARRIVALS]
            reg[ARRIVALS] += 1
            arrive(core, own, copy)
            if not is_ready(core, own, copy):
                continue
        trace.delivered[at(copy.row)] = now[0]
        record(trace, reg, messages + copy.row, deliver(core, own, copy))
        after(core, own, copy)
        trigger(plan, heap, reg, now[0], copy.row)


class State:
    """The arrays of one run that every kernel needs, sized for a plan.

    Copies are held per pair of receiver and sender, n x n unless `pairs` is given.
    """

    def __init__(self, plan: Plan, n: int, *, pairs: int | None = None) -> None:
        pairs = n * n if pairs is None else pairs
        messages, copies = len(plan.time), len(plan.dests)
        self.plan = plan
        self.n = n
        self.reg: Any = np.zeros(REGISTERS, np.int64)
        self.reg[EVENT] = self.reg[READY] = NOTHING
        self.now = np.zeros(1)
        widest = int(np.diff(plan.offsets).max(initial=0))
        widest = max(widest, int(np.diff(plan.trigger_offsets).max(initial=0)))
        self.reg[WIDEST] = widest + n + 2
        self.trace = new_trace(messages, copies)
        self.holding = Holding(
            heads=np.full(pairs, NOTHING, np.int32),
            link=np.empty(copies, np.int32),
            need=np.empty(copies, np.int32),
            arrival=np.empty(copies, np.int32),
            reached=np.zeros(pairs, np.int32),
        )
        self.heap = Heap(np.empty(1024 + 2 * widest), np.empty(1024 + 2 * widest, np.int64))

    def own(self, kind: Any) -> Own:
        """Return the kernel's current arrays; by default, the attributes of the same names."""
        return kind._make(getattr(self, name) for name in kind._fields)

    def run(self, kind: type, progress: Progress | None = None) -> None:
        """Run to the end, enlarging arrays when the loop asks for it."""
        total = len(self.trace.order)
        chunk = max(1, min(CHUNK, WORK // max(self.n, len(self.holding.heads))))
        self.reg[LIMIT] = chunk
        while (answer := self._continue(kind)) != DONE:
            if answer == GROW:
                self.grow()
            else:
                self.reg[LIMIT] = int(self.reg[ORDER]) + chunk
                if progress is not None:
                    progress(float(self.reg[ORDER]) / total)

    def _continue(self, kind: type) -> int:
        core = Core(self.plan, self.heap, self.trace, self.holding, self.reg, self.now, self.n)
        with np.errstate(over="ignore"):  # uncompiled, the hash of added delays wraps around
            return event_loop(core, self.own(kind))

    def grow(self) -> None:
        """Enlarge the arrays that may be too small; kernels with more arrays extend this."""
        if len(self.heap.when) - int(self.reg[HEAP]) < self.reg[WIDEST]:
            size = 2 * len(self.heap.when) + int(self.reg[WIDEST])
            self.heap = Heap(longer(self.heap.when, size), longer(self.heap.what, size))

    def extras(self) -> dict[str, float | int]:
        """Return figures that only this kernel has."""
        return {"state_bytes": self.bytes()}

    def bytes(self) -> int:
        """Return the bytes of arrays that grow with messages in flight, not with the schedule."""
        return int(self.heap.when.nbytes + self.heap.what.nbytes)


def longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a longer array that begins with `array`."""
    result = np.zeros(size, array.dtype)
    result[: len(array)] = array
    return result


def widened(array: NDArray[Any], rows: int, width: int, fill: int = 0) -> NDArray[Any]:
    """Return an array with `rows` rows, widened to `width`."""
    result = np.full((rows, width), fill, array.dtype)
    result[:, : len(array) // rows] = array.reshape(rows, -1)
    return result.ravel()


def grown(pool: Any, left: int, slots: int, **widths: int) -> Any:
    """Return a pool with more slots; `left` of the old slots are free.

    `widths` are the arrays that grow, and how many cells of each a slot has. The stack `free` gives
    out its top first, so slots used before, warm in the cache, go on top.
    """
    have = len(pool.free)
    free = np.zeros(slots, pool.free.dtype)
    free[: slots - have] = np.arange(slots - 1, have - 1, -1)
    free[slots - have : slots - have + left] = pool.free[:left]
    more = {name: longer(getattr(pool, name), slots * width) for name, width in widths.items()}
    return pool._replace(free=free, **more)


def _no_figures(_schedule: Schedule, _trace: Trace, _warm_up: int) -> dict[str, Any]:
    return {}


@dataclass(frozen=True)
class Kernel:
    """The description of a kernel; its module exports one as `KERNEL`.

    Attributes
    ----------
    protocol
        The registered protocol that it runs.
    state
        Makes the arrays of a run: ``state(plan, n, **options)``.
    own, steps
        The type of the kernel's own arrays, and the steps that work on them.
    options
        Protocol options it understands; with any other the plain engine runs.
    apart
        Those of the options that it does not understand together.
    figures
        The figures that the protocol adds to a run's, from ``(schedule, trace, warm_up)``.
    sizes
        The model bytes of a control for n processes; by default those of the protocol's record.
    ahead
        Whether `warm` compiles it. Compiling takes longer than the short runs of some protocols.
    posts_at_once
        Whether ``send`` posts all copies. Then their arrival times are known, and sorting all
        arrivals once is quicker than a heap in every run.
    is_sparse
        Whether its state grows with the number of processes, not of pairs of processes.
    """

    protocol: str
    state: Callable[..., State]
    own: type
    steps: Steps
    options: frozenset[str] = frozenset()
    apart: frozenset[str] = frozenset()
    figures: Figures = _no_figures
    sizes: Callable[[int], Sizes] | None = None
    ahead: bool = True
    posts_at_once: bool = True
    is_sparse: bool = False

    def __post_init__(self) -> None:
        assert STEPS.setdefault(self.own, self.steps) == self.steps, f"{self.own} has other steps"

    def unknown(self, options: Mapping[str, Any]) -> list[str]:
        """Return the options that it does not understand."""
        together = {name for name in self.apart if options.get(name)}
        return sorted((set(options) - self.options) | (together if len(together) > 1 else set()))

    def sizes_of(self, n: int) -> Sizes:
        """Return the model bytes of a control for n processes."""
        if self.sizes is not None:
            return self.sizes(n)
        info = antecede.PROTOCOLS[self.protocol]
        assert info.bytes_per_entry is not None, f"a kernel of {self.protocol} needs sizes"
        return Sizes(info.bytes_per_entry, info.bytes_per_destination)

    def plan(self, schedule: Schedule) -> Plan:
        """Return a schedule in the form that this kernel reads."""
        return schedule.plan(self.sizes_of(schedule.n), posts_at_once=self.posts_at_once)

    def simulate(
        self, plan: Plan, n: int, options: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> State:  # fmt: skip
        """Run the protocol over a plan; the state that it returns holds the trace."""
        state = self.state(plan, n, **(options or {}))
        state.run(self.own, progress)
        return state
