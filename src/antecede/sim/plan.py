"""A schedule prepared for running: flat arrays that both engines read."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Sizes(NamedTuple):
    """Model bytes of a control: per entry, per destination in an entry, and for the rest."""

    entry: int = 0
    destination: int = 0
    rest: int = 0


NO_SIZES = Sizes()


class Plan(NamedTuple):
    """A schedule as the engines read it; `Schedule.plan` makes one."""

    fixed: NDArray[np.int64]  # events of known time, in order: sends, and possibly arrivals
    when: NDArray[np.float64]  # their times
    arrivals: int  # 1 if these include the arrivals of all copies, else 0
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
    link: NDArray[np.float64]  # bandwidth; bytes of header, payload and a control's parts; or empty
    free: NDArray[np.float64]  # per channel: when its link is free again; empty if not limited
    model: NDArray[np.float64]  # delay model of added packets: kind, two parameters
    seed: NDArray[np.uint64]
