"""Choose among protocols that ran, and say in a sentence why, and what would change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: What a packet that a protocol adds costs besides its control.
PACKET_BYTES = 40
#: A protocol may delay this much more than the quickest, as a part of its delay, and no more.
SLACK = 0.1


@dataclass(frozen=True)
class Recommendation:
    """The protocol to take, why, and what would change that."""

    protocol: str | None
    reason: str
    otherwise: str


def recommend(rows: Sequence[Mapping[str, Any]], usual_delay: float) -> Recommendation:
    """Choose the least bytes among those that hardly delay more than they must.

    ``rows`` are the advice; ``usual_delay`` is what the network itself takes, to which added
    delay is compared.
    """
    ran = [r for r in rows if r["status"] == "run" and not r["reason"].startswith("saturated")]
    if not ran:
        return Recommendation(None, "No protocol could be run on this traffic.", "")
    least = min(_delay(row) for row in ran)
    limit = least + SLACK * max(usual_delay, 1e-9)
    quick = [row for row in ran if _delay(row) <= limit]
    # What ran on the beginning only may have grown since; it is mentioned, not chosen.
    whole = [row for row in quick if not _begun(row)] or quick
    best = min(whole, key=lambda row: (_bytes(row), _delay(row), row["protocol"]))
    reason = (
        f"{best['protocol']}: {_bytes(best):,.0f} bytes a copy, all in all, are the least among "
        f"the {len(whole)} protocols that ran {'the beginning' if _begun(best) else 'all'} of this "
        "traffic and delay a message hardly longer than its causes demand "
        f"({1000 * _delay(best):.3g} ms on average)."
    )
    return Recommendation(best["protocol"], reason, _otherwise(best, ran, quick, whole))


def _otherwise(
    best: Mapping[str, Any],
    ran: Sequence[Mapping[str, Any]],
    quick: Sequence[Mapping[str, Any]],
    whole: Sequence[Mapping[str, Any]],
) -> str:
    """Say which other choice would be right under which other wish."""
    parts = []
    lean = min(ran, key=lambda row: (_bytes(row), _delay(row)))
    if lean["protocol"] != best["protocol"]:
        parts.append(
            f"If latency does not matter, {lean['protocol']} costs {_bytes(lean):,.0f} bytes a "
            f"copy and adds {1000 * _delay(lean):.3g} ms{_part(lean)}."
        )
    small = [row for row in quick if row["state_bytes_peak"] is not None]
    if small:
        frugal = min(small, key=lambda row: row["state_bytes_peak"])
        if frugal["protocol"] != best["protocol"]:
            parts.append(
                f"If memory is what is short, {frugal['protocol']} keeps at most "
                f"{frugal['state_bytes_peak']:,.0f} bytes a process{_part(frugal)}."
            )
    rest = [row for row in whole if row["protocol"] != best["protocol"]]
    if rest:
        second = min(rest, key=lambda row: (_bytes(row), _delay(row)))
        parts.append(f"Next best is {second['protocol']} with {_bytes(second):,.0f} bytes a copy.")
    early = [row for row in quick if _begun(row) and _bytes(row) < _bytes(best)]
    parts += [
        f"{row['protocol']} carried {_bytes(row):,.0f} bytes a copy{_part(row)}, and may carry more "
        "later."
        for row in early
        if row["protocol"] != lean["protocol"]
    ]
    return " ".join(parts)


def _begun(row: Mapping[str, Any]) -> bool:
    """Return whether a protocol ran on the beginning of the traffic only."""
    return str(row["reason"]).startswith("ran on the first")


def _part(row: Mapping[str, Any]) -> str:
    return " on the beginning, all that it ran on" if _begun(row) else ""


def _delay(row: Mapping[str, Any]) -> float:
    return float(row["added_delay_mean"] or 0.0)


def _bytes(row: Mapping[str, Any]) -> float:
    """Return the bytes of a copy with its share of the packets that the protocol adds."""
    own = row["wire_bytes_per_copy"]
    own = row["model_bytes_per_copy"] if own is None else own
    return float(own or 0.0) + PACKET_BYTES * float(row["extra_packets_per_message"] or 0.0)
