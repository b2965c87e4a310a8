"""The Python side of a kernel run: arrays made, made larger, and the loop in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from antecede.sim.kernels.common import (
    DONE,
    EVENT,
    GROW,
    HEAP,
    LIMIT,
    NOTHING,
    ORDER,
    READY,
    REGISTERS,
    WIDEST,
    Floats,
    Heap,
    Holding,
    Ints,
    Plan,
    Trace,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

Progress = Callable[[float], None]
# How many events run between two looks at the progress bar.
CHUNK = 1 << 18


def new_trace(messages: int, copies: int) -> Trace:
    """Return a trace in which nothing has happened yet."""
    events = messages + copies
    return Trace(
        order=np.full(events, NOTHING, np.int64),
        kept=np.zeros(events, np.int32),
        sent=np.full(messages, np.nan),
        number=np.zeros(messages, np.int32),
        posted=np.full(copies, np.nan),
        arrived=np.full(copies, np.nan),
        delivered=np.full(copies, np.nan),
        entries=np.zeros(copies, np.int32),
        destinations=np.zeros(copies, np.int32),
        added=np.zeros(events, np.int32),
        added_bytes=np.zeros(events, np.int32),
        noted=np.zeros(events, np.int32),
    )


class Common:
    """The arrays every kernel needs, sized for a plan."""

    def __init__(self, plan: Plan, n: int) -> None:
        messages, copies = len(plan.time), len(plan.dests)
        self.plan = plan
        self.n = n
        self.reg: Ints = np.zeros(REGISTERS, np.int64)
        self.reg[EVENT] = self.reg[READY] = NOTHING
        self.now: Floats = np.zeros(1)
        widest = int(np.diff(plan.offsets).max(initial=0))
        widest = max(widest, int(np.diff(plan.trigger_offsets).max(initial=0)))
        self.reg[WIDEST] = widest + n + 2
        self.trace = new_trace(messages, copies)
        self.holding = Holding(
            heads=np.full(n * n, NOTHING, np.int32),
            link=np.full(copies, NOTHING, np.int32),
            need=np.zeros(copies, np.int32),
            arrival=np.zeros(copies, np.int32),
            reached=np.zeros(n * n, np.int32),
        )
        self.heap = Heap(np.empty(1024 + 2 * widest), np.empty(1024 + 2 * widest, np.int64))

    def room(self) -> int:
        """Return how many events can still be put on the heap."""
        return len(self.heap.when) - int(self.reg[HEAP])

    def grow(self) -> None:
        """Make the heap larger where it is too small; kernels with more state do more."""
        if self.room() < self.reg[WIDEST]:
            size = 2 * len(self.heap.when) + int(self.reg[WIDEST])
            self.heap = Heap(longer(self.heap.when, size), longer(self.heap.what, size))

    def extras(self) -> dict[str, float | int]:
        """Return figures only kernels have."""
        return {"state_bytes": self.bytes()}

    def bytes(self) -> int:
        """Return the memory of what grows with the messages in flight, not with the schedule."""
        return int(self.heap.when.nbytes + self.heap.what.nbytes)


def longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a longer array that begins with `array`."""
    result = np.zeros(size, array.dtype)
    result[: len(array)] = array
    return result


def drive(state: Common, step: Callable[[], int], progress: Progress | None) -> None:
    """Call a kernel until it is done, growing its arrays as it asks for it."""
    total = len(state.trace.order)
    chunk = CHUNK if progress is not None else total + 1
    state.reg[LIMIT] = chunk
    while (answer := step()) != DONE:
        if answer == GROW:
            state.grow()
        else:
            state.reg[LIMIT] = int(state.reg[ORDER]) + chunk
            if progress is not None:
                progress(float(state.reg[ORDER]) / total)
