"""Buffers for multicast and broadcast: a question that [MF95] leaves open."""

from __future__ import annotations

from collections.abc import Iterator

from antecede.report.numbers import figure
from antecede.study.design import Case, Chart, Experiment, Judgement, Scale, claim, paper
from antecede.study.limits import CONSTANT, NOT_LONG
from antecede.study.open_questions import (
    BYTES,
    KS,
    LATENCY,
    PACKETS,
    TOTAL,
    answered,
    arguments,
    measure,
    told,
)
from antecede.study.points import Points, spread

OURS, PLAIN = "permits", "buffered"
LOADS = (0.025, 0.1, 0.5)
CASTS = {
    "unicast": (KS, PLAIN, OURS),
    "multicast": (KS, OURS),
    "broadcast": (KS, OURS),
}


def cases(scale: Scale) -> list[Case]:
    """Return optimal and permits in every cast, and buffered in the cast that it offers."""
    return [
        case
        for cast, names in CASTS.items()
        for load in LOADS
        for case in scale.cases(names, arguments(scale, cast=cast, delay=load), load, cast)
    ]


def findings(points: Points) -> Iterator[str]:
    """Say how much longer messages take than under optimal, and how many packets they need."""
    for cast in points.facets():
        ratios = points.ratios(LATENCY, cast, OURS)
        packets = points.means(PACKETS, cast, OURS)
        if ratios and packets:
            times = ", ".join(f"x{ratio:.2f} at {x:g}" for x, ratio in ratios.items())
            yield (
                f"{cast[0].upper()}{cast[1:]}: time from send to delivery {times} of optimal's, "
                f"with {spread(list(packets.values()), '{:.1f}')} more packets per copy."
            )


@claim(
    "4.open.3",
    "Question: are there buffers for causal broadcast?",
    "Protocol permits, for unicast, multicast and broadcast: oracle, explorer and mutants "
    "(tests/protocols/test_permits.py); experiment permits for its cost.",
)
def _broadcast(points: Points) -> Judgement | None:
    parts: list[str] = []
    sizes: list[float] = []
    totals: list[float] = []
    slower: list[float] = []
    for cast in points.facets():
        times = points.ratios(LATENCY, cast, OURS)
        if not times:
            continue
        sizes += points.means(BYTES, cast, OURS).values()
        copies = points.means("data_packets_per_message", cast, OURS)
        totals += [y / copies.get(x, 1) for x, y in points.means(TOTAL, cast, OURS).items()]
        slower.append(times[min(times)])
        parts.append(f"{cast}: {told(points, LATENCY, OURS, cast)}")
    if not parts or not sizes or not totals:
        return None

    def verdict(limit: float) -> str:
        constant = max(sizes) <= CONSTANT.value
        quick = [time <= limit for time in slower]
        return answered(always=constant and all(quick), sometimes=constant)

    result = (
        f"{figure(max(sizes))} bytes of control on each copy at most, whatever the cast and the "
        f"load, and {spread(totals, '{:.1f}')} per copy with acknowledgements and permits. "
        "Seconds from send to delivery, permits and optimal, by mean delay / mean gap between "
        f"sends: {'; '.join(parts)}. {NOT_LONG.said(verdict)} {CONSTANT.words.capitalize()}."
    ).replace("{}", CONSTANT.written())
    short = (
        f"{figure(max(sizes))} bytes on a copy, {spread(totals, '{:.1f}')} with added packets; "
        f"x{spread(slower)} of optimal's time at low load"
    )
    return Judgement(result, verdict(NOT_LONG.value), short)


EXPERIMENT = Experiment(
    name="permits",
    rank=98,
    paper=paper("buffered"),
    part="section 5",
    question=(
        "Buffers need no control information, but serve one destination. What does it cost to "
        "extend them to multicast and broadcast?"
    ),
    how=(
        "Ten processes on the workload of [JPCY97], with delays from a fortieth to half of the "
        "gap between sends. Messages are delivered at once, and what their receivers send on "
        "waits for permits. Runs whose queues grow without bound are not drawn."
    ),
    x="mean delay / mean gap between sends",
    cases=cases,
    measure=measure,
    baseline=KS,
    sweeps_delay=True,
    charts=(
        Chart("latency", "From send to delivery", LATENCY, "seconds", logs="xy"),
        Chart("packets", "Packets that the protocol adds", PACKETS, "packets per copy", logs="x"),
    ),
    findings=findings,
    claims=(_broadcast,),
)
