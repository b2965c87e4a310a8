"""From which size on, and for which delays, PRS costs more than RST: section 6.3 of [JPCY97].

Claim 0.6 is judged by ``overhead``, from this experiment and its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from antecede.study.design import Case, Chart, Experiment, Scale, paper
from antecede.study.points import Points, crossing, gaps
from antecede.study.prs_readings import LABELS, PRS, READING, READINGS

RATIOS = {f"delay={ratio:g}": ratio for ratio in (0.01, 0.1, 1.0, 10.0)}
"""The facets: mean delay as a multiple of the mean gap between a process's sends (0.1 s)."""

SIZES = (4, 6, 8, 10, 15, 20, 25, 30, 40, 50)
QUICK_SIZES = (5, 15, 30, 50)
PRUNED = "pruned"


def cases(scale: Scale) -> list[Case]:
    """Return PRS, in every reading, and pruned in unicast, at every size and delay."""
    found = []
    lengths = {"received": scale.side_warm_up} if scale.is_quick else {}
    for n in scale.sizes_or(QUICK_SIZES if scale.is_quick else SIZES):
        for facet, ratio in RATIOS.items():
            delay = f"exponential:{ratio / 10:g}"
            arguments = scale.arguments(n=n, cast="unicast", delay=delay, side=True) | lengths
            found += scale.cases({PRUNED: {}, **READINGS}, arguments, n, facet)
    return found


def findings(points: Points) -> Iterator[str]:
    """Say above which size PRS costs more than RST, for each delay."""
    for facet in points.facets():
        line = points.means("rst_share", facet, PRS)
        name = EXPERIMENT.facet_label(facet).capitalize()
        where = crossing(line, 1.0)
        if where is not None:
            yield f"{name}: PRS costs more than RST in unicast above {where:.1f} processes."
        elif line:
            side = "more" if min(line.values()) >= 1 else "less"
            yield f"{name}: PRS costs {side} than RST at every size measured."


EXPERIMENT = Experiment(
    name="crossover",
    rank=30,
    paper=paper("pruned"),
    part="section 6.3",
    question=(
        "The paper says that PRS costs more than RST in unicast above 25 processes, but does not "
        "state the delays. For which delays is that so?"
    ),
    how=(
        "Unicast, with the mean delay between a hundredth of the mean gap between sends and ten "
        "times that gap. The measure is bytes per copy as a share of RST's 4n² bytes: above 1, "
        "RST is cheaper. PRS is our reconstruction (the body of its paper was not available): the "
        f"line is the reading that agrees with the paper ({READING}), the band spans all six."
    ),
    x="processes",
    cases=cases,
    baseline=PRS,
    sweeps_delay=True,
    bands={PRS: tuple(READINGS)},
    labels={**LABELS, PRS: "PRS"} | {facet: gaps(ratio) for facet, ratio in RATIOS.items()},
    charts=(
        Chart("share", "Bytes per copy as a share of RST's", "rst_share", "share of RST's bytes"),
    ),
    findings=findings,
)
