"""The four questions that [SA00] leaves open in its section 5."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from antecede.report.numbers import figure
from antecede.sim.schedule import HEADER_BYTES
from antecede.study.design import Case, Chart, Experiment, Judgement, Scale, claim, paper
from antecede.study.measuring import Task, measure_run, timing
from antecede.study.points import ANSWERED, Points

DELAY = "exponential:0.05"
CASTS = ("unicast", "multicast")
KS, RST, SAME, MIXED = "optimal", "matrix", "bounded", "bounded:mixed"
FACTORS = (1.1, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0)
"""k as a multiple of n; the protocol needs k > n."""
UNEVEN = {"uneven-10": 10, "uneven-30": 30}
"""The number of processes, by facet in which half of them have a lower limit."""
_UNEVEN_FACTORS = (1.5, 2.5, 4.0)
TOTAL, WITH_HEADERS = "total_bytes_per_message", "bytes_with_headers_per_message"


def cases(scale: Scale) -> list[Case]:
    """Return bounded over k beside optimal and matrix, and small runs with uneven k.

    At the last k, n², the bound never acts, so anything saved there has other reasons.
    """
    found = []
    n = scale.n_or(scale.side_n)
    for cast in CASTS:
        arguments = scale.arguments(n=n, cast=cast, delay=scale.delay_or(DELAY), side=True)
        for seed in scale.seeds:
            found += [Case(name, "paper", arguments, seed, name, 0.0, cast) for name in (KS, RST)]
            for x, k in _limits(n, (*scale.thin(FACTORS), float(n))).items():
                found.append(Case("bounded", "paper", arguments, seed, SAME, x, cast, {"k": k}))
    return found + _uneven_cases(scale)


def _limits(n: int, factors: Iterable[float]) -> dict[float, int]:
    """Return the distinct values of k by multiple of n; with few processes, some coincide."""
    found: dict[int, list[float]] = {}
    for factor in factors:
        found.setdefault(min(max(n + 1, round(factor * n)), n * n), []).append(factor)
    return {
        some[0] if len(some) == 1 and round(some[0] * n) == k else k / n: k
        for k, some in found.items()
    }


def _uneven_cases(scale: Scale) -> list[Case]:
    """Return runs in which half the processes have a lower limit and half a higher one."""
    found = []
    sizes = {f"uneven-{n}": n for n in scale.chosen_sizes} or UNEVEN
    for facet, n in sizes.items():
        arguments = scale.arguments(n=n, cast="unicast", delay=scale.delay_or(DELAY), side=True)
        for seed in scale.seeds:
            place = ("paper", arguments, seed)
            found.append(Case(KS, *place, KS, 0.0, facet))
            for x, k in _limits(n, _UNEVEN_FACTORS).items():
                found.append(Case("bounded", *place, SAME, x, facet, {"k": k}))
                if spread := min(k - n - 1, n * n - k):
                    mixed = [k + (spread if i % 2 else -spread) for i in range(n)]
                    found.append(Case("bounded", *place, MIXED, x, facet, {"k": mixed}))
    return found


def measure(task: Task) -> dict[str, Any]:
    """Measure a run; in the mixed series, each process has a limit of its own."""
    return _measure_mixed(task) if task.series == MIXED else measure_run(task)


def _measure_mixed(task: Task) -> dict[str, Any]:
    """Run bounded with a limit per process, directly on its kernel: ``sim.run`` takes only one."""
    from antecede.sim.kernels.registry import KERNELS
    from antecede.sim.metrics import measure as metrics_of

    kernel, schedule = KERNELS["bounded"], task.schedule
    plan = kernel.plan(schedule)
    begun = time.thread_time()
    trace = kernel.simulate(plan, schedule.n, task.options).trace
    seconds = time.thread_time() - begun
    sizes = kernel.sizes_of(schedule.n).entry * trace.entries.astype("int64")
    found = metrics_of(schedule, trace, model_bytes=sizes, warm_up=task.warm_up)
    return {**found, **timing(task, trace), "seconds": seconds, "saturated": False}


def findings(points: Points) -> Iterator[str]:
    """Say which k minimises the total."""
    for facet in points.facets():
        total = points.means(TOTAL, facet, SAME)
        best = points.level(TOTAL, facet, KS)
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
    "3.open.1",
    "Question: how many extra messages are sent in practice?",
    "Experiment bounded: extra messages per message over k.",
)
def _extra_messages(points: Points) -> Judgement | None:
    parts, short = [], []
    for cast in CASTS:
        ours = points.line("extra_packets_per_message", cast, SAME)
        if not ours:
            return None
        parts.append(f"{cast}: " + ", ".join(f"{y} at k = {x:g} n" for x, y in ours.items()))
        least = min(ours)
        short.append(f"{figure(ours[least].mean)} in {cast} at k = {least:g} n")
    result = f"Extra messages per message, {'; '.join(parts)}."
    return Judgement(result, ANSWERED, ", ".join(short))


@claim(
    "3.open.2",
    "Question: how does the total size compare with optimal's?",
    "Experiment bounded: control information of messages and extra messages together, and with a "
    "header on every packet.",
)
def _total_bytes(points: Points) -> Judgement | None:
    found = _against_optimal(points, TOTAL, "Total bytes", "x{:.2f}", 0)
    headers = _against_optimal(points, WITH_HEADERS, "With headers, total bytes", "x{:.2f}", 0)
    if found is None or headers is None:
        return found
    result = f"{found.result} {headers.result} The k with the fewest bytes: {_best(points)}."
    return Judgement(result, found.verdict, f"{found.short}; with headers {headers.short}")


def _best(points: Points) -> str:
    """Say which k costs least, without and with headers."""
    told = []
    for cast in CASTS:
        lines = [points.means(metric, cast, SAME) for metric in (TOTAL, WITH_HEADERS)]
        least = [f"{min(line, key=lambda x: line[x]):g} n" for line in lines if line]
        told.append(f"{cast} {' and '.join(least)} with headers")
    return ", ".join(told)


@claim(
    "3.open.4",
    "Question: how much time is lost waiting for extra messages?",
    "Experiment bounded: mean time from send to delivery, compared with optimal's.",
)
def _delay(points: Points) -> Judgement | None:
    return _against_optimal(points, "latency_mean", "Time from send to delivery", "{:+.1%}", 1)


def _against_optimal(
    points: Points, metric: str, what: str, form: str, less: float
) -> Judgement | None:
    parts, short = [], []
    for cast in CASTS:
        ours, best = points.line(metric, cast, SAME), points.level_point(metric, cast, KS)
        if not ours or best is None or not best.mean:
            return None
        ratios = {x: form.format(y.mean / best.mean - less) for x, y in ours.items()}
        told = (f"{ratios[x]} ({y}) at k = {x:g} n" for x, y in ours.items())
        parts.append(f"{cast} (optimal {best}): {', '.join(told)}")
        extra = points.means("extra_packets_per_message", cast, SAME)
        acting = [x for x in ours if extra.get(x)] or list(ours)  # at k = n² the bound is idle
        ends = (pick(acting, key=lambda x: ours[x].mean) for pick in (min, max))
        short.append(f"{' to '.join(f'{ratios[x]} at k = {x:g} n' for x in ends)} in {cast}")
    result = f"{what} compared with optimal, {'; '.join(parts)}."
    return Judgement(result, ANSWERED, ", ".join(short))


@claim(
    "3.open.3",
    "Question: what if processes have different k?",
    "Experiment bounded: half the processes with less than k, half with more.",
)
def _mixed_limits(points: Points) -> Judgement | None:
    parts, short = [], []
    for facet in (each for each in points.facets() if each not in CASTS):
        for metric, what in (
            (TOTAL, "total bytes"),
            ("extra_packets_per_message", "extra messages"),
            ("latency_mean", "time from send to delivery"),
        ):
            even, mixed = points.line(metric, facet, SAME), points.line(metric, facet, MIXED)
            ratios = {x: mixed[x].mean / even[x].mean for x in mixed if x in even and even[x].mean}
            told = [f"x{y:.2f} ({mixed[x]}) at k = {x:g} n" for x, y in ratios.items()]
            if told:
                parts.append(f"{EXPERIMENT.facet_label(facet)}, {what} {', '.join(told)}")
            if told and metric == TOTAL:
                short.append(f"x{min(ratios.values()):.2f} to x{max(ratios.values()):.2f}")
    if not parts:
        return None
    result = f"Mixed k compared with one k for all: {'; '.join(parts)}."
    return Judgement(result, ANSWERED, f"total bytes {', '.join(short)}" if short else "")


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
        f"messages; with headers, each packet has {HEADER_BYTES} bytes more. Optimal and matrix do "
        "not depend on k: they are the level lines on the same schedules."
    ),
    x="k / n",
    cases=cases,
    measure=measure,
    baseline=KS,
    levels=(KS, RST),
    labels={
        SAME: "bounded, same k",
        MIXED: "bounded, half below k, half above",
        **{facet: f"unicast, {n} processes, one k or mixed" for facet, n in UNEVEN.items()},
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
        Chart("total", "Total bytes per message", TOTAL, "bytes", logs="xy"),
        Chart("headers", "Total bytes per message with headers", WITH_HEADERS, "bytes", logs="xy"),
        Chart("penalty", "From send to delivery", "latency_mean", "seconds", logs="x"),
    ),
    findings=findings,
    claims=(_extra_messages, _total_bytes, _mixed_limits, _delay),
)
