"""Which protocols have a kernel, and how to call it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from antecede.sim.kernels import logs, matrix
from antecede.sim.kernels.common import Plan
from antecede.sim.kernels.drive import Common, Progress

Simulator = Callable[[Plan, int, Mapping[str, Any], "Progress | None"], Common]


def _optimal(plan: Plan, n: int, _options: Mapping[str, Any], progress: Progress | None) -> Common:
    return logs.simulate(plan, n, pruned=False, progress=progress)


def _pruned(plan: Plan, n: int, _options: Mapping[str, Any], progress: Progress | None) -> Common:
    return logs.simulate(plan, n, pruned=True, progress=progress)


def _matrix(plan: Plan, n: int, _options: Mapping[str, Any], progress: Progress | None) -> Common:
    return matrix.simulate(plan, n, progress)


SIMULATORS: dict[str, Simulator] = {"matrix": _matrix, "optimal": _optimal, "pruned": _pruned}
# Options a kernel understands; with any other the plain engine runs.
OPTIONS: dict[str, frozenset[str]] = {}
