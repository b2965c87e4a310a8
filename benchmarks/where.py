"""Where the time goes: kernels, endpoints, the local audit and nodes, by parts.

Kernels and endpoints are timed part by part. The audit and the node are profiled, which slows
short functions down, so their shares are rough. ``reorder`` records the phases of its batches.
"""

from __future__ import annotations

import asyncio
import cProfile
import heapq
import logging
import pstats
import random
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

import antecede
from antecede import sim
from antecede.audit.api import audit_table
from antecede.sim.kernels.registry import KERNELS
from antecede.sim.metrics import measure as measure_trace
from antecede.sim.workloads import paper
from benchmarks import brokers
from benchmarks._ports import free_ports
from benchmarks._tables import record
from benchmarks.audit import make_log

R = TypeVar("R")
PARTS_SHOWN = 6


class Parts:
    """CPU seconds of a piece of work by part."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def timed(self, part: str, call: Callable[[], R]) -> R:
        """Make a call and add its time to a part."""
        begin = time.process_time()
        found = call()
        self.seconds[part] += time.process_time() - begin
        return found

    def show(self, what: str) -> None:
        """Print and record the shares."""
        whole = sum(self.seconds.values()) or 1.0
        shown = sorted(self.seconds.items(), key=lambda item: -item[1])[:PARTS_SHOWN]
        rest = whole - sum(seconds for _, seconds in shown)
        for part, seconds in [*shown, ("everything else", rest)]:
            if seconds / whole >= 0.005:
                record("where", what=what, part=part, share=seconds / whole)
        told = ", ".join(f"{part} {seconds / whole:.0%}" for part, seconds in shown)
        print(f"{what}: {told}", flush=True)


def kernels(*, quick: bool) -> None:
    """Time a run of optimal, from the arguments of the workload to its metrics."""
    n, received = (5, 50) if quick else (30, 20_000)
    parts = Parts()
    make = partial(paper, n=n, cast="multicast", received=received, seed=1)
    schedule = parts.timed("making the schedule", make)
    parts.timed("sorting its events", lambda: schedule.fixed_events)
    kernel = KERNELS["optimal"]
    plan = parts.timed("planning", lambda: kernel.plan(schedule))
    state = parts.timed("the kernel", lambda: kernel.simulate(plan, n))
    sizes = 6 * state.trace.entries.astype(np.int64) + 2 * state.trace.destinations.astype(np.int64)
    parts.timed(
        "measuring the trace",
        lambda: measure_trace(schedule, state.trace, warm_up=0, model_bytes=sizes),
    )
    parts.show(f"kernel of optimal, {n} processes, multicast")


def endpoints(n: int, *, quick: bool) -> None:
    """Time endpoints of optimal with the codec; packets arrive in the order of random times."""
    names = tuple(f"p{number}" for number in range(n))
    ends = {name: antecede.endpoint("optimal", process=name, members=names) for name in names}
    codec, rng, parts = antecede.Codec(names), random.Random(1), Parts()
    way: list[tuple[float, int, str, bytes]] = []
    for number in range(100 if quick else 4000):
        sender = rng.choice(names)
        dests = rng.sample([name for name in names if name != sender], max(1, n // 2))
        sent = parts.timed("send", partial(ends[sender].send, dests, b"")).packets
        for packet in sent:
            data = parts.timed("encode", partial(codec.encode, packet))
            when = number + rng.expovariate(1 / (n / 2))
            heapq.heappush(way, (when, len(way), packet.dest, data))
        while way and way[0][0] <= number:
            _, _, dest, data = heapq.heappop(way)
            arrived = parts.timed("decode", partial(codec.decode, data))
            parts.timed("receive", partial(ends[dest].receive, arrived))
    parts.show(f"endpoints of optimal with codec, {n} processes, multicast")


def profiled(what: str, call: Callable[[], object]) -> None:
    """Profile a call, and add up the time of functions by package."""
    profile = cProfile.Profile()
    profile.enable()
    call()
    profile.disable()
    parts = Parts()
    table = pstats.Stats(profile).stats  # type: ignore[attr-defined]  # typeshed lacks it
    for (file, _, name), (_, _, own, _, _) in table.items():
        parts.seconds[_package(file, name)] += own
    parts.seconds.pop("waiting", None)
    parts.show(what)


def _package(file: str, name: str) -> str:
    """Return the package that a function belongs to."""
    if "poll" in name or "select.epoll" in name or "lock.acquire" in name:
        return "waiting"
    if "_socket" in name:
        return "sockets"
    words = Path(file).with_suffix("").parts
    if "antecede" in words:
        at = len(words) - 1 - words[::-1].index("antecede")
        return ".".join(words[at : at + (4 if "audits" in words else 2)])
    for package in ("asyncio", "numpy", "pyarrow", "numba"):
        if package in words or package in name:
            return package
    return "Python's own functions"


def audit(*, quick: bool) -> None:
    events = 20_000 if quick else 2_000_000
    table = make_log(events, 50)
    audit_table(table.slice(0, 1000), engine="local")
    profiled(
        f"local audit of {events:,} events, 50 processes",
        lambda: audit_table(table, engine="local"),
    )


def node(*, quick: bool) -> None:
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    ports = free_ports(3)
    places = {n: f"127.0.0.1:{port}" for n, port in zip(brokers.NAMES, ports, strict=True)}
    window, seconds = (4, 0.2) if quick else (256, 2.0)
    try:
        with brokers.others("node_tcp", places):
            work = partial(brokers.measure, "node_tcp", places, window, seconds)
            profiled(f"a node over TCP that sends, window {window}", lambda: asyncio.run(work()))
    finally:
        logging.disable(level)


def main(*, quick: bool) -> bool:
    sim.warm()
    kernels(quick=quick)
    for n in (3, 30):
        endpoints(n, quick=quick)
    audit(quick=quick)
    node(quick=quick)
    return True
