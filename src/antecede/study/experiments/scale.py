"""Toward very many processes: what grows with their number, and what does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from antecede.endpoint.messages import CLOCK_BYTES
from antecede.report.numbers import figure
from antecede.sim.schedule import HEADER_BYTES
from antecede.study.design import Case, Chart, Experiment, Scale, paper
from antecede.study.measuring import Task, metrics, run_task
from antecede.study.points import Points, extrapolated, fit, local_exponents

_DELAY = "exponential:0.02"
_GAP = 0.1
LEVELS = "hierarchy:levels"
LENGTHS = {"broadcast": (12, 4), "unicast": (20, 20)}
"""How many messages per process are measured, and how many are received before that."""
MANY = {
    ("broadcast", "flooding"): (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000),
    ("broadcast", "tree"): (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000),
    ("broadcast", "permits"): (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000),
    ("broadcast", LEVELS): (16, 64, 256, 1_024, 4_096, 10_000),
    ("broadcast", "broadcast"): (100, 300, 1_000, 3_000),
    ("unicast", "tree"): (100, 300, 1_000, 3_000, 10_000),
    ("unicast", "permits"): (100, 300, 1_000, 3_000, 10_000),
    ("unicast", LEVELS): (16, 64, 256, 1_024),
    ("unicast", "optimal"): (100, 300, 1_000, 2_000),
}
"""The numbers of processes by cast and series: up to what a kernel, or endpoints, can run."""
FEW = {
    ("broadcast", "flooding"): (30, 100, 300, 1_000),
    ("broadcast", "tree"): (30, 100, 300, 1_000),
    ("broadcast", "permits"): (6, 12, 24, 40),
    ("broadcast", LEVELS): (4, 12, 36),
    ("broadcast", "broadcast"): (10, 30, 100, 300),
    ("unicast", "tree"): (30, 100, 300, 1_000),
    ("unicast", "permits"): (6, 12, 24),
    ("unicast", LEVELS): (4, 12, 36),
    ("unicast", "optimal"): (10, 20, 50, 100),
}
FIVE_N, TWO_N = 300, 5_000
"""Up to the first number of processes there are five seeds, up to the second two, beyond it one."""
BYTES, HEADED, LATENCY, PACKETS, WORK = (
    "control_bytes_per_delivery",
    "bytes_with_headers_per_delivery",
    "latency_mean",
    "packets_per_delivery",
    "microseconds_per_delivery",
)
FAR = (10**6, 10**9)
"""Numbers of processes too large to run: what the fits say of them is an extrapolation."""
METRICS = {
    BYTES: "bytes of control per delivery, with added packets",
    LATENCY: "seconds from send to delivery",
    PACKETS: "packets per delivery",
    WORK: "microseconds of work per delivery",
}
SIZES_LEAST, SPREAD_MOST, GROWTH_LEAST = 4, 0.05, 0.05
"""To be extrapolated, a line needs this many sizes, exponents between neighbours that differ by at
most so much, and at least this exponent."""

Part = Any
"""A process, or a list of such parts that begins with their representative."""


def levels(n: int) -> list[Part]:
    """Return clusters of four that contain clusters of four, and so on, below four roots."""
    trees: list[Part] = [f"p{number}" for number in range(n)]
    while len(trees) > 4:
        groups = [trees[at : at + 4] for at in range(0, len(trees), 4)]
        trees = [_headed(group) for group in groups]
    return [[tree] if isinstance(tree, str) else tree for tree in trees]


def _headed(group: list[Part]) -> Part:
    """Return a cluster whose representative is that of its first part."""
    first, *rest = group
    return [first, *rest] if isinstance(first, str) else [*first, *rest]


def _seeds(n: int) -> int:
    return 5 if n <= FIVE_N else 2 if n <= TWO_N else 1


def cases(scale: Scale) -> list[Case]:
    """Return all series at sizes that grow by about three.

    Broadcasts come at one rate for any number of processes; in unicast, every process sends.
    """
    found = []
    for (cast, series), sizes in (FEW if scale.is_quick else MANY).items():
        received, warm_up = LENGTHS[cast]
        for n in scale.sizes_or(sizes):
            arguments = {
                "n": n,
                "cast": cast,
                "delay": scale.delay_or(_DELAY),
                "received": received,
                "warm_up": warm_up,
                "mean_gap": _GAP * n if cast == "broadcast" else _GAP,
            }
            options = {"clusters": levels(n)} if series == LEVELS else {}
            most_seeds = None if scale.is_quick else _seeds(n)
            found += scale.cases({series: options}, arguments, n, cast, most_seeds=most_seeds)
    return found


def measure(task: Task) -> dict[str, Any]:
    """Measure a run with all added packets, including relayed ones.

    An added packet may be about messages of the warm-up, so the whole run counts. It has at least
    the number of the message that it is about, as in every total of a study.
    """
    found = run_task(task.protocol, task)
    figures, trace, schedule = metrics(task, found), found.trace, task.schedule
    # Of the copies that others relay, few leave their sender in a packet of their own.
    direct = (trace.entries > 0) | (trace.arrived == trace.posted + schedule.delays)
    packets = int(direct.sum()) + int(trace.added.sum())
    carried = float(figures["model_bytes_per_copy"] or 0) * schedule.copies
    control = carried + float(max(trace.added_bytes.sum(), CLOCK_BYTES * trace.added.sum()))
    return {
        **figures,
        BYTES: control / schedule.copies,
        HEADED: (control + HEADER_BYTES * packets) / schedule.copies,
        PACKETS: packets / schedule.copies,
    }


def findings(points: Points) -> Iterator[str]:
    """Say how each series grows, and what that would mean for numbers too large to run."""
    for cast in points.facets():
        for metric, words in METRICS.items():
            lines = {
                series: line
                for series in points.series(cast)
                if len(line := points.means(metric, cast, series)) >= 3
            }
            told = [f"{EXPERIMENT.label(series)} {_grown(line)}" for series, line in lines.items()]
            if told:
                yield f"{cast.capitalize()}, {words}: {'; '.join(told)}."
            far = [
                f"{EXPERIMENT.label(series)} {' and '.join(_far(line, n) for n in FAR)}"
                for series, line in lines.items()
                if metric == BYTES and can_be_extrapolated(line)
            ]
            if far:
                yield (
                    "Extrapolated to a million and to a billion processes, far beyond what was "
                    "run, with 95% prediction intervals that assume the power of n to go on: "
                    f"{'; '.join(far)} {words.partition(',')[0]}."
                )


def can_be_extrapolated(line: dict[float, float]) -> bool:
    """Return whether a line grows with an exponent that hardly changes from size to size."""
    local = local_exponents(line).values()
    if len(local) + 1 < SIZES_LEAST:
        return False
    return min(local) >= GROWTH_LEAST and max(local) - min(local) <= SPREAD_MOST


def _grown(line: dict[float, float]) -> str:
    found, last = fit(line), max(line)
    if found is None:
        return f"{figure(line[last])} at every size"
    return f"n^{found}, {figure(line[last])} at n = {last:,.0f}"


def _far(line: dict[float, float], n: int) -> str:
    point = extrapolated(line, n)
    assert point is not None, "fitted already"
    return f"{figure(point.mean)} ({figure(point.low)} to {figure(point.high)})"


EXPERIMENT = Experiment(
    name="scale",
    rank=99,
    paper=paper("flooding"),
    question="What grows with the number of processes, and what would that mean for very many?",
    how=(
        "Broadcasts come at one rate, ten per second, however many processes there are; in unicast "
        "everybody sends every 0.1 s. The mean delay is 0.02 s. Optimal runs in unicast only: in "
        "broadcast it carries an entry for each process that has sent, and at that rate most never "
        "send in a run; claim 2.8 and growth show it with n entries. The hierarchy has clusters of "
        "four that contain clusters of four. Flooding and tree run on links, with nothing per pair "
        "of processes, and the kernel of permits keeps state only for pairs that exchange "
        "messages. So they go furthest. Times per delivery are of kernels, but of endpoints in "
        "Python for the hierarchy and for short runs of permits. Powers of n are fitted to what "
        "was run. Bytes are extrapolated where the exponent between neighbouring sizes hardly "
        "changes; delays and packets are not, because paths over links grow as a logarithm. What "
        "the fits say of a million processes is an extrapolation, and nothing more."
    ),
    x="processes",
    cases=cases,
    measure=measure,
    baseline="optimal",
    labels={LEVELS: "hierarchy, clusters of four"},
    charts=(
        Chart(
            "bytes", "Bytes of control per delivery, with added packets", BYTES, "bytes", logs="xy"
        ),
        Chart(
            "headers",
            f"The same with {HEADER_BYTES} bytes of header per packet",
            HEADED,
            "bytes",
            logs="xy",
        ),
        Chart("delay", "From send to delivery", LATENCY, "seconds", logs="xy"),
        Chart("packets", "Packets per delivery", PACKETS, "packets", logs="x"),
        Chart("work", "Time per delivery (this machine)", WORK, "microseconds", logs="xy"),
    ),
    fits=tuple(METRICS),
    findings=findings,
)
