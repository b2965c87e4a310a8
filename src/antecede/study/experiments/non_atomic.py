"""Order only between different non-atomic events: a question that [KS98] leaves open."""

from __future__ import annotations

from collections.abc import Iterator

from antecede.study.design import Case, Chart, Experiment, Judgement, Scale, claim, paper
from antecede.study.open_questions import BYTES, KS, LATENCY, arguments, less_order, told
from antecede.study.points import Points

OURS = "non_atomic"
PARTS = (1, 5, 20)
CASTS = ("unicast", "multicast")
HELD = "held_fraction"
_DELAY = 0.5


def cases(scale: Scale) -> list[Case]:
    """Return optimal and non_atomic on the same schedules, as events have more parts.

    A send begins a new event with probability 1 / parts; otherwise it continues the last one.
    """
    found = []
    for cast in CASTS:
        for parts in PARTS:
            semantics = {"probability": 1 / parts, "reach": 1}
            chosen = arguments(scale, cast=cast, delay=_DELAY, semantics=semantics)
            found += scale.cases((KS, OURS), chosen, parts, cast)
    return found


def findings(points: Points) -> Iterator[str]:
    """Say how many copies are held, and at what cost."""
    for cast in points.facets():
        ours, theirs = points.means(HELD, cast, OURS), points.means(HELD, cast, KS)
        sizes = points.ratios(BYTES, cast, OURS)
        both = [x for x in ours if x in theirs and x in sizes]
        if both:
            x = max(both)
            yield (
                f"{cast[0].upper()}{cast[1:]}, {x:g} parts on average: {ours[x]:.1%} of the copies "
                f"held, {theirs[x]:.1%} under optimal, with x{sizes[x]:.2f} of optimal's control."
            )


@claim(
    "2.open",
    "Question: what does it take to order only between different non-atomic events?",
    "Protocol non_atomic, for events that are runs of one process's sends: definition, oracle, "
    "explorer, mutants and counterexamples (tests/protocols/test_non_atomic.py); experiment "
    "non_atomic for its cost. Events that span several processes are claim 2.open.2.",
)
def _between_events(points: Points) -> Judgement | None:
    parts: list[str] = []
    sizes: list[float] = []
    times: list[float] = []
    for cast in points.facets():
        found = points.ratios(BYTES, cast, OURS)
        if found:
            sizes += found.values()
            times += points.ratios(LATENCY, cast, OURS).values()
            parts.append(f"{cast}: {told(points, BYTES, OURS, cast)}")
    result = (
        "Bytes of control per copy, non_atomic and optimal, by the mean number of parts: "
        f"{'; '.join(parts)}. Less order takes more information, because the parts of an event do "
        "not replace each other."
    )
    return less_order(sizes, times, result)


EXPERIMENT = Experiment(
    name="non_atomic",
    rank=75,
    paper=paper("optimal"),
    part="section 8",
    question=(
        "If the parts of a non-atomic event need no order among themselves, how much less is held, "
        "and how much is carried?"
    ),
    how=(
        "Ten processes on the workload of [JPCY97], with a mean delay of half the gap between "
        "sends. Each send continues its process's non-atomic event or begins a new one, so that "
        "events have as many parts on average as the axis says."
    ),
    x="mean number of parts of a non-atomic event",
    cases=cases,
    baseline=KS,
    sweeps_delay=True,
    charts=(
        Chart("bytes", "Bytes per copy", BYTES, "bytes", logs="x"),
        Chart("held", "Messages held", HELD, "share of copies held", logs="x"),
    ),
    findings=findings,
    claims=(_between_events,),
)
