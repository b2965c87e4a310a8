"""Comparison of the runs of two engines, and random schedules to compare them on."""

from __future__ import annotations

import numpy as np

import antecede
from antecede import sim
from antecede.sim.trace import Trace
from antecede.sim.workloads import WORKLOADS, with_semantics

PROTOCOLS = tuple(sim.KERNELS)
CASTS = ("unicast", "multicast", "broadcast")


def widest(protocol: str) -> str:
    """Return the cast to run a protocol with: multicast if it can."""
    casts = antecede.PROTOCOLS[protocol].casts
    return next(cast for cast in ("multicast", "broadcast", "unicast") if cast in casts)


def differences(kernel: Trace, plain: Trace) -> list[str]:
    """Name the columns in which two traces differ.

    The plain engine sees an endpoint's state only after the last of several deliveries at once, so
    the kept, added and noted values are compared there, the latter two as running sums.
    """
    seen = plain.kept >= 0
    bad = []
    for name in Trace._fields:
        a, b = getattr(kernel, name), getattr(plain, name)
        if name == "kept":
            a, b = a[seen], b[seen]
        elif name in ("added", "added_bytes", "noted"):
            a, b = np.cumsum(a)[seen], np.cumsum(b)[seen]
        if not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
            bad.append(name)
    return bad


def random_schedule(seed: int, n: int, copies: int, *, cast: str) -> sim.Schedule:
    """Return any schedule: equal times, no delays, long chains of triggers, wide multicasts."""
    rng = np.random.default_rng([seed, n])
    sender: list[int] = []
    dests: list[list[int]] = []
    time: list[float] = []
    trigger: list[int] = []
    clock = 0.0
    total = 0
    replies = 0.4 if rng.random() < 0.6 else 0.0
    while total < copies:
        cause = int(rng.integers(len(sender))) if sender and rng.random() < replies else -1
        place = int(rng.choice(dests[cause])) if cause >= 0 else int(rng.integers(n))
        width = {"unicast": 1, "broadcast": n - 1}.get(cast) or int(rng.integers(1, n))
        others = [d for d in range(n) if d != place]
        dests.append(sorted(rng.permutation(others)[:width].tolist()))
        clock += float(rng.choice([0.0, 0.0, 0.01, 0.1]))
        sender.append(place)
        trigger.append(cause)
        time.append(np.nan if cause >= 0 else clock)
        total += width
    count = len(sender)
    widths = [len(d) for d in dests]
    model = sim.Delay.uniform(0.0, 0.3)
    grid = rng.random() < 0.5
    delays = rng.choice([0.0, 0.05, 0.1], total) if grid else rng.exponential(0.1, total)
    schedule = sim.Schedule(
        n=n,
        sender=np.array(sender, np.int32),
        offsets=np.concatenate([[0], np.cumsum(widths)]).astype(np.int64),
        dests=np.array([d for row in dests for d in row], np.int32),
        delays=delays,
        time=np.array(time),
        trigger=np.array(trigger, np.int64),
        think=np.where(np.isnan(time), rng.choice([0.0, 0.02], count), 0.0),
        rank=np.full(count, -1, np.int32),
        seed=seed,
        added=sim.Delay.constant(0.05) if grid else model,
        fifo=bool(rng.random() < 0.3),
    )
    return with_semantics(schedule.validate(), probability=0.6, reach=4)


def workload_schedule(name: str, n: int, *, seed: int, cast: str = "") -> sim.Schedule:
    """Return a small schedule of a workload, with semantic dependences."""
    more = {"cast": cast} if cast else {}
    schedule = WORKLOADS[name](
        n=n,
        received=max(2, 120 // n),
        seed=seed,
        fifo=seed % 2 == 1,
        delay="lognormal:0.05:1.5",
        **more,
    )
    return with_semantics(schedule, probability=0.5, reach=4)
