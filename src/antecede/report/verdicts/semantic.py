"""Verdicts on the claims of papers/001."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.report.findings import RST
from antecede.report.verdicts.common import Outcome, judged

if TYPE_CHECKING:
    from antecede.report.measured import Measured


def semantic_saving(measured: Measured) -> Outcome | None:
    """1.4: delay and buffers against the matrix."""
    parts, better = [], []
    for facet in measured.facets("semantic"):
        for metric, what in (("added_delay_mean", "delay"), ("buffer_mean", "buffer")):
            ours = measured.means("semantic", metric, facet, "semantic")
            theirs = measured.means("semantic", metric, facet, RST)
            if not ours or not theirs:
                return None
            ratios = {x: ours[x] / theirs[x] for x in ours if theirs.get(x)}
            better.append(max(ratios.values()) <= 1.0 + 1e-9)
            low, high = min(ratios), max(ratios)
            parts.append(
                f"{facet}: {what} {ratios[low]:.2f} of the matrix's at dependence {low:g}, "
                f"{ratios[high]:.2f} at {high:g}"
            )
    verdict = judged(always=all(better), sometimes=any(better))
    return Outcome("; ".join(parts) + ".", verdict)


def false_causality(measured: Measured) -> Outcome | None:
    """1.5: how much false causality remains, and how old it is."""
    parts, older, rare = [], [], []
    for facet in measured.facets("semantic"):
        left = measured.means("semantic", "false_held_fraction", facet, "semantic")
        before = measured.means("semantic", "false_held_fraction", facet, RST)
        age = measured.means("semantic", "false_age", facet, "semantic")
        matrix_age = measured.means("semantic", "false_age", facet, RST)
        inner = [x for x in left if 0 < x < 1]
        if not inner:
            return None
        x = inner[len(inner) // 2]
        older.append(age[x] > matrix_age[x])
        rare.append(left[x] < 0.05)
        parts.append(
            f"{facet}, dependence {x:g}: {left[x]:.1%} of copies held falsely (matrix "
            f"{before[x]:.1%}), for messages sent {age[x]:.2f} s before (matrix {matrix_age[x]:.2f} s)"
        )
    verdict = judged(always=all(older) and all(rare), sometimes=all(older) or rare[0])
    return Outcome("; ".join(parts) + ".", verdict)


def semantic_cost(measured: Measured) -> Outcome | None:
    """1.6: space and work against the matrix."""
    for facet in measured.facets("semantic"):
        ours = measured.means("semantic", "entries_per_copy", facet, "semantic")
        theirs = measured.means("semantic", "entries_per_copy", facet, RST)
        mine = measured.means("semantic", "microseconds_per_delivery", facet, "semantic")
        its = measured.means("semantic", "microseconds_per_delivery", facet, RST)
        if ours and theirs and mine and its:
            x = max(ours)
            space, work = ours[x] / theirs[x], mine[x] / its[x]
            result = f"{space:.2f} times the entries, {work:.1f} times the processor time."
            return Outcome(result, judged(always=space <= 2.0 and work < 10))
    return None
