"""The audit in plain Python: what ``audit`` decides, as one reads it, in one pass of vector clocks.

It needs only the standard library, compiles nothing, and suits logs of up to 200,000 events. The
other engines do the same on arrays and in windows; tests compare them with this one.

1. ``Order`` sorts the events of each process and pairs deliveries with sends.
2. ``Order.run`` takes the events in an order in which causes come before effects. It keeps two
   vectors for each process: ``past``, the latest event of every process that happened before, and
   ``seen``, the maximum of the ``past`` of every send whose message the process has delivered. A
   delivery of the a-th event of i is late if ``seen[i] >= a`` just before it.

``doubt`` asks whether events missing from the log can hide a violation, ``ties`` whether violations
depend on the order of events with the same seq.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from antecede.audit.copies import FINDINGS, STRAY, Message, Row
from antecede.audit.rows import Counts, Finding
from antecede.events.rule import Event
from antecede.events.tables import (
    CAUSAL,
    CAUSAL_CYCLE,
    CLOCK_AHEAD,
    CONTRADICTORY_SEQ,
    DELIVER,
    DELIVERED_TWICE,
    FIFO,
    LOCAL,
    SEND,
    SENT_TWICE,
)

#: ``Order.link`` of an event that follows no send.
ALONE = -1
#: How many violations get their shortest chain.
WORST = 100
_KINDS = {SEND: 0, DELIVER: 1, LOCAL: 2}

Clock = Mapping[str, int]
Vector = list[int]


class Late(NamedTuple):
    """A delivery (as an event) that came after the delivery of an effect."""

    delivery: int
    overtaker: int


class Lost(NamedTuple):
    """A send that a process never delivered, although it delivered one of its effects."""

    send: int
    process: int
    overtaker: int


@dataclass
class Run:
    """The results of one pass over a log."""

    sequence: list[int]
    """The events, causes before effects."""
    past: dict[int, Vector]
    """The vectors of sends, and of events that others follow."""
    seen: list[list[Vector]]
    """For each process, ``seen`` after each of its judged deliveries."""
    judged: list[list[int]]
    """For each process, these deliveries."""
    late: list[Late] = field(default_factory=list)
    end: list[Vector] = field(default_factory=list)
    """For each process, the past of its last event."""

    def first_effect(self, process: int, sender: int, place: int) -> int | None:
        """Return the first delivery at a process of an effect of an event, or None."""
        found = self.seen[process]
        at = bisect_left(found, place, key=lambda seen: seen[sender])
        return self.judged[process][at] if at < len(found) else None


class Order:
    """The events of a log by process and place, and what each of them follows."""

    def __init__(self, events: Sequence[Event], clocks: Sequence[Clock | None] = ()) -> None:
        order = _sorted(events)
        self.events = [events[k] for k in order]
        self.clocks = [clocks[k] for k in order] if clocks else []
        self.names = sorted({event.process for event in events})
        number = {name: p for p, name in enumerate(self.names)}
        self.who = [number[event.process] for event in self.events]
        self.start = [bisect_left(self.who, p) for p in range(len(self.names) + 1)]
        self.place = [i - self.start[p] + 1 for i, p in enumerate(self.who)]
        self.link = [ALONE] * len(self.events)
        self.alone: dict[int, int] = {}  # first deliveries without a send -> why
        self.again: list[int] = []  # deliveries that repeat one
        self.passed: dict[str, Message] = {}  # ids that were sent several times
        self.edges: dict[int, list[int]] = defaultdict(list)  # event -> what else it follows
        self.cut: dict[int, int] = {}  # deliveries on cycles -> their sends
        self.cut_edges: set[int] = set()  # events that follow others on cycles by edges
        self.ahead: set[int] = set()  # events whose clock is ahead of the log
        self._number = number
        self._earliest: dict[str, int] = {}
        self._settle()

    def _settle(self) -> None:
        """Pair deliveries with sends, until it is known which sends of one id came first."""
        by_id: dict[str, list[int]] = defaultdict(list)
        for i, event in enumerate(self.events):
            if event.kind != LOCAL and event.message is not None:
                by_id[event.message].append(i)
        self._pair_once(by_id)
        self._clocked = self._clock_edges()
        while True:
            for i, send in self.cut.items():
                self.link[i] = send
            self.edges.clear()
            for i, sources in self._clocked.items():
                self.edges[i] += sources
            self._pair_passed(by_id)
            self.run = self._run()
            found = self._first_origins()
            if not found:
                return
            self._earliest |= found

    def _pair_once(self, by_id: Mapping[str, list[int]]) -> None:
        """Pair the messages of ids that were sent at most once."""
        for name, rows in by_id.items():
            sends = [i for i in rows if self.events[i].kind == SEND]
            send = sends[0] if sends else ALONE
            got: set[int] = set()
            if len(sends) > 1 or any(self._comes_back(i, send) for i in rows if sends):
                self.passed[name] = Message([])
                continue
            for i in rows:
                if i == send:
                    continue
                if self.who[i] in got:
                    self.again.append(i)
                elif send == ALONE:
                    self.alone[i] = STRAY
                self.link[i] = ALONE if self.who[i] in got else send
                got.add(self.who[i])

    def _comes_back(self, i: int, send: int) -> bool:
        """Return whether a process delivers its own send, before it or though it is for others."""
        event = self.events[send]
        is_for = event.dests is None or event.process in event.dests
        return i != send and self.who[i] == self.who[send] and (i < send or not is_for)

    def _pair_passed(self, by_id: Mapping[str, list[int]]) -> None:
        """Pair the messages of ids that were sent several times; see ``copies``."""
        for name in self.passed:
            rows = by_id[name]
            message = Message([self._row(i) for i in rows], self._earliest.get(name))
            self.passed[name] = message
            for i in rows:
                self.alone.pop(i, None)
                self.link[i] = ALONE
            for delivery, owner in message.owner.items():
                if isinstance(owner, Row):
                    self.link[delivery] = owner.number
                else:
                    self.alone[delivery] = owner
            for source, target in message.edges():
                self.edges[target].append(source)

    def _row(self, i: int) -> Row:
        event = self.events[i]
        dests = None
        if event.dests is not None:
            dests = frozenset(self._number[d] for d in event.dests if d in self._number)
        return Row(i, self.who[i], event.kind == SEND, dests)

    def _clock_edges(self) -> dict[int, list[int]]:
        """Return, for each event with a clock, the events that its clock newly counts."""
        found: dict[int, list[int]] = {}
        numbers = [self._numbers(p) for p in range(len(self.names))] if self.clocks else []
        for p in range(len(numbers)):
            known: dict[int, int] = defaultdict(int)
            most: dict[int, int] = defaultdict(int)
            for i in range(self.start[p], self.start[p + 1]):
                for name, count in (self.clocks[i] or {}).items():
                    q = self._number.get(name, p)
                    if q == p or count <= most[q]:
                        continue
                    most[q] = count
                    rank = bisect_right(numbers[q], count)
                    if rank > known[q]:
                        found.setdefault(i, []).append(self.start[q] + rank - 1)
                        known[q] = rank
                    if count > numbers[q][-1]:
                        self.ahead.add(i)
        return found

    def _numbers(self, p: int) -> list[int]:
        """Return the numbers by which clocks count the events of a process.

        They come from the process's own clocks, if all of them give one. Otherwise its events are
        counted; rows that repeat an event have its number.
        """
        counted: list[int] = []
        own: list[int] = []
        are_own = True
        for i in range(self.start[p], self.start[p + 1]):
            is_again = bool(counted) and self._is_again(i)
            counted.append((counted[-1] if counted else 0) + (not is_again))
            own.append((self.clocks[i] or {}).get(self.names[p], 0))
            last = own[-2] if counted[1:] else 0
            are_own &= own[-1] > last or (is_again and own[-1] == last > 0)
        return own if are_own else counted

    def _is_again(self, i: int) -> bool:
        """Return whether an event repeats the one before it."""
        one, other = self.events[i - 1], self.events[i]
        return (one.seq, one.kind, one.message) == (other.seq, other.kind, other.message)

    @property
    def has_clocks(self) -> bool:
        """Whether any clock adds order."""
        return bool(self._clocked) or any(map(self.states_all, range(len(self.events))))

    @property
    def has_relays(self) -> bool:
        """Whether a delivery must have come through a relay."""
        return any(True for message in self.passed.values() for _ in message.edges())

    def states_all(self, i: int) -> bool:
        """Return whether an event has a clock that does not say that it is partial."""
        clock = self.clocks[i] if self.clocks else None
        return clock is not None and clock.get(self.events[i].process, 1) >= 1

    def _run(self) -> Run:
        """Run the vectors, leaving out events on cycles."""
        self.cut.clear()
        self.cut_edges.clear()
        run = self._pass()
        if len(run.sequence) < len(self.events):
            self._cut_cycles(set(run.sequence))
            run = self._pass()
        return run

    def _pass(self) -> Run:
        n = len(self.names)
        needed = {source for sources in self.edges.values() for source in sources}
        run = Run([], {}, [[] for _ in range(n)], [[] for _ in range(n)])
        past, seen = [[0] * n for _ in range(n)], [[0] * n for _ in range(n)]
        at, done = self.start[:n], run.past
        waiting: dict[int, list[int]] = defaultdict(list)
        ready = list(range(n))
        kinds = [event.kind for event in self.events]
        while ready:
            p = ready.pop()
            i, end, mine = at[p], self.start[p + 1], past[p]
            while i < end:
                send = self.link[i]
                follows = self.edges.get(i, ())
                blocked = next((s for s in (send, *follows) if s >= 0 and s not in done), None)
                if blocked is not None:
                    waiting[blocked].append(p)
                    break
                for source in follows:
                    mine = list(map(max, mine, done[source]))
                if send >= 0:
                    vector, sender = done[send], self.who[send]
                    if seen[p][sender] >= self.place[send]:
                        effect = run.first_effect(p, sender, self.place[send])
                        assert effect is not None
                        run.late.append(Late(i, effect))
                    seen[p] = list(map(max, seen[p], vector))
                    run.seen[p].append(seen[p])
                    run.judged[p].append(i)
                    mine = list(map(max, mine, vector))
                if kinds[i] == SEND or i in needed:
                    mine = mine.copy()
                    mine[p] = self.place[i]
                    done[i] = mine
                    ready += waiting.pop(i, ())
                run.sequence.append(i)
                i += 1
            at[p], past[p] = i, mine
        run.end = past
        return run

    def _cut_cycles(self, done: set[int]) -> None:
        """Leave out the deliveries and edges on cycles."""
        component = self._components(done)
        for i in range(len(self.events)):
            send = self.link[i]
            if i in done:
                continue
            if send >= 0 and component.get(send) == component[i]:
                self.link[i] = ALONE
                self.cut[i] = send
            kept = [s for s in self.edges.get(i, ()) if component.get(s) != component[i]]
            if i in self.edges and len(kept) < len(self.edges[i]):
                self.edges[i] = kept
                self.cut_edges.add(i)

    def _components(self, done: set[int]) -> dict[int, int]:
        """Return the strong component of each event that is not done (Tarjan's algorithm)."""
        follow = self._next()
        index: dict[int, int] = {}
        low: dict[int, int] = {}
        found: dict[int, int] = {}
        stack: list[int] = []
        for root in range(len(self.events)):
            if root in done or root in index:
                continue
            path = [(root, iter(follow[root]))]
            index[root] = low[root] = len(index)
            stack.append(root)
            while path:
                v, rest = path[-1]
                u = next(rest, None)
                if u is None:
                    path.pop()
                    if path:
                        low[path[-1][0]] = min(low[path[-1][0]], low[v])
                    if low[v] == index[v]:
                        while v not in found:
                            found[stack.pop()] = v
                elif u not in index:
                    index[u] = low[u] = len(index)
                    stack.append(u)
                    path.append((u, iter(follow[u])))
                elif u not in found:
                    low[v] = min(low[v], index[u])
        return found

    def _next(self) -> dict[int, list[int]]:
        """Return the events that directly follow each event."""
        found: dict[int, list[int]] = defaultdict(list)
        for i, p in enumerate(self.who):
            if i + 1 < self.start[p + 1]:
                found[i].append(i + 1)
            for source in (self.link[i], *self.edges.get(i, ())):
                if source >= 0:
                    found[source].append(i)
        return found

    def _first_origins(self) -> dict[str, int]:
        """Return the process of the origin that happened before all others, by id."""
        past, found = self.run.past, {}
        for name, message in self.passed.items():
            owners = [o.number for o in message.owners]
            for o in owners if len(owners) > 1 else ():
                p = self.who[o]
                if all(past[other][p] >= self.place[o] for other in owners):
                    found[name] = p
        return found

    def owns(self, i: int) -> bool:
        """Return whether a send counts as a message: relays do not."""
        message = self.passed.get(str(self.events[i].message))
        if message is None:
            return True
        return any(i == o.number for o in (*message.owners, *message.replies.values()))

    def undelivered(self) -> list[tuple[int, int]]:
        """Return (send, process) where the log lacks a delivery that the send should have.

        A send without stated destinations and without any delivery may be for every process.
        """
        got = {(self.who[i], e.message) for i, e in enumerate(self.events) if e.kind == DELIVER}
        delivered = {send for send in self.link if send >= 0}
        found = [place for message in self.passed.values() for place in message.undelivered()]
        for i, event in enumerate(self.events):
            if event.kind != SEND:
                continue
            if event.dests is None:
                if self.owns(i) and i not in delivered:
                    found += [(i, p) for p in range(len(self.names)) if p != self.who[i]]
            elif event.message not in self.passed:
                some = {self._number[d] for d in event.dests if d in self._number}
                found += [(i, p) for p in sorted(some) if (p, event.message) not in got]
        return sorted(set(found))

    def has_strangers(self) -> bool:
        """Return whether a message is for a process that has no events."""
        return any(
            dest not in self._number
            for event in self.events
            if event.kind == SEND and event.message not in self.passed
            for dest in event.dests or ()
        )

    def shows_gaps(self) -> bool:
        """Return whether a clock counts a send addressed to its process but never delivered there.

        If no delivery of the process tells of that send, the log lacks the one that did.
        """
        return bool(self._clocked) and any(
            self.events[send].message not in self.passed
            and p != self.who[send]
            and self.run.end[p][self.who[send]] >= self.place[send]
            and self.run.first_effect(p, self.who[send], self.place[send]) is None
            for send, p in self.undelivered()
        )

    def lost(self) -> list[Lost]:
        """Return the messages that a stated destination lacks, although it has an effect."""
        got = {(self.who[i], e.message) for i, e in enumerate(self.events) if e.kind == DELIVER}
        found = []
        for i, event in enumerate(self.events):
            if event.kind != SEND or not event.dests or not self.owns(i):
                continue
            for p in sorted({self._number[d] for d in event.dests if d in self._number}):
                if (p, event.message) not in got:
                    effect = self.run.first_effect(p, self.who[i], self.place[i])
                    if effect is not None:
                        found.append(Lost(i, p, effect))
        return found


def _sorted(events: Sequence[Event]) -> list[int]:
    """Return the order of events: by process and seq, then by other columns."""
    order = sorted(range(len(events)), key=lambda k: (events[k].process, events[k].seq))
    first = 0
    for k in range(1, len(order) + 1):
        if k < len(order) and _same_place(events[order[first]], events[order[k]]):
            continue
        if k - first > 1:
            order[first:k] = sorted(order[first:k], key=lambda k: _rank(events[k]))
        first = k
    return order


def _same_place(one: Event, other: Event) -> bool:
    return one.process == other.process and one.seq == other.seq


def _rank(event: Event) -> tuple[int, int, int, bool]:
    """Return the rank of an event among those with the same seq, as in every engine."""
    need = 0
    for dest in set(event.dests or ()):
        need ^= _hash(dest)
    is_known = event.kind == SEND and event.dests is not None
    return _KINDS[event.kind], _hash(event.message or ""), need, is_known


_MASK = 2**64 - 1
_P1, _P2, _P3 = 11400714785074694791, 14029467366897019727, 1609587929392839161
_P4, _P5 = 9650029242287828579, 2870177450012600261


def _hash(text: str, seed: int = 42) -> int:
    """Return XXH64 as a signed integer, as ``events.hashing`` computes it on arrays."""
    data, at = text.encode(), 0
    value = (seed + _P5) & _MASK
    if len(data) >= 32:
        lanes = [(seed + _P1 + _P2) & _MASK, (seed + _P2) & _MASK, seed, (seed - _P1) & _MASK]
        for at in range(0, len(data) - 31, 32):
            for k in range(4):
                lanes[k] = _round(lanes[k], _word(data, at + 8 * k, 8))
        at += 32
        turned = zip(lanes, (1, 7, 12, 18), strict=True)
        value = sum(_rotate(lane, left) for lane, left in turned) & _MASK
        for lane in lanes:
            value = ((value ^ _round(0, lane)) * _P1 + _P4) & _MASK
    value = (value + len(data)) & _MASK
    while at + 8 <= len(data):
        value = (_rotate(value ^ _round(0, _word(data, at, 8)), 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= len(data):
        value = (_rotate(value ^ (_word(data, at, 4) * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        value = _rotate(value ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    value = (value ^ (value >> 33)) * _P2 & _MASK
    value = (value ^ (value >> 29)) * _P3 & _MASK
    value ^= value >> 32
    return value - 2**64 if value >> 63 else value


def _word(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _rotate(value: int, left: int) -> int:
    return (value << left | value >> (64 - left)) & _MASK


def _round(lane: int, word: int) -> int:
    return _rotate((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def violation_rows(order: Order, explain: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Return the rows of the table of violations, worst first."""
    events, who, place = order.events, order.who, order.place
    rows = []
    for late in order.run.late:
        send, effect = order.link[late.delivery], order.link[late.overtaker]
        one, other = events[late.delivery], events[late.overtaker]
        row: dict[str, Any] = {
            "process": one.process,
            "message": one.message,
            "sender": events[send].process,
            "seq": one.seq,
            "overtaker": other.message,
            "overtaker_sender": events[effect].process,
            "overtaker_seq": other.seq,
            "kind": FIFO if who[send] == who[effect] else CAUSAL,
            "lateness": place[late.delivery] - place[late.overtaker] - 1,
            "chain": None,
        }
        rows.append((row, send, effect))
    rows.sort(key=lambda one: (-one[0]["lateness"], one[0]["process"], str(one[0]["message"])))
    wanted, search = set(explain), _Chains(order) if rows else None
    for number, (row, send, effect) in enumerate(rows):
        if search and (number < WORST or row["message"] in wanted):
            row["chain"] = [events[i].message for i in search.shortest(send, effect)]
    return [row for row, _, _ in rows]


class _Chains:
    """A search for shortest chains of messages, breadth first, by process and place."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._copies: dict[int, list[int]] = defaultdict(list)
        self._edges: dict[int, list[int]] = defaultdict(list)
        for i, send in enumerate(order.link):
            if send >= 0:
                self._copies[send].append(i)
            for source in order.edges.get(i, ()):
                self._edges[source].append(i)

    def shortest(self, cause: int, effect: int) -> list[int]:
        """Return the sends from ``cause`` to ``effect``: each process knew of the previous one."""
        order = self._order
        # Only events in the past of the effect can be on the chain.
        reached = [order.start[p] + k for p, k in enumerate(order.run.past[effect])]
        parent = {cause: cause}
        queue = [cause]
        for send in queue:
            if effect in parent:
                break
            for holder in (send, *self._copies[send]):
                self._walk(send, holder, reached, parent, queue)
        path = [effect]
        while path[-1] != cause:
            path.append(parent[path[-1]])
        return path[::-1]

    def _walk(
        self, send: int, holder: int, reached: list[int], parent: dict[int, int], queue: list[int]
    ) -> None:
        """Enqueue all sends by processes that knew of ``send`` from some event on."""
        order, holders = self._order, [holder]
        while holders:
            event = holders.pop()
            p = order.who[event]
            last = reached[p]
            reached[p] = min(last, event)
            for i in range(event, last):
                if order.events[i].kind == SEND and i not in parent and order.owns(i):
                    parent[i] = send
                    queue.append(i)
                holders += self._edges.get(i, ())


def missing_rows(order: Order) -> list[dict[str, Any]]:
    """Return the rows of the table of missing messages."""
    rows = [
        {
            "process": order.names[lost.process],
            "message": order.events[lost.send].message,
            "sender": order.events[lost.send].process,
            "overtaker": order.events[lost.overtaker].message,
            "overtaker_seq": order.events[lost.overtaker].seq,
        }
        for lost in order.lost()
    ]
    rows.sort(key=lambda row: (row["process"], row["overtaker_seq"], row["message"]))
    return rows


def findings_of(order: Order) -> list[Finding]:
    """Return the inconsistencies of a log."""
    events = order.events

    def at(i: int, kind: str, *, by_edge: bool = False) -> Finding:
        event = events[i]
        is_quiet = event.kind == LOCAL and kind in {CLOCK_AHEAD, CAUSAL_CYCLE}
        return Finding(kind, event.process, event.seq, None if is_quiet else event.message, by_edge)

    found = [at(i, CONTRADICTORY_SEQ) for i in _clashes(order)]
    for message in order.passed.values():
        replies = {reply.number for reply in message.replies.values()}
        first = {o.number for o in message.owners} if len(message.owners) == 1 else set()
        found += [
            at(s.number, SENT_TWICE) for s in message.sends if s.number not in replies | first
        ]
    for i, why in order.alone.items():
        if why in FINDINGS:
            found.append(at(i, FINDINGS[why]))
    found += [at(i, DELIVERED_TWICE) for i in _repeated(order)]
    found += [at(i, CAUSAL_CYCLE) for i in order.cut]
    cyclic = {(f.process, f.seq, f.message) for f in found if f.kind == CAUSAL_CYCLE}
    by_edge = [at(i, CAUSAL_CYCLE, by_edge=True) for i in sorted(order.cut_edges)]
    found += [f for f in by_edge if (f.process, f.seq, f.message) not in cyclic]
    return found + [at(i, CLOCK_AHEAD) for i in order.ahead]


def _clashes(order: Order) -> list[int]:
    events = order.events
    return [i for i in range(1, len(events)) if _same_place(events[i - 1], events[i])]


def _repeated(order: Order) -> list[int]:
    """Return the deliveries that repeat one of the same message at the same process."""
    found = list(order.again)
    for message in order.passed.values():
        found += [r.number for r in message.rows if not r.is_send and r.number not in message.owner]
    return found


def count(order: Order) -> Counts:
    """Return the counts of a log."""
    events = order.events
    deliveries = sum(event.kind == DELIVER for event in events)
    linked = {i: send for i, send in enumerate(order.link) if send >= 0}
    strays = {i for i, why in order.alone.items() if why in FINDINGS}
    places = {(order.who[i], events[i].message) for i in strays}
    again = sum((order.who[i], events[i].message) in places for i in order.again)
    again += sum(
        message.owner_of(row) in FINDINGS
        for message in order.passed.values()
        for row in message.rows
        if not row.is_send and row.number not in message.owner
    )
    return Counts(
        events=len(events),
        processes=len(order.names),
        messages=sum(e.kind == SEND and order.owns(i) for i, e in enumerate(events)),
        deliveries=deliveries,
        paired_sends=len({*linked.values(), *order.cut.values()}),
        paired_deliveries=deliveries - len(strays) - again,
        judged_deliveries=len(linked) + len(order.cut),
    )
