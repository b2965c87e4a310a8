"""What a message carries, against the number of processes: figures 2 and 3 of [JPCY97]."""

from __future__ import annotations

from collections.abc import Iterator

from antecede.report.numbers import figure
from antecede.study.design import Case, Chart, Experiment, Judgement, Scale, claim, paper
from antecede.study.limits import APPROACHES, NEAR_25, NEARLY_LINEAR, PER_SENDER, SLOWLY
from antecede.study.points import (
    FAILS,
    NOT_RUN,
    Point,
    Points,
    judged,
    local_exponents,
    spread,
    told_growth,
)
from antecede.study.prs_readings import (
    LABELS,
    PRS,
    READING,
    READINGS,
    crossings,
    named,
    shares_of,
    written_range,
)

DELAY = "exponential:0.05"
"""Our choice: the paper does not state its delays; ``crossover`` shows their effect on PRS."""

BUFFERED_DELAY = "exponential:0.02"
"""A shorter delay, since half a gap each way would be a load of 1; the bytes are the same."""

RST, PRUNED, KS = "matrix", "pruned", "optimal"
SEMANTIC, BUFFERED = "semantic", "buffered"
BOUNDED, VECTORS = "bounded:k=2n", "vectors"
CASTS = ("unicast", "multicast")
EXPECTED_CROSSING = 25
"""The paper's number of processes above which PRS costs more than RST in unicast."""


def cases(scale: Scale) -> list[Case]:
    """Return every protocol at every size, unicast and multicast."""
    found = []
    delay = scale.delay_or(DELAY)
    for cast in CASTS:
        for n in scale.sizes:
            arguments = scale.arguments(n=n, cast=cast, delay=delay)
            usual = {RST: {}, PRUNED: {}, KS: {}, PRS: READINGS[PRS]}
            found += scale.cases(usual, arguments, n, cast)
            shorter = scale.arguments(n=n, cast=cast, delay=delay, side=True)
            others = {BOUNDED: {"k": 2 * n}, SEMANTIC: {}, VECTORS: {}}
            found += scale.cases(others, shorter, n, cast)
            if scale.is_quick:
                shorter = shorter | {"received": scale.side_warm_up}
            rest = {series: options for series, options in READINGS.items() if series != PRS}
            found += scale.cases(rest, shorter, n, cast)
            found += _buffered(scale, n, cast)
    return found


def _buffered(scale: Scale, n: int, cast: str) -> list[Case]:
    """Return the cases of buffered: only unicast, at a delay that does not overload its queues."""
    if cast != "unicast":
        return []
    arguments = scale.arguments(n=n, cast=cast, delay=scale.delay_or(BUFFERED_DELAY), side=True)
    return scale.cases((BUFFERED,), arguments, n, cast)


def answer(points: Points) -> Iterator[str]:
    """Say in a few sentences what causal order costs, and what saves most of it."""
    metric = "total_bytes_per_message"
    found = _at_largest(points, metric, "multicast", (RST, PRS, PRUNED, KS))
    if found is not None:
        n, at = found
        yield (
            f"With {n:.0f} processes, a multicast carries {_kilobytes(at[RST])} of metadata as a "
            f"matrix (RST), but {_kilobytes(at[KS])} under optimal (KS), which sends what the "
            f"Propagation Constraints require: {at[RST].mean / at[KS].mean:.0f} times less."
        )
        lines = [points.means(metric, "multicast", name) for name in READINGS]
        shares = [line[n] / at[RST].mean for line in lines if n in line]
        yield (
            f"Pruned needs about as little ({_kilobytes(at[PRUNED])}). Direct predecessors (PRS, "
            f"reconstructed) need {_kilobytes(at[PRS])} in the reading that agrees with [JPCY97], "
            f"and x{spread(shares)} of RST's over all readings."
        )
    alone = _at_largest(points, metric, "unicast", (BUFFERED, KS))
    if alone is not None:
        n, at = alone
        yield (
            f"If every message has one destination, acknowledged buffers need only "
            f"{figure(at[BUFFERED].mean)} bytes and one more packet (optimal "
            f"{figure(at[KS].mean)} bytes), but messages wait in the sender's output buffer."
        )


