"""Workloads: functions that make schedules. The same arguments give the same schedule.

:data:`WORKLOADS` names them for the command line and the study.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.errors import UsageError
from antecede.sim.delays import Delay, delay
from antecede.sim.semantics import with_semantics
from antecede.sim.workloads.assembly import CASTS, MEAN_DELAY, MEAN_GAP, paper, with_links
from antecede.sim.workloads.patterns import bursts, client_server, gossip, groups, ring, sessions
from antecede.sim.workloads.replay import replay_edges, replay_events

if TYPE_CHECKING:
    from collections.abc import Callable

    from antecede.sim.schedule import Schedule

WORKLOADS: dict[str, Callable[..., Schedule]] = {
    "paper": paper,
    "bursts": bursts,
    "sessions": sessions,
    "client_server": client_server,
    "groups": groups,
    "ring": ring,
    "gossip": gossip,
}
"""The functions that make schedules, by the names that ``antecede simulate`` takes."""

LARGEST_SEED = 2**62
"""Tables hold seeds as 64-bit numbers, and a study adds to its seed."""


def check_seed(seed: int) -> None:
    """Raise a one-line error for a seed that the random number generators do not take."""
    if not 0 <= seed <= LARGEST_SEED:
        msg = f"--seed {seed} is out of range; give a whole number from 0 to {LARGEST_SEED}"
        raise UsageError(msg)


__all__ = [
    "CASTS", "LARGEST_SEED", "MEAN_DELAY", "MEAN_GAP", "WORKLOADS", "Delay", "bursts",
    "check_seed", "client_server", "delay", "gossip", "groups", "paper", "replay_edges",
    "replay_events", "ring", "sessions", "with_links", "with_semantics",
]  # fmt: skip
