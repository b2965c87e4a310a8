"""Verdicts on the claims of papers/002."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from antecede.report.measured import fit
from antecede.report.page import figure
from antecede.report.verdicts.common import Outcome, judged, part

if TYPE_CHECKING:
    from collections.abc import Callable

    from antecede.report.measured import Measured

MUCH_SMALLER = (1.75, 0.25)
"""Below this exponent of n, and this share of n² at the largest n, is much smaller than n²."""
QUADRATIC = 2.1
UNCHANGED = 0.01


def _growth_lines(measured: Measured, metric: str) -> dict[str, dict[float, float]]:
    return {
        f"{cast}, {name}": measured.means("growth", metric, cast, name)
        for cast in measured.facets("growth")
        for name in measured.series("growth", cast)
    }


def optimal_bound(measured: Measured) -> Outcome | None:
    """2.3: never more than n squared."""
    shares = {
        name: max(y / (x * x) for x, y in line.items())
        for name, line in _growth_lines(measured, "log_entries_peak").items()
        if line
    }
    if not shares:
        return None
    worst = max(shares, key=lambda name: shares[name])
    result = (
        f"The largest log of a run, as a mean over the seeds, held at most {shares[worst]:.2f} n² "
        f"entries ({worst}). An entry is one message with its set of destinations; units, one for "
        "each destination, and the bounds by sender are checked in the tests, where they held."
    )
    return Outcome(result, judged(always=shares[worst] <= 1, sometimes=False))


def optimal_growth(measured: Measured) -> Outcome | None:
    """2.4: exponents of entries and logs, and their share of n squared."""
    parts, small = [], []
    logs = _growth_lines(measured, "log_entries_mean")
    for name, entries in _growth_lines(measured, "entries_per_copy").items():
        told = []
        for what, line in (("entries", entries), ("log", logs.get(name, {}))):
            found = fit(line)
            if found is not None:
                share = line[max(line)] / max(line) ** 2
                small.append(found.exponent < MUCH_SMALLER[0] and share < MUCH_SMALLER[1])
                told.append(f"{what} n^{found}, {share:.4f} n² at last")
        if told:
            parts.append(
                f"{name} (n = {min(entries):.0f} to {max(entries):.0f}): {', '.join(told)}"
            )
    if not small:
        return None
    result = "; ".join(parts) + (
        f". Much smaller is an exponent below {MUCH_SMALLER[0]:g} and less than {MUCH_SMALLER[1]:g} n² "
        f"at the largest n; that {part(small)}."
    )
    return Outcome(result, judged(always=all(small), sometimes=any(small)))


def optimal_work(measured: Measured) -> Outcome | None:
    """2.5: time per delivery against n, which bounds the cost of both from above."""
    fits = {
        n: fit(line) for n, line in _growth_lines(measured, "microseconds_per_delivery").items()
    }
    known = {name: found for name, found in fits.items() if found is not None}
    if not known:
        return None
    parts = [f"{name} n^{found}" for name, found in known.items()]
    below = [found.exponent <= QUADRATIC for found in known.values()]
    result = (
        f"Time per delivery, sends and receipts together, grows as {', '.join(parts)}; at most "
        f"quadratic {part(below)}. That is the common computation on average runs: it can contradict "
        "the upper bound, not prove it. The cubic send as printed is not built, and sends and receipts "
        "were not timed apart."
    )
    return Outcome(result, judged(always=False, sometimes=any(below)))


def variants(measured: Measured) -> Outcome | None:
    """2.6: bytes and logs of the variants against the algorithm as printed."""
    log = _ratios(measured, "log_entries_mean")
    sizes = _ratios(measured, "model_bytes_per_copy")
    judges: dict[str, tuple[str, dict[str, dict[str, float]], Callable[[float], bool]]] = {
        "hardware multicast": ("leaving the logs as they are", log, _is_unchanged),
        "lookahead": ("keeping less", log, _is_less),
        "differences": ("sending fewer bytes", sizes, _is_less),
    }
    told, held = [], []
    for name, (what, ratios, is_right) in judges.items():
        right = [is_right(ratio) for ratio in ratios.get(name, {}).values()]
        if not right:
            told.append(f"{name}: not run")
            continue
        held.append(all(right))
        figures = ", ".join(
            f"bytes x{sizes[name][facet]:.2f} and log x{log[name][facet]:.3f} ({facet})"
            for facet in log.get(name, {})
            if facet in sizes.get(name, {})
        )
        told.append(f"{name}, {what}, {part(right)}: {figures}")
    if not held:
        return None
    result = "; ".join(told) + (
        ". Lookahead as printed can lose order (docs/errata.md); as built it keeps carrying what it "
        "may not purge yet."
    )
    return Outcome(result, judged(always=False, sometimes=any(held)))


def _is_unchanged(ratio: float) -> bool:
    return abs(ratio - 1) <= UNCHANGED


def _is_less(ratio: float) -> bool:
    return ratio < 1


def _ratios(measured: Measured, metric: str) -> dict[str, dict[str, float]]:
    """Return, by variant and facet, a metric as a multiple of the algorithm's as printed."""
    found: dict[str, dict[str, float]] = {}
    for facet in measured.facets("variants"):
        base = measured.level("variants", metric, facet, "as printed")
        for name in measured.series("variants", facet):
            own = measured.level("variants", metric, facet, name)
            if name != "as printed" and own is not None and base:
                found.setdefault(name, {})[facet] = own / base
    return found


_ROUND = "one token going round"
SPECIAL: tuple[tuple[str, str, str, Callable[[float], float]], ...] = (
    ("broadcast", "broadcast", "n", lambda n: n),
    ("broadcast", "serial", "1", lambda _: 1.0),
    ("multicast", "serial", "n", lambda n: n),
    ("unicast", "buffered", "0", lambda _: 0.0),
    (_ROUND, "synchronous", "0", lambda _: 0.0),
    ("unicast", "central", "0", lambda _: 0.0),
    ("unicast", "hierarchy", "less than n", lambda n: n),
)
"""Where each special case was run, and the most entries that a copy may carry there."""


def special_cases(measured: Measured) -> Outcome | None:
    """2.8: the special cases' table."""
    parts, held = [], []
    for facet, name, bound, limit in SPECIAL:
        matrix = measured.level("special", "entries_per_copy", facet, "matrix")
        entries = measured.level("special", "entries_per_copy", facet, name)
        if matrix is None or entries is None:
            parts.append(f"{name} in {facet}: not run")
            continue
        held.append(entries <= limit(math.sqrt(matrix)) + 1e-9)
        extra = measured.level("special", "extra_packets_per_message", facet, name)
        parts.append(f"{name} in {facet} {figure(entries)} ({bound}) + {figure(extra)}")
    if not held:
        return None
    result = (
        "Entries per copy (the paper's) + packets added per message: "
        f"{', '.join(parts)}. The paper's costs {part(held)}. synchronous deadlocks where sends cross "
        "(claim 4.2) and is run where none do; our serial keeps the entries on its token, so that a "
        "multicast carries one instead of n."
    )
    return Outcome(result, judged(always=all(held), sometimes=any(held)))
