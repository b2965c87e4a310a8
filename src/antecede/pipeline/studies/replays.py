"""Replays of a run, for what only its events can tell.

A run's trace says in which order things happened. :func:`redundancy` replays it with the control
information of [JPCY97] written out as sets, leaving out one kind of pruning; all variants deliver
at the same moments, so one trace serves them all. :func:`false_causality` replays a run with
explicit sets of what each message semantically depends on, and finds the holds that no dependency
explains.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from antecede.sim.kernels.common import Trace
    from antecede.sim.schedule import Schedule

Info = dict[int, dict[int, int]]
"""Sender to clock to a bit set of remaining destinations: CI of [JPCY97]."""

KINDS = ("just_delivered", "already_delivered", "just_replaced", "already_replaced")


class _Replay:
    """The control information of [JPCY97] at every process, without one kind of pruning."""

    def __init__(self, schedule: Schedule, trace: Trace, without: str | None) -> None:
        n = schedule.n
        self.schedule, self.without = schedule, without
        self.info: list[Info] = [{} for _ in range(n)]
        self.clocks = [[0] * n for _ in range(n)]
        self.carried: dict[int, tuple[Info, list[int]]] = {}
        self.delivery: dict[tuple[int, int, int], int] = {}
        self.number = [int(value) for value in trace.number]
        self.sender = [int(value) for value in schedule.sender]
        self.masks = _masks(schedule)
        self.pruned = dict.fromkeys(KINDS, 0)

    def send(self, message: int) -> tuple[int, int, int]:
        """Send; return entries and destinations carried in CI, and DC pairs over all copies."""
        i, targets = self.sender[message], self.masks[message]
        info, pairs = self.info[i], 0
        for entries in info.values():
            for clock, dests in entries.items():
                hit = dests & targets
                pairs += hit.bit_count()
                if self.without != "just_replaced":  # S2
                    self.pruned["just_replaced"] += hit.bit_count()
                    entries[clock] = dests & ~targets
        _sweep(info)
        snapshot = {sender: dict(entries) for sender, entries in info.items()}
        self.clocks[i][i] += 1
        self.carried[message] = (snapshot, list(self.clocks[i]))
        info.setdefault(i, {})[self.number[message]] = targets
        count = sum(len(entries) for entries in snapshot.values())
        left = sum(dests.bit_count() for e in snapshot.values() for dests in e.values())
        return count, left, pairs

    def deliver(self, message: int, j: int) -> None:
        """Deliver at ``j``: R3 to R9."""
        sender, clock = self.sender[message], self.number[message]
        snapshot, past = self.carried[message]
        mine = self.clocks[j]
        mine[j] += 1
        self.clocks[j] = [max(a, b) for a, b in zip(mine, past, strict=True)]
        self.delivery[sender, clock, j] = self.clocks[j][j]
        theirs = {name: dict(entries) for name, entries in snapshot.items()}
        rest = self.masks[message]
        if self.without != "just_delivered":  # R4
            rest &= ~(1 << j)
            self.pruned["just_delivered"] += 1
        theirs.setdefault(sender, {})[clock] = rest
        self.info[j] = self._merge(self.info[j], theirs, self.clocks[j])
        _sweep(self.info[j])

    def _merge(self, ours: Info, theirs: Info, known: list[int]) -> Info:
        """R5 to R8: a side that lacks an entry but knows a newer message has seen it pruned."""
        merged: Info = {}
        for sender in ours.keys() | theirs.keys():
            left, right = ours.get(sender, {}), theirs.get(sender, {})
            newest = (max(left, default=0), max(right, default=0))
            kept: dict[int, int] = {}
            newer = 0
            for clock in sorted(left.keys() | right.keys(), reverse=True):
                a = left.get(clock, 0 if clock <= newest[0] else -1)
                b = right.get(clock, 0 if clock <= newest[1] else -1)
                every = (max(a, 0)) | (max(b, 0))
                common = every & a & b
                gone = (every & ~common) | (common & newer)  # R5 and R6, then R8
                kept[clock] = every & ~self._redundant(sender, clock, gone, known)
                newer |= kept[clock]
            merged[sender] = kept
        return merged

    def _redundant(self, sender: int, clock: int, gone: int, known: list[int]) -> int:
        """Count what is pruned by kind; return it without the kind that is left out."""
        result = 0
        while gone:
            bit = gone & -gone
            gone ^= bit
            dest = bit.bit_length() - 1
            event = self.delivery.get((sender, clock, dest), 0)
            kind = "already_delivered" if 0 < event <= known[dest] else "already_replaced"
            if kind != self.without:
                self.pruned[kind] += 1
                result |= bit
        return result


def redundancy(
    schedule: Schedule, trace: Trace, *, warm_up: int, without: str | None = None
) -> dict[str, float]:
    """Return what messages carry without one kind of pruning, by the sizes of [JPCY97]."""
    replay = _Replay(schedule, trace, without)
    copies = messages = entries = dests = pairs = deliveries = 0
    for event in (int(value) for value in trace.order if value >= 0):
        if event >= schedule.messages:
            copy = event - schedule.messages
            message = int(np.searchsorted(schedule.offsets, copy, side="right")) - 1
            replay.deliver(message, int(schedule.dests[copy]))
            deliveries += 1
            continue
        count, left, constraints = replay.send(event)
        if deliveries < warm_up * schedule.n:
            continue
        width = int(schedule.offsets[event + 1] - schedule.offsets[event])
        messages, copies = messages + 1, copies + width
        entries, dests, pairs = entries + count * width, dests + left * width, pairs + constraints
    size = 6 * (entries + pairs) + 2 * dests
    return {
        "deliveries": deliveries,
        "entries_per_copy": (entries + pairs) / max(1, copies),
        "destinations_per_copy": dests / max(1, copies),
        "model_bytes_per_copy": size / max(1, copies),
        "model_bytes_per_message": size / max(1, messages),
        **{f"pruned_{kind}": count / max(1, deliveries) for kind, count in replay.pruned.items()},
    }


def _sweep(info: Info) -> None:
    """S3 and R9: forget entries without destinations, but never a sender's newest."""
    for entries in info.values():
        newest = max(entries, default=0)
        for clock in [c for c, dests in entries.items() if not dests and c < newest]:
            del entries[clock]


