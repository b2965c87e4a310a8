"""The kernel of `flooding` [NMM18] on its default links; none are added. See `overlay`."""

from __future__ import annotations

from antecede.endpoint.messages import PAIR_BYTES
from antecede.protocols.flooding import default_links
from antecede.sim.kernels.loop import Kernel
from antecede.sim.kernels.overlay import STEPS, Overlay, OverlayState
from antecede.sim.plan import Plan


def state(plan: Plan, n: int) -> OverlayState:
    """Return the arrays of one run of this kernel."""
    return OverlayState(plan, n, default_links(n), entries=1, size=PAIR_BYTES, kept=0)


KERNEL = Kernel(
    "flooding", state, Overlay, STEPS, posts_at_once=False, is_sparse=True
)  # fmt: skip
