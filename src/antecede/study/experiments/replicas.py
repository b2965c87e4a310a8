"""What a replicated store saves if reads create dependence, not deliveries: [HKS18]."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from random import Random
from typing import Any, NamedTuple

import numpy as np

from antecede.endpoint.messages import Packet
from antecede.endpoint.registry import endpoint, size
from antecede.replicas import Replica
from antecede.sim.metrics import drift
from antecede.study.design import Case, Chart, Experiment, Judgement, Scale, claim
from antecede.study.measuring import Task
from antecede.study.open_questions import answered
from antecede.study.points import Points, spread

OURS, KS = "replicas", "optimal"
READS = (0.0, 0.5, 2.0, 8.0)
FACETS = {"some": 3, "all": 0}
"""How many processes keep a key; 0 is all."""
N = 10
BYTES, HELD = "model_bytes_per_copy", "held_fraction"
_GAP, _DELAY = 0.1, 0.05
_QUICK, _LONG = (8, 12), (50, 150)
"""How many writes of each process are not measured, and how many are measured after them."""


class Operation(NamedTuple):
    """A process reads some keys that it keeps, and then writes one."""

    time: float
    process: str
    reads: tuple[str, ...]
    key: str


def cases(scale: Scale) -> list[Case]:
    """Return the store by the number of reads, and optimal, which does not depend on it."""
    warm_up, received = _QUICK if scale.is_quick else _LONG
    found = []
    for facet, keepers in FACETS.items():
        arguments = {"n": scale.n_or(N), "received": received, "warm_up": warm_up}
        for seed in scale.seeds:
            options: dict[str, Any] = {"keepers": keepers}
            found.append(Case(KS, "paper", arguments, seed, KS, 0.0, facet, options))
            found += [
                Case(KS, "paper", arguments, seed, OURS, reads, facet, options | {"reads": reads})
                for reads in READS
            ]
    return found


def operations(
    rng: Random,
    where: dict[str, tuple[str, ...]],
    members: tuple[str, ...],
    *,
    writes: int,
    reads: float,
) -> list[Operation]:
    """Return every process's operations; the writes do not depend on the number of reads."""
    found, keys = [], sorted(where)
    reading = Random(rng.random())  # noqa: S311 - a workload, not a secret
    for process in members:
        now, mine = 0.0, [key for key in keys if process in where[key]]
        for _ in range(writes):
            now += rng.expovariate(1 / _GAP)
            key = rng.choice(keys)
            count = int(reads) + (reading.random() < reads % 1)
            chosen = tuple(reading.choice(mine) for _ in range(count if mine else 0))
            found.append(Operation(now, process, chosen, key))
    return sorted(found)