def _masks(schedule: Schedule) -> list[int]:
    masks = []
    for row in range(schedule.messages):
        low, high = int(schedule.offsets[row]), int(schedule.offsets[row + 1])
        masks.append(sum(1 << int(dest) for dest in schedule.dests[low:high]))
    return masks


def false_causality(schedule: Schedule, trace: Trace) -> dict[str, float]:
    """Return how often and how long copies were held for messages they do not depend on.

    ``false_age`` is how much earlier the message that held one up had been sent, in seconds.
    """
    past, delivered = _semantic_pasts(schedule, trace)
    times = [[when for when, _ in row] for row in delivered]
    held = false_held = 0
    false_delay = age = 0.0
    for copy in range(len(schedule.dests)):
        arrived, done = float(trace.arrived[copy]), float(trace.delivered[copy])
        if not done > arrived:
            continue
        held += 1
        message = int(np.searchsorted(schedule.offsets, copy, side="right")) - 1
        dest = int(schedule.dests[copy])
        low, high = bisect_left(times[dest], arrived), bisect_right(times[dest], done)
        meanwhile = [(t, w) for t, w in delivered[dest][low:high] if w != message]
        needed = [t for t, w in meanwhile if past[message] >> w & 1]
        ideal = max([arrived, *needed])
        if done > ideal:
            false_held += 1
            false_delay += done - ideal
            # The arrival that set off all deliveries of that moment comes first among them.
            blocker = next((w for t, w in meanwhile if t == done), message)
            age += float(trace.sent[message] - trace.sent[blocker])
    copies = max(1, len(schedule.dests))
    return {
        "false_held_fraction": false_held / copies,
        "false_share_of_holds": false_held / max(1, held),
        "false_delay_mean": false_delay / copies,
        "false_age": age / max(1, false_held),
    }


def _semantic_pasts(
    schedule: Schedule, trace: Trace
) -> tuple[list[int], list[list[tuple[float, int]]]]:
    """Return each message's semantic past as a bit set, and each process's deliveries in order."""
    depth = max(1, int(schedule.rank.max(initial=1)))
    everything = [0] * schedule.n
    recent: list[deque[int]] = [deque([0], maxlen=depth + 1) for _ in range(schedule.n)]
    past = [0] * schedule.messages
    delivered: list[list[tuple[float, int]]] = [[] for _ in range(schedule.n)]
    for event in (int(value) for value in trace.order if value >= 0):
        if event < schedule.messages:
            message, process = event, int(schedule.sender[event])
            rank = int(schedule.rank[event])
            line = recent[process]
            if rank < 0:
                past[message] = everything[process]
            elif rank > 0:
                past[message] = line[-rank] if rank <= len(line) else 0
        else:
            copy = event - schedule.messages
            message = int(np.searchsorted(schedule.offsets, copy, side="right")) - 1
            process = int(schedule.dests[copy])
            delivered[process].append((float(trace.delivered[copy]), message))
        everything[process] |= past[message] | (1 << message)
        recent[process].append(everything[process])
    return past, delivered
