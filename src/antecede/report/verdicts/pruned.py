"""Verdicts on the claims of papers/000."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.report.findings import PRS, PRUNED, RST
from antecede.report.measured import crossing, fit
from antecede.report.page import figure
from antecede.report.verdicts.common import CASTS, FAILS, NOT_RUN, Outcome, judged

if TYPE_CHECKING:
    from antecede.report.measured import Measured


def _at_most_n(measured: Measured, metric: str, cast: str) -> tuple[float, dict[str, float]] | None:
    """Return the largest size that all were run at, and each protocol's mean there."""
    lines = {s: measured.means("overhead", metric, cast, s) for s in (RST, PRS, PRUNED)}
    sizes = set.intersection(*(set(line) for line in lines.values()))
    if not sizes:
        return None
    n = max(sizes)
    return n, {name: line[n] for name, line in lines.items()}


def redundancy(measured: Measured) -> Outcome | None:
    """0.2: every kind that is left out makes messages larger, but not each has its own step."""
    parts, factors = [], []
    for cast in measured.facets("redundancy"):
        base = measured.means("redundancy", "model_bytes_per_copy", cast, "all four pruned")
        if not base:
            return None
        for name in measured.series("redundancy", cast):
            if name.startswith("without"):
                own = measured.means("redundancy", "model_bytes_per_copy", cast, name)
                if 0.0 not in own or not base[0.0]:
                    continue
                factors.append(own[0.0] / base[0.0])
                parts.append(f"{name} x{factors[-1]:.2f} ({cast})")
    if not factors:
        return None
    result = (
        f"Bytes per copy against all four pruned: {', '.join(parts)}. But R5 and R6 prune both "
        "already delivered and already replaced, which a receiver cannot tell apart (here vector "
        "clocks do), and R8 never finds anything to do (docs/errata.md)."
    )
    return Outcome(result, judged(always=False, sometimes=min(factors) > 1.0))


def dependents(measured: Measured) -> Outcome | None:
    """0.3: who carries how many dependents."""
    parts, gains, fewest = [], {}, True
    share = 0.0
    for cast in CASTS:
        found = _at_most_n(measured, "entries_per_copy", cast)
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
        result += " Our PRS goes beyond two thirds of n² (it is reconstructed)."
    return Outcome(result, judged(always=fewest and more and not beyond, sometimes=fewest))


def dependents_per_sender(measured: Measured) -> Outcome | None:
    """0.4: at least one dependent per known sender; more dependents than destinations."""
    parts, enough, more = [], True, []
    for cast in CASTS:
        entries = measured.means("overhead", "entries_per_copy", cast, PRUNED)
        dests = measured.means("overhead", "destinations_per_copy", cast, PRUNED)
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


def dependent_size(measured: Measured) -> Outcome | None:
    """0.5: bytes per dependent."""
    parts, right = [], []
    for cast in CASTS:
        found = _at_most_n(measured, "bytes_per_entry", cast)
        if found is None:
            return None
        n, at = found
        right.append(at[PRUNED] > at[PRS] > at[RST])
        parts.append(
            f"{cast}, n = {n:.0f}: pruned {figure(at[PRUNED])}, PRS {figure(at[PRS])}, "
            f"RST {figure(at[RST])} bytes"
        )
    verdict = judged(always=all(right), sometimes=any(right))
    return Outcome("; ".join(parts) + ".", verdict)


def bytes_crossover(measured: Measured) -> Outcome | None:
    """0.6: bytes per message, and where PRS passes RST."""
    parts, least = [], True
    for cast in CASTS:
        found = _at_most_n(measured, "model_bytes_per_message", cast)
        if found is None:
            return None
        n, at = found
        least = least and at[PRUNED] < min(at[PRS], at[RST])
        parts.append(
            f"{cast}, n = {n:.0f}: pruned {figure(at[PRUNED])}, PRS {figure(at[PRS])}, "
            f"RST {figure(at[RST])} bytes per message"
        )
    parts += _passes_in_multicast(measured)
    places = []
    for name in measured.series("crossover", "PRS"):
        line = measured.means("crossover", "rst_share", "PRS", name)
        where = crossing(line, 1.0)
        if where is not None:
            places.append(where)
    if places:
        parts.append(
            f"our PRS passes RST in unicast at {min(places):.1f} to {max(places):.1f} processes, "
            "depending on the delay"
        )
    verdict = judged(
        always=least and bool(places) and min(places) <= 25 <= max(places), sometimes=least
    )
    if not measured.series("crossover", "PRS"):
        parts.append(
            "at which size PRS passes RST was left out (antecede study --experiment crossover)"
        )
        verdict = NOT_RUN if least else FAILS
    elif not places:
        parts.append("our PRS passes RST at none of the sizes and delays measured")
    return Outcome("; ".join(parts) + ".", verdict)


def _passes_in_multicast(measured: Measured) -> list[str]:
    """Tell where our PRS passes RST in multicast, which the paper does not speak of."""
    ours = measured.means("overhead", "model_bytes_per_message", "multicast", PRS)
    theirs = measured.means("overhead", "model_bytes_per_message", "multicast", RST)
    where = crossing({n: ours[n] / theirs[n] for n in ours if theirs.get(n)}, 1.0)
    return [] if where is None else [f"in multicast our PRS passes RST at {where:.1f} processes"]


def pruned_exponent(measured: Measured) -> Outcome | None:
    """0.7: nearly linear growth."""
    fits = {
        cast: fit(measured.means("overhead", "model_bytes_per_copy", cast, PRUNED))
        for cast in CASTS
    }
    if any(found is None for found in fits.values()):
        return None
    known = {cast: found for cast, found in fits.items() if found is not None}
    result = ", ".join(f"{cast} n^{found}" for cast, found in known.items())
    linear = [found.exponent < 1.25 for found in known.values()]
    return Outcome(
        f"Bytes per copy grow as {result}.", judged(always=all(linear), sometimes=any(linear))
    )
