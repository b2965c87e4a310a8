"""The kernel of `optimal` [KS98]: see `logs` for how it works."""

from __future__ import annotations

from functools import partial

from antecede.sim.kernels.log_steps import STEPS
from antecede.sim.kernels.logs import LogKernel, LogState
from antecede.sim.kernels.loop import Kernel

KERNEL = Kernel("optimal", partial(LogState, pruned=False), LogKernel, STEPS)
