"""The figures of a run: the columns of the study's table, computed from the trace.

Kernels and the plain engine fill the same trace, so both are measured here.

What is counted
---------------
The first `warm_up` deliveries per process (on average) are left out: sizes are of copies sent
after that moment, times of copies delivered after it. A copy is *held* if it had to wait: at its
receiver for its causes (`delivered - arrived`), or in its sender's output queue where a protocol
has one (`posted - sent`). `held_time_*` are over held copies, `added_delay_*` over all.
`buffer_mean` is how many copies one process keeps waiting, averaged over the measured time;
`buffer_peak` is the most that any process kept waiting after the warm-up. `log_entries_*` are of
what a process keeps after each of its steps: a send, or a receipt with all it delivers.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antecede.sim.schedule import Schedule
from antecede.sim.trace import Trace

Metric = float | int | bool | None
# A run is saturated if what waits keeps growing: see `is_saturated`.
GROWTH, BACKLOG = 1.5, 2.0
# A run has to last this many of the slowest copies' delays for that to show.
LONG = 30


@dataclass(frozen=True)
class Window:
    """The measured part of a run."""

    first: int  # place in the order of events
    sends: NDArray[np.int64]  # messages
    copies: NDArray[np.int64]  # copies of these messages
    delivered: NDArray[np.int64]  # copies delivered in it
    begin: float
    end: float


def window(schedule: Schedule, trace: Trace, warm_up: int) -> Window:
    """Return the part of a run after the warm-up."""
    order = trace.order[trace.order >= 0]
    is_delivery = order >= schedule.messages
    first = 0
    if warm_up > 0:
        places = np.flatnonzero(is_delivery)
        skip = warm_up * schedule.n
        first = int(places[skip - 1]) + 1 if skip <= len(places) else len(order)
    rest, delivery = order[first:], is_delivery[first:]
    sends = rest[~delivery]
    chosen = np.zeros(schedule.messages, bool)
    chosen[sends] = True
    copies = np.flatnonzero(chosen[schedule.message])
    delivered = rest[delivery] - schedule.messages
    times = trace.delivered[delivered]
    begin = float(times[0]) if len(times) else 0.0
    return Window(first, sends, copies, delivered, begin, float(times.max(initial=begin)))


def measure(
    schedule: Schedule, trace: Trace, *, model_bytes: NDArray[np.int64], warm_up: int = 0,
) -> dict[str, Metric]:  # fmt: skip
    """Return the figures of one run that every protocol has."""
    part = window(schedule, trace, warm_up)
    # If nothing was sent after the warm-up, sizes are unknown, not zero.
    copies, messages = len(part.copies) or np.nan, len(part.sends) or np.nan
    order_end = int((trace.order >= 0).sum())
    kept = trace.kept[part.first : order_end]
    kept = kept[(kept >= 0) & ~_midway(schedule, trace)[part.first : order_end]]
    added = trace.added[part.first : order_end]
    added_bytes = trace.added_bytes[part.first : order_end]
    sent = model_bytes[part.copies]
    figures: dict[str, Metric] = {
        "deliveries": len(part.delivered),
        "entries_per_copy": _known(trace.entries[part.copies].sum() / copies),
        "destinations_per_copy": _known(trace.destinations[part.copies].sum() / copies),
        "model_bytes_per_copy": _known(sent.sum() / copies),
        "model_bytes_per_message": _known(sent.sum() / messages),
        "wire_bytes_per_copy": None,
        "log_entries_mean": float(kept.mean()) if len(kept) else None,
        "log_entries_peak": int(kept.max()) if len(kept) else None,
        **_times(schedule, trace, part),
        "extra_packets_per_message": _known(added.sum() / messages),
        "extra_bytes_per_message": _known(added_bytes.sum() / messages),
        "saturated": is_saturated(schedule, trace),
        "undelivered": int(np.isnan(trace.delivered).sum()),
        "simulated_seconds": part.end - part.begin,
    }
    return figures


def spreads(schedule: Schedule, trace: Trace, warm_up: int = 0) -> dict[str, dict[str, int]]:
    """Count the measured copies by control entries (ten even steps) and time held (doubling)."""
    part = window(schedule, trace, warm_up)
    entries, waits = trace.entries[part.copies], _waits(schedule, trace, part.delivered)
    least, most = int(entries.min(initial=2**31 - 1)), int(entries.max(initial=0))
    width = (most - least) // 10 + 1
    even = {f"{low:,} to {low + width - 1:,}" if width > 1 else f"{low:,}": (low, low + width)
            for low in range(least, most + 1, width)}  # fmt: skip
    sizes = np.frexp(np.floor(1000 * waits[waits > 0]))[1]
    doubling = range(sizes.min(initial=99), sizes.max(initial=0) + 1)
    return {
        "Copies by control entries": {
            name: int(((low <= entries) & (entries < high)).sum())
            for name, (low, high) in even.items()
        },
        "Held copies by milliseconds held": {
            f"{2**size // 2:,} to {2**size:,}": int((sizes == size).sum()) for size in doubling
        },
    }


def _waits(schedule: Schedule, trace: Trace, copies: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return how long copies waited in their sender's queue and at their receiver."""
    queued = trace.posted[copies] - trace.sent[schedule.message[copies]]
    waits: NDArray[np.float64] = queued + (trace.delivered[copies] - trace.arrived[copies])
    return waits


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _midway(schedule: Schedule, trace: Trace) -> NDArray[np.bool_]:
    """Return which deliveries were followed by another at the same process and instant.

    What a process keeps is visible between its steps only, not midway.
    """
    order = trace.order
    midway = np.zeros(len(order), np.bool_)
    place = np.flatnonzero(order >= schedule.messages)
    place = place[place > 0]
    copy = order[place] - schedule.messages
    before = order[place - 1] - schedule.messages
    same = schedule.dests[before] == schedule.dests[copy]
    same &= trace.delivered[before] == trace.delivered[copy]
    midway[place - 1] = same & (before >= 0)
    return midway


