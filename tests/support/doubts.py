"""The oracle's verdict: what the log shows by explicit sets, and what events it lacks can hide."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.events.tables import CONTRADICTORY_SEQ, DELIVERY_WITHOUT_SEND
from tests.support.oracles import RETURNED, Order, oracle, order_of

if TYPE_CHECKING:
    from antecede.events import Event


def verdict(events: list[Event]) -> str:
    """Return the verdict that a log deserves."""
    order, truth = order_of(events), oracle(events)
    if order.cyclic:
        return "undecidable"
    assert not any(kind == CONTRADICTORY_SEQ for kind, *_ in truth.findings), "not judged here"
    if truth.violations or truth.missing:
        return "broken"
    return "undecidable" if not order.paired or hides(order) else "ordered"


def hides(order: Order) -> bool:
    """Return whether events that a log lacks can hide a violation; see ``hidden`` for the rule."""
    log, after = order.log, order.after
    unsent = [u for u, why in order.alone.items() if why == DELIVERY_WITHOUT_SEND]
    if any(log[i].process == log[u].process and i < u for u in unsent for i in order.paired):
        return True
    clocked = {i for i, e in enumerate(log) if tells_everything(e)}
    sure: list[list[int]] = [[] for _ in log]
    for i in range(1, len(log)):
        if log[i].process == log[i - 1].process:
            sure[i - 1].append(i)
    for i, s in order.paired.items():
        sure[s].append(i)
    for j, i in order.edges:
        sure[j].append(i)
    maybe: list[list[int]] = [[] for _ in log]
    for s, b in undelivered(order):
        maybe[s] += [i for i, e in enumerate(log) if e.process == b and s not in after[i]]
    strays = [u for u, why in order.alone.items() if why != RETURNED and u not in clocked]
    pairs = [
        (order.paired[i], order.paired[j])
        for j in order.paired
        for i in order.paired
        if log[i].process == log[j].process and i < j
    ]
    tainted = {u: wander(sure, maybe, clocked, u, hidden=True) for u in strays}
    for effect, cause in pairs:
        if (effect, True) in wander(sure, maybe, clocked, cause, hidden=False):
            return True
        if any((effect, True) in tainted[u] and cause not in after[u] for u in strays):
            return True
    return False


def tells_everything(event: Event) -> bool:
    """Return whether an event has a clock, and one that does not say that it is partial."""
    clock = getattr(event, "clock", None)
    return clock is not None and not any(q == event.process and r < 1 for q, r in clock)


def wander(
    sure: list[list[int]], maybe: list[list[int]], clocked: set[int], start: int, *, hidden: bool
) -> set[tuple[int, bool]]:
    """Return what may follow ``start``, and whether by way of something hidden.

    Clocks tell everything, so that nothing hidden leads through an event with a clock.
    """
    seen: set[tuple[int, bool]] = set()
    stack = [(start, hidden)]
    while stack:
        place = stack.pop()
        if place in seen or (place[1] and place[0] in clocked):
            continue
        seen.add(place)
        stack += [(i, place[1]) for i in sure[place[0]]]
        stack += [(i, True) for i in maybe[place[0]]]
    return seen


def undelivered(order: Order) -> list[tuple[int, str]]:
    """Return (send, process): it may have been delivered there, though the log does not say so."""
    log = order.log
    names = {e.process for e in log}
    has = {(e.process, e.message) for e in log if e.kind != "local"}
    delivered = set(order.paired.values())
    found = []
    for s, e in enumerate(log):
        if e.kind != "send":
            continue
        if e.dests is not None:
            found += [(s, b) for b in set(e.dests) & names if (b, e.message) not in has]
        elif s in order.owners[str(e.message)] and s not in delivered:
            found += [(s, b) for b in names - {e.process}]
    return found
