"""Verdicts on the claims of papers/003."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.report.findings import KS
from antecede.report.page import figure
from antecede.report.verdicts.common import ANSWERED, CASTS, Outcome, judged

if TYPE_CHECKING:
    from antecede.report.measured import Measured


def _bounded(
    measured: Measured, metric: str, cast: str
) -> tuple[dict[float, float], dict[float, float]]:
    ours = measured.means("bounded", metric, cast, "bounded, same k")
    return ours, measured.means("bounded", metric, cast, KS)


def thinning(measured: Measured) -> Outcome | None:
    """3.2: how sparse the matrix is where the bound hardly acts."""
    parts, shares = [], []
    for cast in CASTS:
        ours = measured.means("bounded", "entries_share", cast, "bounded, same k")
        if not ours:
            return None
        k = max(ours)
        shares.append(ours[k])
        parts.append(f"{cast}: {ours[k]:.2f} n² non-zero cells at k = {k:g} n")
    return Outcome("; ".join(parts) + ".", judged(always=max(shares) < 0.75))


def bounded_extra(measured: Measured) -> Outcome | None:
    """3.open.1: extra messages per message."""
    parts = []
    for cast in CASTS:
        ours, _ = _bounded(measured, "extra_packets_per_message", cast)
        if not ours:
            return None
        told = ", ".join(f"{figure(y)} at k = {x:g} n" for x, y in ours.items())
        parts.append(f"{cast}: {told}")
    return Outcome("Extra messages per message, " + "; ".join(parts) + ".", ANSWERED)


def bounded_total(measured: Measured) -> Outcome | None:
    """3.open.2: total bytes against optimal."""
    parts = []
    for cast in CASTS:
        ours, best = _bounded(measured, "total_bytes_per_message", cast)
        if not ours or not best:
            return None
        told = ", ".join(
            f"x{y / best[x]:.2f} at k = {x:g} n" for x, y in ours.items() if best.get(x)
        )
        parts.append(f"{cast}: {told}")
    return Outcome("Total bytes against optimal, " + "; ".join(parts) + ".", ANSWERED)


def bounded_uneven(measured: Measured) -> Outcome | None:
    """3.open.3: different k."""
    parts = []
    for facet in measured.facets("bounded"):
        names = measured.series("bounded", facet)
        mixed = next((name for name in names if "half" in name), None)
        if mixed is None:
            continue
        even = measured.means("bounded", "total_bytes_per_message", facet, "bounded, same k")
        uneven = measured.means("bounded", "total_bytes_per_message", facet, mixed)
        told = [f"x{uneven[x] / even[x]:.2f} at k = {x:g} n" for x in uneven if even.get(x)]
        parts.append(f"{facet}: {', '.join(told)}")
    if not parts:
        return None
    return Outcome("Total bytes of mixed k against one k, " + "; ".join(parts) + ".", ANSWERED)


def bounded_delay(measured: Measured) -> Outcome | None:
    """3.open.4: the time penalty."""
    parts = []
    for cast in CASTS:
        ours, best = _bounded(measured, "latency_mean", cast)
        if not ours or not best:
            return None
        told = ", ".join(f"+{y / best[x] - 1:.1%} at k = {x:g} n" for x, y in ours.items())
        parts.append(f"{cast}: {told}")
    return Outcome("From send to delivery against optimal, " + "; ".join(parts) + ".", ANSWERED)
