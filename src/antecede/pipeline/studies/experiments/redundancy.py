"""What each of the four kinds of pruning saves: section 3 of [JPCY97]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from antecede.pipeline.studies.design import Case, Chart, Experiment, Outcome, Scale, claim, paper
from antecede.pipeline.studies.measured import Points, judged
from antecede.pipeline.studies.measures import Task, run, timing
from antecede.pipeline.studies.replays import KINDS, redundancy

_N = 8
_RECEIVED = 100
_DELAY = "exponential:0.05"
_BYTES = "model_bytes_per_copy"
ALL = "pruned"
WITHOUT = {f"pruned:without-{kind}": kind for kind in KINDS}
"""Each series that leaves one kind of pruning out, and the kind."""


def cases(scale: Scale) -> list[Case]:
    """Return pruned with all four kinds, and with each left out."""
    found = []
    received = min(scale.side, _RECEIVED)
    lengths = {"received": received, "warm_up": received}
    for cast in ("unicast", "multicast"):
        arguments = scale.arguments(n=_N, cast=cast, delay=_DELAY) | lengths
        for seed in scale.seeds:
            found += [
                Case("pruned", "paper", arguments, seed, series, 0, cast)
                for series in (ALL, *WITHOUT)
            ]
    return found


def measure(task: Task) -> dict[str, Any]:
    """Replay a run with one kind of pruning left out.

    All variants deliver at the same moments, as optimal does, whose run is the fastest to make.
    """
    base = run("optimal", task)
    kind = WITHOUT.get(task.series)
    return {
        **redundancy(task.schedule, base.trace, warm_up=task.warm_up, without=kind),
        **timing(task, base.trace),
        "seconds": base.metrics["seconds"],
    }


def _factors(points: Points, cast: str) -> dict[str, float]:
    """Return the bytes per copy of each series as a multiple of those with all four pruned."""
    base = points.level(_BYTES, cast, ALL)
    names = [series for series in points.series(cast) if series in WITHOUT]
    own = {series: points.level(_BYTES, cast, series) for series in names}
    return {series: size / base for series, size in own.items() if base and size is not None}


def findings(points: Points) -> Iterator[str]:
    """Say how much larger messages get without each kind."""
    for cast in points.facets():
        parts = [f"{x:.2f} {EXPERIMENT.label(s)}" for s, x in _factors(points, cast).items()]
        if parts:
            yield (
                f"In {cast}, bytes per copy as a multiple of those with all four kinds pruned: "
                f"{', '.join(parts)}."
            )


@claim(
    "0.2",
    "There are four kinds of redundant information (just or already, delivered or "
    "replaced), each pruned by its own step.",
    "A paper test for each kind (tests/protocols/test_pruned.py); experiment redundancy "
    "for what each saves.",
)
def _four_kinds(points: Points) -> Outcome | None:
    found = {cast: _factors(points, cast) for cast in points.facets()}
    if any(points.level(_BYTES, cast, ALL) is None for cast in found):
        return None
    factors = [x for each in found.values() for x in each.values()]
    if not factors:
        return None
    parts = [
        f"{EXPERIMENT.label(series)} x{x:.2f} ({cast})"
        for cast, each in found.items()
        for series, x in each.items()
    ]
    result = (
        f"Bytes per copy, compared with all four pruned: {', '.join(parts)}. But R5 and R6 prune "
        "both already delivered and already replaced destinations, which a receiver cannot tell "
        "apart (here vector clocks do), and R8 never finds anything to do (docs/errata.md)."
    )
    return Outcome(result, judged(always=False, sometimes=min(factors) > 1.0))


EXPERIMENT = Experiment(
    name="redundancy",
    rank=20,
    paper=paper("pruned"),
    part="section 3",
    question="How much does each of the four kinds of pruning save?",
    how=(
        f"{_N} processes, with a mean delay of half the mean gap between sends. Every run is "
        "replayed with the control information written out as sets, with all four kinds pruned or "
        "with one left out. Vector clocks, which the algorithm itself does not have, tell whether "
        "a destination pruned on receipt had been delivered or replaced."
    ),
    x="",
    cases=cases,
    measure=measure,
    baseline=ALL,
    labels={ALL: "all four pruned"}
    | {series: f"without {kind.replace('_', ' ')}" for series, kind in WITHOUT.items()},
    charts=(
        Chart("without", "Bytes per copy", _BYTES, "bytes", kind="bar"),
        Chart("kept", "Dependents per copy", "entries_per_copy", "dependents", kind="bar"),
    ),
    findings=findings,
    claims=(_four_kinds,),
)
