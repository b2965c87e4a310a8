"""Replays of a run, for what only its events can tell.

A run's trace says in which order things happened. :func:`redundancy` replays it with the control
information of [JPCY97] written out as sets, leaving out one kind of pruning; all variants deliver
at the same moments, so one trace serves them all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from antecede.sim.schedule import Schedule
from antecede.sim.trace import Trace

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
        "constraints_per_copy": pairs / max(1, copies),
        "destinations_per_copy": dests / max(1, copies),
        "model_bytes_per_copy": size / max(1, copies),
        "model_bytes_per_message": size / max(1, messages),
        **{f"pruned_{kind}": count / max(1, deliveries) for kind, count in replay.pruned.items()},
    }


def matrix_cells(
    schedule: Schedule, trace: Trace, *, warm_up: int, own_column: bool
) -> dict[str, float]:
    """Return the non-zero cells of RST's matrix per copy, with or without the sender's column.

    As triples of two ids and a count they take 8 bytes each.
    """
    n = schedule.n
    sent = np.zeros((n, n, n), np.int32)
    carried: dict[int, np.ndarray[Any, np.dtype[np.int32]]] = {}
    left = np.diff(schedule.offsets)  # copies of each message that are to be delivered
    copies = cells = deliveries = 0
    for event in (int(value) for value in trace.order if value >= 0):
        if event >= schedule.messages:
            copy = event - schedule.messages
            message, place = int(schedule.message[copy]), int(schedule.dests[copy])
            np.maximum(sent[place], carried[message], out=sent[place])
            deliveries += 1
            left[message] -= 1
            if not left[message]:
                del carried[message]
            continue
        sender = int(schedule.sender[event])
        dests = schedule.dests[schedule.offsets[event] : schedule.offsets[event + 1]]
        if deliveries >= warm_up * n:
            mine = sent[sender]
            count = int(np.count_nonzero(mine))
            count -= 0 if own_column else int(np.count_nonzero(mine[:, sender]))
            copies, cells = copies + len(dests), cells + count * len(dests)
        sent[sender][sender, dests] += 1
        carried[event] = sent[sender].copy()
    return {
        "deliveries": deliveries,
        "entries_per_copy": cells / max(1, copies),
        "model_bytes_per_copy": 8 * cells / max(1, copies),
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
