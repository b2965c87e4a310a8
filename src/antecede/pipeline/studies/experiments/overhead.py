"""papers/000, figures 2 and 3: what a message carries, against the number of processes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.pipeline.studies.experiments.base import Case, Experiment, paper_arguments
from antecede.report.questions import Chart

if TYPE_CHECKING:
    from antecede.pipeline.studies.experiments.base import Scale

DELAY = "exponential:0.05"
"""The paper does not state its delays; `crossover` shows how little they matter for PRS."""

_VECTORS_N = 20
_VECTORS_RECEIVED = 120
ALWAYS = (
    ("matrix (RST)", "matrix"),
    ("direct (PRS)", "direct"),
    ("pruned", "pruned"),
    ("optimal (KS)", "optimal"),
)


def cases(scale: Scale) -> list[Case]:
    """Return every protocol at every size, unicast and multicast, on the same schedules."""
    found = []
    for cast in ("unicast", "multicast"):
        for n in scale.sizes:
            arguments = paper_arguments(scale, n=n, cast=cast, delay=DELAY)
            for seed in scale.seeds:
                found += [
                    Case(protocol, "paper", arguments, seed, series, n, cast)
                    for series, protocol in ALWAYS
                ]
            found += [
                Case("bounded", "paper", arguments, seed, "bounded, k=2n", n, cast, {"k": 2 * n})
                for seed in scale.seeds[:2]
            ]
            found += _vectors(scale, n, cast)
    return found


def _vectors(scale: Scale, n: int, cast: str) -> list[Case]:
    """Return the vectors protocol's cases: it has no kernel, so small sizes and short runs."""
    if n > _VECTORS_N:
        return []
    received = min(scale.received, _VECTORS_RECEIVED)
    arguments = {**paper_arguments(scale, n=n, cast=cast, delay=DELAY), "received": received}
    arguments["warm_up"] = min(scale.warm_up, received // 3)
    return [
        Case("vectors", "paper", arguments, seed, "vectors (SES)", n, cast)
        for seed in scale.seeds[:2]
    ]


EXPERIMENT = Experiment(
    name="overhead",
    paper="papers/000, figures 2 and 3",
    question="How much control information rides on a message as the number of processes grows?",
    x="processes",
    cases=cases,
    baseline="matrix (RST)",
    how=(
        "Every process sends with exponential gaps (mean 0.1 s) to one uniform destination, or to "
        "a uniform number of them (mean n/2); delays are exponential with mean 0.05 s and do not "
        "keep channels FIFO. All protocols run on the same schedules (bounded on two of the seeds), "
        "except vectors, which has no compiled kernel and runs on shorter ones, to 20 processes. The "
        "control of bounded's extra messages counts in the bytes per message, not in those per copy."
    ),
    charts=(
        Chart("dependents", "Dependents per message (figure 2)", "entries_per_copy", "dependents"),
        Chart(
            "bytes-message",
            "Overhead per message, summed over its destinations and added packets (figure 3)",
            "total_bytes_per_message",
            "bytes per message",
        ),
        Chart(
            "bytes-copy",
            "Bytes per copy, on a logarithmic scale",
            "model_bytes_per_copy",
            "bytes per copy",
            log_y=True,
        ),
    ),
)
