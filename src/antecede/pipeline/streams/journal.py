"""What goes into the log of a bucket's state: what a batch changed, or everything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from antecede.pipeline.streams.machine import Changes, Machine
from antecede.pipeline.streams.memory import Generation
from antecede.pipeline.streams.store import pack_numbers


def pack_generation(generation: Generation) -> bytes:
    """Return the keys that were delivered together as bytes."""
    return pack_numbers({"time": [generation.time], "keys": generation.keys})


def delta(
    machine: Machine, changes: Changes, left: list[tuple[int, int]], now: int
) -> dict[str, Any]:
    """Return what a batch changed; ``left`` are the rows that left their chunks."""
    dests = sorted(changes.dests)
    return {
        "dest": dests,
        "position": [machine.positions[dest] for dest in dests],
        "channel": [run[0] for run in changes.runs],
        "low": [run[1] for run in changes.runs],
        "high": [run[2] for run in changes.runs],
        "grown": [now] * len(changes.runs),
        "closed": [],
        "floor": [],
        "chunk": [ref[0] for ref in left],
        "row": [ref[1] for ref in left],
        "overdue": changes.overdue,
        "overdue_time": [now] * len(changes.overdue),
        "settled": changes.settled,
        "pinned": [],
    }


def everything(machine: Machine, dead: Iterable[tuple[int, int]]) -> dict[str, Any]:
    """Return all counters and runs; ``dead`` are the rows that have left chunks."""
    dead = list(dead)
    runs = [(channel, *run) for channel, found in machine.seen.items() for run in found]
    floors = [(c, found.floor) for c, found in machine.seen.items() if found.floor is not None]
    return {
        "dest": list(machine.positions),
        "position": list(machine.positions.values()),
        "channel": [run[0] for run in runs],
        "low": [run[1] for run in runs],
        "high": [run[2] for run in runs],
        "grown": [run[3] for run in runs],
        "closed": [floor[0] for floor in floors],
        "floor": [floor[1] for floor in floors],
        "chunk": [ref[0] for ref in dead],
        "row": [ref[1] for ref in dead],
        "overdue": list(machine.overdue),
        "overdue_time": list(machine.overdue.values()),
        "settled": [],
        "pinned": sorted(machine.memory.pinned),
    }
