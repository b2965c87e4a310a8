"""Random histories, and an oracle that uses no clock: explicit sets of what happened before.

The oracle is slow and obvious on purpose and shares nothing with what it judges, except how rows
that contradict each other by having one seq are ordered.
"""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import xor

from antecede.core.tables import (
    CAUSAL_CYCLE,
    CONTRADICTORY_SEQ,
    DELIVERED_TWICE,
    DELIVERY_WITHOUT_SEND,
    SENT_TWICE,
)
from antecede.eventlog import Event
from antecede.pipeline.audits.windows.hashing import hash_names

KIND = {"send": 0, "deliver": 1, "local": 2}


@dataclass
class Truth:
    """What is wrong with a history."""

    violations: dict[tuple[str, str], tuple[str, int, int, int]] = field(default_factory=dict)
    missing: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    findings: set[tuple[str, str, int, str | None]] = field(default_factory=set)
    chain_lengths: dict[tuple[str, str], int] = field(default_factory=dict)


def oracle(events: list[Event]) -> Truth:
    """Judge a history by explicit happened-before sets."""
    truth = Truth()
    hashes = dict(
        zip((n := [e.message or "" for e in events]), hash_names(n).tolist(), strict=True)
    )
    log = sorted(
        events,
        key=lambda e: (
            e.process,
            e.seq,
            KIND[e.kind],
            hashes[e.message or ""],
            reduce(xor, hash_names(sorted(set(e.dests or ()))).tolist(), 0),
        ),
    )
    owner: dict[str, int] = {}
    for i, e in enumerate(log):
        if i and (log[i - 1].process, log[i - 1].seq) == (e.process, e.seq):
            truth.findings.add((CONTRADICTORY_SEQ, e.process, e.seq, e.message))
        if e.kind == "send":
            assert e.message is not None
            if owner.setdefault(e.message, i) != i:
                truth.findings.add((SENT_TWICE, e.process, e.seq, e.message))
    first: dict[tuple[str, str], int] = {}
    for i, e in enumerate(log):
        if e.kind != "deliver":
            continue
        assert e.message is not None
        if e.message not in owner:
            kind = DELIVERY_WITHOUT_SEND if (e.process, e.message) not in first else DELIVERED_TWICE
            first.setdefault((e.process, e.message), i)
            truth.findings.add((kind, e.process, e.seq, e.message))
        elif first.setdefault((e.process, e.message), i) != i:
            truth.findings.add((DELIVERED_TWICE, e.process, e.seq, e.message))
    paired = {i: owner[m] for (_, m), i in first.items() if m in owner}
    after = reachable(log, paired)
    cyclic = {i for i, s in paired.items() if s in after[i]}
    for i in cyclic:
        truth.findings.add((CAUSAL_CYCLE, log[i].process, log[i].seq, log[i].message))
        del paired[i]
    after = reachable(log, paired)
    judge(log, paired, owner, first, after, truth)
    return truth


def judge(
    log: list[Event],
    paired: dict[int, int],
    owner: dict[str, int],
    first: dict[tuple[str, str], int],
    after: list[set[int]],
    truth: Truth,
) -> None:
    at: dict[str, list[int]] = defaultdict(list)
    for i in sorted(paired):
        at[log[i].process].append(i)
    children = successors(log, paired)
    for p, deliveries in at.items():
        for k, i in enumerate(deliveries):
            effects = [j for j in deliveries[:k] if paired[j] in after[paired[i]]]
            if effects:
                j = effects[0]
                key = (p, str(log[i].message))
                truth.violations[key] = (str(log[j].message), log[i].seq, log[j].seq, i - j - 1)
                truth.chain_lengths[key] = distance(children, paired[i], paired[j])
    for message, s in owner.items():
        for dest in sorted(set(log[s].dests or ())):
            effects = [j for j in at.get(dest, []) if paired[j] in after[s]]
            if (dest, message) not in first and effects:
                j = effects[0]
                truth.missing[dest, message] = (str(log[j].message), log[j].seq)


def reachable(log: list[Event], paired: dict[int, int]) -> list[set[int]]:
    """Return, per event, the events after it: by walking, not by counting."""
    edges: list[list[int]] = [[] for _ in log]
    for i in range(1, len(log)):
        if log[i].process == log[i - 1].process:
            edges[i - 1].append(i)
    for i, s in paired.items():
        edges[s].append(i)
    found = []
    for i in range(len(log)):
        seen: set[int] = set()
        stack = list(edges[i])
        while stack:
            v = stack.pop()
            if v not in seen:
                seen.add(v)
                stack += edges[v]
        found.append(seen)
    return found


def successors(log: list[Event], paired: dict[int, int]) -> dict[int, set[int]]:
    """Return, per send, the sends by a process that had sent or delivered it."""
    sends = [i for i in range(len(log)) if log[i].kind == "send"]
    found: dict[int, set[int]] = {s: set() for s in sends}
    holders: dict[int, list[int]] = defaultdict(list)
    for i, s in paired.items():
        holders[s].append(i)
    for s in sends:
        for h in [s, *holders[s]]:
            found[s].update(t for t in sends if t > h and log[t].process == log[h].process)
    return found


