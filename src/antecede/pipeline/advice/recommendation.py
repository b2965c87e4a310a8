"""Choose among protocols that ran, and say in a sentence why, and what would change it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Row = Mapping[str, Any]

#: What a packet that a protocol adds costs besides its control.
PACKET_BYTES = 40
#: A protocol may delay this much more than the quickest, as a part of its delay, and no more.
SLACK = 0.1
#: How remarks begin that say why a protocol is not to be chosen.
NOT_CHOSEN = "not to be chosen: "
#: What remarks say of a protocol that ran on the beginning of the traffic only.
BEGUN = "ran on the first"
#: What remarks say of a protocol whose copies carry other messages.
RIDES = "earlier messages ride along"


@dataclass(frozen=True)
class Recommendation:
    """The protocol to take, why, and what would change that."""

    protocol: str | None
    reason: str
    otherwise: str


@dataclass(frozen=True)
class _Scale:
    """How rows are compared: a packet per message costs the less per copy, the more copies."""

    copies_per_message: float

    def bytes(self, row: Row) -> float:
        """Return the bytes of a copy with its share of the packets that the protocol adds."""
        own = _figure(row, "wire_bytes_per_copy")
        own = _figure(row, "model_bytes_per_copy") if own is None else own
        packets = _figure(row, "extra_packets_per_message") or 0.0
        return (own or 0.0) + PACKET_BYTES * packets / self.copies_per_message

    def least(self, rows: Sequence[Row]) -> Row:
        return min(rows, key=lambda row: (self.bytes(row), _delay(row), row["protocol"]))


def recommend(
    rows: Sequence[Row],
    usual_delay: float,
    copies_per_message: float = 1.0,
    *,
    traffic: str = "this traffic",
) -> Recommendation:
    """Choose the least bytes among those that hardly delay more than they must.

    ``rows`` are the advice; ``usual_delay`` is what the network itself takes, to which added
    delay is compared; ``traffic`` is what they ran on, in words.
    """
    scale = _Scale(max(copies_per_message, 1.0))
    ran = [row for row in rows if row["status"] == "run"]
    if not ran:
        return Recommendation(None, f"No protocol could be run on {traffic}.", "")
    sound = [row for row in ran if _is_sound(row)]
    if not sound:
        msg = f"No protocol that ran on {traffic} is to be chosen: their remarks say why."
        return Recommendation(None, msg, "")
    # How much a copy that carries other messages costs depends on payloads, which no log tells.
    bare = [row for row in sound if RIDES not in row["reason"]] or sound
    limit = min(_delay(row) for row in bare) + SLACK * max(usual_delay, 1e-9)
    quick = [row for row in bare if _delay(row) <= limit]
    # What ran on the beginning only may have grown since; it is mentioned, not chosen.
    whole = [row for row in quick if not _begun(row)] or quick
    best = scale.least(whole)
    reason = _because(best, len(whole), scale, traffic)
    parts = _otherwise(best, bare, quick, whole, scale) + _riders(best, sound)
    return Recommendation(best["protocol"], reason, " ".join(parts))


def _because(best: Row, count: int, scale: _Scale, traffic: str) -> str:
    ran = f"ran {'the beginning' if _begun(best) else 'all'} of {traffic}"
    delay = f"({_ms(best)} on average)"
    begin = f"{best['protocol']}: {scale.bytes(best):,.0f} bytes a copy, all in all"
    if count == 1:
        return (
            f"{begin}; no other that keeps causal order and {ran} delays a message as little "
            f"{delay}."
        )
    return (
        f"{begin}, are the least among the {count} protocols that keep causal order, {ran} and "
        f"delay a message hardly longer than its causes demand {delay}."
    )


def _otherwise(
    best: Row, bare: Sequence[Row], quick: Sequence[Row], whole: Sequence[Row], scale: _Scale
) -> list[str]:
    """Say which other choice would be right under which other wish."""
    parts = []
    lean = scale.least(bare)
    if scale.bytes(lean) < (1 - SLACK) * scale.bytes(best):
        parts.append(
            f"If latency does not matter, {lean['protocol']} costs {scale.bytes(lean):,.0f} bytes "
            f"a copy and adds {_ms(lean)}{_part(lean)}."
        )
    small = [row for row in quick if _figure(row, "state_bytes_peak") is not None]
    if small:
        frugal = min(small, key=lambda row: row["state_bytes_peak"])
        if frugal["state_bytes_peak"] < (_figure(best, "state_bytes_peak") or math.inf):
            parts.append(
                f"If memory is what is short, {frugal['protocol']} keeps at most "
                f"{frugal['state_bytes_peak']:,.0f} bytes a process{_part(frugal)}."
            )
    rest = [row for row in whole if row["protocol"] != best["protocol"]]
    if rest:
        second = scale.least(rest)
        parts.append(
            f"Next best is {second['protocol']} with {scale.bytes(second):,.0f} bytes a copy."
        )
    early = [row for row in quick if _begun(row) and scale.bytes(row) < scale.bytes(best)]
    parts += [
        f"{row['protocol']} carried {scale.bytes(row):,.0f} bytes a copy{_part(row)}, and may "
        "carry more later."
        for row in early
        if row["protocol"] != lean["protocol"]
    ]
    return parts


def _riders(best: Row, sound: Sequence[Row]) -> list[str]:
    """Mention those that shorten the wait by sending messages along with others."""
    return [
        f"If nothing may wait, {row['protocol']} adds {_ms(row)}{_part(row)}, but each copy "
        f"carries {_figure(row, 'entries_per_copy') or 0:,.1f} earlier messages, payload and all."
        for row in sound
        if RIDES in row["reason"] and _delay(row) < _delay(best)
    ]


def _is_sound(row: Row) -> bool:
    """Return whether a protocol that ran may be chosen, and has the figures to be compared by."""
    if str(row["reason"]).startswith(NOT_CHOSEN) or _figure(row, "added_delay_mean") is None:
        return False
    sizes = (_figure(row, name) for name in ("wire_bytes_per_copy", "model_bytes_per_copy"))
    return any(size is not None for size in sizes)


def _begun(row: Row) -> bool:
    """Return whether a protocol ran on the beginning of the traffic only."""
    return BEGUN in str(row["reason"])


def _part(row: Row) -> str:
    return " on the beginning, all that it ran on" if _begun(row) else ""


def _figure(row: Row, name: str) -> float | None:
    """Return a figure of a row, None if it is missing or no number."""
    value = row.get(name)
    return None if value is None or math.isnan(value) else float(value)


def _ms(row: Row) -> str:
    """Return the delay that a protocol adds, to three figures."""
    delay = 1000 * _delay(row)
    return f"{delay:,.0f} ms" if delay >= 1000 else f"{delay:.3g} ms"


def _delay(row: Row) -> float:
    return _figure(row, "added_delay_mean") or 0.0
