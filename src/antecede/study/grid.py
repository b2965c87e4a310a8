"""From an experiment's cases to the grid: rows with an identity, an order and a cost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from antecede.runs import version
from antecede.sim.engine import choose_engine
from antecede.study.design import Case

_TEXT = (
    *("run_id", "experiment", "protocol", "options", "workload", "cast"),
    *("arguments", "schedule", "series", "facet"),
)

_OTHER = [("n", pa.int64()), ("seed", pa.int64()), ("x", pa.float64()), ("data", pa.binary())]
GRID = pa.schema([*((name, pa.string()) for name in _TEXT), *_OTHER])
"""The columns of a grid, one row per run. Runs with equal ``schedule`` share a schedule."""

UNIT_SECONDS = 4.0
"""Runs are packed into units of about this much work; runs on one schedule stay together."""

LONGEST_SECONDS = 45.0
"""Beyond this much work, runs on one schedule are split over several units."""

# Seconds per delivery on one core, a + b * n: only used to start long runs first.
_KERNEL = (1e-6, 5e-8)
_ENDPOINTS = (4e-4, 2e-5)
_FLAT, _FLAT_N = {"flooding", "tree", "permits", "hierarchy"}, 100
"""Beyond this many processes, the work per delivery of these protocols does not grow."""


def canonical(value: object) -> str:
    """Return the canonical JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(*parts: str | bytes) -> str:
    """Return a short hash of the parts."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.hexdigest()[:20]


def grid_rows(experiment: str, cases: Iterable[Case], *, seed: int) -> list[dict[str, Any]]:
    """Return an experiment's rows; ``seed`` is added to every case's own seed."""
    return [_row(experiment, case, seed) for case in cases]


def _row(experiment: str, case: Case, shift: int) -> dict[str, Any]:
    seed = case.seed + shift
    arguments, options = canonical(dict(case.arguments)), canonical(dict(case.options))
    schedule = digest(case.workload, arguments, str(seed), case.data or b"")
    place = canonical([experiment, case.series, case.facet, case.x])
    return {
        "run_id": digest(version(), place, case.protocol, options, schedule),
        "experiment": experiment,
        "protocol": case.protocol,
        "options": options,
        "workload": case.workload,
        "cast": str(case.arguments.get("cast", "")),
        "n": int(case.arguments.get("n", 0)),
        "seed": seed,
        "arguments": arguments,
        "schedule": schedule,
        "series": case.series,
        "facet": case.facet,
        "x": float(case.x),
        "data": case.data,
    }


def cost(row: dict[str, Any]) -> float:
    """Estimate the seconds that a run takes; only the order of magnitude matters."""
    arguments = json.loads(row["arguments"])
    n = max(1, int(row["n"]))
    deliveries = n * float(arguments.get("received", 1000) + arguments.get("warm_up", 0))
    if row["protocol"] in _FLAT:
        n = min(n, _FLAT_N)
    engine = choose_engine(row["protocol"], "auto", json.loads(row["options"]))
    a, b = _KERNEL if engine == "kernel" else _ENDPOINTS
    return deliveries * (a + b * n)


def units(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Pack runs into units of work, the longest first, so that no core is idle at the end.

    Runs on one schedule stay together, up to ``LONGEST_SECONDS``, because making a schedule takes
    about as long as running it once.
    """
    ordered = sorted(rows, key=lambda row: (row["schedule"], row["run_id"]))
    packed: list[tuple[float, list[dict[str, Any]]]] = []
    unit: list[dict[str, Any]] = []
    weight = 0.0
    for row in ordered:
        own = cost(row)
        same = bool(unit) and unit[-1]["schedule"] == row["schedule"]
        if unit and weight + own > (LONGEST_SECONDS if same else UNIT_SECONDS):
            packed.append((weight, unit))
            unit, weight = [], 0.0
        unit.append(row)
        weight += own
    if unit:
        packed.append((weight, unit))
    packed.sort(key=lambda pair: -pair[0])
    return [rows for _, rows in packed]
