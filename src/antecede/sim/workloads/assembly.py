"""The workload of [JPCY97], and the parts that all workloads are assembled from.

A workload is a function that makes a schedule; the same arguments give the same schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antecede.errors import UsageError
from antecede.memory import require_memory
from antecede.sim.delays import Delay, delay
from antecede.sim.schedule import EVERYTHING, Schedule

CASTS = ("unicast", "multicast", "broadcast")
# [JPCY97] section 6.2: the mean gap between two sends of a process, in seconds.
MEAN_GAP = 0.1
MEAN_DELAY = 0.05
_CHUNK = 1 << 20
# Measured at the peak of a run without its event log: 218 to 255 bytes.
_BYTES_PER_COPY = 200
_COUNT_MAX = 1e18


def as_delay(value: Delay | str | float) -> Delay:
    """Return a delay model, given one, its text form, or a mean in seconds (exponential)."""
    if isinstance(value, Delay):
        return value
    return delay(value) if isinstance(value, str) else Delay.exponential(value)


def check_size(n: int, **counts: float) -> None:
    """Refuse impossible sizes, and sizes that do not fit into this machine's memory."""
    if n < 2:
        msg = f"n={n} processes cannot exchange messages; use at least 2"
        raise UsageError(msg)
    for name, value in counts.items():
        least = 1 if name == "received" else 0  # A run without messages measures nothing.
        if not least <= value < _COUNT_MAX:  # also refuses NaN
            msg = (
                f"{name}={value!r:.30} is not possible; use at least {least}, below {_COUNT_MAX:g}"
            )
            raise UsageError(msg)
    copies = n * (counts.get("received", 0) + counts.get("warm_up", 0))
    mend = "use fewer processes or a smaller --received"
    require_memory(copies * _BYTES_PER_COPY, f"{copies:,.0f} copies", mend)


def assemble(
    n: int, *, sender: NDArray[Any], dests: NDArray[Any], offsets: NDArray[Any],
    time: NDArray[Any], seed: int, delay: Delay | str | float, fifo: bool,
    rng: np.random.Generator, about: Mapping[str, Any], trigger: NDArray[Any] | None = None,
    think: NDArray[Any] | None = None, names: tuple[str, ...] = (),
) -> Schedule:  # fmt: skip
    """Draw the delays and assemble a schedule."""
    model = as_delay(delay)
    count = len(sender)
    if model.factors is not None and model.factors.shape != (n, n):
        msg = f"delays per link are for {len(model.factors)} processes, but the workload has {n}"
        raise UsageError(msg)
    source = np.repeat(sender, np.diff(offsets))
    return Schedule(
        n=n,
        sender=sender.astype(np.int32),
        offsets=offsets.astype(np.int64),
        dests=dests.astype(np.int32),
        delays=model.draw(rng, source, dests),
        time=time.astype(np.float64),
        trigger=np.full(count, -1, np.int64) if trigger is None else trigger.astype(np.int64),
        think=np.zeros(count) if think is None else think.astype(np.float64),
        rank=np.full(count, EVERYTHING, np.int32),
        seed=seed,
        added=model,
        fifo=fifo,
        names=names,
        about=dict(about),
    ).validate()


def pick_destinations(
    rng: np.random.Generator, n: int, cast: str, sender: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Draw destinations: one, a uniform number (mean n/2) of uniform ones, or all others.

    Returns how many destinations each message has, and the destinations in one array.
    """
    count = len(sender)
    if cast == "unicast":
        dests = rng.integers(0, n - 1, count)
        return np.ones(count, np.int64), dests + (dests >= sender)
    if cast == "broadcast":
        others = np.tile(np.arange(n - 1), (count, 1))
        return np.full(count, n - 1), (others + (others >= sender[:, None])).ravel()
    if cast != "multicast":
        msg = f"unknown cast {cast!r}; use one of {', '.join(CASTS)}"
        raise UsageError(msg)
    widths = rng.integers(1, n, count)
    parts = []
    step = max(1, _CHUNK // n)
    for low in range(0, count, step):
        rows = slice(low, min(low + step, count))
        ranks = np.tile(np.arange(n - 1, dtype=np.int32), (rows.stop - low, 1))
        rng.permuted(ranks, axis=1, out=ranks)
        message, other = np.nonzero(ranks < widths[rows, None])
        parts.append(other + (other >= sender[rows][message]))
    return widths, np.concatenate(parts) if parts else np.zeros(0, np.int64)


def with_links(schedule: Schedule, *, bandwidth: float, payload: int = 100) -> Schedule:
    """Return the schedule on links of `bandwidth` bytes/s, with messages of `payload` bytes."""
    about = {**schedule.about, "bandwidth": bandwidth, "payload": payload}
    return replace(schedule, bandwidth=float(bandwidth), payload=payload, about=about).validate()


def offsets_of(widths: NDArray[Any]) -> NDArray[np.int64]:
    """Turn counts into compressed-row offsets."""
    offsets = np.zeros(len(widths) + 1, np.int64)
    np.cumsum(widths, out=offsets[1:])
    return offsets


def paper(
    *, n: int = 10, cast: str = "unicast", seed: int = 0, received: int = 1000,
    warm_up: int = 0, mean_gap: float = MEAN_GAP, delay: Delay | str | float = MEAN_DELAY,
    fifo: bool = False,
) -> Schedule:  # fmt: skip
    """Make the workload of [JPCY97]: exponential gaps between sends, uniform destinations.

    Long enough for `received` messages per process on average after a warm-up of `warm_up` messages
    (the paper has 50,000 and 10,000). The paper does not state its delays; they are exponential
    here, with a mean of 0.05 s.
    """
    check_size(n, received=received, warm_up=warm_up, mean_gap=mean_gap)
    rng = np.random.default_rng([seed, n, 1])
    copies = (received + warm_up) * n
    mean_width = {"unicast": 1.0, "multicast": n / 2, "broadcast": n - 1.0}.get(cast, 1.0)
    # Multicasts vary in width: draw six standard deviations more than the mean needed.
    spread = 0 if mean_width in (1.0, n - 1.0) else 6 * np.sqrt(copies / mean_width)
    count = int(copies / mean_width + spread) + 10
    # n independent Poisson streams equal one stream, n times as fast, with uniform senders.
    sender = rng.integers(0, n, count)
    time = np.cumsum(rng.exponential(mean_gap / n, count))
    widths, dests = pick_destinations(rng, n, cast, sender)
    offsets = offsets_of(widths)
    count = int(np.searchsorted(offsets, copies))
    return assemble(
        n, sender=sender[:count], dests=dests[: offsets[count]], offsets=offsets[: count + 1],
        time=time[:count], seed=seed, delay=delay, fifo=fifo, rng=rng,
        about={"workload": "paper", "cast": cast, "mean_gap": mean_gap},
    )  # fmt: skip
