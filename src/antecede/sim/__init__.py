"""Simulation: schedules, workloads, the plain engine, compiled kernels."""

from __future__ import annotations

from antecede.sim.delays import Delay, delay
from antecede.sim.engine import ENGINES, KERNELS, Run, run, warm
from antecede.sim.schedule import Schedule
from antecede.sim.workloads import WORKLOADS

__all__ = ["ENGINES", "KERNELS", "WORKLOADS", "Delay", "Run", "Schedule", "delay", "run", "warm"]
