"""How overhead, log and work of the optimal protocol grow with n: section 6 of [KS98]."""

from __future__ import annotations

from collections.abc import Iterator

import antecede
from antecede.study.design import Case, Chart, Experiment, Judgement, Scale, claim, paper
from antecede.study.limits import MUCH_SMALLER
from antecede.study.points import (
    Points,
    fit,
    gaps,
    judged,
    local_exponents,
    part,
)

RATIOS = {f"delay={ratio:g}": ratio for ratio in (0.1, 1.0, 4.0)}
"""The series: mean delay as a multiple of the mean gap between a process's sends (0.1 s)."""
WIDTHS = {"unicast": 0.0, "multicast": 0.5, "broadcast": 1.0}
"""Destinations of a message as a share of n."""

SLOW_N = 100
"""Up to this n all delays are run; beyond it only shorter ones, because logs get long."""

MANY_N = 200
"""Up to this n there are as many seeds as elsewhere, beyond it one."""

HUGE_N = 500
_HUGE_GAPS = 4
"""Beyond ``HUGE_N``, each gap brings every process so many messages (except in unicast) that fewer
gaps are enough: with 200 processes, entries per copy after 4 gaps and after 40 agree to 0.2%,
destinations to 7%."""

_DELAYS = 6
_UNICAST = 4
PRUNED, PRUNED_RATIO = "pruned", 0.5
"""Pruned runs at the delay of ``overhead``, the experiment that judges its growth."""
_PRUNED_SLOW = 3
"""In multicast, pruned runs up to this multiple of the largest n of long delays."""


def _settled(scale: Scale, cast: str, ratio: float, n: int) -> float:
    """Return the length of the warm-up in gaps, which is also the measured length of a run.

    A copy is in transit, and then held, for several delays. In unicast a process hears from others
    only once per gap, so its log takes longer to fill.
    """
    if cast == "unicast":
        return _UNICAST * scale.gaps + _DELAYS * ratio
    return min(scale.gaps, _HUGE_GAPS if n > HUGE_N else scale.gaps) + _DELAYS * ratio


def _seeds(n: int) -> int:
    return 5 if n <= MANY_N else 1


def cases(scale: Scale) -> list[Case]:
    """Return optimal at sizes up to 1,000, for three casts and three delays."""
    found = []
    for cast, width in WIDTHS.items():
        for n in scale.large:
            for series, ratio in RATIOS.items():
                received = round(max(1.0, width * n) * _settled(scale, cast, ratio, n))
                if n > SLOW_N and ratio > (1 if cast == "unicast" else 0.1):
                    continue
                if n > scale.slow_n and ratio >= 1 and cast != "unicast":
                    continue
                lengths = {"received": received, "warm_up": received}
                delay = f"exponential:{ratio / 10:g}"
                arguments = {"n": n, "cast": cast, "delay": delay, **lengths}
                found += [
                    Case("optimal", "paper", arguments, seed, series, n, cast)
                    for seed in scale.seeds[: _seeds(n)]
                ]
            if cast == "unicast" or (cast == "multicast" and n <= _PRUNED_SLOW * scale.slow_n):
                found += _pruned(scale, cast, n)
    return found


def _pruned(scale: Scale, cast: str, n: int) -> list[Case]:
    """Return pruned at one size, at the delay of ``overhead``."""
    received = round(max(1.0, WIDTHS[cast] * n) * _settled(scale, cast, PRUNED_RATIO, n))
    delay = f"exponential:{PRUNED_RATIO / 10:g}"
    arguments = {"n": n, "cast": cast, "delay": delay, "received": received, "warm_up": received}
    return scale.cases((PRUNED,), arguments, n, cast, most_seeds=_seeds(n))


def findings(points: Points) -> Iterator[str]:
    """Say with what power of n the entries per copy grow."""
    for cast in points.facets():
        known = [
            f"n^{found.exponent:.2f} ({EXPERIMENT.label(series)})"
            for series in points.series(cast)
            if (found := fit(points.means("entries_per_copy", cast, series)))
        ]
        if known:
            yield f"In {cast}, entries per copy grow as {', '.join(known)}."


def _lines(points: Points, metric: str) -> dict[str, dict[float, float]]:
    return {
        f"{cast}, {EXPERIMENT.label(series)}": points.means(metric, cast, series)
        for cast in points.facets()
        for series in points.series(cast)
        if series in RATIOS
    }


def complement_units() -> tuple[int, float]:
    """Return how many units one sender needs with complements in a small script, beside n/2."""
    names = tuple(f"p{number}" for number in range(10))
    sender = antecede.endpoint("optimal", process="p0", members=names)
    sender.send(names[1:7])
    sender.send(names[7:10])
    kept = sender.dependencies().values()
    return sum(min(len(dests), len(names) - len(dests)) for dests in kept), len(names) / 2


