"""Semantic dependence for any schedule: [GK00] needs it, and no log contains it."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np

from antecede.errors import UsageError
from antecede.sim.schedule import NOTHING_AT_ALL, Schedule
from antecede.sim.trace import Trace


def with_semantics(
    schedule: Schedule, *, probability: float = 0.5, reach: int = 5, seed: int | None = None
) -> Schedule:
    """Return the schedule with semantic dependences drawn at random.

    With the given `probability`, a message depends on everything up to one of the sender's latest
    `reach` local events, each equally likely. Otherwise it depends on nothing.
    """
    if not 0 <= probability <= 1 or reach < 1:
        msg = f"probability={probability:g}, reach={reach}; use 0 to 1, and at least 1"
        raise UsageError(msg)
    rng = np.random.default_rng([schedule.seed if seed is None else seed, schedule.n, 7])
    rank = rng.integers(1, reach + 1, schedule.messages)
    depends = rng.random(schedule.messages) < probability
    chosen = np.where(depends, rank, NOTHING_AT_ALL).astype(np.int32)
    about = {**schedule.about, "probability": probability, "reach": reach}
    return replace(schedule, rank=chosen, about=about)


# The exact relations are computed for this many messages only: pasts are sets of messages.
SAMPLE = 2000


def false_causality(
    schedule: Schedule, trace: Trace, *, warm_up: int = 0, limit: int | None = SAMPLE
) -> dict[str, float]:
    """Return the size of the false-causality relation, and the holds it causes ([GK00] section 2).

    Over the first `limit` messages of a run, under any protocol: the pairs of messages of which one
    happened before the other, the pairs that depend on each other semantically, and the difference.
    By the paper's definition, a message depends on the one event that it names, on what that event
    depends on, and so on; not on the events before it. (A protocol may order more.) Holds count
    after the first `warm_up` deliveries per process, on average.
    A hold is false from the moment when everything that the copy semantically depends on has been
    delivered at its destination. Returned are how many copies are held falsely (as a fraction of
    all copies, and of the held ones), for how long (on average over all), and how much earlier the
    message that held a copy up had been sent (``false_age``, in seconds).
    """
    walk = _Walk(schedule, trace, warm_up * schedule.n)
    for event in trace.order[trace.order >= 0].tolist():
        if event >= schedule.messages:
            walk.deliver(event - schedule.messages)
        elif walk.sends == limit:
            break
        else:
            walk.send(event)
    messages, copies = max(1, walk.sends), max(1, walk.judged)
    return {
        "causal_pairs_per_message": walk.causal / messages,
        "semantic_pairs_per_message": walk.semantic / messages,
        "false_pairs_per_message": (walk.causal - walk.semantic) / messages,
        "false_held_fraction": walk.false_held / copies,
        "false_share_of_holds": walk.false_held / max(1, walk.held),
        "false_delay_mean": walk.false_delay / copies,
        "false_age": walk.false_age / max(1, walk.false_held),
    }


class _Walk:
    """A pass over a run that keeps the past of every message as a set of bits."""

    def __init__(self, schedule: Schedule, trace: Trace, skipped: int) -> None:
        self.sends = self.causal = self.semantic = 0
        #: Deliveries since the warm-up; negative while some of the warm-up are still to come.
        self._place = -skipped
        self.held = self.false_held = 0
        self.false_delay = self.false_age = 0.0
        self._schedule, self._trace = schedule, trace
        self._message = schedule.message
        self._causal_at = [0] * schedule.n
        # Per process and recent local event: the set that a message depending on it depends on.
        reach = max(1, int(schedule.rank.max(initial=1)))
        self._semantic_at = [deque([0], maxlen=reach) for _ in range(schedule.n)]
        # Per process: the set that a message depending on all events so far depends on.
        self._every_at = [0] * schedule.n
        self._pasts: dict[int, tuple[int, int, int]] = {}
        self._delivered: list[list[tuple[float, int, int]]] = [[] for _ in range(schedule.n)]

    def send(self, row: int) -> None:
        place = int(self._schedule.sender[row])
        rank = int(self._schedule.rank[row])
        recent = self._semantic_at[place]
        bit = 1 << self.sends
        causal = self._causal_at[place]
        if rank < 0:
            semantic = self._every_at[place]
        else:
            semantic = recent[-rank] if 0 < rank <= len(recent) else 0
        self._pasts[row] = (causal | bit, semantic | bit, bit)
        self.causal += causal.bit_count()
        self.semantic += semantic.bit_count()
        self._causal_at[place] = causal | bit
        recent.append(semantic | bit)
        self._every_at[place] |= semantic | bit
        self.sends += 1

    def deliver(self, copy: int) -> None:
        row = int(self._message[copy])
        place = int(self._schedule.dests[copy])
        causal, semantic, bit = self._pasts[row]
        now = float(self._trace.delivered[copy])
        if self._place >= 0:
            self._judge_hold(row, place, float(self._trace.arrived[copy]), now)
        self._place += 1
        self._delivered[place].append((now, bit, row))
        self._causal_at[place] |= causal
        self._semantic_at[place].append(semantic)
        self._every_at[place] |= semantic

    @property
    def judged(self) -> int:
        """How many deliveries came after the warm-up."""
        return max(0, self._place)

    def _judge_hold(self, row: int, place: int, arrived: float, now: float) -> None:
        if not now > arrived:
            return
        self.held += 1
        needed_until, blocker = arrived, row
        for time, bit, _ in reversed(self._delivered[place]):
            if time <= arrived or bit & self._pasts[row][1]:
                needed_until = max(arrived, time)
                break
        if now > needed_until:
            self.false_held += 1
            self.false_delay += now - needed_until
            # The arrival that set off all deliveries of this moment comes first among them.
            for time, _, other in reversed(self._delivered[place]):
                if time < now:
                    break
                blocker = other
            self.false_age += float(self._trace.sent[row] - self._trace.sent[blocker])
