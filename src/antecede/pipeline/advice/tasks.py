"""What advice runs on executors.

An executor imports this module before the package is unpacked there, so it must import nothing
heavy at the top.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antecede.pipeline.advice.costs import Cost
    from antecede.pipeline.advice.replays import Replay


def replay_one(spec: Replay) -> Cost:
    """Run one protocol on the schedule of a log."""
    from antecede.pipeline.advice.replays import replay

    return replay(spec)
