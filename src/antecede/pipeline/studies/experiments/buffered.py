"""The claim of [MF95], section 5, that its authors could not test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from antecede.pipeline.studies.design import Case, Chart, Experiment, Outcome, Scale, claim, paper
from antecede.pipeline.studies.measured import Points, judged, part
from antecede.pipeline.studies.measures import Task, measure_acknowledged, measure_run
from antecede.report.numbers import figure

LOADS = (0.01, 0.03, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9)
"""Mean round trip as a multiple of the mean gap between a process's sends."""

GAP = 0.1
_N = 10
_RECEIVED = 1000
"""Pipelined buffers have no kernel: real endpoints run them."""

RST, PLAIN, PIPELINED = "matrix", "buffered", "buffered:pipelined"
SHORT = 0.1
"""Up to this multiple of the gap between sends, a round trip is short."""
BARELY = 1.1
"""Up to this multiple of the matrix's time to delivery, a delay is barely noticeable."""
LITTLE = 0.1
"""Up to this share of the matrix's control information, acknowledgements cost little."""
MOST = 0.5


def cases(scale: Scale) -> list[Case]:
    """Return buffered, with and without pipelining, and matrix, as the round trip grows."""
    found = []
    for facet, is_fifo in (("reordering", False), ("fifo", True)):
        for load in scale.thin(LOADS):
            delay = f"exponential:{load * GAP / 2:g}"
            arguments = scale.arguments(
                n=_N, cast="unicast", delay=delay, side=True, fifo=is_fifo
            ) | {"received": min(scale.side, _RECEIVED)}
            for seed in scale.seeds:
                place = ("paper", arguments, seed)
                found += [Case(name, *place, name, load, facet) for name in (RST, PLAIN)]
                if is_fifo:
                    options = {"pipelined": True}
                    found.append(Case(PLAIN, *place, PIPELINED, load, facet, options))
    return found


def measure(task: Task) -> dict[str, Any]:
    """Measure a run, with its acknowledgements except under matrix."""
    return measure_run(task) if task.series == RST else measure_acknowledged(task)


def findings(points: Points) -> Iterator[str]:
    """Compare the time to delivery at the shortest and at the longest round trip."""
    for facet in points.facets():
        line = points.means("latency_in_delays", facet, PLAIN)
        matrix = points.means("latency_in_delays", facet, RST)
        both = line.keys() & matrix.keys()
        if not both:
            continue
        low, high, name = min(both), max(both), EXPERIMENT.facet_label(facet)
        yield (
            f"{name[0].upper()}{name[1:]}: with a round trip of {low:g} gaps, a message takes "
            f"{line[low]:.2f} network delays under buffered and {matrix[low]:.2f} under matrix; "
            f"with one of {high:g} gaps, {line[high]:.2f} and {matrix[high]:.2f}."
        )


@claim(
    "4.5",
    "Untested by its authors: the extra delay is barely noticeable when round trips are "
    "short compared with the gaps; acknowledgements cost little; pipelining removes most "
    "of the delay.",
    "Experiment buffered: round trips from a hundredth of the gap to nearly all of it, "
    "each protocol compared with buffered on the same schedules.",
)
def _costs(points: Points) -> Outcome | None:
    found = [judge(points) for judge in (_short_trips, _acknowledgements, _pipelining)]
    known = [one for one in found if one is not None]
    if len(known) < len(found):
        return None
    held = [holds for holds, _ in known]
    result = " ".join([text for _, text in known] + _saturated(points))
    return Outcome(result, judged(always=all(held), sometimes=any(held)))


def _short_trips(points: Points) -> tuple[bool, str] | None:
    """Compare the time from send to delivery with the matrix's on the same schedules."""
    barely, told = [], []
    for facet in points.facets():
        own = points.ratios("latency_mean", facet, RST)
        ratios = {x: 1 / ratio for x, ratio in own.items() if ratio}
        if not ratios:
            continue
        barely += [ratio <= BARELY for x, ratio in ratios.items() if x <= SHORT]
        each = ", ".join(f"x{y:.2f} at {x:g}" for x, y in ratios.items())
        told.append(f"{EXPERIMENT.facet_label(facet)}: {each}")
    if not barely:
        return None
    text = (
        "Time from send to delivery compared with the matrix's, by round trip / gap: "
        f"{'; '.join(told)}; barely noticeable means up to x{BARELY:g} at {SHORT:g} and below."
    )
    return all(barely), f"Barely noticeable when round trips are short: {part(barely)}. {text}"