def _kilobytes(point: Point) -> str:
    return (
        f"{figure(point.mean / 1000)} kB" if point.mean >= 1000 else f"{figure(point.mean)} bytes"
    )


def findings(points: Points) -> Iterator[str]:
    """Compare what a copy carries at the largest size."""
    for cast in CASTS:
        found = _at_largest(points, "entries_per_copy", cast, (RST, PRS, PRUNED, KS))
        if found is None:
            continue
        n, at = found
        yield (
            f"In {cast} with {n:.0f} processes, a copy carries {at[RST]} dependents under RST, "
            f"{at[PRS]} under PRS, {at[PRUNED]} under pruned and {at[KS]} under optimal. Pruned "
            f"carries {at[RST].mean / at[PRUNED].mean:.0f} times fewer than RST."
        )


def _at_largest(
    points: Points, metric: str, cast: str, names: tuple[str, ...] = (RST, PRS, PRUNED)
) -> tuple[float, dict[str, Point]] | None:
    """Return the largest size at which all ``names`` ran, and their points there."""
    lines = {name: points.line(metric, cast, name) for name in names}
    sizes = set.intersection(*(set(line) for line in lines.values()))
    if not sizes:
        return None
    n = max(sizes)
    return n, {name: line[n] for name, line in lines.items()}


@claim(
    "0.3",
    "Dependents per message: n² for RST, towards two thirds of n² for PRS, fewest for "
    "pruned, which gains more in multicast.",
    "Experiment overhead (figure 2), PRS in every reading of its paper.",
)
def _dependents(points: Points) -> Judgement | None:
    parts, gains, fewest, share = [], {}, True, 0.0
    for cast in CASTS:
        found = _at_largest(points, "entries_per_copy", cast)
        if found is None:
            return None
        n, at = found
        share = at[PRS].mean / (n * n)
        gains[cast] = at[RST].mean / at[PRUNED].mean
        fewest = fewest and at[PRUNED].mean < at[PRS].mean < at[RST].mean
        parts.append(
            f"{cast}, n = {n:.0f}: RST {at[RST]}, PRS {at[PRS]} ({share:.3f} n²), "
            f"pruned {at[PRUNED]}"
        )
    more = gains["multicast"] > gains["unicast"]
    shares = shares_of(points, "multicast")

    def near(limit: float) -> list[str]:
        return [name for name, each in shares.items() if abs(each - 2 / 3) <= limit]

    def verdict(limit: float) -> str:
        agreed = len(near(limit)) == len(shares)
        return judged(always=fewest and more and agreed, sometimes=fewest)

    told = ", ".join(f"{named(name)} {each:.3f}" for name, each in shares.items())
    agree = near(APPROACHES.value)
    agreeing = " and ".join(map(named, agree)) or "none of them"
    result = (
        f"{'; '.join(parts)}. Gain over RST {gains['unicast']:.1f} in unicast, "
        f"{gains['multicast']:.1f} in multicast. PRS by reading, in multicast as a share of n²: "
        f"{told}; two thirds (checked in multicast only) come out with {agreeing}. "
        f"{APPROACHES.said(verdict)}"
    )
    short = (
        f"{len(agree)} of {len(shares)} readings of PRS near two thirds; pruned "
        f"{gains['multicast']:.0f} times fewer than RST (multicast)"
    )
    return Judgement(result, verdict(APPROACHES.value), short)


@claim(
    "0.4",
    "Pruned keeps a dependent for every known sender, so dependents usually outnumber the "
    "destinations.",
    "Experiment overhead; tests/protocols/test_pruned.py checks one entry per sender.",
)
def _dependents_per_sender(points: Points) -> Judgement | None:
    parts, least, left, own = [], float("inf"), [], []
    for cast in CASTS:
        entries = points.line("entries_per_copy", cast, PRUNED)
        dests = points.line("destinations_per_copy", cast, PRUNED)
        both = entries.keys() & dests.keys()
        if not both:
            return None
        n = max(both)
        addressed = 1.0 if cast == "unicast" else n / 2
        least = min(least, *(entry.mean / x for x, entry in entries.items()))
        left.append(entries[n].mean > dests[n].mean)
        own.append(entries[n].mean > addressed)
        parts.append(
            f"{cast}, n = {n:.0f}: {entries[n]} dependents; {dests[n]} destinations left in them; "
            f"the message itself has {addressed:g}"
        )

    def verdict(limit: float) -> str:
        enough = least >= limit
        return judged(always=enough and all(left + own), sometimes=enough and all(own))

    result = (
        f"{'; '.join(parts)}. More than the destinations left: {_where(left)}; more than the "
        f"message's own: {_where(own)}. {PER_SENDER.said(verdict)}"
    )
    short = f"more than the message's own: {_where(own)}; than those left: {_where(left)}"
    return Judgement(result, verdict(PER_SENDER.value), short)


