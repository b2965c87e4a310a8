"""Workloads: functions that make schedules. Same arguments, same schedule.

:data:`WORKLOADS` names them for the command line and the study.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.errors import UsageError
from antecede.sim.delays import Delay, delay
from antecede.sim.making import CASTS, MEAN_DELAY, MEAN_GAP, paper
from antecede.sim.patterns import bursts, client_server, gossip, groups, ring
from antecede.sim.replay import replay_edges, replay_events
from antecede.sim.semantics import with_semantics

if TYPE_CHECKING:
    from collections.abc import Callable

    from antecede.sim.schedule import Schedule

WORKLOADS: dict[str, Callable[..., Schedule]] = {
    "paper": paper,
    "bursts": bursts,
    "client_server": client_server,
    "groups": groups,
    "ring": ring,
    "gossip": gossip,
}

LARGEST_SEED = 2**62
"""Seeds stand in tables as 64-bit numbers, and a study adds to the one it is given."""


def check_seed(seed: int) -> None:
    """Refuse, in one line, a seed that no generator of random numbers takes."""
    if not 0 <= seed <= LARGEST_SEED:
        msg = f"--seed {seed} will not do: give a whole number from 0 to {LARGEST_SEED}"
        raise UsageError(msg)


__all__ = [
    "CASTS",
    "LARGEST_SEED",
    "MEAN_DELAY",
    "MEAN_GAP",
    "WORKLOADS",
    "Delay",
    "bursts",
    "check_seed",
    "client_server",
    "delay",
    "gossip",
    "groups",
    "paper",
    "replay_edges",
    "replay_events",
    "ring",
    "with_semantics",
]
