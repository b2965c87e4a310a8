"""Run one row of the grid on an executor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from antecede.pipeline.studies.experiments import EXPERIMENTS
from antecede.pipeline.studies.measures import measure_run, unpack


def execute(row: Mapping[str, Any]) -> dict[str, Any]:
    """Run one row of the grid and return what its experiment measures.

    A row of an experiment that is not ours is a plain run of its protocol.
    """
    experiment = EXPERIMENTS.get(row["experiment"])
    measure = measure_run if experiment is None else experiment.measure
    return measure(unpack(row))
