"""Choose a protocol by its costs, and name the reasons and the alternatives worth mentioning."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from antecede.advise.costs import NONE, Cost, Status

#: The bytes of a packet that a protocol adds, not counting its control.
PACKET_BYTES = 40
#: A protocol may add this much more delay than the quickest, as a share of the network's own delay;
#: a slower one is mentioned if it saves at least this share of the bytes.
SLACK = 0.1


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a choice depends on besides the protocols' costs."""

    delay_mean: float
    """The network's own delay in seconds, on average."""
    copies_per_message: float = 1.0
    """How many copies share the packets that a message adds."""

    def total_bytes(self, cost: Cost) -> float:
        """Return the bytes of a copy with its share of the packets that the protocol adds."""
        packets = cost.extra_packets_per_message or 0.0
        share = PACKET_BYTES * packets / max(self.copies_per_message, 1.0)
        return (cost.bytes_per_copy or 0.0) + share

    def leanest(self, costs: Sequence[Cost]) -> Cost:
        """Return the cost with the fewest bytes in all; on a tie, the one with the least delay."""
        return min(costs, key=lambda c: (self.total_bytes(c), added_delay(c), c.protocol))


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The protocol to recommend, and the best ones for other priorities.

    ``rivals`` counts those it was chosen from, itself included. ``leaner`` has clearly fewer bytes
    but adds more delay, ``smaller`` keeps less state, ``second`` is the next best. ``partial`` had
    fewer bytes, but ran on only the beginning; ``carriers`` add less delay, because their copies
    carry other messages.
    """

    best: Cost
    rivals: int
    leaner: Cost | None
    smaller: Cost | None
    second: Cost | None
    partial: list[Cost]
    carriers: list[Cost]


def choose(costs: Sequence[Cost], traffic: Traffic) -> Choice | None:
    """Choose the protocol with the fewest bytes among those that add little avoidable delay."""
    eligible = [cost for cost in costs if cost.is_eligible]
    if not eligible:
        return None
    # A copy that carries other messages costs as much as their payloads, whose sizes no log has.
    bare = [cost for cost in eligible if not cost.carries_messages] or eligible
    limit = min(map(added_delay, bare)) + SLACK * max(traffic.delay_mean, 1e-9)
    quick = [cost for cost in bare if added_delay(cost) <= limit]
    # A protocol that ran on only the beginning may cost more later: mention it only.
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
        smaller=_smaller(bare, best),
        second=traffic.leanest(others) if others else None,
        partial=[
            c for c in quick if c.is_partial and c is not leaner and traffic.total_bytes(c) < size
        ],
        carriers=[c for c in eligible if c.carries_messages and added_delay(c) < added_delay(best)],
    )


def _smaller(costs: Sequence[Cost], best: Cost) -> Cost | None:
    """Return the protocol with the least state, if that is less than the best one's."""
    smallest = min(costs, key=_state)
    return smallest if _state(smallest) < _state(best) else None


def _state(cost: Cost) -> float:
    return math.inf if cost.state_bytes_peak is None else cost.state_bytes_peak


def added_delay(cost: Cost) -> float:
    """Return the seconds that a protocol adds to a message on average."""
    return cost.added_delay_mean or 0.0