@claim(
    "2.3",
    "At most n² units; by sender the sum of nd_i, with nd_i at most n/2 using complements.",
    "As bounds on every log (tests/protocols/test_optimal_bounds.py); experiment growth; the "
    "smallest script in docs/errata.md.",
)
def _bound(points: Points) -> Judgement | None:
    shares = {
        name: max(y / (x * x) for x, y in line.items())
        for name, line in _lines(points, "log_entries_peak").items()
        if line
    }
    if not shares:
        return None
    worst = max(shares, key=lambda name: shares[name])
    units, half = complement_units()
    small, halved = shares[worst] <= 1, units <= half
    result = (
        f"The largest log of a run, averaged over the seeds, had at most {shares[worst]:.2f} n² "
        f"entries ({worst}). An entry is one message with its set of destinations. The tests check "
        "units (one per destination) and the bounds by sender, which held. Complements: a sender "
        f"that sends to 6 of 10 processes, then to the 3 others, needs {units} units, and n/2 is "
        f"{half:g}; the bound holds for each entry, not for their sum."
    )
    short = f"{shares[worst]:.2f} n² at most; with complements {units} units > n/2 = {half:g}"
    verdict = judged(always=small and halved, sometimes=small)
    return Judgement(result, verdict, short, "" if halved else "the bound n/2 by complements")


def _ends(line: dict[float, float]) -> str:
    """Write the fitted exponent with the first and the last local one."""
    local = list(local_exponents(line).values())
    return f"n^{fit(line)} ({local[0]:.2f} at first, {local[-1]:.2f} at the end)"


COUNTED = (
    ("entries_per_copy", "entries"),
    ("destinations_per_copy", "destinations"),
    ("log_entries_mean", "log"),
)


@claim(
    "2.4",
    "Overhead and log are much smaller than n² on average.",
    "Experiment growth: sizes up to hundreds of processes, three casts, three delays; entries, the "
    "paper's units (destinations) and the log. Simulated before in Evaluation of the Optimal "
    "Causal Message Ordering Algorithm (LNCS 1970:83-95, doi 10.1007/3-540-44467-X_8) and by "
    "Chandra, Gambhire and Kshemkalyani (TPDS 15(1), 2004), who find significantly less than "
    "under RST.",
)
def _average(points: Points) -> Judgement | None:
    parts: list[str] = []
    found: dict[str, list[tuple[float, float]]] = {}  # by metric: share of n², last local exponent
    for metric, what in COUNTED:
        for name, line in _lines(points, metric).items():
            if fit(line) is None:
                continue
            share = line[max(line)] / max(line) ** 2
            last = list(local_exponents(line).values())[-1]
            found.setdefault(what, []).append((share, last))
            parts.append(f"{what}, {name}: {_ends(line)}, {share:.4f} n² at n = {max(line):.0f}")
    if not found:
        return None
    shares = {what: [share for share, _ in one] for what, one in found.items()}
    largest = max(max(some) for some in shares.values())

    def verdict(limit: float) -> str:
        small = [share < limit for some in shares.values() for share in some]
        return judged(always=all(small), sometimes=any(small))

    held = "; ".join(
        f"{what}: {part([share < MUCH_SMALLER.value for share in some])}"
        for what, some in shares.items()
    )
    ends = ", ".join(f"{what} n^{max(e for _, e in one):.2f}" for what, one in found.items())
    result = (
        f"{'; '.join(parts)}. That they are much smaller: {held}. {MUCH_SMALLER.said(verdict)} The "
        f"largest share of all is {largest:.4f} n². At the end the steepest exponents are {ends}; "
        "the paper claims nothing about them."
    )
    short = f"at most {largest:.4f} n² at the largest n"
    return Judgement(result, verdict(MUCH_SMALLER.value), short)


EXPERIMENT = Experiment(
    name="growth",
    rank=50,
    paper=paper("optimal"),
    part="section 6",
    question=(
        "The bound is n² entries, and the paper says that the average is much smaller. How does "
        "it grow with n, with the number of destinations, and with the delay?"
    ),
    how=(
        "The optimal protocol, and pruned beside it, on the workload of [JPCY97]: unicast, "
        "multicast to n/2 processes on average, and broadcast, with a mean delay of a tenth of, "
        "equal to, and four times the mean gap between sends. The warm-up is as long as the "
        "measurement, and both are longer for longer delays. At n = 1000, multicast and broadcast "
        f"run for about {_HUGE_GAPS} gaps instead of 40, which at n = 200 changes entries by up to "
        "0.2% and destinations by up to 7%. A straight line on these logarithmic scales is a power "
        "of n; the table gives its exponent."
    ),
    x="processes",
    cases=cases,
    baseline=next(iter(RATIOS)),
    sweeps_delay=True,
    labels={series: f"optimal, {gaps(ratio)}" for series, ratio in RATIOS.items()}
    | {PRUNED: f"pruned, {gaps(PRUNED_RATIO)}"},
    charts=(
        Chart("entries", "Entries per copy", "entries_per_copy", "entries", logs="xy"),
        Chart(
            "destinations",
            "Destinations named in these entries",
            "destinations_per_copy",
            "destinations",
            logs="xy",
        ),
        Chart("log", "Entries in the log", "log_entries_mean", "entries", logs="xy"),
        Chart(
            "work",
            "Time per delivery (compiled kernel, this machine)",
            "microseconds_per_delivery",
            "microseconds",
            logs="xy",
        ),
    ),
    fits=(
        "entries_per_copy",
        "destinations_per_copy",
        "log_entries_mean",
        "microseconds_per_delivery",
    ),
    findings=findings,
    claims=(_bound, _average),
)
