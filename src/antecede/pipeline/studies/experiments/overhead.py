"""What a message carries, against the number of processes: figures 2 and 3 of [JPCY97]."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from antecede.pipeline.studies.design import Case, Chart, Experiment, Outcome, Scale, claim, paper
from antecede.pipeline.studies.measured import FAILS, NOT_RUN, Points, crossing, fit, judged
from antecede.report.numbers import figure

DELAY = "exponential:0.05"
"""The paper does not state its delays; ``crossover`` shows how little they matter for PRS."""

RST, PRS, PRUNED, KS = "matrix", "direct", "pruned", "optimal"
BOUNDED, VECTORS = "bounded:k=2n", "vectors"
CASTS = ("unicast", "multicast")
NEARLY_LINEAR = 1.25
"""Growth with an exponent below this is nearly linear."""
EXPECTED_CROSSING = 25
"""The paper's number of processes above which PRS costs more than RST in unicast."""
_VECTORS_N = 20
_VECTORS_RECEIVED = 120


def cases(scale: Scale) -> list[Case]:
    """Return every protocol at every size, unicast and multicast, on the same schedules."""
    found = []
    for cast in CASTS:
        for n in scale.sizes:
            arguments = scale.arguments(n=n, cast=cast, delay=DELAY)
            for seed in scale.seeds:
                found += [
                    Case(protocol, "paper", arguments, seed, protocol, n, cast)
                    for protocol in (RST, PRS, PRUNED, KS)
                ]
            found += [
                Case("bounded", "paper", arguments, seed, BOUNDED, n, cast, {"k": 2 * n})
                for seed in scale.seeds[:2]
            ]
            found += _vectors(scale, n, cast)
    return found


