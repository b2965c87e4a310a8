"""The verdict on a log, decided from the audit's counts, with the reason in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from antecede.core.tables import CAUSAL_CYCLE, DELIVERED_TWICE, DELIVERY_WITHOUT_SEND

Verdict = Literal["ordered", "broken", "undecidable"]

#: What ``causally_ordered`` is for each verdict.
CAUSALLY_ORDERED: dict[Verdict, bool | None] = {
    "ordered": True,
    "broken": False,
    "undecidable": None,
}


def decide(counts: Mapping[str, Any], undecidable: str | None = None) -> tuple[Verdict, str]:
    """Return the verdict and its reason.

    ``counts`` is the audit's summary. ``undecidable`` is what the log's reader knows: why the
    deliveries in it say nothing about order. A violation that was found counts all the same.
    """
    broken = _violations(counts)
    if broken:
        return "broken", broken
    unknown = undecidable or _unpaired(counts)
    if unknown:
        return "undecidable", unknown
    if not counts["deliveries"]:
        return "undecidable", "The log has no deliveries, so there is nothing to judge."
    return "ordered", "No message was delivered after an effect of it."


def _violations(counts: Mapping[str, Any]) -> str | None:
    """Say how causal order was broken, or return None."""
    parts = []
    if late := counts["violations"]:
        share = 100 * counts["violations_per_delivery"]
        parts.append(
            f"{_count(late, 'delivery', 'deliveries')} ({share:.3g}%) came after an effect of the "
            f"message: {counts['fifo_violations']:,} overtaken by the same sender, "
            f"{counts['causal_violations']:,} through other processes"
        )
    if missing := counts["missing"]:
        parts.append(f"{_count(missing, 'message')} never arrived although an effect did")
    if cycles := counts["findings_by_kind"].get(CAUSAL_CYCLE, 0):
        deliveries = _count(cycles, "delivery", "deliveries")
        parts.append(f"{deliveries} happened before the send of the same message")
    return f"{'; '.join(parts)}." if parts else None


def _unpaired(counts: Mapping[str, Any]) -> str | None:
    """Say that no delivery belongs to a send, or return None if one does or there are none."""
    found, deliveries = counts["findings_by_kind"], counts["deliveries"]
    unsent = found.get(DELIVERY_WITHOUT_SEND, 0)
    if not unsent or unsent + found.get(DELIVERED_TWICE, 0) < deliveries:
        return None
    return (
        f"The log has {_count(counts['messages'], 'sent message')} and "
        f"{_count(deliveries, 'delivery', 'deliveries')}, but no delivery is of a message that was "
        "sent; use the same message id at both ends."
    )


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