def _where(held: list[bool]) -> str:
    casts = [cast for cast, yes in zip(CASTS, held, strict=True) if yes]
    return f"in {' and '.join(casts)}" if casts else "nowhere"


@claim(
    "0.5",
    "The mean size of a dependent is largest for pruned, then PRS, then RST.",
    "Experiment overhead: bytes divided by dependents.",
)
def _dependent_size(points: Points) -> Judgement | None:
    parts, right, sizes = [], [], []
    for cast in CASTS:
        found = _at_largest(points, "bytes_per_entry", cast)
        if found is None:
            return None
        at = found[1]
        right.append(at[PRUNED].mean > at[PRS].mean > at[RST].mean)
        parts.append(f"{_compared(cast, *found)} bytes")
        sizes.append(f"{figure(at[PRUNED].mean)} > {figure(at[PRS].mean)} > {figure(at[RST].mean)}")
    verdict = judged(always=all(right), sometimes=any(right))
    return Judgement("; ".join(parts) + ".", verdict, f"{sizes[-1]} bytes" if all(right) else "")


def _compared(cast: str, n: float, at: dict[str, Point]) -> str:
    return f"{cast}, n = {n:.0f}: pruned {at[PRUNED]}, PRS {at[PRS]}, RST {at[RST]}"


@claim(
    "0.6",
    "Bytes per message: fewest and slowly growing for pruned; more for PRS than for RST in "
    "unicast from 25 processes on.",
    "Experiments overhead (figure 3) and crossover, with delays from 0.01 to 10 gaps and PRS in "
    "every reading of its paper.",
)
def _bytes_crossover(points: Points) -> Judgement | None:
    parts, least = [], True
    for cast in CASTS:
        for metric, what in (
            ("model_bytes_per_message", "message"),
            ("model_bytes_per_copy", "copy"),
        ):
            found = _at_largest(points, metric, cast)
            if found is None:
                return None
            at = found[1]
            least = least and at[PRUNED].mean < min(at[PRS].mean, at[RST].mean)
            parts.append(f"{_compared(cast, *found)} bytes per {what}")
        grown = told_growth(points.means("model_bytes_per_copy", cast, PRUNED))
        parts += [f"pruned grows as {grown} per copy"] if grown else []
    places = crossings(points)
    growths = {
        cast: local_exponents(points.means("model_bytes_per_copy", cast, PRUNED)).values()
        for cast in CASTS
    }
    slow = [cast for cast, each in growths.items() if max(each, default=0.0) <= SLOWLY.value]

    def near(limit: float) -> list[str]:
        return [
            name
            for name, found in places.items()
            if all(where and abs(where - EXPECTED_CROSSING) <= limit for where in found.values())
        ]

    def verdict(limit: float) -> str:
        agreed = len(near(limit)) == len(places)
        return judged(always=least and agreed and len(slow) == len(CASTS), sometimes=least)

    result = "; ".join(parts) + "."
    if not places:
        result += (
            " The size at which PRS passes RST was not measured "
            "(run antecede study --experiment crossover)."
        )
        return Judgement(result, NOT_RUN if least else FAILS)
    told = "; ".join(f"{named(name)}: {written_range(each)}" for name, each in places.items())
    agree = near(NEAR_25.value)
    result += (
        f" Slowly growing: {_where([cast in slow for cast in CASTS])}. "
        f"{SLOWLY.words.format(SLOWLY.written()).capitalize()}. Per message, a multicast's copies "
        "alone add 1. "
        f"Processes from which PRS costs more than RST in unicast, over all delays, by reading: "
        f"{told}. About {EXPECTED_CROSSING} come out with "
        f"{' and '.join(map(named, agree)) or 'none of them'}. Only the ratio of delay to gap "
        f"matters, not the rate. {NEAR_25.said(verdict)}"
    )
    steepest = max(max(each, default=0.0) for each in growths.values())
    short = (
        f"pruned grows as n^{steepest:.2f} per copy at the steepest; {len(agree)} of {len(places)} "
        f"readings of PRS pass RST near {EXPECTED_CROSSING}"
    )
    return Judgement(result, verdict(NEAR_25.value), short)


