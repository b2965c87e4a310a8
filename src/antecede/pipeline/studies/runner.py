"""What an executor does with one row of the grid: make the schedule, run the protocol."""

from __future__ import annotations

import json
import tempfile
import time
import zlib
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

import antecede
from antecede.core.tables import STUDY_COLUMNS
from antecede.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from antecede.sim.engine import Run
    from antecede.sim.schedule import Schedule
    from antecede.sim.trace import Trace

METRICS: tuple[str, ...] = STUDY_COLUMNS[
    STUDY_COLUMNS.index("deliveries") : STUDY_COLUMNS.index("saturated")
]
"""The measured columns of the ``study`` table, in its order."""


def execute(row: Mapping[str, Any]) -> dict[str, Any]:
    """Run one row of the grid; return its metrics, ``saturated``, ``seconds`` and extras.

    ``seconds`` is the processor time of the engine alone, and ``timed_deliveries`` are all that it made, the
    warm-up's too: making the schedule, measuring and replaying are not in it. The option ``without``
    of ``pruned`` names a kind of pruning to leave out (``redundancy``).
    """
    from antecede.pipeline.studies import replays
    from antecede.sim.semantics import false_causality

    schedule = _schedule(row["workload"], row["arguments"], row["seed"], row["data"])
    arguments, options = json.loads(row["arguments"]), json.loads(row["options"])
    warm_up = int(arguments.get("warm_up", 0))
    network = float(schedule.delays.mean()) if len(schedule.delays) else 0.0
    if "without" in options:
        run = _run("optimal", schedule, {}, warm_up)
        trace, without = run.trace, options["without"] or None
        measured: dict[str, Any] = {
            **replays.redundancy(schedule, trace, warm_up=warm_up, without=without),
            "seconds": run.metrics["seconds"],
        }
    elif isinstance(options.get("k"), dict):
        trace, measured = _uneven(schedule, options, warm_up)
    else:
        run = _run(row["protocol"], schedule, options, warm_up)
        trace, measured = run.trace, dict(run.metrics)
    measured["timed_deliveries"] = int((~np.isnan(trace.delivered)).sum())
    # Only a queue at the sender can grow without bound; what is held waits for copies under way.
    is_queueing = antecede.PROTOCOLS[row["protocol"]].queueing
    measured["saturated"] = bool(measured.get("saturated")) and is_queueing
    measured["network_delay_mean"] = network
    if row["data"] is not None:
        measured["matrix_bytes"] = 4 * schedule.n**2
    if row["protocol"] == "buffered":
        each = _acknowledgement_bytes(schedule.names)
        packets = measured["extra_packets_per_message"]
        measured["acknowledgement_bytes_per_message"] = packets and each * packets
    if "semantics" in arguments:
        measured |= false_causality(schedule, trace, limit=None)
    return measured


def _run(protocol: str, schedule: Schedule, options: dict[str, Any], warm_up: int) -> Run:
    """Run a protocol; the first time in this process, load its kernel before the clock starts."""
    from antecede import sim

    _loaded(protocol)
    return sim.run(protocol, schedule, options=options, warm_up=warm_up)


@cache
def _loaded(protocol: str) -> None:
    from antecede import sim
    from antecede.sim.workloads import paper

    if protocol in sim.KERNELS:
        sim.run(protocol, paper(n=2, received=2))


def _acknowledgement_bytes(names: tuple[str, ...]) -> int:
    """Return the length of an encoded acknowledgement, header and all."""
    sender = antecede.endpoint("buffered", process=names[0], members=names)
    receiver = antecede.endpoint("buffered", process=names[1], members=names)
    (packet,) = sender.send([names[1]], b"").packets
    (answer,) = receiver.receive(packet).packets
    return len(antecede.Codec(names).encode(answer))


def _uneven(
    schedule: Schedule, options: dict[str, Any], warm_up: int
) -> tuple[Trace, dict[str, Any]]:
    """Run bounded with a limit of its own for each process; the engines take one for all."""
    from antecede.sim.metrics import measure
    from antecede.sim.plain import NO_LIMIT, PlainRun

    limits: dict[str, int] = options["k"]
    run = PlainRun("bounded", schedule, {**options, "k": max(limits.values())})
    run.endpoints = [
        antecede.endpoint(
            "bounded",
            process=name,
            members=schedule.names,
            held_max=NO_LIMIT,
            **{**options, "k": limits[name]},
        )
        for name in schedule.names
    ]
    begun = time.thread_time()
    trace = run.run()
    seconds = time.thread_time() - begun
    found = measure(schedule, trace, model_bytes=run.model_bytes, warm_up=warm_up)
    return trace, {**found, "seconds": seconds}


@lru_cache(maxsize=1)
def _schedule(workload: str, arguments: str, seed: int, data: bytes | None) -> Schedule:
    """Return the schedule of a row; the last one is kept, as neighbours share it."""
    from antecede.sim import workloads

    chosen: dict[str, Any] = json.loads(arguments)
    semantics = chosen.pop("semantics", None)
    if data is not None:
        schedule = _replayed(data, seed=seed, delay=chosen["delay"])
    else:
        schedule = workloads.WORKLOADS[workload](seed=seed, **chosen)
    if semantics is not None:
        schedule = workloads.with_semantics(schedule, **semantics)
    return schedule


def pack_edges(path: Path) -> bytes:
    """Read an edge list as bytes that travel in a row of the grid; refuse one that is none."""
    from antecede.sim import workloads

    try:
        content = path.read_bytes()
    except OSError as error:
        msg = f"cannot read --traffic {path} ({error.strerror}): give a file of edges"
        raise UsageError(msg) from error
    workloads.replay_edges(path)
    return zlib.compress(content)


def _replayed(data: bytes, *, seed: int, delay: str) -> Schedule:
    from antecede.sim import workloads

    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(zlib.decompress(data))
        file.flush()
        return workloads.replay_edges(file.name, seed=seed, delay=delay)
