"""From an experiment's cases to the grid: rows with an identity, an order and a cost."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from antecede.pipeline.runs import version

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from antecede.pipeline.studies.experiments.base import Case

_TEXT = (
    *("run_id", "experiment", "protocol", "options", "workload", "cast"),
    *("arguments", "schedule", "series", "facet"),
)

_TEXTS: dict[str, pa.DataType] = dict.fromkeys(_TEXT, pa.string())
_OTHER: dict[str, pa.DataType] = {
    "n": pa.int64(),
    "seed": pa.int64(),
    "x": pa.float64(),
    "data": pa.binary(),
}
GRID = pa.schema(_TEXTS | _OTHER)
"""A run before it is run. ``schedule`` names what it runs on: equal names, equal schedules."""

UNIT_SECONDS = 1.5
"""Runs are handed out in units of about this much work, those on one schedule together."""

LONGEST_SECONDS = 45.0
"""Beyond this, runs on one schedule are handed out apart."""

# Seconds per delivery on one core, a + b * n + c * n * n, only to hand out long runs first.
_WEIGHTS = {
    "matrix": (1e-6, 0.0, 5e-10),
    "semantic": (1e-6, 0.0, 2e-9),
    "vectors": (4e-4, 6e-5, 0.0),
    "direct": (1e-6, 0.0, 1.8e-9),
    "pruned": (1e-6, 2e-8, 0.0),
    "optimal": (1e-6, 2e-8, 0.0),
    "bounded": (1e-6, 0.0, 4e-9),
    "buffered": (1e-6, 0.0, 0.0),
}
_UNKNOWN = (4e-4, 2e-5, 0.0)


def canonical(value: object) -> str:
    """Return the one JSON text of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(*parts: str | bytes) -> str:
    """Return a short name that differs whenever a part does."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(len(data).to_bytes(8, "big") + data)
    return whole.hexdigest()[:20]


def grid_rows(experiment: str, cases: Iterable[Case], *, seed: int) -> list[dict[str, Any]]:
    """Return an experiment's rows; ``seed`` shifts every case's own."""
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
    """Return about how many seconds a run takes; only its order of magnitude matters."""
    arguments = json.loads(row["arguments"])
    n = max(1, int(row["n"]))
    deliveries = n * float(arguments.get("received", 1000) + arguments.get("warm_up", 0))
    a, b, c = _WEIGHTS.get(row["protocol"], _UNKNOWN)
    return deliveries * (a + b * n + c * n * n)


def units(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Pack runs into units of work, the longest first, so that no core is idle at the end.

    Runs on one schedule stay together, up to ``LONGEST_SECONDS``: making a schedule takes about
    as long as running it once.
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
