"""Semantic causal order without matrices, which [GK00] claims possible without showing how."""

from __future__ import annotations

from collections.abc import Iterator

from antecede.study.design import Case, Chart, Experiment, Judgement, Scale, claim, paper
from antecede.study.limits import AS_LITTLE
from antecede.study.open_questions import BYTES, KS, LATENCY, arguments, told
from antecede.study.points import Points, judged, part, spread

OURS, MATRICES = "semantic_optimal", "semantic"
SHARES = (0.1, 0.5, 1.0)
CASTS = ("unicast", "multicast")
REACH = 5
_DELAY = 0.5


def cases(scale: Scale) -> list[Case]:
    """Return both forms of semantic order and optimal, as more messages depend on something."""
    found = []
    for cast in CASTS:
        for share in SHARES:
            semantics = {"probability": share, "reach": REACH}
            chosen = arguments(scale, cast=cast, delay=_DELAY, semantics=semantics)
            found += scale.cases((KS, MATRICES, OURS), chosen, share, cast)
    return found


def findings(points: Points) -> Iterator[str]:
    """Say how much less than two matrices a message carries, and how long messages are held."""
    for cast in points.facets():
        ours, theirs = (points.means(BYTES, cast, name) for name in (OURS, MATRICES))
        shares = [ours[x] / theirs[x] for x in ours if theirs.get(x)]
        times = points.ratios(LATENCY, cast, OURS)
        if shares and times:
            yield (
                f"{cast[0].upper()}{cast[1:]}: {spread(shares, '{:.0%}')} of what semantic "
                f"carries; time from send to delivery x{spread(list(times.values()))} of optimal's."
            )


@claim(
    "1.open",
    "The same idea can be put on algorithms that carry less than a matrix (said, not shown).",
    "Protocol semantic_optimal: oracle, explorer, mutants, exactness without limits and the "
    "smallest counterexamples with them (tests/protocols/test_semantic_optimal.py); experiment "
    "semantic_optimal for its cost.",
)
def _without_matrices(points: Points) -> Judgement | None:
    parts: list[str] = []
    sizes: list[float] = []
    for cast in points.facets():
        ratios = points.ratios(BYTES, cast, OURS)
        if ratios:
            sizes += ratios.values()
            parts.append(f"{cast}: {told(points, BYTES, OURS, cast)}")
    if not parts:
        return None

    def verdict(limit: float) -> str:
        little = [size <= limit for size in sizes]
        return judged(always=all(little), sometimes=any(little))

    held = part([size <= AS_LITTLE.value for size in sizes])
    result = (
        "Bytes of control per copy, semantic_optimal and optimal, by the share of messages that "
        f"depend on something: {'; '.join(parts)}. As little as optimal: {held}. Where most "
        "messages depend on something but not on everything, fewer sends replace what was sent "
        f"before, so more stays relevant. {AS_LITTLE.said(verdict)}"
    )
    short = f"{spread(sizes, '{:.0%}')} of optimal's control"
    return Judgement(result, verdict(AS_LITTLE.value), short)


EXPERIMENT = Experiment(
    name="semantic_optimal",
    rank=47,
    paper=paper("semantic"),
    part="section 3.2",
    question=(
        "Semantic order carries two matrices. How much does it carry if logs like optimal's are "
        "used instead, and what does the weaker order save?"
    ),
    how=(
        "Ten processes on the workload of [JPCY97], with a mean delay of half the gap between "
        f"sends. A message depends on one of its sender's last {REACH} events with the probability "
        "on the axis, otherwise on nothing."
    ),
    x="share of messages that depend on something",
    cases=cases,
    baseline=KS,
    sweeps_delay=True,
    charts=(
        Chart("bytes", "Bytes per copy", BYTES, "bytes", logs="y"),
        Chart("held", "Messages held", "held_fraction", "share of copies held"),
    ),
    findings=findings,
    claims=(_without_matrices,),
)
