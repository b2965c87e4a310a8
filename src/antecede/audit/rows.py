"""The rows of the audit's tables and its counts, the same whichever engine found them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from antecede.events.tables import (
    CAUSAL_CYCLE,
    CLOCK_AHEAD,
    CONTRADICTORY_SEQ,
    DELIVERED_TWICE,
    DELIVERY_AMBIGUOUS,
    DELIVERY_WITHOUT_SEND,
    FIFO,
    FINDING_KINDS,
    SENT_TWICE,
)

#: The most pairs of processes in the summary.
PAIRS = 10

_DETAILS = {
    DELIVERY_WITHOUT_SEND: "{process} delivered {message}, which no process in this log sent to it",
    DELIVERY_AMBIGUOUS: "{process} delivered {message}, which several processes sent, each on its "
    "own; the log does not show whose this is",
    SENT_TWICE: "{process} sent {message}, which has another send in this log; the earliest counts "
    "(if a process was restarted and numbers its messages anew, audit each run by itself)",
    DELIVERED_TWICE: "{process} delivered {message} again; only its first delivery counts",
    CAUSAL_CYCLE: "{process} delivered {message} (seq {seq}) before an event that led to its send",
    CONTRADICTORY_SEQ: "{process} has another event with the same seq {seq}",
    CLOCK_AHEAD: "the clock of {process} at seq {seq} counts events that this log does not have",
}
_EDGE_CYCLE = "{process} at seq {seq} follows an event that follows it, by a clock or a relay"


class Finding(NamedTuple):
    """An inconsistency at an event; ``by_edge`` if it is a cycle through a clock or a relay."""

    kind: str
    process: str
    seq: int
    message: str | None
    by_edge: bool = False


class Counts(NamedTuple):
    """The size of a log, and how much of it could be paired and judged."""

    events: int
    processes: int
    messages: int
    deliveries: int
    paired_sends: int
    paired_deliveries: int
    judged_deliveries: int


def finding_rows(found: Iterable[Finding]) -> list[dict[str, Any]]:
    """Return the rows of the table of findings, sorted by kind and place."""
    rows = []
    for one in found:
        row: dict[str, Any] = {
            "kind": one.kind,
            "process": one.process,
            "seq": one.seq,
            "message": one.message,
        }
        detail = _EDGE_CYCLE if one.by_edge else _DETAILS[one.kind]
        rows.append(row | {"detail": detail.format(**row)})
    order = {kind: number for number, kind in enumerate(FINDING_KINDS)}
    rows.sort(key=lambda r: (order[r["kind"]], r["process"], r["seq"], str(r["message"])))
    return rows


def cycles(findings: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the details of causal cycles among the findings."""
    return [row["detail"] for row in findings if row["kind"] == CAUSAL_CYCLE]


def summarise(
    counts: Counts,
    violations: Sequence[Mapping[str, Any]],
    missing: Sequence[Mapping[str, Any]],
    findings: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the counts, the worst pairs of processes and the lateness of deliveries."""
    fifo = sum(row["kind"] == FIFO for row in violations)
    pairs = Counter((row["sender"], row["process"]) for row in violations)
    worst = sorted(pairs.items(), key=lambda item: (-item[1], item[0]))[:PAIRS]
    found = Counter(row["kind"] for row in findings)
    late = [row["lateness"] for row in violations]
    return {
        **counts._asdict(),
        "violations": len(late),
        "fifo_violations": fifo,
        "causal_violations": len(late) - fifo,
        "missing": len(missing),
        "findings": len(findings),
        "findings_by_kind": dict(sorted(found.items())),
        "violations_per_delivery": len(late) / counts.deliveries if counts.deliveries else 0.0,
        "worst_pairs": [{"sender": s, "process": p, "violations": c} for (s, p), c in worst],
        "lateness": percentiles(late),
        "lateness_spread": _spread(late),
    }


def percentiles(values: Sequence[float]) -> dict[str, float] | None:
    """Return the mean and some percentiles of values, or None if there are none."""
    if not values:
        return None
    ordered = sorted(values)
    found = {"mean": sum(ordered) / len(ordered)}
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)):
        place = share * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        found[name] = float(ordered[low] + (ordered[high] - ordered[low]) * (place - low))
    return found


def _spread(values: Sequence[int]) -> dict[str, int]:
    """Count latenesses in doubling steps: 0, 1, 2-3, 4-7 and so on."""
    found: Counter[int] = Counter(value.bit_length() for value in values)
    names = {0: "0 events", 1: "1 event"}
    return {
        names.get(size, f"{2 ** (size - 1):,} to {2**size - 1:,}"): found[size]
        for size in range(max(found, default=-1) + 1)
    }
