"""Real traffic, replayed: who sent to whom and when, from an edge list (``--traffic FILE``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from antecede.report.numbers import figure
from antecede.study.design import Case, Chart, Experiment, Scale
from antecede.study.measuring import Task, measure_run
from antecede.study.points import Points

KS = "optimal"
DELAYS = {"seconds": "exponential:2", "minutes": "exponential:120"}


def cases(scale: Scale) -> list[Case]:
    """Return the protocols that need no matrix, on the file's messages."""
    if scale.traffic is None:
        return []
    return [
        Case(protocol, "edges", {"delay": delay}, seed, protocol, 0, facet, {}, scale.traffic)
        for facet, delay in DELAYS.items()
        for seed in scale.seeds
        for protocol in (KS, "pruned")
    ]


def measure(task: Task) -> dict[str, Any]:
    """Measure a run, and the size of the matrix that it avoids."""
    return {**measure_run(task), "matrix_bytes": 4 * task.schedule.n**2}


def findings(points: Points) -> Iterator[str]:
    """Compare optimal with the matrix that would have been needed."""
    for facet in points.facets():
        own = points.level("model_bytes_per_copy", facet, KS)
        matrix = points.level("matrix_bytes", facet, KS)
        held = points.level("held_fraction", facet, KS)
        if own is not None and matrix is not None and held is not None:
            yield (
                f"With a {EXPERIMENT.facet_label(facet)}, optimal carries {figure(own)} bytes per "
                f"copy where a matrix would take {figure(matrix)}, and holds {held:.2%} of the "
                "copies."
            )


EXPERIMENT = Experiment(
    name="traffic",
    rank=100,
    paper="real traffic",
    question="What would causal order have cost people who wrote to each other?",
    how=(
        "The given edge list; lines with the same source and time are one multicast. Network "
        "delays are random. A matrix of all the people would not fit on a message, so only "
        "protocols that work without one are run."
    ),
    x="",
    cases=cases,
    needs_traffic=True,
    measure=measure,
    baseline=KS,
    labels={"seconds": "delay of seconds", "minutes": "delay of minutes"},
    charts=(
        Chart("traffic-bytes", "Bytes per copy", "model_bytes_per_copy", "bytes", kind="bar"),
        Chart("traffic-held", "Messages held", "held_fraction", "share of copies", kind="bar"),
    ),
    findings=findings,
)
