"""Verdicts on the claims of papers/003."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.report.findings import KS
from antecede.report.page import figure
from antecede.report.verdicts.common import ANSWERED, CASTS, Outcome, judged

if TYPE_CHECKING:
    from antecede.report.measured import Measured


SAME = "bounded, same k"
THIN, THINNED = 0.5, 0.9
"""Up to these shares of n² a matrix is thin, or at least thinned beyond its empty diagonal."""


def _bounded(measured: Measured, metric: str, cast: str) -> tuple[dict[float, float], float | None]:
    """Return bounded's line over k, and optimal's level."""
    ours = measured.means("bounded", metric, cast, SAME)
    return ours, measured.level("bounded", metric, cast, KS)


def thinning(measured: Measured) -> Outcome | None:
    """3.2: how sparse the matrix is with k = n², where the bound never acts."""
    parts, shares = [], []
    for cast in CASTS:
        ours = measured.means("bounded", "entries_share", cast, SAME)
        extra = measured.means("bounded", "extra_packets_per_message", cast, SAME)
        idle = [k for k in ours if extra.get(k) == 0]
        if not idle:
            return None
        k = max(idle)
        shares.append(ours[k])
        parts.append(f"{cast}: {ours[k]:.2f} n² non-zero cells a copy at k = {k:g} n")
    result = (
        "; ".join(parts)
        + f", with no extra message sent. Thin is up to {THIN:g} n², thinned up to {THINNED:g} n²."
    )
    thin = all(share <= THIN for share in shares)
    return Outcome(result, judged(always=thin, sometimes=any(share <= THINNED for share in shares)))


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
        told = ", ".join(f"x{y / best:.2f} at k = {x:g} n" for x, y in ours.items())
        parts.append(f"{cast}: {told}")
    return Outcome("Total bytes against optimal, " + "; ".join(parts) + ".", ANSWERED)


def bounded_uneven(measured: Measured) -> Outcome | None:
    """3.open.3: different k: bytes, extra messages and delay against one k for all."""
    parts = []
    for facet in measured.facets("bounded"):
        names = measured.series("bounded", facet)
        mixed = next((name for name in names if "half" in name), None)
        if mixed is None:
            continue
        for metric, what in (
            ("total_bytes_per_message", "bytes in all"),
            ("extra_packets_per_message", "extra messages"),
            ("latency_mean", "time from send to delivery"),
        ):
            even = measured.means("bounded", metric, facet, SAME)
            uneven = measured.means("bounded", metric, facet, mixed)
            told = [f"x{uneven[x] / even[x]:.2f} at k = {x:g} n" for x in uneven if even.get(x)]
            if told:
                parts.append(f"{what} {', '.join(told)}")
    if not parts:
        return None
    return Outcome(f"Mixed k against one k for all: {'; '.join(parts)}.", ANSWERED)


def bounded_delay(measured: Measured) -> Outcome | None:
    """3.open.4: the time penalty."""
    parts = []
    for cast in CASTS:
        ours, best = _bounded(measured, "latency_mean", cast)
        if not ours or not best:
            return None
        told = ", ".join(f"{y / best - 1:+.1%} at k = {x:g} n" for x, y in ours.items())
        parts.append(f"{cast}: {told}")
    return Outcome("From send to delivery against optimal, " + "; ".join(parts) + ".", ANSWERED)