#: With fewer messages than this, or fewer than the second number per process, no protocol shows its
#: costs once every process has heard from the others.
FEW_MESSAGES, FEW_EACH = 100, 10
#: The protocol to begin with in that case.
FIRST = "optimal"


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The protocol to use, why, and what would change that."""

    protocol: str | None
    reason: str
    otherwise: str = ""


def recommend(
    costs: Sequence[Cost], traffic: Traffic, *, messages: str = "this traffic"
) -> Recommendation:
    """Choose a protocol and say why; ``messages`` names the traffic they ran on."""
    choice = choose(costs, traffic)
    if choice is None:
        reason = f"No protocol that ran on {messages} can be recommended: their remarks say why."
        if not any(cost.status is Status.RUN for cost in costs):
            reason = f"No protocol could be run on {messages}."
        return Recommendation(None, reason)
    otherwise = " ".join(_otherwise(choice, traffic))
    return Recommendation(choice.best.protocol, _because(choice, traffic, messages), otherwise)


def caveat(messages: int, processes: int) -> str:
    """Return a warning if the log is too short to choose by, else an empty string."""
    if messages >= max(FEW_MESSAGES, FEW_EACH * processes):
        return ""
    log = "One message is" if messages == 1 else f"{messages:,} messages are"
    return (
        f"{log} too few to choose a protocol by: what they cost grows until every process has "
        "heard of the others, and another may then be the best. "
        f"Begin with {FIRST}, or give a longer log."
    )


def need(costs: Sequence[Cost]) -> str:
    """Return whether a protocol is needed at all; empty if that was not examined."""
    found = next((cost for cost in costs if cost.protocol == NONE), None)
    if found is None:
        return ""
    late, of = found.faults[0].values
    head = f"Without a protocol, {late:,} of {of:,} deliveries would have been out of order"
    if late:
        return f"{head}."
    return f"{head}: this traffic needs none, but nothing promises that it stays so."


def for_now(advice: Recommendation) -> Recommendation:
    """Return the advice for a log that is too short to choose by: it names no alternatives."""
    so_far = f"; so far {advice.protocol} is cheapest" if advice.protocol else ""
    return Recommendation(FIRST, f"Use {FIRST}. This log is too short to compare{so_far}.")


def _because(choice: Choice, traffic: Traffic, messages: str) -> str:
    best = choice.best
    extent = "the beginning of " if best.is_partial else "all of "
    ran = f"ran on {extent}{messages}"
    start = f"Use {best.protocol}: {_bytes(best, traffic)} and {_ms(best)} more a copy on average."
    if choice.rivals == 1:
        return f"{start} No other protocol that keeps causal order and {ran} adds as little delay."
    return (
        f"{start} These are the fewest bytes of the {choice.rivals} protocols that keep causal "
        f"order, {ran} and add hardly more delay than causal order requires."
    )


def _otherwise(choice: Choice, traffic: Traffic) -> list[str]:
    """Return which protocol suits which other priority."""
    sentences = []
    if (leaner := choice.leaner) is not None:
        sentences.append(
            f"If latency does not matter, {leaner.protocol} costs {_bytes(leaner, traffic)} a copy "
            f"and adds {_ms(leaner)}{_extent(leaner)}."
        )
    if (smaller := choice.smaller) is not None:
        sentences.append(
            f"If memory is scarce, use {smaller.protocol}: it keeps at most "
            f"{smaller.state_bytes_peak:,.0f} bytes per process and adds {_ms(smaller)}"
            f"{_extent(smaller)}."
        )
    if (second := choice.second) is not None:
        sentences.append(f"Next best is {second.protocol} with {_bytes(second, traffic)} a copy.")
    sentences += [
        f"{cost.protocol} cost {_bytes(cost, traffic)} a copy{_extent(cost)}; it may cost more "
        "later."
        for cost in choice.partial
    ]
    sentences += [
        f"If messages must never wait, use {cost.protocol}{_extent(cost)}: it adds {_ms(cost)}, "
        f"but each copy contains {cost.entries_per_copy or 0:,.1f} earlier messages, payloads "
        "included."
        for cost in choice.carriers
    ]
    return sentences


def _bytes(cost: Cost, traffic: Traffic) -> str:
    """Return a copy's bytes in total, to three figures as in the table."""
    size = traffic.total_bytes(cost)
    return f"{size:,.0f} bytes" if size >= 1000 else f"{size:.3g} bytes"


def _extent(cost: Cost) -> str:
    return " on the beginning, which is all it ran on" if cost.is_partial else ""


def _ms(cost: Cost) -> str:
    """Return the delay that a protocol adds, to three figures."""
    delay = 1000 * added_delay(cost)
    if 0 < delay < 0.001:
        return "less than 0.001 ms"
    return f"{delay:,.0f} ms" if delay >= 1000 else f"{delay:.3g} ms"
