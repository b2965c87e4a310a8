"""papers/000, section 3: what each of the four kinds of pruning saves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.pipeline.studies.experiments.base import Case, Experiment, paper_arguments
from antecede.pipeline.studies.experiments.overhead import DELAY
from antecede.report.questions import Chart

if TYPE_CHECKING:
    from antecede.pipeline.studies.experiments.base import Scale

_N = 8
_RECEIVED = 100
KINDS = {
    "all four pruned": "",
    "without just delivered": "just_delivered",
    "without already delivered": "already_delivered",
    "without just replaced": "just_replaced",
    "without already replaced": "already_replaced",
}


def cases(scale: Scale) -> list[Case]:
    """Return pruned with all four kinds, and with each left out."""
    found = []
    received = min(scale.side, _RECEIVED)
    for cast in ("unicast", "multicast"):
        arguments = paper_arguments(scale, n=_N, cast=cast, delay=DELAY) | {
            "received": received,
            "warm_up": received,
        }
        for seed in scale.seeds:
            found += [
                Case("pruned", "paper", arguments, seed, series, 0, cast, {"without": kind})
                for series, kind in KINDS.items()
            ]
    return found


EXPERIMENT = Experiment(
    name="redundancy",
    paper="papers/000, section 3",
    question="What does each of the four kinds of pruning save?",
    x="",
    cases=cases,
    baseline="all four pruned",
    how=(
        f"{_N} processes, mean delay half the gap. Every run is replayed with the control "
        "information written out as sets, all four kinds pruned or one of them left out; whether a "
        "destination pruned on receipt had been delivered or replaced is told by vector clocks, "
        "which the algorithm itself does not have."
    ),
    charts=(
        Chart("without", "Bytes per copy", "model_bytes_per_copy", "bytes", kind="bar"),
        Chart("kept", "Dependents per copy", "entries_per_copy", "dependents", kind="bar"),
    ),
)
