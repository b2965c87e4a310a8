"""The kernel of `tree` [BCD17] on its default tree; see `overlay`."""

from __future__ import annotations

from antecede.protocols.tree import default_links
from antecede.sim.kernels.loop import Kernel
from antecede.sim.kernels.overlay import STEPS, Overlay, OverlayState
from antecede.sim.plan import Plan


def state(plan: Plan, n: int) -> OverlayState:
    """Return the arrays of one run of this kernel."""
    links = default_links(n)
    return OverlayState(plan, n, links, above=[0, *(above for above, _ in links)])


KERNEL = Kernel("tree", state, Overlay, STEPS, posts_at_once=False, is_sparse=True)
