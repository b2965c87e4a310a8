"""Verdicts on the claims of papers/002."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.report.measured import fit
from antecede.report.page import figure
from antecede.report.verdicts.common import HOLDS, LIMITS, Outcome, judged

if TYPE_CHECKING:
    from antecede.report.measured import Measured


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
        f"The largest log of any run held {shares[worst]:.2f} n² entries ({worst}); bounds by sender "
        "held in the tests."
    )
    return Outcome(result, judged(always=shares[worst] <= 1, sometimes=False))


def optimal_growth(measured: Measured) -> Outcome | None:
    """2.4: exponents of entries and logs."""
    parts, slopes = [], []
    for name, line in _growth_lines(measured, "entries_per_copy").items():
        found = fit(line)
        if found is None:
            continue
        n = max(line)
        slopes.append(found.exponent)
        parts.append(f"{name}: n^{found}, {line[n] / n / n:.4f} n² at n = {n:.0f}")
    if not slopes:
        return None
    below = [slope < 1.9 for slope in slopes]
    result = "Entries per copy: " + "; ".join(parts) + "."
    return Outcome(result, judged(always=all(below), sometimes=any(below)))


def optimal_work(measured: Measured) -> Outcome | None:
    """2.5: time per delivery against n."""
    fits = {
        n: fit(line) for n, line in _growth_lines(measured, "microseconds_per_delivery").items()
    }
    known = {name: found for name, found in fits.items() if found is not None}
    if not known:
        return None
    parts = [f"{name} n^{found}" for name, found in known.items()]
    below = [found.exponent <= 2.1 for found in known.values()]
    result = "Time per delivery grows as " + ", ".join(parts) + " (the common computation)."
    return Outcome(result, judged(always=all(below), sometimes=any(below)))


def variants(measured: Measured) -> Outcome | None:
    """2.6: bytes and logs of the variants against the algorithm as printed."""
    parts, earlier = [], []
    for facet in measured.facets("variants"):
        for metric, what in (("model_bytes_per_copy", "bytes"), ("log_entries_mean", "log")):
            base = measured.means("variants", metric, facet, "as printed")
            for name in measured.series("variants", facet):
                own = measured.means("variants", metric, facet, name)
                if name == "as printed" or not own or not base or not base[0.0]:
                    continue
                ratio = own[0.0] / base[0.0]
                parts.append(f"{name} {what} x{ratio:.3f} ({facet})")
                if name == "lookahead":
                    earlier.append(ratio <= 1.0)
    if not parts:
        return None
    result = ", ".join(parts) + (
        ". Lookahead as printed can lose order; as built it keeps what it may not purge yet."
    )
    return Outcome(result, LIMITS if earlier else HOLDS)


def special_cases(measured: Measured) -> Outcome | None:
    """2.8: the special cases' table."""
    parts = []
    for facet in measured.facets("special"):
        for name in measured.series("special", facet):
            entries = measured.means("special", "entries_per_copy", facet, name)
            extra = measured.means("special", "extra_packets_per_message", facet, name)
            if entries and extra:
                parts.append(f"{name} {figure(entries[0.0])} + {figure(extra[0.0])} ({facet})")
    if not parts:
        return None
    return Outcome("Entries per copy + packets added per message: " + ", ".join(parts) + ".", HOLDS)
