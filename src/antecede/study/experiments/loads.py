"""False causality over loads, casts and sending patterns: how much of it remains under [GK00].

This experiment is the basis of claim 1.5; ``semantic`` judges it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from antecede.study.design import Case, Chart, Experiment, Scale, paper
from antecede.study.measuring import measure_falsely_held
from antecede.study.points import Points

LOADS = (0.03, 0.1, 0.3, 1.0, 2.0)
"""Mean delay as a multiple of the mean gap between a process's sends (0.1 s)."""
FACETS: dict[str, tuple[str, dict[str, Any]]] = {
    "unicast": ("paper", {"cast": "unicast"}),
    "multicast": ("paper", {"cast": "multicast"}),
    "bursts": ("bursts", {"cast": "unicast"}),
    "sessions": ("sessions", {"stay": 0.8}),
}
SEMANTICS = {"probability": 0.5, "reach": 3}
_RECEIVED = {"multicast": 2000}
_FEWER = 250
"""Messages received per process when each has one destination: the search for false causality
keeps every message's past, so more would not fit into memory."""
RST, OURS = "matrix", "semantic"


def cases(scale: Scale) -> list[Case]:
    """Return semantic and matrix on the same schedules, as the load grows."""
    found = []
    longest = min(scale.side, 120) if scale.is_quick else scale.side
    for facet, (workload, more) in FACETS.items():
        for load in scale.thin(LOADS):
            arguments = {
                "n": scale.n_or(scale.side_n),
                "received": min(longest, _RECEIVED.get(facet, _FEWER)),
                "warm_up": min(longest // 2, 100),
                "delay": f"exponential:{load / 10:g}",
                "fifo": True,
                "semantics": SEMANTICS,
                **more,
            }
            found += scale.cases((RST, OURS), arguments, load, facet, workload=workload)
    return found


def findings(points: Points) -> Iterator[str]:
    """Say how many copies are held falsely at the largest load."""
    for facet in points.facets():
        ours = points.line("false_held_fraction", facet, OURS)
        theirs = points.line("false_held_fraction", facet, RST)
        both = ours.keys() & theirs.keys()
        if both:
            x = max(both)
            yield (
                f"{EXPERIMENT.facet_label(facet).capitalize()}: at a delay of {x:g} gaps, semantic "
                f"holds {ours[x].mean:.1%} of the copies falsely, matrix {theirs[x].mean:.1%}."
            )


EXPERIMENT = Experiment(
    name="loads",
    rank=45,
    paper=paper("semantic"),
    part="section 4",
    question=(
        "How much false causality remains as delays grow, to one or many destinations, in bursts, "
        "and where senders stay with their receivers?"
    ),
    how=(
        "Half of the messages depend on one of their sender's last three events, the others on "
        "nothing. Channels are FIFO, as [GK00] assumes, and delays are exponential. Bursts: twenty "
        "messages in a row after a pause. Sessions: a sender stays with its receiver with "
        "probability 0.8."
    ),
    x="mean delay / mean gap between sends",
    cases=cases,
    measure=measure_falsely_held,
    baseline=RST,
    sweeps_delay=True,
    charts=(
        Chart(
            "false",
            "Held for messages they do not depend on",
            "false_held_fraction",
            "share of copies held falsely",
            logs="x",
        ),
        Chart("delay", "Delay added by holding", "added_delay_mean", "seconds per copy", logs="x"),
    ),
    findings=findings,
)
