"""From which size on, and for which delays, PRS costs more than RST: section 6.3 of [JPCY97].

Claim 0.6 rests on this experiment and on ``overhead``, which judges it.
"""

from __future__ import annotations

from collections.abc import Iterator

from antecede.pipeline.studies.design import Case, Chart, Experiment, Scale, paper
from antecede.pipeline.studies.measured import Points, crossing

RATIOS = {f"delay={ratio:g}": ratio for ratio in (0.01, 0.1, 1.0, 10.0)}
"""The series: mean delay as a multiple of the mean gap between a process's sends (0.1 s)."""

SIZES = (3, 4, 6, 8, 10, 15, 20, 25, 30, 40, 50)
PRS = "direct"


def cases(scale: Scale) -> list[Case]:
    """Return PRS and pruned in unicast, at every size and delay."""
    found = []
    sizes = scale.thin(SIZES) if scale.points < 6 else SIZES
    for n in (int(size) for size in sizes):
        for series, ratio in RATIOS.items():
            delay = f"exponential:{ratio / 10:g}"
            arguments = scale.arguments(n=n, cast="unicast", delay=delay, side=True)
            found += [
                Case(protocol, "paper", arguments, seed, series, n, protocol)
                for seed in scale.seeds[:3]
                for protocol in (PRS, "pruned")
            ]
    return found


def findings(points: Points) -> Iterator[str]:
    """Say above which size PRS costs more than RST, for each delay."""
    for series in points.series(PRS):
        name, line = EXPERIMENT.label(series), points.means("rst_share", PRS, series)
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
        "times that gap. The measure is bytes per copy as a share of RST's 4n² bytes: above 1, RST "
        "is cheaper. PRS is our reconstruction (the body of its paper was not available), in its "
        "default variant."
    ),
    x="processes",
    cases=cases,
    baseline=next(iter(RATIOS)),
    labels={PRS: "PRS"} | {series: f"delay = {ratio:g} gaps" for series, ratio in RATIOS.items()},
    charts=(
        Chart("share", "Bytes per copy as a share of RST's", "rst_share", "share of RST's bytes"),
    ),
    findings=findings,
)
