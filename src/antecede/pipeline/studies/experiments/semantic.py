"""What leaving out false causality saves: [GK00]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from antecede.pipeline.studies.design import Case, Chart, Experiment, Outcome, Scale, claim, paper
from antecede.pipeline.studies.measured import Points, judged
from antecede.pipeline.studies.measures import Task, metrics, run
from antecede.sim.semantics import false_causality

PROBABILITIES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
EXPONENTIAL = "exponential"
DELAYS = {EXPONENTIAL: "exponential:0.1", "lognormal": "lognormal:0.1:1.5"}
REACH = 3
_RECEIVED = 2000
"""The search for false causality keeps every message's past; longer runs would not fit."""

RST, OURS = "matrix", "semantic"
RARE = 0.05
"""Up to this share of all copies, a hold is rare."""
DISTANT = 5.0
"""A message sent at least this many mean network delays earlier is in the distant past."""
TWICE = (1.9, 2.1)
SAME_ORDER = 10.0


def cases(scale: Scale) -> list[Case]:
    """Return semantic and matrix on the same schedules, as more and more messages depend."""
    found = []
    for facet, delay in DELAYS.items():
        for probability in scale.thin(PROBABILITIES):
            arguments = scale.arguments(
                n=scale.side_n,
                cast="multicast",
                delay=delay,
                side=True,
                semantics={"probability": probability, "reach": REACH},
            )
            arguments["received"] = min(scale.side, _RECEIVED)
            found += [
                Case(protocol, "paper", arguments, seed, protocol, probability, facet)
                for seed in scale.seeds
                for protocol in (RST, OURS)
            ]
    return found


def measure(task: Task) -> dict[str, Any]:
    """Run the protocol, then look for holds that no semantic cause explains."""
    found = run(task.protocol, task)
    return {**metrics(task, found), **false_causality(task.schedule, found.trace, limit=None)}


