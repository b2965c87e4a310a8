"""A schedule prepared for running: flat arrays that both engines read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Plan(NamedTuple):
    """A schedule as the engines read it; `Schedule.plan` makes one."""

    timed: NDArray[np.int64]  # rows of the messages sent at a set time, in order
    time: NDArray[np.float64]
    sender: NDArray[np.int32]
    offsets: NDArray[np.int64]
    dests: NDArray[np.int32]
    delays: NDArray[np.float64]
    message: NDArray[np.int32]  # of each copy
    trigger_offsets: NDArray[np.int64]  # per copy: the messages its delivery triggers; [0] if none
    triggered: NDArray[np.int64]
    think: NDArray[np.float64]
    rank: NDArray[np.int32]
    fifo: NDArray[np.float64]  # latest arrival per channel; empty if channels need not be FIFO
    links: NDArray[np.float64]  # delay factor per channel for added packets; empty if none
    link: NDArray[np.float64]  # bandwidth; bytes of header, payload, entry, destination; or empty
    free: NDArray[np.float64]  # per channel: when its link is free again; empty if unlimited
    model: NDArray[np.float64]  # delay model of added packets: kind, two parameters
    seed: NDArray[np.uint64]
