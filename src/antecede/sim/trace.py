"""The record of a run: the arrays that metrics and event logs are computed from."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NOTHING = -1
"""The value that stands for no event, no row, or no entries to count."""
Progress = Callable[[float], None]
"""Called during a run with the fraction that is done."""


class Trace(NamedTuple):
    """Everything that happened in a run; both engines fill in the same arrays."""

    order: NDArray[np.int64]  # events in order: a message's row, or messages + a copy's row
    kept: NDArray[np.int32]  # per event: entries the acting process kept after it, or NOTHING
    sent: NDArray[np.float64]  # per message
    number: NDArray[np.int32]  # per message: its number among its sender's sends, from 1
    posted: NDArray[np.float64]  # per copy: when it left its sender's output queue
    arrived: NDArray[np.float64]  # per copy
    delivered: NDArray[np.float64]  # per copy
    entries: NDArray[np.int32]  # per copy: control entries it carried
    destinations: NDArray[np.int32]  # per copy: destinations named in them
    added: NDArray[np.int32]  # per event: packets that the protocol added
    added_bytes: NDArray[np.int32]  # per event: model bytes of those
    noted: NDArray[np.int32]  # per event: the protocol's own count (see its kernel)


def new_trace(messages: int, copies: int) -> Trace:
    """Return a trace in which nothing has happened yet."""
    events = messages + copies
    return Trace(
        order=np.full(events, NOTHING, np.int64),
        kept=np.zeros(events, np.int32),
        sent=np.full(messages, np.nan),
        number=np.zeros(messages, np.int32),
        posted=np.full(copies, np.nan),
        arrived=np.full(copies, np.nan),
        delivered=np.full(copies, np.nan),
        entries=np.zeros(copies, np.int32),
        destinations=np.zeros(copies, np.int32),
        added=np.zeros(events, np.int32),
        added_bytes=np.zeros(events, np.int32),
        noted=np.zeros(events, np.int32),
    )
