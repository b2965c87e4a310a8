"""The kernel of `optimal` [KS98]: see `logs` for how it works."""

from __future__ import annotations

from antecede.sim.kernels.log_steps import STEPS
from antecede.sim.kernels.logs import HARDWARE, OPTIMAL, LogKernel, LogState
from antecede.sim.kernels.loop import Kernel
from antecede.sim.plan import Plan


def state(
    plan: Plan, n: int, *, hardware_multicast: bool = False, lookahead: bool = False,
    differential: bool = False,
) -> LogState:  # fmt: skip
    """Return the arrays of one run of this kernel."""
    mode = HARDWARE if hardware_multicast else OPTIMAL
    return LogState(plan, n, mode=mode, lookahead=lookahead, differential=differential)


KERNEL = Kernel(
    "optimal",
    state,
    LogKernel,
    STEPS,
    options=frozenset({"hardware_multicast", "lookahead", "differential"}),
    apart=frozenset({"lookahead", "differential"}),
)
