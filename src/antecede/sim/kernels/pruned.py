"""The kernel of `pruned` [JPCY97]: the one of `optimal`, counting differently; see `logs`."""

from __future__ import annotations

from functools import partial
from typing import Any

from antecede.sim.kernels.log_steps import STEPS
from antecede.sim.kernels.logs import PRUNED, LogKernel, LogState
from antecede.sim.kernels.loop import Kernel
from antecede.sim.metrics import window
from antecede.sim.schedule import Schedule
from antecede.sim.trace import Trace


def figures(schedule: Schedule, trace: Trace, warm_up: int) -> dict[str, Any]:
    """Return what each kind of pruning saved: destinations removed, per message sent.

    A receiver cannot distinguish *already delivered* from *already replaced*: both are absences.
    """
    part = window(schedule, trace, warm_up)
    order = trace.order[part.first :]
    noted = trace.noted[part.first :]
    messages = max(1, len(part.sends))
    is_send = order < schedule.messages
    return {
        "just_replaced_per_message": float(noted[is_send].sum() / messages),
        "just_delivered_per_message": len(part.delivered) / messages,
        "already_per_message": float(noted[~is_send].sum() / messages),
    }


KERNEL = Kernel("pruned", partial(LogState, mode=PRUNED), LogKernel, STEPS, figures=figures)
