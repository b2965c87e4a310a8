"""papers/002, section 7.1: what simplifying assumptions buy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.pipeline.studies.experiments.base import Case, Experiment
from antecede.report.questions import Chart

if TYPE_CHECKING:
    from antecede.pipeline.studies.experiments.base import Scale

_N = 10
_DELAY = "exponential:0.02"
_ROUND = "one token going round"
BROADCAST = ("optimal", "matrix", "broadcast", "context", "serial", "two_hop")
MULTICAST = ("optimal", "matrix", "serial", "central", "hierarchy")
UNICAST = ("optimal", "matrix", "buffered", "central", "hierarchy", "serial")
RING = ("optimal", "matrix", "buffered", "synchronous")
"""Who has the token sends it on: no two sends cross, so that even synchronous goes on."""


def cases(scale: Scale) -> list[Case]:
    """Return the special cases beside optimal and matrix, where each applies."""
    found = []
    received = min(scale.side, 100)
    casts = (("broadcast", BROADCAST), ("multicast", MULTICAST), ("unicast", UNICAST))
    for cast, protocols in casts:
        arguments = {
            "n": _N,
            "cast": cast,
            "delay": _DELAY,
            "received": received,
            "warm_up": received // 4,
        }
        for seed in scale.seeds[:3]:
            found += [
                Case(name, "paper", arguments, seed, name, 0, cast, _options(name))
                for name in protocols
            ]
    ring = {"n": _N, "tokens": 1, "delay": _DELAY, "received": received, "warm_up": received // 4}
    return found + [
        Case(name, "ring", ring, seed, name, 0, _ROUND) for seed in scale.seeds[:3] for name in RING
    ]


def _options(protocol: str) -> dict[str, object]:
    if protocol == "hierarchy":
        names = [f"p{number}" for number in range(_N)]
        return {"clusters": [names[:5], names[5:]]}
    return {}


EXPERIMENT = Experiment(
    name="special",
    paper="papers/002, section 7.1",
    question="What do the special cases cost: broadcast only, serialised, acknowledged, central?",
    x="",
    cases=cases,
    baseline="optimal",
    how=(
        f"{_N} processes, mean delay a fifth of the gap: every message to everyone, to half of "
        "them on average, and to one. What a protocol saves in bytes it pays in packets or in delay. "
        "synchronous (no control, one acknowledgement) stops its sender, and crossing sends deadlock "
        "(claim 4.2), so it is run only where none cross: one token that goes round."
    ),
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
)
