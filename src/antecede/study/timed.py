"""Run step-by-step specifications of processes on a schedule.

For variants and answers that exist only as specifications, not as protocols.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from antecede.protocols.specs import Copy, Specified
from antecede.sim.metrics import drift
from antecede.sim.schedule import Schedule


def play(
    schedule: Schedule,
    processes: Sequence[Specified],
    send: Callable[[int, int, frozenset[str]], None],
    size: Callable[[Copy], int],
    *,
    warm_up: int,
) -> dict[str, Any]:
    """Send and deliver every message of a schedule; return the metrics of the run.

    ``send(row, place, dests)`` lets the process at a place send a message, and ``size`` returns
    the bytes of control of a copy. Packets that are not messages (``number`` is 0) count as added,
    and have random delays of the same mean.
    """
    names, rng = schedule.names, np.random.default_rng(schedule.seed)
    place_of = {name: place for place, name in enumerate(names)}
    rows: dict[tuple[str, int], int] = {}
    sent = [0] * schedule.n
    mean = float(schedule.delays.mean())
    flying: list[tuple[float, int, Copy | None]] = [
        (float(when), row, None) for row, when in enumerate(schedule.time)
    ]
    arrived: dict[tuple[str, int, str], float] = {}
    made, deliveries = schedule.messages, 0
    messages = added = extra = waits = 0
    carried: list[int] = []
    latency: list[float] = []
    begun = time.process_time()
    while flying:
        now, row, copy = heappop(flying)
        is_measured = deliveries >= warm_up * schedule.n
        if copy is None:
            place = int(schedule.sender[row])
            chosen = schedule.dests[schedule.offsets[row] : schedule.offsets[row + 1]]
            sent[place] += 1
            rows[names[place], sent[place]] = row
            send(row, place, frozenset(names[dest] for dest in chosen))
            messages += is_measured
        else:
            place = place_of[copy.dest]
            if copy.number:
                arrived[copy.source, copy.number, copy.dest] = now
            for one in processes[place].receive(copy):
                deliveries += 1
                since = arrived.pop((one.source, one.number, one.dest))
                if is_measured:
                    latency.append(now - float(schedule.time[rows[one.source, one.number]]))
                    waits += since < now
        for one in processes[place].outbox:
            bytes_ = size(one)
            if one.number:
                own = rows[one.source, one.number]
                low, high = schedule.offsets[own], schedule.offsets[own + 1]
                to = list(schedule.dests[low:high]).index(place_of[one.dest])
                delay = float(schedule.delays[low + to])
                if is_measured:
                    carried.append(bytes_)
            else:
                delay = rng.exponential(mean)
                added, extra = added + is_measured, extra + bytes_ * is_measured
            made += 1
            heappush(flying, (now + delay, made, one))
        processes[place].outbox.clear()
    messages, copies = max(1, messages), max(1, len(latency))
    return {
        "deliveries": deliveries,
        "timed_deliveries": deliveries,
        "seconds": time.process_time() - begun,
        "latency_mean": sum(latency) / copies,
        "held_fraction": waits / copies,
        "model_bytes_per_copy": sum(carried) / max(1, len(carried)),
        "model_bytes_per_message": sum(carried) / messages,
        "size_drift": drift(np.array(carried)),
        "latency_drift": drift(np.array(latency)),
        "extra_packets_per_message": added / messages,
        "extra_bytes_per_message": extra / messages,
        "data_packets_per_message": schedule.copies / schedule.messages,
    }
