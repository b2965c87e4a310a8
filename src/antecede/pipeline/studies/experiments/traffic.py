"""Real traffic, replayed: who sent to whom and when, from an edge list (``--traffic FILE``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.pipeline.studies.experiments.base import Case, Experiment
from antecede.report.questions import Chart

if TYPE_CHECKING:
    from antecede.pipeline.studies.experiments.base import Scale

SERIES = (("optimal (KS)", "optimal"), ("pruned", "pruned"))
DELAYS = {"delay of seconds": "exponential:2", "delay of minutes": "exponential:120"}


def cases(scale: Scale) -> list[Case]:
    """Return the protocols that can be run without a matrix, on the file's messages."""
    if scale.traffic is None:
        return []
    return [
        Case(protocol, "edges", {"delay": delay}, seed, series, 0, facet, {}, scale.traffic)
        for facet, delay in DELAYS.items()
        for seed in scale.seeds[:3]
        for series, protocol in SERIES
    ]


EXPERIMENT = Experiment(
    name="traffic",
    paper="real traffic",
    question="What would causal order have cost people who wrote to each other?",
    x="",
    cases=cases,
    baseline="optimal (KS)",
    how=(
        "The given edge list, lines of equal source and time one multicast; network delays are drawn. A matrix of all the "
        "people would not fit on a message, so only protocols that do without one are run."
    ),
    charts=(
        Chart("traffic-bytes", "Bytes per copy", "model_bytes_per_copy", "bytes", kind="bar"),
        Chart("traffic-held", "Messages held", "held_fraction", "share of copies", kind="bar"),
    ),
)
