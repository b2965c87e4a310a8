"""A choice in sentences: which protocol, why, and what would change that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from antecede.pipeline.advice.costs import Cost, Status
from antecede.pipeline.advice.recommendation import Choice, Traffic, added_delay, choose

#: With fewer messages than this, or than so many for each process, no protocol shows what it costs
#: once every process has heard of the others.
FEW_MESSAGES, FEW_EACH = 100, 10
#: What to begin with then.
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
    """Choose a protocol and say why; ``messages`` names what they ran on."""
    choice = choose(costs, traffic)
    if choice is None:
        reason = f"No protocol that ran on {messages} can be recommended: their remarks say why."
        if not any(cost.status is Status.RUN for cost in costs):
            reason = f"No protocol could be run on {messages}."
        return Recommendation(None, reason)
    otherwise = " ".join(_otherwise(choice, traffic))
    return Recommendation(choice.best.protocol, _because(choice, traffic, messages), otherwise)


def caveat(messages: int, processes: int) -> str:
    """Say that a log is too short to choose by; empty if it is not."""
    if messages >= max(FEW_MESSAGES, FEW_EACH * processes):
        return ""
    log = "One message is" if messages == 1 else f"{messages:,} messages are"
    return (
        f"{log} too few to choose a protocol by: what they cost grows until every process has "
        "heard of the others, and another may then be the best. "
        f"Begin with {FIRST}, or give a longer log."
    )


def for_now(advice: Recommendation) -> Recommendation:
    """Return the advice on a log that is too short to choose by: what its caveat says."""
    if advice.protocol == FIRST:
        return advice
    reason = f"{FIRST} is recommended until there is a longer log. So far: {advice.reason}"
    return Recommendation(FIRST, reason, advice.otherwise)


def _because(choice: Choice, traffic: Traffic, messages: str) -> str:
    best = choice.best
    extent = "the beginning of " if best.is_partial else "all of "
    ran = f"ran on {extent}{messages}"
    start = f"{best.protocol} costs {_bytes(best, traffic)} a copy in total"
    if choice.rivals == 1:
        return (
            f"{start}. No other protocol that keeps causal order and {ran} adds as little delay "
            f"({_ms(best)} on average)."
        )
    return (
        f"{start}, the least of the {choice.rivals} protocols that keep causal order, {ran} and "
        f"add hardly more delay than causal order requires ({_ms(best)} on average)."
    )


def _otherwise(choice: Choice, traffic: Traffic) -> list[str]:
    """Say which other choice would be right under which other wish."""
    sentences = []
    if (leaner := choice.leaner) is not None:
        sentences.append(
            f"If latency does not matter, {leaner.protocol} costs {_bytes(leaner, traffic)} a copy "
            f"and adds {_ms(leaner)}{_extent(leaner)}."
        )
    if (smaller := choice.smaller) is not None:
        sentences.append(
            f"If memory is scarce, {smaller.protocol} keeps at most "
            f"{smaller.state_bytes_peak:,.0f} bytes per process{_extent(smaller)}."
        )
    if (second := choice.second) is not None:
        sentences.append(f"Next best is {second.protocol} with {_bytes(second, traffic)} a copy.")
    sentences += [
        f"{cost.protocol} cost {_bytes(cost, traffic)} a copy{_extent(cost)}; it may cost more "
        "later."
        for cost in choice.partial
    ]
    sentences += [
        f"If nothing may wait, {cost.protocol} adds {_ms(cost)}{_extent(cost)}, but each copy "
        f"contains {cost.entries_per_copy or 0:,.1f} earlier messages, payloads included."
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
    return f"{delay:,.0f} ms" if delay >= 1000 else f"{delay:.3g} ms"