def distance(children: dict[int, set[int]], source: int, target: int) -> int:
    """Return the number of messages on a shortest chain, both ends included."""
    level, seen, length = {source}, {source}, 1
    while target not in level:
        level = set().union(*(children[s] for s in level)) - seen
        seen |= level
        length += 1
    return length


@dataclass(frozen=True)
class Shape:
    """What a random history is like."""

    processes: int = 4
    sends: int = 30
    fan_out: int = 2
    delay: float = 1.0
    skew: float = 0.0
    gaps: bool = False
    local: float = 0.1
    lost: float = 0.0
    doubled: float = 0.0
    unsent: float = 0.0
    resent: float = 0.0
    clashes: float = 0.0
    swapped: float = 0.0
    own: float = 0.1
    dests: bool = True
    timed: bool = True
    replies: float = 0.5


def history(shape: Shape, seed: int) -> list[Event]:
    """Return a random history in the order of true time."""
    rng = random.Random(seed)
    names = [f"p{k}" for k in range(shape.processes)]
    skews = {p: rng.uniform(-shape.skew, shape.skew) for p in names}
    seqs = dict.fromkeys(names, 0)
    queue: list[tuple[float, int, str, str, str]] = []
    for k in range(shape.sends):
        heapq.heappush(queue, (rng.uniform(0, shape.sends / 4), k, "send", rng.choice(names), ""))
    counter, number = shape.sends, 0
    log: list[Event] = []

    def note(
        p: str, kind: str, message: str | None, dests: tuple[str, ...] | None, t: float
    ) -> None:
        seqs[p] += rng.randint(1, 5) if shape.gaps else 1
        when = t + skews[p] if shape.timed else None
        log.append(Event(p, seqs[p], kind, message, dests, when))

    while queue:
        t, _, what, p, message = heapq.heappop(queue)
        if rng.random() < shape.local:
            note(p, "local", None, None, t)
        if what == "deliver":
            note(p, "deliver", message, None, t)
            if rng.random() < shape.unsent:
                note(p, "deliver", f"ghost{counter}", None, t)
            continue
        others = [q for q in names if q != p or rng.random() < shape.own]
        dests = tuple(rng.sample(others, min(len(others), rng.randint(1, shape.fan_out))))
        number += 1
        message = f"m{number}"
        if log and rng.random() < shape.resent:
            message = rng.choice([e.message for e in log if e.message] or [message])
        note(p, "send", message, dests if shape.dests else None, t)
        for dest in dests:
            copies = 0 if rng.random() < shape.lost else 1 + (rng.random() < shape.doubled)
            for _ in range(copies):
                counter += 1
                wait = rng.expovariate(1 / shape.delay)
                heapq.heappush(queue, (t + wait, counter, "deliver", dest, message))
    return spoil(log, shape, rng)


def spoil(log: list[Event], shape: Shape, rng: random.Random) -> list[Event]:
    """Make rows contradict each other, or go round in circles, as often as ``shape`` says."""
    if shape.clashes:
        log = [replace(e, seq=max(1, e.seq - (rng.random() < shape.clashes))) for e in log]
    if shape.swapped:
        for _ in range(int(shape.swapped * len(log)) + 1):
            a, b = rng.choice(log), rng.choice(log)
            if a.process == b.process and a is not b:
                i, j = log.index(a), log.index(b)
                log[i], log[j] = replace(b, seq=a.seq), replace(a, seq=b.seq)
    return log


SHAPES = (
    Shape(),
    Shape(processes=2, sends=20, fan_out=1, delay=3.0),
    Shape(processes=3, sends=40, fan_out=2, delay=0.05),
    Shape(processes=8, sends=60, fan_out=1, delay=4.0, gaps=True, skew=5.0),
    Shape(processes=5, sends=40, fan_out=4, delay=2.0, skew=1.0, dests=False),
    Shape(processes=6, sends=50, fan_out=3, lost=0.1, doubled=0.1, unsent=0.05),
    Shape(processes=6, sends=50, fan_out=3, lost=0.1, doubled=0.2, unsent=0.1, dests=False),
    Shape(processes=4, sends=40, resent=0.1, doubled=0.1, unsent=0.05, skew=3.0),
    Shape(processes=4, sends=40, clashes=0.05, gaps=True),
    Shape(processes=4, sends=40, swapped=0.05, doubled=0.05, lost=0.05),
    Shape(processes=5, sends=40, resent=0.1, swapped=0.05, doubled=0.2, clashes=0.02, lost=0.05),
    Shape(processes=3, sends=30, resent=0.2, swapped=0.1, doubled=0.3, dests=False, gaps=True),
    Shape(processes=5, sends=40, own=1.0, fan_out=2, delay=3.0, timed=False),
    Shape(processes=60, sends=60, fan_out=3, delay=3.0, skew=2.0),
)
