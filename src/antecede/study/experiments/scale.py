"""Toward very many processes: what grows with their number, and what does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from antecede.report.numbers import figure
from antecede.study.design import Case, Chart, Experiment, Scale, paper
from antecede.study.measuring import Task, metrics, run
from antecede.study.points import Points, fit

_DELAY = "exponential:0.02"
SERIES = (
    "optimal",
    "broadcast",
    "probabilistic",
    "permits",
    "flooding",
    "tree",
    "hierarchy:levels",
)
QUICK_SIZES = (6, 12, 24)
SIZES = (8, 16, 32, 64, 128)
SENDS = 4
"""How often each process sends, on average."""
BYTES, LATENCY, PACKETS = (
    "control_bytes_per_message",
    "latency_mean",
    "extra_packets_per_copy",
)
FAR = (10**6, 10**9)
"""Numbers of processes that nobody runs here: what the fits say of them is an extrapolation."""
METRICS = {
    BYTES: "bytes of control per message, with added packets",
    LATENCY: "seconds from send to delivery",
    PACKETS: "packets added per copy",
}


Part = Any
"""A process, or a list of such parts that begins with their representative."""


def levels(n: int) -> list[Part]:
    """Return clusters of four that contain clusters of four, and so on, below four roots."""
    trees: list[Part] = [f"p{number}" for number in range(n)]
    while len(trees) > 4:
        groups = [trees[i : i + 4] for i in range(0, len(trees), 4)]
        trees = [_headed(group) for group in groups]
    return [[tree] if isinstance(tree, str) else tree for tree in trees]


def _headed(group: list[Part]) -> Part:
    """Return a cluster whose representative is that of its first part."""
    first, *rest = group
    return [first, *rest] if isinstance(first, str) else [*first, *rest]


def cases(scale: Scale) -> list[Case]:
    """Return all series at sizes that double, each process sending as many messages."""
    found = []
    for n in scale.sizes_or(SIZES if scale.points >= 6 else QUICK_SIZES):
        common = {"n": n, "cast": "broadcast", "delay": scale.delay_or(_DELAY)}
        arguments = common | {"received": SENDS * n}
        found += [
            Case(
                name.partition(":")[0],
                "paper",
                arguments,
                seed,
                name,
                n,
                "broadcast",
                options,
            )
            for seed in scale.seeds[:3]
            for name in SERIES
            for options in ({"clusters": levels(n)} if name.startswith("hierarchy") else {},)
        ]
    return found


def measure(task: Task) -> dict[str, Any]:
    """Measure a whole run, with all packets that were added, wherever they were passed on."""
    found = run(task.protocol, task)
    figures, trace, schedule = metrics(task, found), found.trace, task.schedule
    carried = float(figures["model_bytes_per_copy"] or 0) * schedule.copies
    return {
        **figures,
        BYTES: (carried + float(trace.added_bytes.sum())) / schedule.messages,
        PACKETS: int(trace.added.sum()) / schedule.copies,
    }


def findings(points: Points) -> Iterator[str]:
    """Say how each series grows, and what that would mean for numbers that nobody has run."""
    for metric, words in METRICS.items():
        grown = {
            series: found
            for series in points.series("broadcast")
            if (found := fit(points.means(metric, "broadcast", series)))
        }
        if grown:
            told = ", ".join(f"{EXPERIMENT.label(name)} n^{found}" for name, found in grown.items())
            yield f"{words[0].upper()}{words[1:]} grow as {told}."
            far = "; ".join(
                f"{EXPERIMENT.label(name)} "
                + " and ".join(figure(found.factor * n**found.exponent) for n in FAR)
                for name, found in grown.items()
            )
            yield (
                f"Extrapolated to a million and to a billion processes, far beyond what was run, "
                f"that would be {words}: {far}."
            )


EXPERIMENT = Experiment(
    name="scale",
    rank=99,
    paper=paper("flooding"),
    question="What grows with the number of processes, and what would that mean for very many?",
    how=(
        "Broadcasts on the workload of [JPCY97], with a mean delay of a fifth of the gap between "
        f"sends. The numbers of processes double, and every process sends about {SENDS} messages, "
        "and the whole run counts. The hierarchy has clusters of four that "
        "contain clusters of four. Powers of n are fitted to what was run; what they say of a "
        "million processes is an extrapolation, and nothing more."
    ),
    x="processes",
    cases=cases,
    measure=measure,
    baseline="optimal",
    labels={"hierarchy:levels": "hierarchy, clusters of four"},
    charts=(
        Chart(
            "bytes",
            "Bytes of control per message, with added packets",
            BYTES,
            "bytes",
            logs="xy",
        ),
        Chart("delay", "From send to delivery", LATENCY, "seconds", logs="xy"),
        Chart(
            "packets",
            "Packets that the protocol adds",
            PACKETS,
            "packets per copy",
            logs="x",
        ),
    ),
    fits=tuple(METRICS),
    findings=findings,
)