def measure(task: Task) -> dict[str, Any]:
    """Run a store, or endpoints of optimal that send its writes; the schedule says n and seed."""
    n, warm_up = task.schedule.n, task.warm_up
    rng = Random(task.schedule.seed)  # noqa: S311 - a workload, not a secret
    members = tuple(f"p{number}" for number in range(n))
    keepers = min(int(task.options["keepers"]) or n, n)
    keys = [f"k{number}" for number in range(2 * n)]
    where = {key: tuple(sorted(rng.sample(members, keepers))) for key in keys}
    writes = warm_up + int(task.schedule.copies // n)
    todo = operations(rng, where, members, writes=writes, reads=task.options.get("reads", 0.0))
    start = todo[warm_up * n].time
    started = time.process_time()
    if task.series == KS:
        ends = {name: endpoint(KS, process=name, members=members) for name in members}

        def write(one: Operation) -> tuple[Packet, ...]:
            return ends[one.process].send(where[one.key]).packets

        def receive(packet: Packet) -> int:
            return len(ends[packet.dest].receive(packet).deliveries)

    else:
        placed = {} if keepers == n else where
        ours = {name: Replica(name, members, placed) for name in members}

        def write(one: Operation) -> tuple[Packet, ...]:
            for key in one.reads:
                ours[one.process].read(key)
            return ours[one.process].write(one.key, b"").packets

        def receive(packet: Packet) -> int:
            return len(ours[packet.dest].receive(packet).applied)

    return _run(todo, start, rng, write, receive) | {"seconds": time.process_time() - started}


def _run(
    todo: list[Operation],
    start: float,
    rng: Random,
    write: Callable[[Operation], tuple[Packet, ...]],
    receive: Callable[[Packet], int],
) -> dict[str, Any]:
    """Carry out all operations; return what copies of the later writes carried and how many waited.

    The last packets arrive after the last write, and are measured too.
    """
    flying: list[tuple[float, int, Packet]] = []
    entries = held = deliveries = 0
    carried: list[int] = []
    for number, one in enumerate([*todo, None]):
        until = float("inf") if one is None else one.time
        while flying and flying[0][0] < until:
            at, _, packet = heappop(flying)
            count = receive(packet)
            deliveries += count
            held += not count and at >= start
        if one is None:
            break
        for packet in write(one):
            heappush(flying, (one.time + rng.expovariate(1 / _DELAY), number, packet))
            if one.time >= start:
                told = size(packet)
                carried.append(told.model_bytes)
                entries += told.entries
            number += len(todo)  # noqa: PLW2901 - packets of one time need some order
    copies = max(1, len(carried))
    return {
        "deliveries": deliveries,
        "timed_deliveries": deliveries,
        "entries_per_copy": entries / copies,
        BYTES: sum(carried) / copies,
        HELD: held / copies,
        "size_drift": drift(np.array(carried)),
    }


def findings(points: Points) -> Iterator[str]:
    """Compare what the store carries and holds with optimal."""
    for facet in points.facets():
        base, waits = points.means(BYTES, facet, KS), points.means(HELD, facet, KS)
        ours, held = points.means(BYTES, facet, OURS), points.means(HELD, facet, OURS)
        if base and ours:
            told = ", ".join(
                f"{ours[x]:.0f} bytes and {held[x]:.1%} held with {x:g} reads" for x in ours
            )
            yield (
                f"{EXPERIMENT.facet_label(facet)}: optimal carries {base[0]:.0f} bytes per copy, "
                f"and holds {waits[0]:.1%}; the store {told} per write."
            )


@claim(
    "5.open",
    "Question (ours): does dependence by reads instead of deliveries carry less than [KS98]?",
    "Experiment replicas: the same writes under the store and under optimal, by the number of "
    "reads per write. The store itself: tests/replicas.",
)
def _carries_less(points: Points) -> Judgement | None:
    parts, every = [], []
    for facet in points.facets():
        base, ours = points.level(BYTES, facet, KS), points.means(BYTES, facet, OURS)
        if not base or not ours:
            return None
        ratios = [value / base for value in ours.values()]
        every += ratios
        parts.append(f"{EXPERIMENT.facet_label(facet).lower()}: x{spread(ratios)}")
    result = (
        f"Bytes of control per copy in proportion to optimal's, from {min(READS):g} to "
        f"{max(READS):g} reads per write: {'; '.join(parts)}. Who reads little hears of "
        "few deliveries, so its log may be longer than optimal's although less has to wait. What "
        "is fetched is not counted. The papers on Opt-Track, which is such a store, were not "
        "available to us."
    )
    verdict = answered(always=max(every) < 1, sometimes=min(every) < 1)
    return Judgement(result, verdict, f"x{spread(every)} of optimal's control")


EXPERIMENT = Experiment(
    name="replicas",
    rank=101,
    paper="Hsu, Kshemkalyani and Shen 2018 [HKS18]",
    question="What does a causal store save if a write depends on reads, not on deliveries?",
    how=(
        "Ten processes and twenty keys. Each key is kept by three random processes, or by all. "
        "Everybody writes a random key every 0.1 s on average, and before that reads keys that it "
        "keeps, as many on average as the axis says. Delays are 0.05 s on average. Optimal sends "
        "the same writes to the same processes; there every delivery counts."
    ),
    x="reads per write",
    cases=cases,
    measure=measure,
    baseline=KS,
    levels=(KS,),
    labels={OURS: "store", "some": "three keep a key", "all": "all keep all keys"},
    charts=(
        Chart("bytes", "Bytes of control per copy", BYTES, "bytes"),
        Chart("held", "Copies that wait", HELD, "share of copies"),
    ),
    findings=findings,
    claims=(_carries_less,),
)
