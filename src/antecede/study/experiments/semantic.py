"""What leaving out false causality saves: [GK00]."""

from __future__ import annotations

from collections.abc import Iterator

from antecede.report.numbers import figure
from antecede.study.design import Case, Chart, Experiment, Judgement, Scale, claim, paper
from antecede.study.limits import DISTANT, MUCH_LESS, RARE, SAME_ORDER, TWICE
from antecede.study.measuring import measure_falsely_held
from antecede.study.points import (
    DRIFTS,
    NOT_RUN,
    Point,
    Points,
    fit,
    judged,
    late_exponent,
    part,
    spread,
    told_growth,
)

PROBABILITIES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
EXPONENTIAL = "exponential"
DELAYS = {EXPONENTIAL: "exponential:0.1", "lognormal": "lognormal:0.1:1.5"}
REACH = 3
_RECEIVED = 2000
"""The search for false causality keeps every message's past; longer runs would not fit."""

RST, OURS = "matrix", "semantic"
LOADS = "loads"


def cases(scale: Scale) -> list[Case]:
    """Return semantic and matrix on the same schedules, as more messages depend on something."""
    found = []
    for facet, delay in DELAYS.items():
        for probability in scale.thin(PROBABILITIES):
            arguments = scale.arguments(
                n=scale.side_n,
                cast="multicast",
                delay=scale.delay_or(delay),
                side=True,
                fifo=True,
                semantics={"probability": probability, "reach": REACH},
            )
            arguments["received"] = min(scale.side, _RECEIVED)
            found += scale.cases((RST, OURS), arguments, probability, facet)
    return found


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
    "Delays and buffers are greatly reduced against the matrix.",
    "Experiment semantic: both protocols on the same schedules, as dependence varies.",
)
def _saving(points: Points) -> Judgement | None:
    parts: list[str] = []
    every: list[float] = []
    shares: list[float] = []
    free = moving = 0
    for facet in points.facets():
        drifts = [points.drifting(drift, facet, name) for drift in DRIFTS for name in (RST, OURS)]
        for metric, what in (("added_delay_mean", "delay (s)"), ("buffer_mean", "buffer (copies)")):
            ours = points.line(metric, facet, OURS)
            theirs = points.line(metric, facet, RST)
            places = [x for x in ours if x in theirs and theirs[x].mean > 0]
            if not places:
                return None
            ratios = {x: ours[x].mean / theirs[x].mean for x in places}
            every += ratios.values()
            free += 0 in ratios
            moving += sum(any(x in drift for drift in drifts) for x in places)
            shares += [ratio for x, ratio in ratios.items() if 0 < x < 1]
            told = dict.fromkeys((places[0], places[(len(places) - 1) // 2], places[-1]))
            parts.append(
                f"{EXPERIMENT.facet_label(facet)}, {what}, semantic and matrix: "
                + ", ".join(f"{ours[x]} and {theirs[x]} at {x:g}" for x in told)
            )
    if not parts:
        return None

    def verdict(limit: float) -> str:
        better = [ratio <= limit + 1e-9 for ratio in every]
        return judged(always=all(better), sometimes=min(every) < 1)

    held = part([ratio <= MUCH_LESS.value for ratio in every])
    result = (
        f"{'; '.join(parts)}. Greatly reduced: {held}. At {free} of the {len(every)} points no "
        f"message depends on anything, so semantic holds none; at {moving} the runs had not "
        f"settled. {MUCH_LESS.said(verdict)}"
    )
    short = f"{spread(shares, '{:.0%}')} of the matrix's" if shares else ""
    return Judgement(result, verdict(MUCH_LESS.value), short)


@claim(
    "1.5",
    "The false causality that remains concerns the distant past and rarely causes delay if "
    "delays are exponential; heavy tails are not discussed.",
    "Experiment loads: every hold checked against explicit sets of semantic causes, over loads and "
    "casts; experiment semantic for heavy tails.",
)
def _remaining(points: Points) -> Judgement | None:
    loads = points.study.of(LOADS)
    parts: list[str] = []
    held: dict[str, dict[float, float]] = {}
    ages: list[float] = []
    for facet in loads.facets():
        left = loads.line("false_held_fraction", facet, OURS)
        age = loads.means("false_age", facet, OURS)
        delay = loads.means("network_delay_mean", facet, OURS)
        if not left:
            continue
        held[facet] = {x: point.mean for x, point in left.items()}
        ages += [
            age[x] / delay[x] for x in left if left[x].mean > 0 and age.get(x) and delay.get(x)
        ]
        told = ", ".join(f"{_percent(point)} at {x:g}" for x, point in left.items())
        parts.append(f"{facet}: {told}")
    if not held:
        again = f"Not measured: run antecede study --experiment {LOADS} as well."
        return Judgement(again, NOT_RUN)

    def verdict(limit: float) -> str:
        rare = {facet: all(y <= limit for y in line.values()) for facet, line in held.items()}
        is_distant = bool(ages) and min(ages) >= DISTANT.value
        return judged(
            always=all(rare.values()) and is_distant,
            sometimes=any(y <= limit for line in held.values() for y in line.values()),
        )

    nearest = f"{min(ages):.1f} to {max(ages):.1f}" if ages else "unknown"
    result = (
        "Share of copies held falsely, with half of the messages dependent, by mean delay / mean "
        f"gap: {'; '.join(parts)}. The message they waited for was sent {nearest} mean network "
        f"delays earlier. {_tails(points)}{RARE.said(verdict)} {DISTANT.words.capitalize()}."
    ).replace("{}", DISTANT.written())
    most = {facet: max(line.values()) for facet, line in held.items()}
    worst, best = (pick(most, key=lambda facet: most[facet]) for pick in (max, min))
    short = f"up to {most[worst]:.0%} held falsely in {worst}, {most[best]:.0%} in {best}"
    return Judgement(result, verdict(RARE.value), short)


def _percent(point: Point) -> str:
    if point.low is None or point.high is None:
        return f"{point.mean:.1%}"
    return f"{point.mean:.1%} ± {100 * (point.high - point.low) / 2:.1f}"


def _tails(points: Points) -> str:
    """Say what heavy tails change when the delay equals the gap."""
    told = []
    for facet in points.facets():
        line = points.means("false_held_fraction", facet, OURS)
        inner = {x: y for x, y in line.items() if 0 < x < 1}
        if inner:
            worst = max(inner, key=lambda x: inner[x])
            told.append(f"{inner[worst]:.1%} with {EXPERIMENT.facet_label(facet)}")
    return f"In multicast at a delay of one gap, at most: {', '.join(told)}. " if told else ""


@claim(
    "1.6",
    "Twice the matrix's space, and work of the same order.",
    "Experiment overhead: entries per copy; experiment work: the cells that both read and write "
    "for a message and its delivery, by the steps of their papers.",
)
def _cost(points: Points) -> Judgement | None:
    other, work = points.study.of("overhead"), points.study.of("work")
    space = []
    for cast in other.facets():
        ours, theirs = (other.means("entries_per_copy", cast, name) for name in (OURS, RST))
        space += [ours[x] / theirs[x] for x in ours if theirs.get(x)]
    lines = {name: work.means("operations", "cells", name) for name in (OURS, RST)}
    missing = [name for name, some in (("overhead", space), ("work", lines[OURS])) if not some]
    if missing or fit(lines[OURS]) is None or fit(lines[RST]) is None:
        again = f"Not measured: run antecede study --experiment {(missing or ['work'])[0]} as well."
        return Judgement(again, NOT_RUN)
    gap = late_exponent(lines[OURS]) - late_exponent(lines[RST])
    twice = all(abs(ratio - 2) <= TWICE.value for ratio in space)

    def verdict(limit: float) -> str:
        same = gap <= limit
        return judged(always=twice and same, sometimes=twice or same)

    n = max(lines[OURS])
    times = lines[OURS][n] / lines[RST][n]
    result = (
        f"{spread(space)} times the entries. Cells read and written, semantic: "
        f"{told_growth(lines[OURS])}, matrix: {told_growth(lines[RST])}; {times:.1f} times as many "
        f"at n = {n:g}. {SAME_ORDER.said(verdict)}"
    )
    short = (
        f"{figure(max(space))} times the entries, {times:.1f} times the work; exponent {gap:+.2f}"
    )
    return Judgement(result, verdict(SAME_ORDER.value), short)


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
        "on the axis, otherwise on nothing. Channels are FIFO, as [GK00] assumes. Delays are "
        "exponential, or lognormal with the same mean and a heavy tail."
    ),
    x="share of messages that depend on something",
    cases=cases,
    measure=measure_falsely_held,
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
