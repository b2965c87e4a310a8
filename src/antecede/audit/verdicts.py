"""The verdict on a log, decided from the audit's counts, with the reason in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["ordered", "broken", "undecidable"]

#: How many events on cycles, or of one seq, the reason names.
NAMED = 3
#: What ``causally_ordered`` is for each verdict.
CAUSALLY_ORDERED: dict[Verdict, bool | None] = {
    "ordered": True,
    "broken": False,
    "undecidable": None,
}


@dataclass(frozen=True)
class Ties:
    """Where a process has different events of the same seq, so that their order is unknown."""

    places: Sequence[str]
    is_certain: bool
    """Whether some violation does not depend on their order."""


def decide(
    counts: Mapping[str, Any],
    cycles: Sequence[str],
    doubt: Callable[[], str | None],
    undecidable: str | None = None,
    ties: Ties | None = None,
) -> tuple[Verdict, str]:
    """Return the verdict and its reason.

    ``counts`` is the audit's summary and ``cycles`` describes the events on causal cycles: they
    mean that the pairing or the log is wrong, so nothing is decided. ``doubt`` says what incomplete
    pairing can hide; it is asked last, because it may take long. ``undecidable`` is what the log's
    reader knows: why the deliveries in it say nothing about order. A violation that was found
    counts all the same, unless it depends on the order of events that ``ties`` leave unknown.
    """
    broken = _violations(counts)
    if broken and not cycles and (ties is None or ties.is_certain):
        return "broken", broken
    unknown = undecidable or _cyclic(cycles, broken) or _tied(ties) or _unpaired(counts) or doubt()
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


def _tied(ties: Ties | None) -> str | None:
    """Say that the order of a process's events is unknown, and where, or return None."""
    if ties is None:
        return None
    more = len(ties.places) - NAMED
    rest = f"; and {more:,} more" if more > 0 else ""
    return (
        "Different events of one process have the same seq, so their order is unknown: "
        f"{'; '.join(ties.places[:NAMED])}{rest}. If a process began anew, audit each run by "
        "itself: --delimiter separates the runs in a ShiViz or text log."
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