def findings(points: Points) -> Iterator[str]:
    """Compare the copies held when about half of the messages depend on something."""
    for facet in points.facets():
        ours = points.means("held_fraction", facet, OURS)
        theirs = points.means("held_fraction", facet, RST)
        both = sorted(ours.keys() & theirs.keys())
        if not both:
            continue
        middle = both[(len(both) - 1) // 2]
        yield (
            f"With {EXPERIMENT.facet_label(facet)}, when {middle:.0%} of the messages depend on "
            f"something, semantic holds {ours[middle]:.1%} of the copies and matrix "
            f"{theirs[middle]:.1%}."
        )


@claim(
    "1.4",
    "Less delay and smaller buffers than the matrix.",
    "Experiment semantic: both protocols on the same schedules, as dependence varies.",
)
def _saving(points: Points) -> Outcome | None:
    parts, better = [], []
    for facet in points.facets():
        for metric, what in (("added_delay_mean", "delay"), ("buffer_mean", "buffer")):
            ours = points.means(metric, facet, OURS)
            theirs = points.means(metric, facet, RST)
            ratios = {x: ours[x] / theirs[x] for x in ours if theirs.get(x)}
            if not ratios:
                return None
            better += [ratio <= 1.0 + 1e-9 for ratio in ratios.values()]
            places = sorted(ratios)
            told = dict.fromkeys((places[0], places[(len(places) - 1) // 2], places[-1]))
            parts.append(
                f"{EXPERIMENT.facet_label(facet)}: {what} as a share of the matrix's "
                + ", ".join(f"{ratios[x]:.2f} at {x:g}" for x in told)
            )
    if not parts:
        return None
    verdict = judged(always=all(better), sometimes=any(better))
    return Outcome("; ".join(parts) + ".", verdict)


@claim(
    "1.5",
    "The false causality that remains concerns the distant past and rarely causes delay if "
    "delays are exponential; heavy tails are not discussed.",
    "Experiment semantic: every hold checked against explicit sets of semantic causes, "
    "with exponential delays and with heavy tails.",
)
def _remaining(points: Points) -> Outcome | None:
    parts, rare, distant = [], [], []
    for facet in points.facets():
        left = points.means("false_held_fraction", facet, OURS)
        age = points.means("false_age", facet, OURS)
        delay = points.means("network_delay_mean", facet, OURS)
        inner = [x for x in left if 0 < x < 1 and age.get(x) is not None and delay.get(x)]
        if not inner:
            continue
        ages = {x: age[x] / delay[x] for x in inner}
        if facet == EXPONENTIAL:
            rare += [left[x] <= RARE for x in inner]
            distant += [ages[x] >= DISTANT for x in inner]
        told = ", ".join(f"{left[x]:.1%} and {ages[x]:.1f} at {x:g}" for x in inner)
        before = points.means("false_held_fraction", facet, RST)
        matrix = ", ".join(f"{before[x]:.1%} at {x:g}" for x in inner if x in before)
        parts.append(
            f"{EXPERIMENT.facet_label(facet)}: {told}" + (f" (matrix {matrix})" if matrix else "")
        )
    if not rare:
        return None
    result = (
        "Share of copies held falsely, and the age of the message they waited for in mean network "
        f"delays, by dependence: {'; '.join(parts)}. Judged with exponential delays: rare means up "
        f"to {RARE:.0%} of the copies, distant at least {DISTANT:g} delays. False causality "
        "remains in the near past too (docs/errata.md)."
    )
    always = all(rare) and all(distant)
    return Outcome(result, judged(always=always, sometimes=all(rare) or all(distant)))


@claim(
    "1.6",
    "Twice the matrix's space, and work of the same order.",
    "Experiment semantic: entries per copy, and the engine's own time per delivery.",
)
def _cost(points: Points) -> Outcome | None:
    for facet in points.facets():
        ours = points.means("entries_per_copy", facet, OURS)
        theirs = points.means("entries_per_copy", facet, RST)
        mine = points.means("microseconds_per_delivery", facet, OURS)
        its = points.means("microseconds_per_delivery", facet, RST)
        both = [x for x in ours if theirs.get(x) and x in mine and its.get(x)]
        if not both:
            continue
        x = max(both)
        space, work = ours[x] / theirs[x], mine[x] / its[x]
        twice, same = TWICE[0] <= space <= TWICE[1], work <= SAME_ORDER
        result = (
            f"{space:.2f} times the entries and {work:.1f} times the engine's time per delivery, "
            "at one number of processes; how the work grows with that number was not measured."
        )
        return Outcome(result, judged(always=False, sometimes=twice and same))
    return None


EXPERIMENT = Experiment(
    name="semantic",
    rank=40,
    paper=paper("semantic"),
    question=(
        "How much delay and buffering does semantic causal order save over the matrix, as more of "
        "the messages depend on earlier ones?"
    ),
    how=(
        "The multicast workload of [JPCY97], with a mean delay equal to the mean gap between "
        f"sends. A message depends on one of its sender's last {REACH} events with the probability "
        "on the axis, otherwise on nothing. Delays are exponential, or lognormal with the same "
        "mean and a heavy tail."
    ),
    x="share of messages that depend on something",
    cases=cases,
    measure=measure,
    baseline=RST,
    labels={EXPONENTIAL: "exponential delays", "lognormal": "heavy tails (lognormal, sigma 1.5)"},
    charts=(
        Chart("held", "Messages held", "held_fraction", "share of copies held"),
        Chart("delay", "Delay added by holding", "added_delay_mean", "seconds per copy"),
        Chart(
            "false",
            "Held for messages they do not depend on",
            "false_held_fraction",
            "share of copies held falsely",
        ),
        Chart("buffer", "Messages in a process's buffer", "buffer_mean", "copies, on average"),
    ),
    findings=findings,
    claims=(_saving, _remaining, _cost),
)
