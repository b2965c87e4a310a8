"""Semantic dependence for any schedule: what papers/001 needs and no log says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from antecede.errors import UsageError
from antecede.sim.schedule import NOTHING_AT_ALL, Schedule

if TYPE_CHECKING:
    from antecede.sim.kernels.common import Trace


def with_semantics(
    schedule: Schedule, *, probability: float = 0.5, reach: int = 5, seed: int | None = None
) -> Schedule:
    """Return the schedule with semantic dependences drawn at random.

    A message depends on something with `probability`; then on everything up to one of the
    sender's latest `reach` local events, each as likely. Otherwise it depends on nothing.
    """
    if not 0 <= probability <= 1 or reach < 1:
        msg = f"probability={probability:g}, reach={reach}: use 0 to 1, and 1 or more"
        raise UsageError(msg)
    rng = np.random.default_rng([schedule.seed if seed is None else seed, schedule.n, 7])
    rank = rng.integers(1, reach + 1, schedule.messages)
    depends = rng.random(schedule.messages) < probability
    chosen = np.where(depends, rank, NOTHING_AT_ALL).astype(np.int32)
    about = {**schedule.about, "probability": probability, "reach": reach}
    return replace(schedule, rank=chosen, about=about)


# How many messages the exact relations are computed for: sets of sets, so a sample.
SAMPLE = 2000


def false_causality(
    schedule: Schedule, trace: Trace, limit: int = SAMPLE
) -> dict[str, float | int | bool | None]:
    """Return the size of the false-causality relation and the delay due to it ([GK00] section 2).

    Over the first `limit` messages of a run, under any protocol: pairs of messages of which one
    happened before the other, pairs that depend on each other semantically, and the difference;
    and how long copies were held, on average over all, although everything they depend on
    semantically and that goes to the same process had been delivered there.
    """
    walk = _Walk(schedule, trace)
    for event in trace.order[trace.order >= 0].tolist():
        if event < schedule.messages:
            if walk.sends == limit:
                break
            walk.send(event)
        else:
            walk.deliver(event - schedule.messages)
    messages = max(1, walk.sends)
    return {
        "causal_pairs_per_message": walk.causal / messages,
        "semantic_pairs_per_message": walk.semantic / messages,
        "false_pairs_per_message": (walk.causal - walk.semantic) / messages,
        "false_delay_mean": walk.false_delay / max(1, walk.deliveries),
    }


class _Walk:
    """The pasts of every message, as sets of bits, along a run."""

    def __init__(self, schedule: Schedule, trace: Trace) -> None:
        self.sends = self.deliveries = self.causal = self.semantic = 0
        self.false_delay = 0.0
        self._schedule, self._trace = schedule, trace
        self._message = np.repeat(np.arange(schedule.messages), np.diff(schedule.offsets))
        self._causal_at = [0] * schedule.n
        # After each local event: everything that one who depends on it depends on.
        self._semantic_at: list[list[int]] = [[0] for _ in range(schedule.n)]
        self._pasts: dict[int, tuple[int, int, int]] = {}
        self._delivered: list[list[tuple[float, int]]] = [[] for _ in range(schedule.n)]

    def send(self, row: int) -> None:
        place = int(self._schedule.sender[row])
        rank = int(self._schedule.rank[row])
        history = self._semantic_at[place]
        events = len(history) - 1
        basis = events if rank < 0 else max(0, events - rank + 1) if rank else 0
        bit = 1 << self.sends
        causal, semantic = self._causal_at[place], history[basis]
        self._pasts[row] = (causal | bit, semantic | bit, bit)
        self.causal += causal.bit_count()
        self.semantic += semantic.bit_count()
        self._causal_at[place] = causal | bit
        history.append(history[-1] | semantic | bit)
        self.sends += 1

    def deliver(self, copy: int) -> None:
        row = int(self._message[copy])
        place = int(self._schedule.dests[copy])
        causal, semantic, bit = self._pasts[row]
        arrived, now = float(self._trace.arrived[copy]), float(self._trace.delivered[copy])
        self.deliveries += 1
        if now > arrived:
            needed_until = arrived
            for time, other in reversed(self._delivered[place]):
                if time <= arrived or other & semantic:
                    needed_until = max(arrived, time)
                    break
            self.false_delay += now - needed_until
        self._delivered[place].append((now, bit))
        self._causal_at[place] |= causal
        self._semantic_at[place].append(self._semantic_at[place][-1] | semantic)
