"""Semantic dependence for any schedule: what papers/001 needs and no log says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from antecede.errors import UsageError
from antecede.sim.schedule import NOTHING_AT_ALL, Schedule


def with_semantics(
    schedule: Schedule, *, probability: float = 0.5, reach: int = 5, seed: int | None = None
) -> Schedule:
    """Return the schedule with semantic dependences drawn at random.

    A message depends on something with `probability`; then on everything up to one of the
    sender's latest `reach` local events, each as likely. Otherwise it depends on nothing.
    """
    if not 0 <= probability <= 1 or reach < 1:
        msg = f"probability={probability:g}, reach={reach}: use 0 to 1, and 1 or more"
        raise UsageError(msg)
    rng = np.random.default_rng([schedule.seed if seed is None else seed, schedule.n, 7])
    rank = rng.integers(1, reach + 1, schedule.messages)
    depends = rng.random(schedule.messages) < probability
    chosen = np.where(depends, rank, NOTHING_AT_ALL).astype(np.int32)
    about = {**schedule.about, "probability": probability, "reach": reach}
    return replace(schedule, rank=chosen, about=about)
