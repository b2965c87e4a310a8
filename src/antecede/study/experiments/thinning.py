"""How empty the matrix of [SA00] is when its bound does not act: own column, and clearing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from antecede.sim.schedule import Schedule
from antecede.study.design import Case, Chart, Experiment, Judgement, Scale, claim, paper
from antecede.study.limits import THINNED
from antecede.study.measuring import Task, measure_run, run_task, timing
from antecede.study.points import Points, judged
from antecede.study.replays import matrix_cells

DELAY = "exponential:0.05"
CASTS = ("unicast", "multicast")
RST, CELLS, OWN, CLEARED = "matrix", "matrix:cells", "matrix:own-column", "bounded:idle"
SIZES = (6, 12, 24)
LONGER = (10, 20, 30, 50)
_SETTLED = 12
"""After this many deliveries per pair of processes, the cells of a matrix have settled."""


def cases(scale: Scale) -> list[Case]:
    """Return the matrix, its non-zero cells without and with an own column, and bounded."""
    found = []
    for cast in CASTS:
        for n in scale.sizes_or(SIZES if scale.is_quick else LONGER):
            arguments = scale.arguments(n=n, cast=cast, delay=scale.delay_or(DELAY), side=True)
            arguments |= {"received": min(scale.side, 300), "warm_up": _SETTLED * n}
            options = {RST: {}, CELLS: {}, OWN: {}, CLEARED: {"k": n * n}}
            found += scale.cases(options, arguments, n, cast)
    return found


def measure(task: Task) -> dict[str, Any]:
    """Measure a run; if its series counts cells of the matrix, replay the run to count them."""
    if task.series not in (CELLS, OWN):
        return measure_run(task)
    with_own, without, rest = _replayed(task.schedule, task.warm_up)
    return {**(with_own if task.series == CELLS else without), **rest}


@lru_cache(maxsize=1)
def _replayed(schedule: Schedule, warm_up: int) -> tuple[dict[str, Any], ...]:
    """Replay a run of the matrix; cached for the two cases that need it, one after the other."""
    task = Task(RST, RST, {}, schedule, warm_up)
    base = run_task(RST, task)
    rest = {**timing(task, base.trace), "seconds": base.metrics["seconds"]}
    return *matrix_cells(schedule, base.trace, warm_up=warm_up), rest


def findings(points: Points) -> Iterator[str]:
    """Say how much is left of the matrix at the largest size."""
    for cast in points.facets():
        told = []
        for series in (CELLS, OWN, CLEARED):
            line = points.line("entries_share", cast, series)
            if line:
                told.append(f"{EXPERIMENT.label(series)} {line[max(line)]} n²")
        if told:
            yield f"In {cast}: {', '.join(told)}."


@claim(
    "3.2",
    "A zero own column and clearing a column at each send already thin the matrix.",
    "Experiment thinning: bounded with k = n², where the bound never acts, beside the non-zero "
    "cells of the matrix.",
)
def _thinning(points: Points) -> Judgement | None:
    parts, shares, idle = [], [], []
    for cast in CASTS:
        lines = {
            series: points.line("entries_share", cast, series) for series in (CELLS, OWN, CLEARED)
        }
        both = set.intersection(*(set(line) for line in lines.values()))
        size = points.means("model_bytes_per_copy", cast, CLEARED)
        dense = points.means("model_bytes_per_copy", cast, RST)
        if not both or not (places := both & size.keys() & dense.keys()):
            return None
        n = max(places)
        cells, own, cleared = (lines[series][n] for series in (CELLS, OWN, CLEARED))
        shares.append(cleared.mean)
        idle.append(points.means("extra_packets_per_message", cast, CLEARED).get(n) == 0)
        parts.append(
            f"{cast}, n = {n:g}: non-zero cells {cells} n² in the matrix, {own} n² without the "
            f"own column, {cleared} n² with clearing as well; as triples that is "
            f"{size[n]:.0f} bytes, x{size[n] / dense[n]:.2f} of RST's"
        )

    def verdict(limit: float) -> str:
        thin = [share <= limit for share in shares]
        return judged(always=all(thin), sometimes=any(thin))

    never = "no extra message was sent" if all(idle) else "extra messages were sent"
    result = f"{'; '.join(parts)}; {never}. {THINNED.said(verdict)}"
    short = ", ".join(f"{share:.2f} n² in {c}" for c, share in zip(CASTS, shares, strict=True))
    return Judgement(result, verdict(THINNED.value), short)


EXPERIMENT = Experiment(
    name="thinning",
    rank=78,
    paper=paper("bounded"),
    part="section 3",
    question="How many cells of the matrix remain before the bound acts, and what do they cost?",
    how=(
        "The workload of [JPCY97] with a mean delay of half the gap between sends. The matrix's "
        "own runs are replayed, and non-zero cells counted, with and without the column of the "
        "sender itself. Bounded runs with k = n², so that its bound never acts: what it saves "
        "beyond that is due to clearing a column at each send. A cell in the sparse form takes 8 "
        "bytes (two ids and a count), in RST's matrix 4."
    ),
    x="processes",
    cases=cases,
    measure=measure,
    baseline=RST,
    labels={
        CELLS: "matrix, non-zero cells",
        OWN: "without the own column",
        CLEARED: "with clearing as well (bounded, k = n²)",
    },
    charts=(
        Chart("share", "Cells that a copy carries, as a share of n²", "entries_share", "share"),
        Chart("bytes", "Bytes per copy", "model_bytes_per_copy", "bytes", logs="y"),
    ),
    findings=findings,
    claims=(_thinning,),
)
