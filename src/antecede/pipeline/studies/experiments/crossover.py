"""papers/000: from which size on, and for which delays, PRS costs more than RST."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.pipeline.studies.experiments.base import Case, Experiment, paper_arguments
from antecede.report.questions import Chart

if TYPE_CHECKING:
    from antecede.pipeline.studies.experiments.base import Scale

RATIOS = (0.01, 0.1, 1.0, 10.0)
"""Mean delay as a multiple of the mean gap between a process's sends (0.1 s)."""

SIZES = (3, 4, 6, 8, 10, 15, 20, 25, 30, 40, 50)


def series(ratio: float) -> str:
    """Return the name of a line."""
    return f"delay = {ratio:g} gaps"


def cases(scale: Scale) -> list[Case]:
    """Return PRS and pruned in unicast, at every size and delay."""
    found = []
    sizes = scale.thin(SIZES) if scale.points < 6 else SIZES
    for n in (int(size) for size in sizes):
        for ratio in RATIOS:
            arguments = paper_arguments(
                scale, n=n, cast="unicast", delay=f"exponential:{ratio / 10:g}", side=True
            )
            for seed in scale.seeds[:3]:
                place = (arguments, seed, series(ratio), n)
                found.append(Case("direct", "paper", *place, "PRS"))
                found.append(Case("pruned", "paper", *place, "pruned"))
    return found


EXPERIMENT = Experiment(
    name="crossover",
    paper="papers/000, section 6.3",
    question=(
        "PRS is said to cost more than RST in unicast above 25 processes. The delays are not "
        "stated: for which delays is that so?"
    ),
    x="processes",
    cases=cases,
    baseline=series(RATIOS[0]),
    how=(
        "Unicast, with the mean delay from a hundredth of the mean gap between sends to ten times "
        "it. The measure is bytes per copy as a share of RST's 4n² bytes: above 1, RST is cheaper. "
        "PRS is our reconstruction (its body could not be read), in its default variant."
    ),
    charts=(
        Chart(
            "share",
            "Bytes per copy as a share of RST's",
            "rst_share",
            "share of RST's bytes",
        ),
    ),
)
