"""Measuring one run on an executor: make the schedule, run the protocol on it."""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import antecede
from antecede import sim
from antecede.errors import UsageError
from antecede.events.content import content_of, is_stream
from antecede.sim import workloads
from antecede.sim.kernels.registry import KERNELS
from antecede.sim.semantics import false_causality
from antecede.sim.trace import Trace


@dataclass(frozen=True, slots=True)
class Task:
    """A row of the grid, unpacked."""

    protocol: str
    series: str
    options: dict[str, Any]
    schedule: sim.Schedule
    warm_up: int


Measure = Callable[[Task], dict[str, Any]]
"""Returns the metrics of a run, ``saturated``, ``seconds`` and anything else it measures.

``seconds`` is the processor time of the engine alone: schedules, metrics and replays are not timed.
``timed_deliveries`` counts all deliveries in that time, including the warm-up.
"""


def unpack(row: Mapping[str, Any]) -> Task:
    """Return the task of a grid row, with its schedule."""
    arguments = json.loads(row["arguments"])
    return Task(
        row["protocol"],
        row["series"],
        json.loads(row["options"]),
        _schedule(row["workload"], row["arguments"], row["seed"], row["data"]),
        int(arguments.get("warm_up", 0)),
    )


def measure_run(task: Task) -> dict[str, Any]:
    """Run the task's protocol and return its metrics, as most experiments do."""
    return metrics(task, run_task(task.protocol, task))


def measure_falsely_held(task: Task) -> dict[str, Any]:
    """Run the protocol and return its metrics, and its holds that no semantic cause explains."""
    found = run_task(task.protocol, task)
    false = false_causality(task.schedule, found.trace, warm_up=task.warm_up, limit=None)
    return {**metrics(task, found), **false}


SHORT = 1000
"""Up to this many copies, compiling a kernel takes longer than it saves, unless done ahead."""


def run_task(protocol: str, task: Task) -> sim.Run:
    """Run a protocol on the task's schedule; the kernel is loaded before the clock starts.

    All engines see the same run, so the choice of engine changes only the time.
    """
    kernel = KERNELS.get(protocol)
    if kernel is None or (not kernel.ahead and task.schedule.copies <= SHORT):
        engine = "plain"
    else:
        engine = "auto"
        _load(protocol)
    return sim.run(
        protocol, task.schedule, options=task.options, warm_up=task.warm_up, engine=engine
    )


@cache
def _load(protocol: str) -> None:
    sim.run(protocol, workloads.paper(n=2, received=2))


def metrics(task: Task, found: sim.Run) -> dict[str, Any]:
    """Return the metrics of a run of the task's protocol.

    Only a protocol that queues messages or a link of limited bandwidth can saturate.
    """
    is_queueing = antecede.PROTOCOLS[task.protocol].queueing
    saturated = bool(found.metrics.get("saturated")) and is_queueing
    saturated |= float(found.metrics.get("link_load_peak") or 0.0) >= 1
    return {**found.metrics, **timing(task, found.trace), "saturated": saturated}


def timing(task: Task, trace: Trace) -> dict[str, Any]:
    """Return the figures that every run reports besides its metrics."""
    schedule, delays = task.schedule, task.schedule.delays
    return {
        "timed_deliveries": int((~np.isnan(trace.delivered)).sum()),
        "data_packets_per_message": schedule.copies / max(1, schedule.messages),
        "network_delay_mean": float(delays.mean()) if len(delays) else 0.0,
    }


@lru_cache(maxsize=1)
def _schedule(workload: str, arguments: str, seed: int, data: bytes | None) -> sim.Schedule:
    """Return a row's schedule; the last one is cached, because neighbouring rows share it."""
    chosen: dict[str, Any] = json.loads(arguments)
    semantics, links = chosen.pop("semantics", None), chosen.pop("links", None)
    if data is not None:
        with tempfile.NamedTemporaryFile(suffix=".txt") as file:
            file.write(zlib.decompress(data))
            file.flush()
            schedule = workloads.replay_edges(file.name, seed=seed, **chosen)
    else:
        schedule = workloads.WORKLOADS[workload](seed=seed, **chosen)
    if semantics is not None:
        schedule = workloads.with_semantics(schedule, **semantics)
    if links is not None:
        schedule = workloads.with_links(schedule, **links)
    return schedule


def pack_edges(path: Path) -> bytes:
    """Read an edge list into bytes that fit into a grid row; refuse any other file."""
    if is_stream(path):
        msg = f"--traffic {path} is a pipe, but is read several times; pipe it in, and give -"
        raise UsageError(msg)
    try:
        content = content_of(path)
    except OSError as error:
        msg = f"cannot read --traffic {path} ({error.strerror}); give the path of an edge list"
        raise UsageError(msg) from error
    try:
        workloads.replay_edges(path)
    except UsageError as error:
        msg = f"cannot replay --traffic {path}: {error}"
        raise UsageError(msg) from error
    return zlib.compress(content)
