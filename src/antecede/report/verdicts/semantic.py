"""Verdicts on the claims of papers/001."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.report.findings import RST
from antecede.report.verdicts.common import Outcome, judged

if TYPE_CHECKING:
    from antecede.report.measured import Measured

RARE = 0.05
"""Up to this share of all copies, a hold is rare."""
DISTANT = 5.0
"""From this many mean network delays on, a message was sent in the distant past."""
TWICE = (1.9, 2.1)
SAME_ORDER = 10.0


def semantic_saving(measured: Measured) -> Outcome | None:
    """1.4: delay and buffers against the matrix."""
    parts, better = [], []
    for facet in measured.facets("semantic"):
        for metric, what in (("added_delay_mean", "delay"), ("buffer_mean", "buffer")):
            ours = measured.means("semantic", metric, facet, "semantic")
            theirs = measured.means("semantic", metric, facet, RST)
            ratios = {x: ours[x] / theirs[x] for x in ours if theirs.get(x)}
            if not ratios:
                return None
            better += [ratio <= 1.0 + 1e-9 for ratio in ratios.values()]
            places = sorted(ratios)
            told = dict.fromkeys((places[0], places[(len(places) - 1) // 2], places[-1]))
            parts.append(
                f"{facet}: {what} as a share of the matrix's "
                + ", ".join(f"{ratios[x]:.2f} at {x:g}" for x in told)
            )
    if not parts:
        return None
    verdict = judged(always=all(better), sometimes=any(better))
    return Outcome("; ".join(parts) + ".", verdict)


def false_causality(measured: Measured) -> Outcome | None:
    """1.5: whether the false causality that remains is rare and distant, with exponential delays."""
    parts, rare, distant = [], [], []
    for facet in measured.facets("semantic"):
        left = measured.means("semantic", "false_held_fraction", facet, "semantic")
        age = measured.means("semantic", "false_age", facet, "semantic")
        delay = measured.means("semantic", "network_delay_mean", facet, "semantic")
        inner = [x for x in left if 0 < x < 1 and age.get(x) is not None and delay.get(x)]
        if not inner:
            continue
        ages = {x: age[x] / delay[x] for x in inner}
        if facet.startswith("exponential"):
            rare += [left[x] <= RARE for x in inner]
            distant += [ages[x] >= DISTANT for x in inner]
        told = ", ".join(f"{left[x]:.1%} and {ages[x]:.1f} at {x:g}" for x in inner)
        before = measured.means("semantic", "false_held_fraction", facet, RST)
        matrix = ", ".join(f"{before[x]:.1%} at {x:g}" for x in inner if x in before)
        parts.append(f"{facet}: {told}" + (f" (matrix {matrix})" if matrix else ""))
    if not rare:
        return None
    result = (
        "Copies held falsely, and how many mean network delays earlier the message was sent that they "
        f"waited for, by dependence: {'; '.join(parts)}. Judged with exponential delays: "
        f"rare is up to {RARE:.0%} of the copies, distant from {DISTANT:g} delays on. It remains in the near past too (docs/errata.md)."
    )
    always = all(rare) and all(distant)
    return Outcome(result, judged(always=always, sometimes=all(rare) or all(distant)))


def semantic_cost(measured: Measured) -> Outcome | None:
    """1.6: space and work against the matrix."""
    for facet in measured.facets("semantic"):
        ours = measured.means("semantic", "entries_per_copy", facet, "semantic")
        theirs = measured.means("semantic", "entries_per_copy", facet, RST)
        mine = measured.means("semantic", "microseconds_per_delivery", facet, "semantic")
        its = measured.means("semantic", "microseconds_per_delivery", facet, RST)
        both = [x for x in ours if theirs.get(x) and x in mine and its.get(x)]
        if not both:
            continue
        x = max(both)
        space, work = ours[x] / theirs[x], mine[x] / its[x]
        twice, same = TWICE[0] <= space <= TWICE[1], work <= SAME_ORDER
        result = (
            f"{space:.2f} times the entries; {work:.1f} times the engine's time per delivery, at one "
            "number of processes: how the work grows with it was not measured."
        )
        return Outcome(result, judged(always=False, sometimes=twice and same))
    return None
