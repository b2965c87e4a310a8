"""Replays of a run, for figures that need its single events.

A run's trace gives the order of events. :func:`redundancy` replays it with the control
information of [JPCY97] written out as sets, leaving out one kind of pruning; all variants deliver
at the same moments, so one trace serves all of them. With all four kinds of pruning, these sets
are also the logs of [KS98], which :func:`encodings` encodes in other ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

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
        """Count pruned destinations by kind; return them without the kind that is left out."""
        result = 0
        for dest in _bits(gone):
            event = self.delivery.get((sender, clock, dest), 0)
            kind = "already_delivered" if 0 < event <= known[dest] else "already_replaced"
            if kind != self.without:
                self.pruned[kind] += 1
                result |= 1 << dest
        return result


def redundancy(
    schedule: Schedule, trace: Trace, *, warm_up: int, without: str | None = None
) -> dict[str, float]:
    """Return what messages carry without one kind of pruning, by the sizes of [JPCY97]."""
    replay = _Replay(schedule, trace, without)
    copies = messages = entries = dests = pairs = deliveries = 0
    for event in _events(schedule, trace, warm_up):
        if event.dest >= 0:
            replay.deliver(event.message, event.dest)
            deliveries += 1
            continue
        count, left, constraints = replay.send(event.message)
        if not event.is_measured:
            continue
        width = replay.masks[event.message].bit_count()
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


class Lengths(NamedTuple):
    """The counts that determine the size of a log."""

    senders: int
    entries: int
    units: int
    """The destinations of all entries."""
    complements: int
    """The same, if an entry may name the processes that are not its destinations instead."""
    nulls: int
    """Entries without a destination."""


ENCODINGS: dict[str, Callable[[Lengths], int]] = {
    "printed": lambda log: 6 * log.entries + 2 * log.units,
    "grouped": lambda log: 2 * log.senders + 4 * log.entries + 2 * log.units,
    "array": lambda log: 2 * log.senders + 6 * log.units + 4 * log.nulls,
    "complements": lambda log: 6 * log.entries + 2 * log.complements,
    "both": lambda log: 2 * log.senders + 4 * log.entries + 2 * log.complements,
}
"""Bytes of a log, with 2 for an id and 4 for a clock, in the encodings of [KS98] 6.2.

As printed, with each sender's id once, as a sparse array of clocks by sender and destination, with
complements, and with each sender once and complements. Lengths of lists are never counted.
"""


def encodings(schedule: Schedule, trace: Trace, *, warm_up: int) -> dict[str, float]:
    """Return the bytes per copy of the logs of [KS98], by encoding, and the share 3.5 can drop.

    ``sent_everywhere`` is that share: of the units that a process keeps after a send, those it has
    sent on each of its outgoing channels since it learnt of them. Only used channels count.
    """
    n, replay = schedule.n, _Replay(schedule, trace, None)
    outgoing = [0] * n
    for message, sender in enumerate(replay.sender):
        outgoing[sender] |= replay.masks[message]
    told: list[dict[tuple[int, int, int], int]] = [{} for _ in range(n)]
    sizes = dict.fromkeys(ENCODINGS, 0)
    copies = entries = units = kept = everywhere = deliveries = 0
    for event in _events(schedule, trace, warm_up):
        if event.dest >= 0:
            replay.deliver(event.message, event.dest)
            deliveries += 1
            continue
        sender, targets = replay.sender[event.message], replay.masks[event.message]
        before = {name: dict(log) for name, log in replay.info[sender].items()}
        replay.send(event.message)
        for dest in _bits(targets) if event.is_measured else ():
            log = _lengths(before, targets, dest, n)
            copies, entries, units = copies + 1, entries + log.entries, units + log.units
            for name, size in ENCODINGS.items():
                sizes[name] += size(log)
        told[sender] = {
            unit: told[sender].get(unit, 0) | targets
            for unit in _units(replay.info[sender])
            if unit[:2] != (sender, replay.number[event.message])
        }
        if event.is_measured:
            kept += len(told[sender])
            everywhere += sum(not outgoing[sender] & ~mask for mask in told[sender].values())
    return {
        "deliveries": deliveries,
        "entries_per_copy": entries / max(1, copies),
        "destinations_per_copy": units / max(1, copies),
        "sent_everywhere": everywhere / max(1, kept),
        **{f"bytes_{name}": size / max(1, copies) for name, size in sizes.items()},
    }


def _lengths(log: Info, targets: int, dest: int, n: int) -> Lengths:
    """Measure the log that a copy to ``dest`` carries: SND(2) of [KS98]."""
    found = [0] * len(Lengths._fields)
    for entries in log.values():
        newest = max(entries)
        left = {clock: dests & ~targets | dests & 1 << dest for clock, dests in entries.items()}
        counts = [dests.bit_count() for clock, dests in left.items() if dests or clock == newest]
        nulls = counts.count(0)
        fewer = sum(min(count, n - count) for count in counts)
        for place, more in enumerate((1, len(counts), sum(counts), fewer, nulls)):
            found[place] += more
    return Lengths(*found)


def _units(log: Info) -> Iterator[tuple[int, int, int]]:
    """Yield each (sender, clock, destination) of a log."""
    for sender, entries in log.items():
        for clock, dests in entries.items():
            for dest in _bits(dests):
                yield sender, clock, dest


def matrix_cells(
    schedule: Schedule, trace: Trace, *, warm_up: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the non-zero cells of RST's matrix per copy, with and without the sender's column.

    Each takes 8 bytes, as a triple of two ids and a count.
    """
    n = schedule.n
    sent = np.zeros((n, n, n), np.int32)
    carried: dict[int, np.ndarray[Any, np.dtype[np.int32]]] = {}
    left = np.diff(schedule.offsets)  # copies of each message still to be delivered
    copies = cells = own = deliveries = 0
    for message, place, is_measured in _events(schedule, trace, warm_up):
        if place >= 0:
            np.maximum(sent[place], carried[message], out=sent[place])
            deliveries += 1
            left[message] -= 1
            if not left[message]:
                del carried[message]
            continue
        sender = int(schedule.sender[message])
        dests = schedule.dests[schedule.offsets[message] : schedule.offsets[message + 1]]
        if is_measured:
            mine = sent[sender]
            copies, cells = copies + len(dests), cells + int(np.count_nonzero(mine)) * len(dests)
            own += int(np.count_nonzero(mine[:, sender])) * len(dests)
        sent[sender][sender, dests] += 1
        carried[message] = sent[sender].copy()
    every, others = (
        {
            "deliveries": deliveries,
            "entries_per_copy": count / max(1, copies),
            "model_bytes_per_copy": 8 * count / max(1, copies),
        }
        for count in (cells, cells - own)
    )
    return every, others


class _Event(NamedTuple):
    """The send of a message (``dest`` is -1), or its delivery."""

    message: int
    dest: int
    is_measured: bool


def _events(schedule: Schedule, trace: Trace, warm_up: int) -> Iterator[_Event]:
    """Yield the events; those after ``warm_up`` deliveries per process are measured."""
    deliveries = 0
    for event in (int(value) for value in trace.order if value >= 0):
        is_measured = deliveries >= warm_up * schedule.n
        if event < schedule.messages:
            yield _Event(event, -1, is_measured)
        else:
            copy = event - schedule.messages
            deliveries += 1
            yield _Event(int(schedule.message[copy]), int(schedule.dests[copy]), is_measured)


def _bits(mask: int) -> Iterator[int]:
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1


def _sweep(info: Info) -> None:
    """S3 and R9: drop entries without destinations, but never a sender's newest."""
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
