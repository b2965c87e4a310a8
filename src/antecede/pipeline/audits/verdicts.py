"""The verdict on a log, decided from the audit's counts, with the reason in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

Verdict = Literal["ordered", "broken", "undecidable"]

#: How many events on cycles the reason names.
NAMED = 3
#: What ``causally_ordered`` is for each verdict.
CAUSALLY_ORDERED: dict[Verdict, bool | None] = {
    "ordered": True,
    "broken": False,
    "undecidable": None,
}


def decide(
    counts: Mapping[str, Any],
    cycles: Sequence[str],
    doubt: Callable[[], str | None],
    undecidable: str | None = None,
) -> tuple[Verdict, str]:
    """Return the verdict and its reason.

    ``counts`` is the audit's summary and ``cycles`` describes the events on causal cycles: they
    mean that the pairing or the log is wrong, so nothing is decided. ``doubt`` says what incomplete
    pairing can hide; it is asked last, because it may take long. ``undecidable`` is what the log's
    reader knows: why the deliveries in it say nothing about order. A violation that was found
    counts all the same.
    """
    broken = _violations(counts)
    if broken and not cycles:
        return "broken", broken
    unknown = undecidable or _cyclic(cycles, broken) or _unpaired(counts) or doubt()
    if unknown:
        return "undecidable", unknown
    rests = f" {rests_on(counts)}" if not is_complete(counts) else ""
    return "ordered", f"No message was delivered after an effect of it.{rests}"


def is_complete(counts: Mapping[str, Any]) -> bool:
    """Return whether every message has a delivery and every delivery has its send."""
    return bool(
        counts["paired_sends"] == counts["messages"]
        and counts["paired_deliveries"] == counts["deliveries"]
    )


def rests_on(counts: Mapping[str, Any]) -> str:
    """Say what a verdict on an incomplete log rests on."""
    sends, deliveries = counts["paired_sends"], counts["paired_deliveries"]
    clocks = " The log's clocks supply order besides." if counts["clocks"] else ""
    return (
        f"This rests on {sends:,} of {_count(counts['messages'], 'send')} with deliveries, and on "
        f"{deliveries:,} of {_count(counts['deliveries'], 'delivery', 'deliveries')} with sends."
        f"{clocks}"
    )


def _cyclic(cycles: Sequence[str], broken: str | None) -> str | None:
    """Say that the log contradicts itself, and where, or return None."""
    if not cycles:
        return None
    shown = "; ".join(cycles[:NAMED])
    more = f"; and {len(cycles) - NAMED:,} more in the findings" if len(cycles) > NAMED else ""
    besides = f" Leaving these out: {broken[0].lower()}{broken[1:]}" if broken else ""
    return (
        f"The log contradicts itself, so its pairing, its order or its clocks are wrong: {shown}"
        f"{more}.{besides}"
    )


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
    return f"{'; '.join(parts)}." if parts else None


def _unpaired(counts: Mapping[str, Any]) -> str | None:
    """Say that no delivery can be judged, or return None if one can."""
    deliveries = counts["deliveries"]
    if not deliveries:
        return "The log has no deliveries, so there is nothing to judge."
    if counts["judged_deliveries"]:
        return None
    return (
        f"The log has {_count(counts['messages'], 'sent message')} and "
        f"{_count(deliveries, 'delivery', 'deliveries')}, but no delivery belongs to one "
        "send; use the same message id at both ends, and each for one message only."
    )


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
