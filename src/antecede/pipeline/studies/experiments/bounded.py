"""The four questions that [SA00] leaves open in its section 5."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import antecede
from antecede.pipeline.studies.design import Case, Chart, Experiment, Outcome, Scale, claim, paper
from antecede.pipeline.studies.measured import ANSWERED, Points, judged
from antecede.pipeline.studies.measures import Task, measure_run, timing
from antecede.report.numbers import figure

DELAY = "exponential:0.05"
CASTS = ("unicast", "multicast")
KS, RST, SAME, MIXED = "optimal", "matrix", "bounded", "bounded:mixed"
FACTORS = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0)
"""k as a multiple of n; the protocol needs more than n."""
THIN, THINNED = 0.5, 0.9
"""Up to these shares of n² a matrix is thin, or at least thinned beyond its empty diagonal."""

UNEVEN = "uneven"
_UNEVEN_N = 8
_UNEVEN_RECEIVED = 60
_UNEVEN_FACTORS = (1.5, 2.5, 4.0)


def cases(scale: Scale) -> list[Case]:
    """Return bounded over k beside optimal and matrix, and small runs with uneven k.

    With k = n², the last, the bound never acts: anything saved there has other reasons.
    """
    found = []
    n = scale.side_n
    for cast in CASTS:
        arguments = scale.arguments(n=n, cast=cast, delay=DELAY, side=True)
        for seed in scale.seeds:
            found += [Case(name, "paper", arguments, seed, name, 0.0, cast) for name in (KS, RST)]
            for factor in (*scale.thin(FACTORS), float(n)):
                options = {"k": max(n + 1, round(factor * n))}
                found.append(Case("bounded", "paper", arguments, seed, SAME, factor, cast, options))
    return found + _uneven_cases(scale)


def _uneven_cases(scale: Scale) -> list[Case]:
    """Return runs in which half the processes have a lower limit and half a higher one."""
    found = []
    n, seeds = _UNEVEN_N, scale.seeds[:3]
    arguments = scale.arguments(n=n, cast="unicast", delay=DELAY, side=True) | {
        "received": _UNEVEN_RECEIVED,
        "warm_up": _UNEVEN_RECEIVED // 3,
    }
    for factor in _UNEVEN_FACTORS:
        k = round(factor * n)
        spread = min(k - n - 1, n * n - k)
        mixed = {f"p{i}": k + (spread if i % 2 else -spread) for i in range(n)}
        found += [
            Case("bounded", "paper", arguments, seed, series, factor, UNEVEN, {"k": limit})
            for seed in seeds
            for series, limit in ((SAME, k), (MIXED, mixed))
        ]
    return found + [Case(KS, "paper", arguments, seed, KS, 0.0, UNEVEN) for seed in seeds]


def measure(task: Task) -> dict[str, Any]:
    """Measure a run; the mixed series gives each process a limit of its own."""
    return _measure_mixed(task) if task.series == MIXED else measure_run(task)


def _measure_mixed(task: Task) -> dict[str, Any]:
    """Run bounded with a limit for each process, on real endpoints: ``sim.run`` takes only one."""
    from antecede.sim.metrics import measure as metrics_of
    from antecede.sim.plain import NO_LIMIT, PlainRun

    names, limits = task.schedule.names, task.options["k"]
    run = PlainRun("bounded", task.schedule, {"k": max(limits.values())})
    run.endpoints = [
        antecede.endpoint("bounded", process=name, members=names, held_max=NO_LIMIT, k=limits[name])
        for name in names
    ]
    begun = time.thread_time()
    trace = run.run()
    seconds = time.thread_time() - begun
    found = metrics_of(task.schedule, trace, model_bytes=run.model_bytes, warm_up=task.warm_up)
    return {**found, **timing(task, trace), "seconds": seconds, "saturated": False}


def findings(points: Points) -> Iterator[str]:
    """Say which k makes the total least."""
    for facet in points.facets():
        total = points.means("total_bytes_per_message", facet, SAME)
        best = points.level("total_bytes_per_message", facet, KS)
        extra = points.means("extra_packets_per_message", facet, SAME)
        if not total or best is None:
            continue
        k, name = min(total, key=lambda x: total[x]), EXPERIMENT.facet_label(facet)
        yield (
            f"{name[0].upper()}{name[1:]}: with one k for all, the total is least at k = {k:g} n: "
            f"{figure(total[k])} bytes per message, compared with optimal's {figure(best)}, and "
            f"{figure(extra.get(k))} extra messages each."
        )


@claim(
    "3.2",
    "A zero own column and clearing a column at each send already thin the matrix.",
    "Experiment bounded with k = n², where the bound never acts.",
)
def _thinning(points: Points) -> Outcome | None:
    parts, shares = [], []
    for cast in CASTS:
        ours = points.means("entries_share", cast, SAME)
        extra = points.means("extra_packets_per_message", cast, SAME)
        idle = [k for k in ours if extra.get(k) == 0]
        if not idle:
            return None
        k = max(idle)
        shares.append(ours[k])
        parts.append(f"{cast}: {ours[k]:.2f} n² non-zero cells per copy at k = {k:g} n")
    result = (
        f"{'; '.join(parts)}, with no extra message sent. Thin means up to {THIN:g} n², thinned up "
        f"to {THINNED:g} n²."
    )
    thin = all(share <= THIN for share in shares)
    return Outcome(result, judged(always=thin, sometimes=any(share <= THINNED for share in shares)))


@claim(
    "3.open.1",
    "Question: how many extra messages are sent in practice?",
    "Experiment bounded: extra messages per message over k.",
)
def _extra_messages(points: Points) -> Outcome | None:
    parts = []
    for cast in CASTS:
        ours = points.means("extra_packets_per_message", cast, SAME)
        if not ours:
            return None
        parts.append(
            f"{cast}: " + ", ".join(f"{figure(y)} at k = {x:g} n" for x, y in ours.items())
        )
    return Outcome(f"Extra messages per message, {'; '.join(parts)}.", ANSWERED)


@claim(
    "3.open.2",
    "Question: how does the total size compare with optimal's?",
    "Experiment bounded: control information of messages and extra messages together.",
)
def _total_bytes(points: Points) -> Outcome | None:
    return _against_optimal(points, "total_bytes_per_message", "Total bytes", "x{:.2f}", 0)


@claim(
    "3.open.4",
    "Question: how much time is lost waiting for extra messages?",
    "Experiment bounded: mean time from send to delivery, compared with optimal's.",
)
def _delay(points: Points) -> Outcome | None:
    return _against_optimal(points, "latency_mean", "Time from send to delivery", "{:+.1%}", 1)


def _against_optimal(
    points: Points, metric: str, what: str, form: str, less: float
) -> Outcome | None:
    parts = []
    for cast in CASTS:
        ours, best = points.means(metric, cast, SAME), points.level(metric, cast, KS)
        if not ours or not best:
            return None
        told = (f"{form.format(y / best - less)} at k = {x:g} n" for x, y in ours.items())
        parts.append(f"{cast}: {', '.join(told)}")
    return Outcome(f"{what} compared with optimal, {'; '.join(parts)}.", ANSWERED)


@claim(
    "3.open.3",
    "Question: what if processes have different k?",
    "Experiment bounded: half the processes with less than k, half with more.",
)
def _mixed_limits(points: Points) -> Outcome | None:
    parts = []
    for metric, what in (
        ("total_bytes_per_message", "total bytes"),
        ("extra_packets_per_message", "extra messages"),
        ("latency_mean", "time from send to delivery"),
    ):
        even, mixed = points.means(metric, UNEVEN, SAME), points.means(metric, UNEVEN, MIXED)
        told = [f"x{mixed[x] / even[x]:.2f} at k = {x:g} n" for x in mixed if even.get(x)]
        if told:
            parts.append(f"{what} {', '.join(told)}")
    if not parts:
        return None
    return Outcome(f"Mixed k compared with one k for all: {'; '.join(parts)}.", ANSWERED)


EXPERIMENT = Experiment(
    name="bounded",
    rank=80,
    paper=paper("bounded"),
    part="section 5",
    question=(
        "If control information is bounded by k entries, how many extra messages, bytes in total "
        "and time does that cost, and is it better to give processes different bounds?"
    ),
    how=(
        "The workload of [JPCY97] with a mean delay of half the gap between sends, for k from "
        "just above n to n², where the bound never acts. The total includes the bytes of extra "
        "messages. Optimal and matrix do not depend on k: they are the level lines on the same "
        "schedules."
    ),
    x="k / n",
    cases=cases,
    measure=measure,
    baseline=KS,
    levels=(KS, RST),
    labels={
        SAME: "bounded, same k",
        MIXED: "bounded, half below k, half above",
        UNEVEN: f"unicast, {_UNEVEN_N} processes, one k or mixed",
    },
    charts=(
        Chart(
            "extra",
            "Extra messages per message",
            "extra_packets_per_message",
            "extra messages",
            logs="x",
            series=(SAME, MIXED),
        ),
        Chart("total", "Total bytes per message", "total_bytes_per_message", "bytes", logs="xy"),
        Chart("penalty", "From send to delivery", "latency_mean", "seconds", logs="x"),
    ),
    findings=findings,
    claims=(_thinning, _extra_messages, _total_bytes, _mixed_limits, _delay),
)