def _acknowledgements(points: Points) -> tuple[bool, str] | None:
    """Compare the bytes of acknowledgements with the matrix's control information."""
    little, sizes, matrices, packets = [], [], [], []
    for facet in points.facets():
        own = points.means("acknowledgement_bytes_per_message", facet, PLAIN)
        matrix = points.means("model_bytes_per_message", facet, RST)
        extra = points.means("extra_packets_per_message", facet, PLAIN)
        for x in own.keys() & matrix.keys() & extra.keys():
            little.append(own[x] <= LITTLE * matrix[x])
            sizes.append(own[x])
            matrices.append(matrix[x])
            packets.append(extra[x])
    if not little:
        return None
    text = (
        f"At most {figure(max(sizes))} bytes of acknowledgements per message (the matrix: at least "
        f"{figure(min(matrices))}), in up to {figure(max(packets))} additional packets."
    )
    return all(little), f"Acknowledgements cost little: {part(little)}. {text}"


def _pipelining(points: Points) -> tuple[bool, str] | None:
    """Say how much of the added delay pipelining removes, at every load."""
    removed: dict[float, float] = {}
    for facet in points.facets():
        left = points.ratios("added_delay_mean", facet, PIPELINED)
        removed |= {x: 1 - ratio for x, ratio in left.items()}
    if not removed:
        return None
    told = ", ".join(f"{share:.0%} at {x:g}" for x, share in removed.items())
    most = [share > MOST for share in removed.values()]
    text = f"On FIFO channels it removes {told}."
    return all(most), f"Pipelining removes most of the delay: {part(most)}. {text}"


def _saturated(points: Points) -> list[str]:
    """Say which runs are missing from the means because their queues grew without bound."""
    told = []
    for facet in points.facets():
        for series in points.series(facet):
            for x, point in points.line("saturated", facet, series).items():
                if point.mean > 0:
                    place = f"{EXPERIMENT.label(series)}, {EXPERIMENT.facet_label(facet)}, at {x:g}"
                    told.append(f"{place}: {round(point.mean * point.runs)} of {point.runs}")
    return [f"Left out because queues grew without bound: {'; '.join(told)}."] if told else []


EXPERIMENT = Experiment(
    name="buffered",
    rank=90,
    paper=paper("buffered"),
    part="section 5",
    question=(
        "Without any control information, how much delay do acknowledged buffers add as the round "
        "trip approaches the gap between sends, and does pipelining (footnote 4) remove it?"
    ),
    how=(
        "Unicast with a mean gap of 0.1 s between sends and exponential delays, so that the axis "
        "is the load on each process's output buffer. Runs whose queues grow without bound are "
        "left out and counted. Bytes are those of the model of [JPCY97] for the matrix, and whole "
        "encoded acknowledgements."
    ),
    x="round trip / gap between sends",
    cases=cases,
    measure=measure,
    baseline=PLAIN,
    labels={"reordering": "channels reorder", "fifo": "FIFO channels"},
    charts=(
        Chart(
            "added",
            "Delay added by the protocol (zero is not drawn on this scale)",
            "added_delay_mean",
            "seconds",
            logs="xy",
        ),
        Chart(
            "relative",
            "From send to delivery, in network delays",
            "latency_in_delays",
            "mean network delays",
            logs="xy",
        ),
        Chart(
            "throughput",
            "Deliveries per second, where queues do not grow without bound",
            "throughput",
            "deliveries per second",
            logs="x",
        ),
        Chart("acks", "Total bytes per message", "total_bytes_per_message", "bytes", logs="x"),
    ),
    findings=findings,
    claims=(_costs,),
)
