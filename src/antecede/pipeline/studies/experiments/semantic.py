"""papers/001: what leaving out false causality saves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.pipeline.studies.experiments.base import Case, Experiment, paper_arguments
from antecede.report.questions import Chart

if TYPE_CHECKING:
    from antecede.pipeline.studies.experiments.base import Scale

PROBABILITIES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
DELAYS = {
    "exponential delays": "exponential:0.1",
    "heavy tails (lognormal, sigma 1.5)": "lognormal:0.1:1.5",
}
REACH = 3
_RECEIVED = 2000
"""The search for false causality keeps every message's past; longer runs would not fit."""


def cases(scale: Scale) -> list[Case]:
    """Return semantic and matrix on the same schedules, as more and more is dependent."""
    found = []
    for facet, delay in DELAYS.items():
        for probability in scale.thin(PROBABILITIES):
            arguments = paper_arguments(
                scale,
                n=scale.side_n,
                cast="multicast",
                delay=delay,
                side=True,
                semantics={"probability": probability, "reach": REACH},
            )
            arguments["received"] = min(scale.side, _RECEIVED)
            for seed in scale.seeds:
                place = (arguments, seed)
                found.append(Case("matrix", "paper", *place, "matrix (RST)", probability, facet))
                found.append(Case("semantic", "paper", *place, "semantic", probability, facet))
    return found


EXPERIMENT = Experiment(
    name="semantic",
    paper="papers/001",
    question=(
        "How much delay and buffering does semantic causal order save over the matrix, as more of "
        "the messages really depend on what came before?"
    ),
    x="share of messages that depend on something",
    cases=cases,
    baseline="matrix (RST)",
    how=(
        "papers/000's multicast workload, mean delay equal to the mean gap. A message depends on "
        f"one of its sender's last {REACH} events with the probability on the axis, else on "
        "nothing. Exponential delays, and lognormal ones with the same mean and a heavy tail."
    ),
    charts=(
        Chart("held", "Messages held", "held_fraction", "share of copies held"),
        Chart("delay", "Delay added by holding", "added_delay_mean", "seconds per copy"),
        Chart(
            "false",
            "Held for messages that do not matter",
            "false_held_fraction",
            "share of copies held falsely",
        ),
        Chart("buffer", "Messages in a process's buffer", "buffer_mean", "copies, on average"),
    ),
)
