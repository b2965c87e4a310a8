"""What simplifying assumptions save: section 7.1 of [KS98]."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from antecede.report.numbers import figure
from antecede.study.design import Case, Chart, Experiment, Outcome, Scale, claim, paper
from antecede.study.measuring import Task, measure_acknowledged, measure_run
from antecede.study.points import Points, judged, part

_N = 10
_DELAY = "exponential:0.02"
RING = "ring"
SERIES = {
    "broadcast": ("optimal", "matrix", "broadcast", "context", "serial", "two_hop"),
    "multicast": (
        *("optimal", "matrix", "serial", "serial:all", "central"),
        *("hierarchy", "hierarchy:matrix", "hierarchy:levels"),
    ),
    "unicast": ("optimal", "matrix", "buffered", "central", "hierarchy", "serial"),
    RING: ("optimal", "matrix", "buffered", "synchronous"),
}
"""What runs in each facet. Who has the token passes it on, so that no two sends cross: there even
synchronous does not deadlock."""


def options_of(series: str, n: int) -> dict[str, Any]:
    """Return the options of a series among n processes: two clusters, or one below the other."""
    names = [f"p{number}" for number in range(n)]
    half = max(1, n // 2)
    first, second = names[:half], names[half:]
    third = max(1, len(first) // 2)
    match series:
        case "serial:all":
            return {"entries": "all"}
        case "hierarchy":
            return {"clusters": [first, second]}
        case "hierarchy:matrix":
            return {"clusters": [first, second], "inner": "matrix"}
        case "hierarchy:levels":
            below = [first[:third] + ([first[third:]] if first[third:] else [])]
            return {"clusters": [*below, second]}
        case _:
            return {}


def cases(scale: Scale) -> list[Case]:
    """Return the special cases beside optimal and matrix, where each applies."""
    found = []
    received = min(scale.side, 100)
    n = scale.n_or(_N)
    common = {"n": n, "delay": scale.delay_or(_DELAY), "received": received}
    common["warm_up"] = received // 4
    for facet, names in SERIES.items():
        is_ring = facet == RING
        arguments = common | ({"tokens": 1} if is_ring else {"cast": facet})
        workload = "ring" if is_ring else "paper"
        found += [
            Case(name.partition(":")[0], workload, arguments, seed, name, 0, facet, options)
            for seed in scale.seeds[:3]
            for name in names
            for options in (options_of(name, n),)
        ]
    return found


def measure(task: Task) -> dict[str, Any]:
    """Measure a run, with its acknowledgements under buffered."""
    return measure_acknowledged(task) if task.protocol == "buffered" else measure_run(task)


BOUNDS: tuple[tuple[str, str, str, Callable[[float], float]], ...] = (
    ("broadcast", "broadcast", "n", lambda n: n),
    ("broadcast", "serial", "1", lambda _: 1.0),
    ("multicast", "serial:all", "n", lambda n: n),
    ("unicast", "buffered", "0", lambda _: 0.0),
    (RING, "synchronous", "0", lambda _: 0.0),
    ("unicast", "central", "0", lambda _: 0.0),
    ("unicast", "hierarchy", "less than n", lambda n: n),
    ("multicast", "hierarchy:levels", "less than n", lambda n: n),
)
"""Facet, protocol, and the paper's largest number of entries that a copy may carry there."""


@claim(
    "2.8",
    "Special cases cost less: n entries for broadcast, 1 if serialised, 0 if synchronous "
    "or acknowledged; also central and hierarchical relays.",
    "Experiment special, each where it applies: broadcast, multicast, unicast, and one "
    "token going round.",
)
def _costs(points: Points) -> Outcome | None:
    parts, held = [], []
    for facet, name, bound, limit in BOUNDS:
        place = f"{EXPERIMENT.label(name)} in {EXPERIMENT.facet_label(facet)}"
        matrix = points.level("entries_per_copy", facet, "matrix")
        entries = points.level_point("entries_per_copy", facet, name)
        if matrix is None or entries is None:
            parts.append(f"{place}: not run")
            continue
        held.append(entries.mean <= limit(math.sqrt(matrix)) + 1e-9)
        extra = points.level("extra_packets_per_message", facet, name)
        parts.append(f"{place} {entries} ({bound}) + {figure(extra)}")
    if not held:
        return None
    result = (
        "Entries per copy (the paper's in parentheses) + packets added per message: "
        f"{', '.join(parts)}. The paper's costs {part(held)}. Synchronous deadlocks where sends "
        f"cross (claim 4.2), so it runs where none do. {_compared(points)}"
    )
    short = f"{sum(held)} of {len(held)} within the paper's costs"
    return Outcome(result, judged(always=all(held), sometimes=any(held)), short)


def _compared(points: Points) -> str:
    """Compare what can be done otherwise: entries on the token, matrix among representatives."""
    told = []
    for one, other, what in (
        ("serial", "serial:all", "With the entries on the token instead, a serialised multicast"),
        ("hierarchy", "hierarchy:matrix", "Representatives that run optimal instead of matrix"),
    ):
        mine = points.level_point("total_bytes_per_message", "multicast", one)
        theirs = points.level_point("total_bytes_per_message", "multicast", other)
        if mine is not None and theirs is not None:
            told.append(f"{what}: {mine} bytes per message in all, otherwise {theirs}.")
    return " ".join(told)


EXPERIMENT = Experiment(
    name="special",
    rank=70,
    paper=paper("optimal"),
    part="section 7.1",
    question="What do the special cases cost: broadcast only, serialised, acknowledged, central?",
    how=(
        f"{_N} processes, with a mean delay of a fifth of the gap between sends. Every message "
        "goes to everyone, to half of the processes on average, or to one. What a protocol saves "
        "in bytes it pays in packets or in delay. Synchronous (no control information, one "
        "acknowledgement) blocks its sender and deadlocks where sends cross (claim 4.2), so it "
        "runs only where none do: with one token going round. The hierarchy has two clusters whose "
        "representatives run optimal, or matrix; with three levels, half of the first cluster is "
        "one below it."
    ),
    x="",
    cases=cases,
    measure=measure,
    baseline="optimal",
    labels={
        RING: "one token going round",
        "serial:all": "serial, n entries as printed",
        "hierarchy:matrix": "hierarchy, matrix inside",
        "hierarchy:levels": "hierarchy, three levels",
    },
    charts=(
        Chart("bytes", "Bytes per copy", "model_bytes_per_copy", "bytes", kind="bar"),
        Chart(
            "packets",
            "Packets beyond the copies themselves, per message",
            "extra_packets_per_message",
            "packets",
            kind="bar",
        ),
        Chart("delay", "From send to delivery", "latency_mean", "seconds", kind="bar"),
    ),
    claims=(_costs,),
)
