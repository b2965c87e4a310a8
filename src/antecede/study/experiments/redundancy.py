"""What each of the four kinds of pruning saves: section 3 of [JPCY97]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from antecede.study.design import Case, Chart, Experiment, Judgement, Scale, claim, paper
from antecede.study.limits import BOUNDED_SAVING
from antecede.study.measuring import Task, run_task, timing
from antecede.study.points import Points, judged
from antecede.study.replays import KINDS, redundancy

_N = 8
_QUICK_LENGTHS = (12, 24, 48)
_LENGTHS = (50, 100, 200, 400)
"""Messages received per process; the first half of them is not measured."""
_DELAY = "exponential:0.05"
_BYTES = "model_bytes_per_copy"
ALL = "pruned"
WITHOUT = {f"pruned:without-{kind}": kind for kind in KINDS}
"""The series that leave out one kind of pruning, and that kind."""


def cases(scale: Scale) -> list[Case]:
    """Return pruned with all four kinds, and without each of them, over the length of the run."""
    found = []
    lengths = _QUICK_LENGTHS if scale.is_quick else _LENGTHS
    for cast in ("unicast", "multicast"):
        for length in lengths:
            arguments = scale.arguments(n=scale.n_or(_N), cast=cast, delay=scale.delay_or(_DELAY))
            arguments |= {"received": length // 2, "warm_up": length - length // 2}
            found += scale.cases((ALL, *WITHOUT), arguments, length, cast)
    return found


def measure(task: Task) -> dict[str, Any]:
    """Replay a run with one kind of pruning left out.

    All variants deliver at the same moments as optimal, so the run is optimal's, the fastest.
    """
    base = run_task("optimal", task)
    kind = WITHOUT.get(task.series)
    return {
        **redundancy(task.schedule, base.trace, warm_up=task.warm_up, without=kind),
        **timing(task, base.trace),
        "seconds": base.metrics["seconds"],
    }


def _factors(points: Points, cast: str) -> dict[str, dict[float, float]]:
    """Return, by series and length, bytes per copy as a multiple of those with all pruning."""
    base = points.means(_BYTES, cast, ALL)
    found = {}
    for series in points.series(cast):
        own = points.means(_BYTES, cast, series)
        ratios = {x: own[x] / base[x] for x in own if base.get(x)}
        if series in WITHOUT and ratios:
            found[series] = ratios
    return found


def _growth(factors: dict[float, float]) -> float:
    """Return the growth from the last length but one to the last (1 if there is only one)."""
    last = sorted(factors)[-2:]
    return factors[last[-1]] / factors[last[0]]


def _told(factors: dict[float, float]) -> str:
    longest = max(factors)
    if len(factors) > 1 and _growth(factors) >= BOUNDED_SAVING.value:
        each = ", ".join(f"x{y:.0f}" for y in factors.values())
        return f"unbounded: {each} at {', '.join(f'{x:g}' for x in factors)} received"
    return f"x{factors[longest]:.2f}"


def findings(points: Points) -> Iterator[str]:
    """Say how much larger messages get without each kind."""
    for cast in points.facets():
        parts = [f"{EXPERIMENT.label(s)} {_told(x)}" for s, x in _factors(points, cast).items()]
        if parts:
            yield (
                f"In {cast}, bytes per copy as a multiple of those with all four kinds pruned: "
                f"{'; '.join(parts)}."
            )
        every = points.means("entries_per_copy", cast, ALL)
        direct = points.means("constraints_per_copy", cast, ALL)
        if both := every.keys() & direct.keys():
            x = max(both)
            yield (
                f"In {cast}, {direct[x]:.1f} of {every[x]:.1f} dependents per copy are tuples of "
                "DC, the delivery constraints. Whether the figures of [JPCY97] count them is not "
                "clear; here they count, against pruned."
            )


@claim(
    "0.2",
    "There are four kinds of redundant information (just or already, delivered or replaced), "
    "pruned by S2, R4, and R5 with R6 for both kinds of already.",
    "A paper test for each kind (tests/protocols/test_pruned.py); experiment redundancy for what "
    "each saves, as runs get longer.",
)
def _four_kinds(points: Points) -> Judgement | None:
    found = {cast: _factors(points, cast) for cast in points.facets()}
    least = [x[max(x)] for each in found.values() for x in each.values()]
    if not least:
        return None
    parts = [
        f"{EXPERIMENT.label(series)} {_told(x)} ({cast})"
        for cast, each in found.items()
        for series, x in each.items()
    ]
    growing = {
        EXPERIMENT.label(series)
        for each in found.values()
        for series, x in each.items()
        if len(x) > 1 and _growth(x) >= BOUNDED_SAVING.value
    }

    def verdict(_: float) -> str:
        return judged(always=min(least) > 1.0, sometimes=max(least) > 1.0)

    result = (
        f"Bytes per copy, compared with all four pruned: {'; '.join(parts)}. As section 4.3 says, "
        "R5 and R6 serve both kinds of already; here vector clocks tell them apart. "
        f"{BOUNDED_SAVING.said(verdict)}"
    )
    short = (
        f"{' and '.join(sorted(growing))}: unbounded" if growing else f"x{min(least):.2f} at least"
    )
    return Judgement(result, verdict(0), short)


EXPERIMENT = Experiment(
    name="redundancy",
    rank=20,
    paper=paper("pruned"),
    part="section 3",
    question="How much does each of the four kinds of pruning save?",
    how=(
        f"{_N} processes, with a mean delay of half the mean gap between sends; the second half of "
        "each run is measured. Every run is replayed with the control information written out as "
        "sets, with all four kinds pruned or with one left out. Vector clocks, which the algorithm "
        "itself does not have, tell whether a destination pruned on receipt had been delivered or "
        "replaced."
    ),
    x="messages received per process",
    cases=cases,
    measure=measure,
    baseline=ALL,
    labels={ALL: "all four pruned"}
    | {series: f"without {kind.replace('_', ' ')}" for series, kind in WITHOUT.items()},
    charts=(
        Chart("without", "Bytes per copy", _BYTES, "bytes", logs="xy"),
        Chart("kept", "Dependents per copy", "entries_per_copy", "dependents", logs="xy"),
    ),
    findings=findings,
    claims=(_four_kinds,),
)
