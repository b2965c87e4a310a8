"""What simplifying assumptions save: section 7.1 of [KS98]."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from antecede.report.numbers import figure
from antecede.study.design import Case, Chart, Experiment, Judgement, Scale, claim, paper
from antecede.study.points import DRIFTS, Points, judged, part

_N = 10
_DELAY = "exponential:0.02"
RING, ALL = "ring", "serial:all"
HIERARCHIES = ("hierarchy", "hierarchy:matrix", "hierarchy:levels")
CLUSTERS = {"clusters-5": 5, "clusters-12": 12}
"""The number of processes by facet; with two representatives causal order would just be FIFO."""
_CLUSTERED = 10
"""Messages received per process and point of a scale: hierarchies have no kernel."""
_LARGE = 4
"""The number of processes in a cluster."""
SERIES = {
    "broadcast": ("optimal", "matrix", "broadcast", "context", "serial", "two_hop"),
    "multicast": ("optimal", "matrix", "serial", ALL, "central"),
    "unicast": ("optimal", "matrix", "buffered", "central", "serial"),
    RING: ("optimal", "matrix", "buffered", "synchronous"),
    "clusters-5": ("optimal", "matrix", *HIERARCHIES),
    "clusters-12": ("optimal", "matrix", *HIERARCHIES),
}
"""The series of each facet. In the ring, only the process with the token sends, so no two sends
cross, and even synchronous does not deadlock."""


def options_of(series: str, facet: str) -> dict[str, Any]:
    """Return the options of a series: clusters of four; with levels, three levels of them."""
    if series == ALL:
        return {"entries": "all"}
    if series not in HIERARCHIES:
        return {}
    names = [f"p{number}" for number in range(_LARGE * CLUSTERS[facet])]
    clusters = [names[at : at + _LARGE] for at in range(0, len(names), _LARGE)]
    if series == "hierarchy:levels":
        return {"clusters": [[a, b, [c, d]] for a, b, c, d in clusters]}
    return {"clusters": clusters, "inner": "matrix" if series == "hierarchy:matrix" else "optimal"}


def cases(scale: Scale) -> list[Case]:
    """Return the special cases beside optimal and matrix, each in the facets it applies to."""
    found = []
    received = min(scale.side, 60 if scale.is_quick else 100)
    for facet, names in SERIES.items():
        clusters = CLUSTERS.get(facet)
        n = _LARGE * clusters if clusters else scale.n_or(_N)
        measured = received if clusters is None else min(received, scale.points * _CLUSTERED)
        arguments = {"n": n, "delay": scale.delay_or(_DELAY), "received": measured}
        arguments |= {"warm_up": received // 4}
        cast = "multicast" if clusters else facet
        arguments |= {"tokens": 1} if facet == RING else {"cast": cast}
        workload = "ring" if facet == RING else "paper"
        options = {name: options_of(name, facet) for name in names}
        found += scale.cases(options, arguments, 0, facet, workload=workload)
    return found


BOUNDS: tuple[tuple[str, str, str, Callable[[float], float]], ...] = (
    ("broadcast", "broadcast", "n", lambda n: n),
    ("broadcast", "serial", "1", lambda _: 1.0),
    ("multicast", ALL, "n", lambda n: n),
    ("unicast", "buffered", "0", lambda _: 0.0),
    (RING, "synchronous", "0", lambda _: 0.0),
)
"""Facet, protocol, and the paper's largest number of entries that a copy may carry there."""
RELAYS = tuple(
    (facet, name)
    for facet, names in SERIES.items()
    for name in names
    if name in ("central", *HIERARCHIES)
)
"""Facets and protocols for which the paper states no cost."""


@claim(
    "2.8",
    "Special cases cost less: n entries for broadcast and serialised multicast, 1 if broadcasts "
    "are serialised, 0 if synchronous or acknowledged; central and hierarchical relays tend to "
    "cost less as well.",
    "Experiment special, each where it applies: broadcast, multicast, unicast, and one "
    "token going round.",
)
def _costs(points: Points) -> Judgement | None:
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
        f"{', '.join(parts)}. The paper's costs {part(held)}. Serialised sends as printed lose "
        "order (docs/errata.md): under serial the token carries entries too. Synchronous deadlocks "
        f"where sends cross (claim 4.2), so it runs where none do. {_compared(points)}"
    )
    short = f"{sum(held)} of {len(held)} stated costs; serialised as printed loses order"
    verdict = judged(always=False, sometimes=any(held))
    return Judgement(result, verdict, short, "serialised sends")


def _compared(points: Points) -> str:
    """Compare totals: entries on the token or not, and relays with optimal."""
    said, relayed = [], []
    mine, theirs = (points.level_point(TOTAL, "multicast", name) for name in ("serial", ALL))
    if mine is not None and theirs is not None:
        said.append(
            "A serialised multicast with the entries on the token only: "
            f"{mine} bytes per message in all, otherwise {theirs}."
        )
    for facet, name in RELAYS:
        mine, theirs = (points.level_point(TOTAL, facet, each) for each in (name, "optimal"))
        if mine is not None and theirs is not None:
            place = f"{EXPERIMENT.label(name)} in {EXPERIMENT.facet_label(facet)}"
            moving = any(
                points.drifting(drift, facet, each)
                for drift in DRIFTS
                for each in (name, "optimal")
            )
            relayed.append(f"{place} {mine} ({theirs}){', not settled' if moving else ''}")
    if relayed:
        said.append(
            "The paper states no cost for relays. Bytes per message in all, with what relays pass "
            f"on (optimal's in parentheses): {'; '.join(relayed)}."
        )
    return " ".join(said)


TOTAL = "total_bytes_per_message"
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
        "runs only where none do: with one token going round. The hierarchies are multicast among "
        f"5 or 12 clusters of {_LARGE} processes, whose representatives run optimal or matrix; in "
        "three levels, half of a cluster is one below it."
    ),
    x="",
    cases=cases,
    baseline="optimal",
    labels={
        RING: "one token going round",
        ALL: "serial, n entries in the message and on the token",
        "hierarchy:matrix": "hierarchy, matrix inside",
        "hierarchy:levels": "hierarchy, three levels",
        "clusters-5": "multicast among 5 clusters",
        "clusters-12": "multicast among 12 clusters",
    },
    charts=(
        Chart("bytes", "Total bytes per message", TOTAL, "bytes", kind="bar"),
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
