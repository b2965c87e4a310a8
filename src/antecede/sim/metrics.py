"""The figures of a run: the columns of the study's table, computed from the trace.

Kernels and the plain engine fill the same trace, so both are measured here.

What is counted
---------------
The first `warm_up` deliveries per process (on average) are left out: sizes count copies sent
after that moment, times count copies delivered after it. A copy is *held* if it had to wait: at
its receiver for its causes (`delivered - arrived`), or in its sender's output queue if the
protocol has one (`posted - sent`). `held_time_*` cover held copies, `added_delay_*` all copies.
`buffer_mean` is how many copies one process keeps waiting, averaged over the measured time;
`buffer_peak` is the most that any process kept waiting after the warm-up. `log_entries_*` count
what a process keeps after each of its steps: a send, or a receipt and the deliveries it allows.
`size_drift` and `latency_drift` compare the second half of the measured part with the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antecede.sim.schedule import HEADER_BYTES, Schedule
from antecede.sim.trace import Trace

Metric = float | int | bool | None
# From this load on a queue grows without bound; a run's own load is known to about 1%.
FULL = 0.99
# At least this many messages must wait before that is judged.
ENOUGH = 100


@dataclass(frozen=True)
class Window:
    """The measured part of a run."""

    first: int  # place in the order of events
    sends: NDArray[np.int64]  # messages
    copies: NDArray[np.int64]  # copies of these messages
    delivered: NDArray[np.int64]  # copies delivered in the window
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
    """Return the figures of one run that all protocols share."""
    part = window(schedule, trace, warm_up)
    # If no message was sent after the warm-up, sizes are unknown, not zero.
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
        "size_drift": drift(sent),
        "latency_drift": drift(
            trace.delivered[part.delivered] - trace.sent[schedule.message[part.delivered]]
        ),
        "extra_packets_per_message": _known(added.sum() / messages),
        "extra_bytes_per_message": _known(added_bytes.sum() / messages),
        **_queue_figures(schedule, trace),
        **_link_figures(schedule, model_bytes),
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


def drift(values: NDArray[Any]) -> float | None:
    """Return how much the second half of a run differs from the first, as a share of the mean.

    A run that has settled drifts only by chance: over several seeds, in either direction.
    """
    middle, mean = len(values) // 2, float(values.mean()) if len(values) else 0.0
    if not middle or not mean:
        return None
    return float(values[middle:].mean() - values[:middle].mean()) / mean


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _midway(schedule: Schedule, trace: Trace) -> NDArray[np.bool_]:
    """Return which deliveries were followed by another at the same process and instant.

    What a process keeps can be seen only between its steps, not in the middle of one.
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
    """Return the largest number of intervals that are open at once at one place."""
    rows = end > begin
    if not rows.any():
        return 0
    place, begin, end = place[rows], begin[rows], end[rows]
    places = np.concatenate([place, place])
    step = np.repeat(np.array([1, -1]), len(place))
    order = np.lexsort((step, np.concatenate([begin, end]), places))
    # The steps of every place add up to 0, so one running sum serves all places.
    return int(np.cumsum(step[order]).max())


@dataclass(frozen=True)
class Queue:
    """The senders' output queues: their load, and how much they grew.

    `load` is the time that a message occupies the head of the queue, divided by the gap between
    messages: a queue with a load below 1 is stable, however long it gets by chance. `drift` is how
    many more messages wait when sending ends than halfway, per message sent in between.
    """

    load: float
    drift: float

    @property
    def is_saturated(self) -> bool:
        """Whether the queues grow without bound: the load is too high, and they did grow."""
        return self.load >= FULL and self.drift > 0


def output_queue(schedule: Schedule, trace: Trace) -> Queue | None:
    """Estimate the load of the senders' output queues; None if hardly any message waited there.

    While messages wait, the head of a queue leaves as soon as the one before it is finished. So the
    time between two departures is the time that a message takes, if the second was already waiting
    when the first left. (A message that came later waited because the first took long.)
    """
    posted = trace.posted[schedule.offsets[:-1]]
    sent = trace.sent
    left = np.flatnonzero(~np.isnan(posted))
    if (posted[left] > sent[left]).sum() < ENOUGH:
        return None
    rows = left[np.lexsort((posted[left], schedule.sender[left]))]
    first, second = rows[:-1], rows[1:]
    following = schedule.sender[first] == schedule.sender[second]
    following &= (sent[second] <= posted[first]) & (posted[second] > sent[second])
    service = float((posted[second] - posted[first])[following].mean()) if following.any() else 0.0
    start, stop = float(np.nanmin(sent)), float(np.nanmax(sent))
    senders = len(np.unique(schedule.sender))
    load = service * len(sent) / (senders * max(stop - start, 1e-12))
    half = (start + stop) / 2
    done = np.nan_to_num(posted, nan=np.inf)
    middle, end = (int(((sent <= now) & (done > now)).sum()) for now in (half, stop))
    return Queue(load, (end - middle) / max(1, int((sent > half).sum())))


def _queue_figures(schedule: Schedule, trace: Trace) -> dict[str, Metric]:
    queue = output_queue(schedule, trace)
    if queue is None:
        return {"saturated": False}
    return {
        "saturated": queue.is_saturated, "queue_load": queue.load, "queue_drift": queue.drift,
    }  # fmt: skip


def _link_figures(schedule: Schedule, model_bytes: NDArray[np.int64]) -> dict[str, Metric]:
    """Return the load of the busiest link, if links have a limited bandwidth."""
    if schedule.bandwidth <= 0:
        return {}
    sizes = HEADER_BYTES + schedule.payload + model_bytes
    channel = schedule.sender[schedule.message].astype(np.int64) * schedule.n + schedule.dests
    span = float(np.nanmax(schedule.time) - np.nanmin(schedule.time))
    loads = np.bincount(channel, weights=sizes) / (schedule.bandwidth * max(span, 1e-12))
    return {"link_load": float(loads[loads > 0].mean()), "link_load_peak": float(loads.max())}
