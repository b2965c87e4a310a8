"""An oracle that uses no clock of its own: explicit sets of events that happened before others.

It is slow and obvious on purpose and shares nothing with the code that it judges, except how it
orders contradictory rows with the same seq.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from functools import reduce
from operator import xor

from antecede.events import Event
from antecede.events.hashing import hash_names
from antecede.events.tables import (
    CAUSAL_CYCLE,
    CLOCK_AHEAD,
    CONTRADICTORY_SEQ,
    DELIVERED_TWICE,
    DELIVERY_AMBIGUOUS,
    DELIVERY_WITHOUT_SEND,
    SENT_TWICE,
)

KIND = {"send": 0, "deliver": 1, "local": 2}
RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class Stamped(Event):
    """An event with a clock, which counts the events of other processes that it follows."""

    clock: tuple[tuple[str, int], ...] | None = None


@dataclass
class Truth:
    """The errors in a history."""

    violations: dict[tuple[str, str, int], tuple[str, int, int]] = field(default_factory=dict)
    missing: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    findings: set[tuple[str, str, int, str | None]] = field(default_factory=set)
    chain_lengths: dict[tuple[str, str, int], int] = field(default_factory=dict)


@dataclass
class Order:
    """A log in order, its pairing and the events after each event."""

    log: list[Event]
    edges: set[tuple[int, int]]  # beyond those of processes and messages
    paired: dict[int, int] = field(default_factory=dict)  # delivery -> the send it is judged by
    alone: dict[int, str] = field(default_factory=dict)  # first deliveries without a send
    owners: dict[str, list[int]] = field(default_factory=dict)
    replies: set[int] = field(default_factory=set)  # sends of an id back to its sender
    again: list[int] = field(default_factory=list)  # repeated deliveries
    cyclic: set[int] = field(default_factory=set)
    after: list[set[int]] = field(default_factory=list)

    def find_after(self) -> None:
        self.after = reachable(self.log, self.paired, self.edges)


def oracle(events: list[Event]) -> Truth:
    """Judge a history by explicit happened-before sets."""
    order = order_of(events)
    truth = Truth()
    log = order.log

    def find(kind: str, i: int) -> None:
        truth.findings.add((kind, log[i].process, log[i].seq, log[i].message))

    for i in range(1, len(log)):
        if (log[i - 1].process, log[i - 1].seq) == (log[i].process, log[i].seq):
            find(CONTRADICTORY_SEQ, i)
    for i, e in enumerate(log):
        owners = order.owners.get(str(e.message), [])
        if e.kind == "send" and i not in order.replies and (i not in owners or len(owners) > 1):
            find(SENT_TWICE, i)
    for i in order.again:
        find(DELIVERED_TWICE, i)
    for i, why in order.alone.items():
        if why != RETURNED:
            find(why, i)
    for i in order.cyclic:
        message = None if log[i].kind == "local" else log[i].message
        truth.findings.add((CAUSAL_CYCLE, log[i].process, log[i].seq, message))
    for i in clock_edges(log)[1]:
        message = None if log[i].kind == "local" else log[i].message
        truth.findings.add((CLOCK_AHEAD, log[i].process, log[i].seq, message))
    judge(order, truth)
    return truth


def order_of(events: list[Event]) -> Order:
    """Pair deliveries with sends, and determine happened-before."""
    names = sorted({e.message or "" for e in events} | {d for e in events for d in e.dests or ()})
    hashes = dict(zip(names, hash_names(names).tolist(), strict=True))

    def place(e: Event) -> tuple[str, int, int, int, int]:
        dests = {hashes[d] for d in e.dests or ()} if e.kind == "send" else set()
        return (e.process, e.seq, KIND[e.kind], hashes[e.message or ""], reduce(xor, dests, 0))

    log = sorted(events, key=place)
    earliest: dict[str, int] = {}
    while True:
        order = Order(log, set(clock_edges(log)[0]))
        for message in sorted({e.message for e in log if e.kind != "local" and e.message}):
            pair(order, message, earliest.get(message))
        order.find_after()
        cut(order)
        found = {
            message: first[0]
            for message, owners in order.owners.items()
            if len(owners) > 1
            and (first := [o for o in owners if all(o == x or x in order.after[o] for x in owners)])
        }
        if not found:
            return order
        earliest |= found


def cut(order: Order) -> None:
    """Remove events on cycles."""
    for i, s in list(order.paired.items()):
        if s in order.after[i]:
            order.cyclic.add(i)
    for j, i in list(order.edges):
        if j in order.after[i]:
            order.edges.remove((j, i))
            order.cyclic.add(i)
    for i in [i for i, s in order.paired.items() if s in order.after[i]]:
        del order.paired[i]
    order.find_after()


def clock_edges(log: list[Event]) -> tuple[list[tuple[int, int]], set[int]]:
    """Return the order that clocks add as edges, and the events whose clock is ahead of the log."""
    mine: dict[str, list[int]] = defaultdict(list)
    for i, e in enumerate(log):
        mine[e.process].append(i)
    edges, ahead = [], set()
    for events in mine.values():
        most: dict[str, int] = defaultdict(int)
        told: set[int] = set()
        for i in events:
            for q, r in getattr(log[i], "clock", None) or ():
                if q == log[i].process or q not in mine or r <= most[q]:
                    continue
                numbers = numbers_of([log[k] for k in mine[q]])
                counted = [k for k, number in zip(mine[q], numbers, strict=True) if number <= r]
                if counted and counted[-1] not in told:
                    edges.append((counted[-1], i))
                    told.add(counted[-1])
                if r > numbers[-1]:
                    ahead.add(i)
                most[q] = r
    return edges, ahead


def numbers_of(events: list[Event]) -> list[int]:
    """Return the numbers by which clocks count the events of a process."""
    names = [(e.seq, e.kind, e.message) for e in events]
    own = [dict(getattr(e, "clock", None) or ()).get(e.process, 0) for e in events]
    alike = [names[k] == names[k - 1] for k in range(1, len(events))]
    rising = all(
        low < high or (same and low == high)
        for low, high, same in zip(own, own[1:], alike, strict=False)
    )
    if own[0] > 0 and rising:
        return own
    return [k + 1 - sum(alike[:k]) for k in range(len(events))]


class Passed:
    """One id and all its events in the log; see ``copies`` for the rule."""

    def __init__(self, log: list[Event], message: str, earliest: int | None) -> None:
        self.log = log
        self.events = [i for i, e in enumerate(log) if e.message == message and e.kind != "local"]
        self.sends = [i for i in self.events if log[i].kind == "send"]
        self.at: dict[str, list[int]] = defaultdict(list)
        self.first: dict[str, int] = {}
        for i in self.events:
            self.at[log[i].process].append(i)
            if i not in self.sends:
                self.first.setdefault(log[i].process, i)
        self.origins = [at[0] for at in self.at.values() if at[0] in self.sends]
        if not self.origins:
            self.origins = [s for p in self.at for s in self.came_from_outside(p)]
        if not self.origins and len(self.sends) == 1:
            self.origins = self.sends
        self.owners = self.origins if earliest is None else [earliest]
        self.causes = {p: self.causes_at(p, d) for p, d in self.first.items()}

    def stated(self, s: int, p: str) -> bool:
        return p in (self.log[s].dests or ())

    def possible(self, s: int, p: str) -> bool:
        return self.log[s].dests is None or self.stated(s, p)

    def came_from_outside(self, p: str) -> list[int]:
        own = [s for s in self.sends if self.log[s].process == p]
        others = [s for s in self.sends if self.log[s].process != p]
        if any(self.stated(s, p) for s in own) or any(self.possible(s, p) for s in others):
            return []
        return own[:1]

    def got_without(self, p: str) -> set[str]:
        found = {self.log[o].process for o in self.origins} - {p}
        while True:
            sends = [s for s in self.sends if self.log[s].process in found]
            more = {q for q in self.first if any(self.possible(s, q) for s in sends)} - {p}
            if more <= found:
                return found
            found |= more

    def causes_at(self, p: str, d: int) -> list[int]:
        others = [s for s in self.sends if self.possible(s, p) and self.log[s].process != p]
        own = [s for s in self.sends if self.log[s].process == p and s < d]
        if own:
            alone = [s for s in own if self.log[s].dests is None and not others]
            return others + [s for s in own if self.stated(s, p)] + alone
        reached = self.got_without(p)
        early = [s for s in others if not any(self.is_before(o, s) for o in others)]
        return [s for s in early if not self.origins or self.log[s].process in reached]

    def is_before(self, one: int, other: int) -> bool:
        return one < other and self.log[one].process == self.log[other].process

    def last(self, i: int) -> int | None:
        """Return the previous event of the id at an event's process."""
        before = [j for j in self.at[self.log[i].process] if j < i]
        return before[-1] if before else None

    def is_alone(self, s: int, p: str) -> bool:
        if self.log[s].dests is None:
            return self.at.keys() == {p, self.log[s].process}
        return {q for q in self.log[s].dests or () if any(q == e.process for e in self.log)} == {p}

    def replies(self) -> dict[int, int]:
        """Return delivery -> send if two processes take turns."""
        found: dict[int, int] = {}
        for p, d in self.first.items():
            asked = [s for s in self.sends if s in self.at[p]]
            outward = [] if asked and asked[0] < d else self.causes[p]
            back = [
                s
                for s in self.sends
                if self.log[s].process != p and self.possible(s, p) and s not in outward
            ]
            clear = (
                len({self.log[s].process for s in back}) == 1
                and all(self.is_alone(s, p) for s in back)
                and all(self.last(s) is not None and self.last(s) not in self.sends for s in back)
                and not any(self.stated(s, p) for s in asked)
            )
            got = [i for i in self.at[p] if i not in self.sends and self.last(i) in self.sends]
            if clear and max(len(got), len(back)) > 1:
                clear = self.has_all_turns(p, self.log[back[0]].process, len(back), len(got))
            found |= dict(zip(got, back, strict=False)) if clear else {}
        return found

    def has_all_turns(self, p: str, q: str, back: int, got: int) -> bool:
        """Return whether p and q take turns, and only the end of the last one may be missing."""
        asked = [s for s in self.at[p] if s in self.sends and self.possible(s, q)]
        heard = [i for i in self.at[q] if i not in self.sends]
        alternate = all(
            (i in self.sends) is not (self.last(i) in self.sends)
            for i in (*self.at[p][1:], *self.at[q][1:])
        )
        counts = [len(asked), len(heard), back, got, len(asked) - 1]
        return alternate and counts == sorted(counts, reverse=True)

    def owner(self) -> dict[int, int | str]:
        copies = {self.first[p]: whose for p, whose in self.owner_of_copies().items()}
        return {**copies, **self.replies()}

    def owner_of_copies(self) -> dict[str, int | str]:
        if len(self.owners) == 1:
            return {p: self.single_owner(self.owners[0], p, d) for p, d in self.first.items()}
        found: dict[str, int | str] = {}
        for _ in self.at:
            for p in self.first:
                if len(self.causes[p]) == 1 and p not in found:
                    q = self.log[self.causes[p][0]].process
                    mine = [o for o in self.owners if self.log[o].process == q]
                    if mine or q in found:
                        found[p] = mine[0] if mine else found[q]
        for p in self.first:
            known = self.causes[p] and self.origins
            why = DELIVERY_AMBIGUOUS if known else DELIVERY_WITHOUT_SEND
            found.setdefault(p, why)
        return found

    def single_owner(self, owner: int, p: str, d: int) -> int | str:
        if self.stated(owner, p):
            return owner
        if p == self.log[owner].process:
            if len(self.sends) == 1 and d > owner and self.log[owner].dests is None:
                return owner
            is_copy = len(self.sends) > 1 and d > owner
            return RETURNED if is_copy else DELIVERY_WITHOUT_SEND
        return RETURNED if any(s < d for s in self.sends if s in self.at[p]) else owner


