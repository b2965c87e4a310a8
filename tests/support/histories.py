"""Random histories: messages sent, passed on, delivered and lost, and events with clocks."""

from __future__ import annotations

import heapq
import random
from collections import Counter
from dataclasses import dataclass, replace

from antecede.events import Event
from tests.support.oracles import Stamped

# m1 from a reaches c after m3, which a's m2 caused at b: one violation.
LATE = [
    Event("a", 1, "send", "m1", ("c",), 0.0),
    Event("a", 2, "send", "m2", ("b",), 1.0),
    Event("b", 1, "deliver", "m2", None, 2.0),
    Event("b", 2, "send", "m3", ("c",), 3.0),
    Event("c", 1, "deliver", "m3", None, 4.0),
    Event("c", 2, "deliver", "m1", None, 5.0),
]


@dataclass(frozen=True)
class Shape:
    """The properties of a random history."""

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
    relays: float = 0.0
    unlogged: float = 0.0
    clocks: float = 0.0
    wrong: float = 0.0


def history(shape: Shape, seed: int) -> list[Event]:
    """Return a random history in the order of true time."""
    rng = random.Random(seed)
    names = [f"p{k}" for k in range(shape.processes)]
    skews = {p: rng.uniform(-shape.skew, shape.skew) for p in names}
    seqs = dict.fromkeys(names, 0)
    queue: list[tuple[float, int, str, str, str, Counter[str]]] = []
    nothing: Counter[str] = Counter()
    for k in range(shape.sends):
        when = rng.uniform(0, shape.sends / 4)
        heapq.heappush(queue, (when, k, "send", rng.choice(names), "", nothing))
    counter, number = shape.sends, 0
    log: list[Event] = []
    past: dict[str, Counter[str]] = {p: Counter() for p in names}
    pasts: list[Counter[str]] = []

    def note(
        p: str, kind: str, message: str | None, dests: tuple[str, ...] | None, t: float
    ) -> None:
        seqs[p] += rng.randint(1, 5) if shape.gaps else 1
        when = t + skews[p] if shape.timed else None
        past[p][p] += 1
        pasts.append(past[p].copy())
        log.append(Event(p, seqs[p], kind, message, dests, when))

    while queue:
        t, _, what, p, message, known = heapq.heappop(queue)
        if rng.random() < shape.local:
            note(p, "local", None, None, t)
        if what == "deliver":
            past[p] |= known
            note(p, "deliver", message, None, t)
            if rng.random() < shape.unsent:
                note(p, "deliver", f"ghost{counter}", None, t)
            if not shape.relays or rng.random() >= shape.relays:
                continue
        others = [q for q in names if q != p or rng.random() < shape.own]
        dests = tuple(rng.sample(others, min(len(others), rng.randint(1, shape.fan_out))))
        if what == "send":
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
                item = (t + wait, counter, "deliver", dest, message, past[p].copy())
                heapq.heappush(queue, item)
    return spoil(stamp(log, pasts, shape, rng), shape, rng)


def stamp(
    log: list[Event], pasts: list[Counter[str]], shape: Shape, rng: random.Random
) -> list[Event]:
    """Remove some events, and give some of the rest clocks that count only the rest."""
    if not shape.clocks and not shape.unlogged:
        return log
    logged = [e.kind == "local" or rng.random() >= shape.unlogged for e in log]
    ranks: dict[str, list[int]] = {e.process: [0] for e in log}
    for e, stays in zip(log, logged, strict=True):
        ranks[e.process].append(ranks[e.process][-1] + stays)
    found: list[Event] = []
    for e, past, stays in zip(log, pasts, logged, strict=True):
        clock = None
        if rng.random() < shape.clocks:
            counts = {q: ranks[q][c] for q, c in past.items()}
            if rng.random() < shape.wrong:
                counts[rng.choice(sorted(counts))] += rng.randint(-2, 3)
            clock = tuple(sorted(counts.items()))
        if stays:
            values = (e.process, e.seq, e.kind, e.message, e.dests, e.time)
            found.append(Stamped(*values, clock) if shape.clocks else e)
    return found


def spoil(log: list[Event], shape: Shape, rng: random.Random) -> list[Event]:
    """Make rows contradict each other or form cycles, as often as ``shape`` says."""
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

#: Messages passed on by their receivers, with and without stated destinations.
RELAYED = (
    Shape(processes=4, sends=8, relays=0.3, own=0.0, delay=2.0),
    Shape(processes=6, sends=10, fan_out=3, relays=0.25, delay=2.0, lost=0.1, local=0.3),
    Shape(processes=5, sends=10, relays=0.3, dests=False, delay=2.0),
    Shape(processes=5, sends=25, relays=0.15, resent=0.2, doubled=0.1, own=0.3, delay=2.0),
    Shape(processes=4, sends=15, relays=0.2, unlogged=0.15, delay=2.0),
    Shape(processes=4, sends=15, relays=0.2, resent=0.1, swapped=0.05, clashes=0.05),
)
#: Vector clocks on all or some events, and messages whose send or delivery is not logged.
CLOCKED = (
    Shape(clocks=1.0, delay=2.0),
    Shape(processes=3, sends=20, clocks=1.0, unlogged=0.3, delay=3.0, local=0.3),
    Shape(processes=5, sends=40, clocks=0.4, unlogged=0.2, delay=2.0, gaps=True),
    Shape(processes=5, sends=40, clocks=0.5, unlogged=0.2, dests=False, lost=0.1, skew=2.0),
    Shape(processes=4, sends=25, clocks=0.7, wrong=0.05, unlogged=0.1, delay=2.0),
    Shape(processes=4, sends=25, clocks=0.5, clashes=0.1, swapped=0.02, wrong=0.02),
    Shape(processes=4, sends=12, clocks=0.5, relays=0.3, unlogged=0.1, delay=2.0),
    Shape(processes=30, sends=40, clocks=0.8, unlogged=0.1, delay=3.0),
)
#: Small logs of every combination; many lack events, which may or may not matter.
BRIEF = tuple(
    Shape(
        processes=3 + (sends > 5),
        sends=sends,
        fan_out=fan_out,
        delay=delay,
        local=0.2,
        lost=lost,
        unlogged=unlogged,
        unsent=0.1 * (sends == 6),
        clocks=clocks,
        relays=relays,
        dests=dests,
    )
    for sends in (4, 6, 9)
    for fan_out in (1, 2)
    for delay in (0.3, 2.0)
    for lost, unlogged in ((0.0, 0.0), (0.1, 0.0), (0.0, 0.2), (0.1, 0.4))
    for clocks in (0.0, 0.4)
    for relays in (0.0, 0.3)
    for dests in (True, False)
)
