"""Control information combined with acknowledgements: a question that [MF95] leaves open."""

from __future__ import annotations

from collections.abc import Iterator

from antecede.sim.schedule import HEADER_BYTES
from antecede.study.design import Case, Chart, Experiment, Judgement, Scale, claim, paper
from antecede.study.limits import AS_QUICK
from antecede.study.open_questions import (
    BYTES,
    KS,
    LATENCY,
    PACKETS,
    TOTAL,
    WITH_HEADERS,
    answered,
    arguments,
    measure,
    told,
)
from antecede.study.points import Points, part, spread

OURS, QUIET = "acknowledged", "acknowledged:quiet"
OPTIONS: dict[str, dict[str, bool]] = {KS: {}, OURS: {}, QUIET: {"releases": False}}
LOADS = (0.025, 0.1, 0.5)
CASTS = ("unicast", "multicast")


def cases(scale: Scale) -> list[Case]:
    """Return cases of optimal, and acknowledged with and without releases, as delays grow."""
    return [
        case
        for cast in CASTS
        for load in LOADS
        for case in scale.cases(OPTIONS, arguments(scale, cast=cast, delay=load), load, cast)
    ]


def findings(points: Points) -> Iterator[str]:
    """Say what acknowledgements save, and what they cost."""
    for cast in points.facets():
        for series in (OURS, QUIET):
            control, total, headers = (
                list(points.ratios(metric, cast, series).values())
                for metric in (BYTES, TOTAL, WITH_HEADERS)
            )
            packets = points.means(PACKETS, cast, series)
            if control and total and headers and packets:
                yield (
                    f"{EXPERIMENT.label(series)}, {cast}: {spread(control, '{:.0%}')} of optimal's "
                    f"control, for {spread(list(packets.values()), '{:.1f}')} more packets per "
                    f"copy; with these x{spread(total)} of optimal's bytes, and with headers "
                    f"x{spread(headers)}."
                )


@claim(
    "4.open.1",
    "Question: can control information and acknowledged buffers be combined?",
    "Protocol acknowledged, which never waits at the sender and carries control only about what is "
    "not acknowledged: oracle, explorer, and comparison with what [KS98] requires "
    "(tests/protocols/test_acknowledged.py); experiment acknowledged for its cost.",
)
def _combined(points: Points) -> Judgement | None:
    parts: list[str] = []
    ratios: dict[str, list[float]] = {}
    for cast in points.facets():
        for metric in (BYTES, TOTAL, WITH_HEADERS, LATENCY):
            ratios.setdefault(metric, []).extend(points.ratios(metric, cast, OURS).values())
        parts.append(f"{cast}: {told(points, TOTAL, OURS, cast)}")
    if not all(ratios.values()) or not ratios:
        return None

    def verdict(limit: float) -> str:
        less = [size < 1 for size in ratios[TOTAL]]
        quick = all(time <= limit for time in ratios[LATENCY])
        return answered(always=all(less) and quick, sometimes=any(less))

    control, total, headers, times = (spread(each) for each in ratios.values())
    held = part([size < 1 for size in ratios[TOTAL]])
    result = (
        "Bytes per message with all added packets, acknowledged and optimal, by mean delay / mean "
        f"gap between sends: {'; '.join(parts)}. Less than optimal's: {held}. Compared with "
        f"optimal: control on messages x{control}, with the added packets x{total}, and with a "
        f"header of {HEADER_BYTES} bytes on every packet x{headers}. Time from send to delivery: "
        f"x{times} of optimal's. {AS_QUICK.said(verdict)}"
    )
    short = f"x{total} of optimal's bytes, x{headers} with headers; no wait at the sender"
    return Judgement(result, verdict(AS_QUICK.value), short)


EXPERIMENT = Experiment(
    name="acknowledged",
    rank=96,
    paper=paper("buffered"),
    part="section 5",
    question=(
        "Acknowledgements tell a sender what is delivered. How much control information does that "
        "make unnecessary, if nothing is to wait at the sender?"
    ),
    how=(
        "Ten processes on the workload of [JPCY97], with delays from a fortieth to half of the "
        "gap between sends. Releases are packets that tell destinations what is delivered "
        "everywhere. Bytes of added packets count by the same model as those of messages; with "
        f"headers, every packet, of a message or added, has {HEADER_BYTES} bytes more."
    ),
    x="mean delay / mean gap between sends",
    cases=cases,
    measure=measure,
    baseline=KS,
    sweeps_delay=True,
    labels={QUIET: "acknowledged, without releases"},
    charts=(
        Chart("bytes", "Control information per copy", BYTES, "bytes", logs="x"),
        Chart("total", "Bytes per message with all added packets", TOTAL, "bytes", logs="x"),
        Chart("headers", "The same with headers", WITH_HEADERS, "bytes", logs="x"),
        Chart("packets", "Packets that the protocol adds", PACKETS, "packets per copy", logs="x"),
    ),
    findings=findings,
    claims=(_combined,),
)
