"""Control information combined with acknowledgements: a question that [MF95] leaves open."""

from __future__ import annotations

from collections.abc import Iterator

from antecede.study.design import Case, Chart, Experiment, Outcome, Scale, claim, paper
from antecede.study.limits import AS_QUICK
from antecede.study.open_questions import (
    BYTES,
    KS,
    LATENCY,
    PACKETS,
    answered,
    arguments,
    measure,
    told,
)
from antecede.study.points import Points, part, spread

OURS, QUIET = "acknowledged", "acknowledged:quiet"
OPTIONS: dict[str, tuple[str, dict[str, bool]]] = {
    KS: (KS, {}),
    OURS: (OURS, {}),
    QUIET: (OURS, {"releases": False}),
}
LOADS = (0.025, 0.1, 0.5)
CASTS = ("unicast", "multicast")


def cases(scale: Scale) -> list[Case]:
    """Return optimal, and acknowledged with and without releases, as delays grow."""
    return [
        Case(
            protocol,
            "paper",
            arguments(scale, cast=cast, delay=load),
            seed,
            series,
            load,
            cast,
            options,
        )
        for cast in CASTS
        for load in LOADS
        for seed in scale.seeds[:3]
        for series, (protocol, options) in OPTIONS.items()
    ]


def findings(points: Points) -> Iterator[str]:
    """Say what acknowledgements save, and in how many packets."""
    for cast in points.facets():
        for series in (OURS, QUIET):
            ratios = points.ratios(BYTES, cast, series)
            packets = points.means(PACKETS, cast, series)
            if ratios and packets:
                yield (
                    f"{EXPERIMENT.label(series)}, {cast}: {spread(list(ratios.values()), '{:.0%}')}"
                    f" of optimal's control, for {spread(list(packets.values()), '{:.1f}')} more "
                    "packets per copy."
                )


@claim(
    "4.open.1",
    "Question: can control information and acknowledged buffers be combined?",
    "Protocol acknowledged, which never waits at the sender and carries control only about what is "
    "not acknowledged: oracle, explorer, and comparison with what [KS98] requires "
    "(tests/protocols/test_acknowledged.py); experiment acknowledged for its cost.",
)
def _combined(points: Points) -> Outcome | None:
    parts: list[str] = []
    smaller: list[float] = []
    slower: list[float] = []
    for cast in points.facets():
        sizes, times = (points.ratios(m, cast, OURS) for m in (BYTES, LATENCY))
        if not sizes or not times:
            continue
        smaller += sizes.values()
        slower += times.values()
        parts.append(f"{cast}: {told(points, BYTES, OURS, cast)}")
    if not parts:
        return None

    def verdict(limit: float) -> str:
        less = [size < 1 for size in smaller]
        quick = all(time <= limit for time in slower)
        return answered(always=all(less) and quick, sometimes=any(less))

    held = part([size < 1 for size in smaller])
    result = (
        "Bytes of control per copy, acknowledged and optimal, by mean delay / mean gap between "
        f"sends: {'; '.join(parts)}. Less than optimal's: {held}. Time from send to delivery: "
        f"x{spread(slower)} of optimal's. {AS_QUICK.said(verdict)}"
    )
    short = f"{spread(smaller, '{:.0%}')} of optimal's control, no wait at the sender"
    return Outcome(result, verdict(AS_QUICK.value), short)


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
        "everywhere."
    ),
    x="mean delay / mean gap between sends",
    cases=cases,
    measure=measure,
    baseline=KS,
    sweeps_delay=True,
    labels={QUIET: "acknowledged, without releases"},
    charts=(
        Chart("bytes", "Bytes per copy", BYTES, "bytes", logs="x"),
        Chart("packets", "Packets that the protocol adds", PACKETS, "packets per copy", logs="x"),
    ),
    findings=findings,
    claims=(_combined,),
)
