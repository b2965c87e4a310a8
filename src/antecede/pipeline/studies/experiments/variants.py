"""papers/002, section 4.5: what the optimal protocol's variants gain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.pipeline.studies.experiments.base import Case, Experiment, paper_arguments
from antecede.report.questions import Chart

if TYPE_CHECKING:
    from antecede.pipeline.studies.experiments.base import Scale

VARIANTS = {
    "as printed": {},
    "lookahead": {"lookahead": True},
    "hardware multicast": {"hardware_multicast": True},
    "differences": {"differential": True},
}
_N = 10
DELAYS = {"delay = 0.5 gaps": "exponential:0.05", "delay = 5 gaps": "exponential:0.5"}


def cases(scale: Scale) -> list[Case]:
    """Return each variant on the same schedules, at a short and a long delay."""
    found = []
    for facet, delay in DELAYS.items():
        received = min(scale.side, 120)
        arguments = paper_arguments(scale, n=_N, cast="multicast", delay=delay, side=True) | {
            "received": received,
            "warm_up": received // 3,
        }
        for seed in scale.seeds:
            found += [
                Case("optimal", "paper", arguments, seed, name, 0, facet, options)
                for name, options in VARIANTS.items()
            ]
    return found


EXPERIMENT = Experiment(
    name="variants",
    paper="papers/002, section 4.5",
    question="What do lookahead, hardware multicast and sending only differences change?",
    x="",
    cases=cases,
    baseline="as printed",
    how=(
        "The same multicast schedules under each variant, at a delay shorter and one longer than "
        "the gap between sends. Hardware multicast sends one identical packet to all destinations; "
        "differences are against the last packet on the same channel."
    ),
    charts=(
        Chart("bytes", "Bytes per copy", "model_bytes_per_copy", "bytes", kind="bar"),
        Chart("log", "Entries in the log", "log_entries_mean", "entries", kind="bar"),
    ),
)