def pair(order: Order, message: str, earliest: int | None) -> None:
    """Decide whose copy each delivery of a message is."""
    passed = Passed(order.log, message, earliest)
    order.owners[message] = passed.owners
    order.replies |= set(passed.replies().values())
    owner = passed.owner()
    order.again += [i for i in passed.events if i not in passed.sends and i not in owner]
    for d, whose in owner.items():
        if isinstance(whose, int):
            order.paired[d] = whose
        else:
            order.alone[d] = whose
    for p, causes in passed.causes.items():
        d = passed.first[p]
        if passed.origins and len(causes) == 1 and causes[0] != owner[d]:
            order.edges.add((causes[0], d))


def judge(order: Order, truth: Truth) -> None:
    log, paired, after = order.log, order.paired, order.after
    at: dict[str, list[int]] = defaultdict(list)
    for i in sorted(paired):
        at[log[i].process].append(i)
    children = successors(order)
    for p, deliveries in at.items():
        for k, i in enumerate(deliveries):
            effects = [j for j in deliveries[:k] if paired[j] in after[paired[i]]]
            if effects:
                j = effects[0]
                key = (p, str(log[i].message), log[i].seq)
                truth.violations[key] = (str(log[j].message), log[j].seq, i - j - 1)
                truth.chain_lengths[key] = distance(children, paired[i], paired[j])
    delivered = {(e.process, e.message) for e in log if e.kind == "deliver"}
    for message, owners in order.owners.items():
        for s in owners:
            for dest in sorted(set(log[s].dests or ())):
                effects = [j for j in at.get(dest, []) if paired[j] in after[s]]
                if (dest, message) not in delivered and effects:
                    j = effects[0]
                    truth.missing[dest, message] = (str(log[j].message), log[j].seq)