def _vectors(scale: Scale, n: int, cast: str) -> list[Case]:
    """Return the cases of vectors: it has no kernel, so only small sizes and short runs."""
    if n > _VECTORS_N:
        return []
    received = min(scale.received, _VECTORS_RECEIVED)
    arguments = {**scale.arguments(n=n, cast=cast, delay=DELAY), "received": received}
    arguments["warm_up"] = min(scale.warm_up, received // 3)
    return [Case("vectors", "paper", arguments, seed, VECTORS, n, cast) for seed in scale.seeds[:2]]


def findings(points: Points) -> Iterator[str]:
    """Compare what a copy carries at the largest size."""
    for cast in CASTS:
        found = _at_largest(points, "entries_per_copy", cast, (RST, PRS, PRUNED, KS))
        if found is None:
            continue
        n, at = found
        yield (
            f"In {cast} with {n:.0f} processes, a copy carries {figure(at[RST])} dependents under "
            f"RST, {figure(at[PRS])} under PRS, {figure(at[PRUNED])} under pruned and "
            f"{figure(at[KS])} under optimal. Pruned carries {at[RST] / at[PRUNED]:.0f} times "
            f"fewer than RST."
        )


def _at_largest(
    points: Points, metric: str, cast: str, names: tuple[str, ...] = (RST, PRS, PRUNED)
) -> tuple[float, dict[str, float]] | None:
    """Return the largest size at which all of them ran, and each one's mean there."""
    lines = {name: points.means(metric, cast, name) for name in names}
    sizes = set.intersection(*(set(line) for line in lines.values()))
    if not sizes:
        return None
    n = max(sizes)
    return n, {name: line[n] for name, line in lines.items()}


@claim(
    "0.3",
    "Dependents per message: n² for RST, towards two thirds of n² for PRS, fewest for "
    "pruned, which gains more in multicast.",
    "Experiment overhead (figure 2).",
)
def _dependents(points: Points) -> Outcome | None:
    parts, gains, fewest = [], {}, True
    share = 0.0
    for cast in CASTS:
        found = _at_largest(points, "entries_per_copy", cast)
        if found is None:
            return None
        n, at = found
        share = max(share, at[PRS] / (n * n))
        gains[cast] = at[RST] / at[PRUNED]
        fewest = fewest and at[PRUNED] < at[PRS] < at[RST]
        parts.append(
            f"{cast}, n = {n:.0f}: RST {figure(at[RST])}, PRS {figure(at[PRS])} "
            f"({at[PRS] / n / n:.2f} n²), pruned {figure(at[PRUNED])}"
        )
    more = gains["multicast"] > gains["unicast"]
    result = "; ".join(parts) + (
        f". Gain over RST {gains['unicast']:.1f} in unicast, {gains['multicast']:.1f} in multicast."
    )
    beyond = share > 2 / 3
    if beyond:
        result += " Our PRS, which is reconstructed, goes beyond two thirds of n²."
    return Outcome(result, judged(always=fewest and more and not beyond, sometimes=fewest))


@claim(
    "0.4",
    "Pruned keeps a dependent for every known sender, so dependents usually outnumber the "
    "destinations in them.",
    "Experiment overhead; tests/protocols/test_pruned.py checks one entry per sender.",
)
def _dependents_per_sender(points: Points) -> Outcome | None:
    parts, enough, more = [], True, []
    for cast in CASTS:
        entries = points.means("entries_per_copy", cast, PRUNED)
        dests = points.means("destinations_per_copy", cast, PRUNED)
        if not entries or not dests:
            return None
        n = max(entries.keys() & dests.keys())
        enough = enough and all(value >= 0.9 * x for x, value in entries.items())
        more.append(entries[n] > dests[n])
        parts.append(
            f"{cast}, n = {n:.0f}: {figure(entries[n])} dependents, {figure(dests[n])} destinations"
        )
    verdict = judged(always=enough and all(more), sometimes=enough)
    return Outcome("; ".join(parts) + ".", verdict)


@claim(
    "0.5",
    "The mean size of a dependent is largest for pruned, then PRS, then RST.",
    "Experiment overhead: bytes divided by dependents.",
)
def _dependent_size(points: Points) -> Outcome | None:
    parts, right = [], []
    for cast in CASTS:
        found = _at_largest(points, "bytes_per_entry", cast)
        if found is None:
            return None
        right.append(found[1][PRUNED] > found[1][PRS] > found[1][RST])
        parts.append(f"{_compared(cast, *found)} bytes")
    verdict = judged(always=all(right), sometimes=any(right))
    return Outcome("; ".join(parts) + ".", verdict)


def _compared(cast: str, n: float, at: Mapping[str, float]) -> str:
    return (
        f"{cast}, n = {n:.0f}: pruned {figure(at[PRUNED])}, PRS {figure(at[PRS])}, "
        f"RST {figure(at[RST])}"
    )


@claim(
    "0.6",
    "Bytes per message: fewest and slowly growing for pruned; more for PRS than for RST in "
    "unicast from 25 processes on.",
    "Experiments overhead (figure 3) and crossover, with delays from 0.01 to 10 gaps.",
)
def _bytes_crossover(points: Points) -> Outcome | None:
    parts, least = [], True
    for cast in CASTS:
        found = _at_largest(points, "model_bytes_per_message", cast)
        if found is None:
            return None
        least = least and found[1][PRUNED] < min(found[1][PRS], found[1][RST])
        parts.append(f"{_compared(cast, *found)} bytes per message")
    parts += _passes_in_multicast(points)
    other = points.study.of("crossover")
    lines = [other.means("rst_share", PRS, name) for name in other.series(PRS)]
    places = [where for line in lines if (where := crossing(line, 1.0)) is not None]
    if places:
        parts.append(
            f"our PRS passes RST in unicast at {min(places):.1f} to {max(places):.1f} processes, "
            "depending on the delay"
        )
    agrees = bool(places) and min(places) <= EXPECTED_CROSSING <= max(places)
    verdict = judged(always=least and agrees, sometimes=least)
    if not lines:
        parts.append(
            "the size at which PRS passes RST was not measured "
            "(run antecede study --experiment crossover)"
        )
        verdict = NOT_RUN if least else FAILS
    elif not places:
        parts.append("our PRS does not pass RST at any size and delay measured")
    return Outcome("; ".join(parts) + ".", verdict)


def _passes_in_multicast(points: Points) -> list[str]:
    """Say where our PRS passes RST in multicast, which the paper does not discuss."""
    ours = points.means("model_bytes_per_message", "multicast", PRS)
    theirs = points.means("model_bytes_per_message", "multicast", RST)
    where = crossing({n: ours[n] / theirs[n] for n in ours if theirs.get(n)}, 1.0)
    return [] if where is None else [f"in multicast our PRS passes RST at {where:.1f} processes"]


@claim(
    "0.7",
    "Pruned is O(n²) in the worst case and nearly O(n) on average.",
    "Experiment overhead: the exponent of n fitted to bytes per copy.",
)
def _pruned_exponent(points: Points) -> Outcome | None:
    lines = {cast: points.means("model_bytes_per_copy", cast, PRUNED) for cast in CASTS}
    known = {cast: found for cast, line in lines.items() if (found := fit(line))}
    if len(known) < len(CASTS):
        return None
    result = ", ".join(f"n^{found} in {cast}" for cast, found in known.items())
    linear = [found.exponent < NEARLY_LINEAR for found in known.values()]
    return Outcome(
        f"Bytes per copy grow as {result}.", judged(always=all(linear), sometimes=any(linear))
    )


COMPARED = {
    "entries_per_copy": "entries per copy",
    "model_bytes_per_copy": "bytes per copy",
    "total_bytes_per_message": "bytes per message",
    "held_fraction": "copies held",
    "extra_packets_per_message": "packets added per message",
}
"""The metrics of the comparison that a study ends with, and their headings."""
_REMARKS = {VECTORS: "vectors ran on shorter schedules", BOUNDED: "bounded ran on two seeds"}


def comparison(points: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return a row per cast and protocol, at the largest size at which it ran."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for point in points:
        if point["experiment"] != EXPERIMENT.name or point["metric"] not in COMPARED:
            continue
        cast, series = point["facet"], point["series"]
        new = {"cast": cast, "series": series, "protocol": EXPERIMENT.label(series), "processes": 0}
        row = rows.setdefault((cast, series), new)
        if point["x"] > row["processes"]:
            row["processes"] = int(point["x"])
        if point["x"] == row["processes"]:
            row[point["metric"]] = point["mean"]
    return sorted(
        rows.values(),
        key=lambda row: (row["cast"], -row["processes"], row.get("total_bytes_per_message") or 0.0),
    )


def comparison_title(rows: Iterable[Mapping[str, Any]], cast: str) -> str:
    """Return the heading of a cast's rows: their size, and which rows differ from the others."""
    own = [row for row in rows if row["cast"] == cast]
    n = max((row["processes"] for row in own), default=0)
    smaller = [f"{row['protocol']} at {row['processes']}" for row in own if row["processes"] < n]
    said = [f"{cast}, n = {n}" + (f" ({', '.join(smaller)})" if smaller else "")]
    present = {row["series"] for row in own}
    said += [remark for series, remark in _REMARKS.items() if series in present]
    said.append("bytes per message include all copies and added packets")
    return "; ".join(said)


EXPERIMENT = Experiment(
    name="overhead",
    rank=10,
    paper=paper("pruned"),
    part="figures 2 and 3",
    question="How much control information does a message carry as the number of processes grows?",
    how=(
        "Every process sends at exponential intervals (mean 0.1 s) to one uniformly chosen "
        "destination, or to a uniform number of them (mean n/2). Delays are exponential with mean "
        "0.05 s, and channels are not FIFO. All protocols run on the same schedules (bounded on "
        "two of the seeds), except vectors: it has no compiled kernel and runs on shorter "
        "schedules with up to 20 processes. The control information of bounded's extra messages "
        "counts in the bytes per message, not in the bytes per copy."
    ),
    x="processes",
    cases=cases,
    baseline=RST,
    charts=(
        Chart("dependents", "Dependents per message (figure 2)", "entries_per_copy", "dependents"),
        Chart(
            "bytes-message",
            "Overhead per message, over all its destinations and added packets (figure 3)",
            "total_bytes_per_message",
            "bytes per message",
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
