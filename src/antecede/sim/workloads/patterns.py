"""Workloads other than the paper's: bursts, sessions, clients and servers, groups, ring, gossip.

All are long enough for `received` messages per process on average after the first `warm_up`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from antecede.errors import UsageError
from antecede.sim.delays import Delay
from antecede.sim.schedule import Schedule
from antecede.sim.workloads.assembly import (
    MEAN_DELAY,
    MEAN_GAP,
    assemble,
    check_size,
    offsets_of,
    pick_destinations,
)


def bursts(
    *, n: int = 10, cast: str = "unicast", seed: int = 0, received: int = 1000, warm_up: int = 0,
    burst: int = 20, mean_gap: float = MEAN_GAP, rest: float = 2.0,
    delay: Delay | str | float = MEAN_DELAY, fifo: bool = False,
) -> Schedule:  # fmt: skip
    """Let every process rest for `rest` seconds on average, then send `burst` messages in a row."""
    check_size(n, received=received, warm_up=warm_up, burst=burst, mean_gap=mean_gap, rest=rest)
    received += warm_up
    rng = np.random.default_rng([seed, n, 2])
    width = {"multicast": n / 2, "broadcast": n - 1.0}.get(cast, 1.0)
    each = max(1, round(received / width))
    gaps = rng.exponential(mean_gap / 10, (n, each))
    gaps[:, :: max(1, burst)] += rng.exponential(rest, gaps[:, :: max(1, burst)].shape)
    times = np.cumsum(gaps, axis=1).ravel()
    order = np.argsort(times, kind="stable")
    sender = np.repeat(np.arange(n), each)[order]
    widths, dests = pick_destinations(rng, n, cast, sender)
    return assemble(
        n, sender=sender, dests=dests, offsets=offsets_of(widths), time=times[order], seed=seed,
        delay=delay, fifo=fifo, rng=rng,
        about={"workload": "bursts", "cast": cast, "mean_gap": mean_gap},
    )  # fmt: skip


def sessions(
    *, n: int = 10, seed: int = 0, received: int = 1000, warm_up: int = 0, stay: float = 0.8,
    mean_gap: float = MEAN_GAP, delay: Delay | str | float = MEAN_DELAY, fifo: bool = False,
) -> Schedule:  # fmt: skip
    """Let every process stay with its receiver with probability `stay`, else choose another.

    Gaps between sends are exponential, as in the workload of [JPCY97], and so are delays.
    """
    check_size(n, received=received, warm_up=warm_up, mean_gap=mean_gap)
    if not 0 <= stay <= 1:
        msg = f"stay={stay:g} is not a probability; use 0 to 1"
        raise UsageError(msg)
    rng = np.random.default_rng([seed, n, 8])
    count = (received + warm_up) * n
    sender = rng.integers(0, n, count)
    time = np.cumsum(rng.exponential(mean_gap / n, count))
    chosen = rng.integers(0, n - 1, count)
    chosen = chosen + (chosen >= sender)
    stays = rng.random(count) < stay
    # Sorted by sender, a message that stays has the receiver of the last one that did not.
    order = np.argsort(sender, kind="stable")
    first = np.ones(count, np.bool_)
    first[1:] = np.diff(sender[order]) != 0
    is_new = first | ~stays[order]
    source = np.maximum.accumulate(np.where(is_new, np.arange(count), 0))
    dests = np.empty(count, np.int64)
    dests[order] = chosen[order][source]
    return assemble(
        n, sender=sender, dests=dests, offsets=np.arange(count + 1), time=time, seed=seed,
        delay=delay, fifo=fifo, rng=rng,
        about={"workload": "sessions", "cast": "unicast", "mean_gap": mean_gap, "stay": stay},
    )  # fmt: skip


def client_server(
    *, n: int = 10, servers: int = 1, seed: int = 0, received: int = 1000, warm_up: int = 0,
    mean_gap: float = MEAN_GAP, think: float = 0.01, delay: Delay | str | float = MEAN_DELAY,
    fifo: bool = False,
) -> Schedule:  # fmt: skip
    """Let clients ask servers; the delivery of a request triggers its answer after `think` seconds.

    The first `servers` processes are servers. A server also tells another client about every
    tenth request.
    """
    check_size(n, received=received, warm_up=warm_up, mean_gap=mean_gap, think=think)
    received += warm_up
    if not 1 <= servers < n:
        msg = f"servers={servers} of n={n} processes; use 1 to {n - 1}, as the others are clients"
        raise UsageError(msg)
    rng = np.random.default_rng([seed, n, 3])
    requests = max(1, received * n // 2)
    clients = n - servers
    client = rng.integers(servers, n, requests)
    server = rng.integers(0, servers, requests)
    time = np.cumsum(rng.exponential(mean_gap / clients, requests))
    told = np.flatnonzero(rng.random(requests) < (0.1 if clients > 1 else 0.0))
    other = rng.integers(servers, n - 1, len(told)) if clients > 1 else told
    other = other + (other >= client[told])
    rows = np.concatenate([np.arange(requests), told])
    sender = np.concatenate([client, server[rows]])
    answers = len(rows)
    return assemble(
        n, sender=sender, dests=np.concatenate([server, client, other]),
        offsets=np.arange(requests + answers + 1), seed=seed, delay=delay, fifo=fifo, rng=rng,
        time=np.concatenate([time, np.full(answers, np.nan)]),
        trigger=np.concatenate([np.full(requests, -1), rows]),
        think=np.concatenate([np.zeros(requests), rng.exponential(think, answers)]),
        about={"workload": "client_server", "cast": "unicast", "mean_gap": mean_gap},
    )  # fmt: skip


def groups(
    *, n: int = 10, seed: int = 0, received: int = 1000, warm_up: int = 0, size: int = 4,
    overlap: int = 1, mean_gap: float = MEAN_GAP, delay: Delay | str | float = MEAN_DELAY,
    fifo: bool = False,
) -> Schedule:  # fmt: skip
    """Arrange groups of `size` in a circle, each sharing `overlap` members with the next.

    A process multicasts to the rest of one of its groups.
    """
    check_size(n, received=received, warm_up=warm_up, mean_gap=mean_gap)
    received += warm_up
    size = min(size, n)
    if not 0 <= overlap < size or size < 2:
        msg = (
            f"groups of size={size} with overlap={overlap}; use a size of 2 to n, and less overlap"
        )
        raise UsageError(msg)
    rng = np.random.default_rng([seed, n, 4])
    starts = np.arange(0, n, size - overlap)
    members = (starts[:, None] + np.arange(size)) % n
    count = max(1, round(received * n / max(1, size - 1)))
    group = rng.integers(0, len(members), count)
    seat = rng.integers(0, size, count)
    sender = members[group, seat]
    others = np.arange(size - 1)[None, :]
    seats = others + (others >= seat[:, None])
    return assemble(
        n, sender=sender, dests=members[group[:, None], seats].ravel(),
        offsets=np.arange(count + 1) * (size - 1), seed=seed, delay=delay, fifo=fifo, rng=rng,
        time=np.cumsum(rng.exponential(mean_gap / n, count)),
        about={"workload": "groups", "cast": "multicast", "mean_gap": mean_gap},
    )  # fmt: skip


def ring(
    *, n: int = 10, seed: int = 0, received: int = 1000, warm_up: int = 0, tokens: int = 3,
    mean_gap: float = MEAN_GAP, delay: Delay | str | float = MEAN_DELAY, fifo: bool = False,
) -> Schedule:  # fmt: skip
    """Pass tokens round a ring; each process holds one for `mean_gap` seconds on average."""
    check_size(n, received=received, warm_up=warm_up, mean_gap=mean_gap)
    received += warm_up
    tokens = max(1, tokens)
    rng = np.random.default_rng([seed, n, 5])
    hops = max(1, received * n // tokens)
    # Row (hop, token): first hops are timed, every other hop is triggered by the one before.
    hop, token = np.divmod(np.arange(hops * tokens), tokens)
    start = np.sort(rng.integers(0, n, tokens))
    sender = (start[token] + hop) % n
    first = hop == 0
    return assemble(
        n, sender=sender, dests=(sender + 1) % n, offsets=np.arange(len(sender) + 1),
        time=np.where(first, token * mean_gap, np.nan), seed=seed, delay=delay, fifo=fifo, rng=rng,
        trigger=np.where(first, -1, np.arange(len(sender)) - tokens),
        think=np.where(first, 0.0, rng.exponential(mean_gap, len(sender))),
        about={"workload": "ring", "cast": "unicast", "mean_gap": mean_gap},
    )  # fmt: skip


def gossip(
    *, n: int = 10, seed: int = 0, received: int = 1000, warm_up: int = 0, fanout: int = 2,
    depth: int = 3, mean_gap: float = MEAN_GAP, think: float = 0.01,
    delay: Delay | str | float = MEAN_DELAY, fifo: bool = False,
) -> Schedule:  # fmt: skip
    """Spread rumours: a process tells `fanout` others, each tells `fanout` more, `depth` deep."""
    check_size(n, received=received, warm_up=warm_up, mean_gap=mean_gap, think=think)
    received += warm_up
    fanout = min(fanout, n - 1)
    if fanout < 1 or depth < 1:
        msg = f"fanout={fanout}, depth={depth}; use at least 1 of each"
        raise UsageError(msg)
    rng = np.random.default_rng([seed, n, 6])
    tree = sum(fanout ** (level + 1) for level in range(depth))
    rumours = max(1, received * n // tree)
    sender = rng.integers(0, n, rumours)
    row = np.arange(rumours)
    senders, dests, triggers = [], [], []
    trigger: NDArray[np.int64] = np.full(rumours, -1)
    base = 0
    for _ in range(depth):
        told = _distinct(rng, n, sender, fanout)
        senders.append(sender)
        dests.append(told)
        triggers.append(trigger)
        row = base + np.arange(len(sender))
        base += len(sender)
        sender, trigger = told.ravel(), np.repeat(row, fanout)
    count = base
    time = np.full(count, np.nan)
    time[:rumours] = np.cumsum(rng.exponential(mean_gap * tree / n, rumours))
    waits = rng.exponential(think, count)
    waits[:rumours] = 0.0
    return assemble(
        n, sender=np.concatenate(senders), dests=np.concatenate([d.ravel() for d in dests]),
        offsets=np.arange(count + 1) * fanout, time=time, seed=seed, delay=delay, fifo=fifo,
        rng=rng, trigger=np.concatenate(triggers), think=waits,
        about={"workload": "gossip", "cast": "multicast", "mean_gap": mean_gap},
    )  # fmt: skip


def _distinct(
    rng: np.random.Generator, n: int, sender: NDArray[np.int64], count: int
) -> NDArray[np.int64]:
    """Draw `count` distinct other processes for each sender, in ascending order."""
    ranks = np.tile(np.arange(n - 1), (len(sender), 1))
    chosen = np.sort(rng.permuted(ranks, axis=1)[:, :count], axis=1)
    return chosen + (chosen >= sender[:, None])