def reachable(
    log: list[Event], paired: dict[int, int], edges: set[tuple[int, int]]
) -> list[set[int]]:
    """Return, per event, all events after it, directly or indirectly."""
    follow: list[list[int]] = [[] for _ in log]
    for i in range(1, len(log)):
        if log[i].process == log[i - 1].process:
            follow[i - 1].append(i)
    for i, s in paired.items():
        follow[s].append(i)
    for j, i in edges:
        follow[j].append(i)
    after, grows = [set(follow[i]) for i in range(len(log))], True
    while grows:
        grows = False
        for i in reversed(range(len(log))):
            more = after[i].union(*(after[j] for j in follow[i]))
            grows = grows or len(more) > len(after[i])
            after[i] = more
    return after


def walk(follow: list[list[int]], start: list[int]) -> set[int]:
    """Return everything that can be reached from ``start``, including itself."""
    seen: set[int] = set()
    stack = list(start)
    while stack:
        v = stack.pop()
        if v not in seen:
            seen.add(v)
            stack += follow[v]
    return seen


def successors(order: Order) -> dict[int, set[int]]:
    """Return, per send, the sends by processes that had sent or delivered it, or knew of it."""
    log, owners = order.log, {o for some in order.owners.values() for o in some} | order.replies
    follow: list[list[int]] = [[] for _ in log]
    for i in range(1, len(log)):
        if log[i].process == log[i - 1].process:
            follow[i - 1].append(i)
    for j, i in order.edges:
        follow[j].append(i)
    holders: dict[int, list[int]] = defaultdict(list)
    for i, s in order.paired.items():
        holders[s].append(i)
    return {s: (walk(follow, [s, *holders[s]]) & owners) - {s} for s in owners}


def distance(children: dict[int, set[int]], source: int, target: int) -> int:
    """Return the number of messages on a shortest chain, including both ends."""
    level, seen, length = {source}, {source}, 1
    while target not in level:
        level = set().union(*(children[s] for s in level)) - seen
        seen |= level
        length += 1
    return length
