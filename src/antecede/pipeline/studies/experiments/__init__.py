"""The experiments, by name, in the order in which they are reported."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from antecede.errors import UsageError
from antecede.pipeline.studies.experiments import (
    bounded,
    buffered,
    crossover,
    growth,
    overhead,
    redundancy,
    semantic,
    special,
    traffic,
    variants,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from antecede.pipeline.studies.experiments.base import Experiment

EXPERIMENTS: Mapping[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        overhead,
        redundancy,
        crossover,
        semantic,
        growth,
        variants,
        special,
        bounded,
        buffered,
        traffic,
    )
}


def chosen(names: Iterable[str]) -> list[Experiment]:
    """Return the experiments of these names (all if none), or name the nearest in one line."""
    wanted = list(dict.fromkeys(names)) or list(EXPERIMENTS)
    for name in wanted:
        if name not in EXPERIMENTS:
            near = difflib.get_close_matches(name, EXPERIMENTS, n=3)
            hint = (
                f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(EXPERIMENTS)}"
            )
            msg = f"unknown experiment {name!r}; {hint}"
            raise UsageError(msg)
    return [experiment for name, experiment in EXPERIMENTS.items() if name in wanted]
