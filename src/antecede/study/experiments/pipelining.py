"""What pipelining to the same receiver saves: footnote 4 of [MF95].

Claim 4.5 quotes this experiment; ``buffered`` judges it.
"""

from __future__ import annotations

from collections.abc import Iterator

from antecede.study.design import Case, Chart, Experiment, Scale, paper
from antecede.study.points import Points

STAYS = (0.0, 0.5, 0.8, 0.95)
"""The probability that a sender stays with its receiver; at 0 it chooses among all others."""
LOADS = {"load=0.4": 0.4, "load=0.8": 0.8}
PLAIN, PIPELINED = "buffered", "buffered:pipelined"
_N = 10


def cases(scale: Scale) -> list[Case]:
    """Return buffered with and without pipelining, as senders stay with their receivers."""
    found = []
    for facet, load in LOADS.items():
        for stay in STAYS:
            arguments = {
                "n": scale.n_or(_N),
                "stay": stay,
                "fifo": True,
                "delay": f"exponential:{load / 20:g}",
                "received": scale.side,
                "warm_up": scale.side_warm_up,
            }
            options = {PLAIN: {}, PIPELINED: {"pipelined": True}}
            found += scale.cases(options, arguments, stay, facet, workload="sessions")
    return found


def findings(points: Points) -> Iterator[str]:
    """Say how much of the added delay pipelining removes."""
    for facet in points.facets():
        left = points.ratios("added_delay_mean", facet, PIPELINED)
        if left:
            told = ", ".join(f"{1 - ratio:.0%} at {x:g}" for x, ratio in left.items())
            yield f"{EXPERIMENT.facet_label(facet)}: pipelining removes {told} of the added delay."


EXPERIMENT = Experiment(
    name="pipelining",
    rank=92,
    paper=paper("buffered"),
    part="footnote 4",
    question=(
        "Messages to the same receiver need not wait for acknowledgements on FIFO channels. How "
        "much does that save, by how often a sender stays with its receiver?"
    ),
    how=(
        f"{_N} processes, unicast on FIFO channels, at two loads of the output buffer. A sender "
        "stays with its receiver with the probability on the axis, otherwise it chooses any."
    ),
    x="probability of staying with the receiver",
    cases=cases,
    baseline=PLAIN,
    sweeps_delay=True,
    labels={PIPELINED: "buffered, pipelined"}
    | {facet: f"Load {load:g}" for facet, load in LOADS.items()},
    charts=(Chart("added", "Delay added by the protocol", "added_delay_mean", "seconds"),),
    findings=findings,
)