def _times(schedule: Schedule, trace: Trace, part: Window) -> dict[str, Metric]:
    chosen = part.delivered
    message = schedule.message[chosen]
    waits = _waits(schedule, trace, chosen)
    positive = waits[waits > 0]
    p50, p95, p99 = np.quantile(positive, [0.5, 0.95, 0.99]) if len(positive) else (0, 0, 0)
    span = part.end - part.begin
    latency = trace.delivered[chosen] - trace.sent[message]
    return {
        "held_fraction": len(positive) / max(1, len(chosen)),
        "held_time_mean": float(positive.mean()) if len(positive) else 0.0,
        "held_time_p50": float(p50),
        "held_time_p95": float(p95),
        "held_time_p99": float(p99),
        "held_time_max": float(positive.max(initial=0.0)),
        "added_delay_mean": float(waits.mean()) if len(waits) else 0.0,
        "added_delay_p99": float(np.quantile(waits, 0.99)) if len(waits) else 0.0,
        "latency_mean": float(latency.mean()) if len(latency) else 0.0,
        "buffer_mean": float(waits.sum() / (span * schedule.n)) if span > 0 else 0.0,
        "buffer_peak": max(
            _peak(schedule.dests[chosen], trace.arrived[chosen], trace.delivered[chosen]),
            _peak(schedule.sender[message], trace.sent[message], trace.posted[chosen]),
        ),
    }


def _peak(place: NDArray[np.int32], begin: NDArray[np.float64], end: NDArray[np.float64]) -> int:
    """Return the most intervals open at once at one place."""
    rows = end > begin
    if not rows.any():
        return 0
    place, begin, end = place[rows], begin[rows], end[rows]
    places = np.concatenate([place, place])
    step = np.repeat(np.array([1, -1]), len(place))
    order = np.lexsort((step, np.concatenate([begin, end]), places))
    # The steps of every place add up to 0, so one running sum serves all of them.
    return int(np.cumsum(step[order]).max())


def is_saturated(schedule: Schedule, trace: Trace) -> bool:
    """Tell whether queues grow without bound.

    Compares the mean number of waiting copies in the first and the last third of the time in
    which messages are sent. A stable run has about as many in both, an overloaded one many more
    in the last (a queue at load 1 grows like the root of time, which gives 2.4).

    At first nothing waits because nothing has arrived, so the time that the slowest copies take
    is left out. A run less than :data:`LONG` times as long cannot tell growth from chance: what
    waits at one moment depends much on what waited shortly before.
    """
    begin = np.concatenate([trace.sent[schedule.message], trace.arrived])
    end = np.concatenate([trace.posted, trace.delivered])
    rows = (end > begin) | (np.isnan(end) & ~np.isnan(begin))
    if rows.sum() < 100:
        return False
    begin, end = begin[rows], end[rows]
    start, stop = float(np.nanmin(trace.sent)), float(np.nanmax(trace.sent))
    ramp = float(np.quantile(schedule.delays, 0.99))
    if stop - start <= LONG * ramp:
        return False
    start += ramp
    end = np.nan_to_num(end, nan=stop)
    edges = np.linspace(start, stop, 4)
    open_time = [
        float(np.clip(np.minimum(end, high) - np.maximum(begin, low), 0, None).sum())
        for low, high in itertools.pairwise(edges)
    ]
    third = (stop - start) / 3
    backlog = [time / (third * schedule.n) for time in open_time]
    return backlog[2] > BACKLOG and backlog[2] > GROWTH * max(backlog[0], 1e-12)
