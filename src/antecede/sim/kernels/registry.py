"""Which protocols have a kernel, and how to call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from antecede.sim.kernels import bounded, buffered, direct, logs, matrix, semantic
from antecede.sim.kernels.common import Plan
from antecede.sim.kernels.drive import Common, Progress

Simulator = Callable[[Plan, int, dict[str, Any], Progress | None], Common]

SIMULATORS: dict[str, Simulator] = {
    "matrix": lambda plan, n, _, progress: matrix.simulate(plan, n, progress),
    "direct": lambda plan, n, options, progress: direct.simulate(
        plan, n, progress=progress, **options
    ),
    "pruned": lambda plan, n, _, progress: logs.simulate(plan, n, pruned=True, progress=progress),
    "optimal": lambda plan, n, _, progress: logs.simulate(plan, n, pruned=False, progress=progress),
    "semantic": lambda plan, n, _, progress: semantic.simulate(plan, n, progress),
    "bounded": lambda plan, n, options, progress: bounded.simulate(
        plan, n, progress=progress, **options
    ),
    "buffered": lambda plan, n, _, progress: buffered.simulate(plan, n, progress),
}
# Options a kernel understands; with any other the plain engine runs.
OPTIONS: dict[str, frozenset[str]] = {
    "direct": frozenset({"prune"}),
    "bounded": frozenset({"k", "column"}),
}