@claim(
    "0.7",
    "Pruned is O(n²) in the worst case and nearly O(n) on average.",
    "Experiment growth (to hundreds of processes; if it was not run, overhead): exponents of n, "
    "fitted and between neighbouring sizes, of what a copy carries, in tuples and in bytes. The "
    "worst case is built as in theorem 8 of [KS98] (tests/protocols/test_pruned.py).",
)
def _pruned_exponent(points: Points) -> Judgement | None:
    other, parts = points.study.of("growth"), []
    worst: dict[str, list[float]] = {}
    for metric, what in (("entries_per_copy", "tuples"), ("model_bytes_per_copy", "bytes")):
        for cast in CASTS:
            line = other.means(metric, cast, PRUNED) or points.means(metric, cast, PRUNED)
            told = told_growth(line)
            if told is None:
                return None
            worst.setdefault(what, []).append(max(local_exponents(line).values()))
            parts.append(f"{what}, {cast} {told}")

    def verdict(limit: float) -> str:
        linear = [each <= limit for some in worst.values() for each in some]
        return judged(always=all(linear), sometimes=any(linear))

    result = (
        f"What a copy carries grows as {'; '.join(parts)}. The destinations named in the entries "
        "grow faster than the entries. In the worst case a copy carries at least (n-1)(n-2) "
        f"entries. {NEARLY_LINEAR.said(verdict)}"
    )
    ends = [f"{what} {' and '.join(f'n^{e:.2f}' for e in some)}" for what, some in worst.items()]
    short = f"{'; '.join(ends)} at the steepest, in {' and '.join(CASTS)}"
    return Judgement(result, verdict(NEARLY_LINEAR.value), short)


EXPERIMENT = Experiment(
    name="overhead",
    rank=10,
    paper=paper("pruned"),
    part="figures 2 and 3",
    question="How much control information does a message carry as the number of processes grows?",
    how=(
        "Every process sends at exponential intervals (mean 0.1 s) to one uniformly chosen "
        "destination, or to a uniform number of them (mean n/2). Delays are exponential with mean "
        "0.05 s, and channels are not FIFO. All protocols run on the same schedules, except "
        "bounded, semantic and vectors, which take longest and run on shorter ones; and buffered, "
        "whose queues that delay would overload: it runs with a delay of 0.02 s, which does not "
        "change its bytes. PRS is "
        f"reconstructed: the line is one reading ({READING}) that agrees with the paper, the band "
        "spans all six, the others on shorter schedules. The control information of bounded's "
        "extra messages and the acknowledgements of buffered count in the bytes per message, not "
        "in the bytes per copy."
    ),
    x="processes",
    cases=cases,
    baseline=RST,
    answer=answer,
    bands={PRS: tuple(READINGS)},
    labels=LABELS,
    charts=(
        Chart(
            "bytes-message",
            "Metadata per message, over all its destinations and added packets (figure 3)",
            "total_bytes_per_message",
            "bytes per message",
            logs="y",
            hero=True,
        ),
        Chart(
            "dependents",
            "Dependents per message, each a process and a number (figure 2)",
            "dependents_per_copy",
            "dependents",
            logs="y",
        ),
        Chart(
            "bytes-copy",
            "Bytes per copy, on a logarithmic scale",
            "model_bytes_per_copy",
            "bytes per copy",
            logs="y",
        ),
    ),
    fits=("entries_per_copy", "model_bytes_per_copy", "total_bytes_per_message"),
    findings=findings,
    claims=(
        _dependents,
        _dependents_per_sender,
        _dependent_size,
        _bytes_crossover,
        _pruned_exponent,
    ),
)
