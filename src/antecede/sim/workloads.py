"""Workloads: functions that make schedules. Same arguments, same schedule.

:data:`WORKLOADS` names them for the command line and the study.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

__all__ = [
    "CASTS",
    "MEAN_DELAY",
    "MEAN_GAP",
    "WORKLOADS",
    "Delay",
    "bursts",
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
