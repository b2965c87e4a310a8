"""Choose a protocol by its costs, and the alternatives worth a mention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from antecede.pipeline.advice.costs import Cost

#: What a packet that a protocol adds costs besides its control.
PACKET_BYTES = 40
#: A protocol may add this much more delay than the quickest, as a share of the network's own delay;
#: a slower one is worth a mention if it saves at least this share of the bytes.
SLACK = 0.1


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a choice depends on besides the protocols' costs."""

    delay_mean: float
    """Seconds that the network itself takes, on average."""
    copies_per_message: float = 1.0
    """How many copies share the extra packets of a message."""

    def total_bytes(self, cost: Cost) -> float:
        """Return the bytes of a copy with its share of the packets that the protocol adds."""
        packets = cost.extra_packets_per_message or 0.0
        share = PACKET_BYTES * packets / max(self.copies_per_message, 1.0)
        return (cost.bytes_per_copy or 0.0) + share

    def leanest(self, costs: Sequence[Cost]) -> Cost:
        """Return the cost with the fewest bytes in all; the least delay decides between equals."""
        return min(costs, key=lambda c: (self.total_bytes(c), added_delay(c), c.protocol))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The protocol to recommend, and which other would be right under which other wish.

    ``rivals`` counts those it was chosen from, itself included. ``leaner`` has clearly fewer bytes
    but adds more delay, ``smaller`` keeps less state, ``second`` is the next best. Those of
    ``partial`` had fewer bytes, but ran only on the beginning; those of ``carriers`` add less
    delay, because their copies carry other messages.
    """

    best: Cost
    rivals: int
    leaner: Cost | None
    smaller: Cost | None
    second: Cost | None
    partial: list[Cost]
    carriers: list[Cost]


def choose(costs: Sequence[Cost], traffic: Traffic) -> Choice | None:
    """Choose the fewest bytes among the protocols that add hardly more delay than they must."""
    eligible = [cost for cost in costs if cost.is_eligible]
    if not eligible:
        return None
    # A copy that carries other messages costs as much as their payloads, which no log records.
    bare = [cost for cost in eligible if not cost.carries_messages] or eligible
    limit = min(map(added_delay, bare)) + SLACK * max(traffic.delay_mean, 1e-9)
    quick = [cost for cost in bare if added_delay(cost) <= limit]
    # What ran only on the beginning may cost more later: it is mentioned, but not chosen.
    rivals = [cost for cost in quick if not cost.is_partial] or quick
    best = traffic.leanest(rivals)
    size = traffic.total_bytes(best)
    leanest = traffic.leanest(bare)
    leaner = leanest if traffic.total_bytes(leanest) < (1 - SLACK) * size else None
    others = [cost for cost in rivals if cost is not best]
    return Choice(
        best=best,
        rivals=len(rivals),
        leaner=leaner,
        smaller=_smaller(quick, best),
        second=traffic.leanest(others) if others else None,
        partial=[
            c for c in quick if c.is_partial and c is not leaner and traffic.total_bytes(c) < size
        ],
        carriers=[c for c in eligible if c.carries_messages and added_delay(c) < added_delay(best)],
    )


def _smaller(quick: Sequence[Cost], best: Cost) -> Cost | None:
    """Return the protocol that keeps the least state, if that is less than the best one keeps."""
    smallest = min(quick, key=_state)
    return smallest if _state(smallest) < _state(best) else None


def _state(cost: Cost) -> float:
    return math.inf if cost.state_bytes_peak is None else cost.state_bytes_peak


def added_delay(cost: Cost) -> float:
    """Return the seconds that a protocol adds to a message, on average."""
    return cost.added_delay_mean or 0.0
