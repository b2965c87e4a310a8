"""Groups whose members join, leave and restart, and an oracle that knows what is promised then.

A script is a list of steps, each a tuple of small integers; every list of such tuples is a script,
so Hypothesis can draw and shrink them, and a seed can draw very many quickly. The oracle uses no
clock: it records who sent and delivered what, and searches the chains between messages.

What it demands once everything has arrived and everyone knows of all changes of membership:

- every message between members that remain is delivered, and nothing is held any more;
- two messages of one sender are delivered in the order in which they were sent;
- if a message precedes another, every process that gets both gets them in that order, unless every
  chain between the two passes through the send of a message whose copy to that process was lost
  with a removed sender. A chain runs through the events of processes: from a delivery or a send to
  all later sends there, past those in between;
- a delivery that is out of order for that reason has a non-empty ``unmet``;
- ``unmet`` names only messages of removed processes that are never delivered.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from random import Random
from typing import NamedTuple, NoReturn

import antecede
from antecede import Delivery, Effects, Endpoint, MessageId, Packet, PeerError

Step = tuple[int, int, int]
Script = tuple[Step, ...]

SEND, ARRIVE, REPEAT, JOIN, LEAVE, LEARN, RESTART = range(7)
"""What the first number of a step means; the others choose who, which packet, and to whom."""
WEIGHTED = (
    *[SEND] * 8,
    *[ARRIVE] * 7,
    *[LEARN] * 3,
    *[LEAVE] * 2,
    REPEAT,
    JOIN,
    RESTART,
)
MEMBERS_MAX = 6


class BrokenError(AssertionError):
    """The endpoints did something that the oracle does not allow."""


def fail(text: str) -> NoReturn:
    raise BrokenError(text)


class Sent(NamedTuple):
    """A message as the oracle sees it: to whom, and what its sender did before."""

    dests: tuple[str, ...]
    before: tuple[MessageId, ...]


class Group:
    """Endpoints, the network between them, and what the oracle has recorded."""

    def __init__(self, protocol: str, options: Mapping[str, object], start: int = 3) -> None:
        self.protocol = protocol
        self.options = dict(options)
        self.casts = antecede.PROTOCOLS[protocol].casts
        names = tuple(f"p{i}" for i in range(start))
        self.ends = {name: self._made(name, names, ()) for name in names}
        self.named = start
        self.gone: list[str] = []
        self.news: dict[str, list[tuple[str, str]]] = {name: [] for name in names}
        self.flying: list[Packet] = []
        self.sent: dict[MessageId, Sent] = {}
        self.events: dict[str, list[MessageId]] = {name: [] for name in names}
        self.delivered: dict[str, list[Delivery]] = {name: [] for name in names}

    def _made(self, name: str, members: tuple[str, ...], removed: Iterable[str]) -> Endpoint:
        given = {**self.options, **({"removed": tuple(removed)} if removed else {})}
        return antecede.endpoint(self.protocol, process=name, members=members, pull=False, **given)

    def run(self, script: Script) -> None:
        """Carry out the steps, then everything that is still outstanding, and judge."""
        for kind, which, how in script:
            self._step(WEIGHTED[kind % len(WEIGHTED)], which, how)
        self._settle()
        self._judge()

    def _step(self, kind: int, which: int, how: int) -> None:
        living = sorted(self.ends)
        who = living[which % len(living)]
        if kind == SEND:
            self._send(who, how)
        elif kind == ARRIVE and self.flying:
            self._arrive(self.flying.pop(which % len(self.flying)))
        elif kind == REPEAT and self.flying:
            self._arrive(self.flying[which % len(self.flying)])
        elif kind == JOIN and len(living) < MEMBERS_MAX:
            self._join()
        elif kind == LEAVE and len(living) > 2:
            self._leave(who, how)
        elif kind == LEARN and self.news[who]:
            self._learn(who, how)
        elif kind == RESTART:
            self._restart(who)

    def _send(self, who: str, how: int) -> None:
        end = self.ends[who]
        others = [name for name in end.members if name != who]
        if not others:
            return
        if "unicast" not in self.casts:
            dests = others
        elif "multicast" not in self.casts:
            dests = [others[how % len(others)]]
        else:
            dests = [name for i, name in enumerate(others) if how >> i & 1] or others[:1]
        effects = end.send(dests, b"")
        message = MessageId(who, 1 + sum(m.sender == who for m in self.sent))
        self.sent[message] = Sent(tuple(dests), tuple(self.events[who]))
        self.events[who].append(message)
        self._take(who, effects)

    def _arrive(self, packet: Packet) -> None:
        """Hand a packet over; one that names a process still to be added is offered again."""
        end = self.ends.get(packet.dest)
        if end is None:
            return
        try:
            effects = end.receive(packet)
        except antecede.UnknownProcessError:
            self.flying.append(packet)
            return
        except PeerError:
            if packet.source in end.members:
                raise
            return  # its sender was removed here: the packet is lost
        self._take(packet.dest, effects)

    def _take(self, who: str, effects: Effects) -> None:
        self.flying.extend(effects.packets)
        for delivery in effects.deliveries:
            self.delivered[who].append(delivery)
            self.events[who].append(delivery.message)

    def _join(self) -> None:
        name = f"p{self.named}"
        self.named += 1
        for other in self.ends:
            self.news[other].append(("add", name))
        self.ends[name] = self._made(name, (*sorted(self.ends), name), self.gone)
        self.news[name] = []
        self.events[name] = []
        self.delivered[name] = []

    def _leave(self, who: str, how: int) -> None:
        """Stop a process; what it had under way may still arrive, or some of it is lost at once."""
        del self.ends[who]
        self.gone.append(who)
        for other in self.ends:
            self.news[other].append(("remove", who))
        if how % 3 == 0:
            self.flying = [packet for packet in self.flying if packet.source != who]

    def _learn(self, who: str, how: int) -> None:
        """Tell a process of a change; it hears of a join before it hears that the same one left."""
        news = self.news[who]
        kind, name = news[how % len(news)]
        if kind == "remove" and ("add", name) in news:
            kind = "add"
        news.remove((kind, name))
        end = self.ends[who]
        self._take(who, end.add(name) if kind == "add" else end.remove(name))

    def _restart(self, who: str) -> None:
        """Save a process and restore it, as if it had been stopped and nothing happened since."""
        names = (*(f"p{i}" for i in range(self.named)),)
        codec = antecede.Codec(names)
        self.ends[who] = codec.restore(codec.snapshot(self.ends[who]))

    def _settle(self) -> None:
        for who in sorted(self.ends):
            while self.news[who]:
                self._learn(who, 0)
        for _ in range(10_000):
            if not self.flying:
                break
            self._arrive(self.flying.pop(0))
        if self.flying:
            fail(f"packets are refused for ever: {self.flying[:3]}")

    def _judge(self) -> None:
        for who, end in sorted(self.ends.items()):
            order = [delivery.message for delivery in self.delivered[who]]
            if len(set(order)) != len(order):
                fail(f"{who} delivered a message twice: {order}")
            owed = {m for m, s in self.sent.items() if m.sender in self.ends and who in s.dests}
            if missing := sorted(owed - set(order)):
                fail(f"{who} never delivered {missing}; it waits: {end.waiting()}")
            if end.held:
                fail(f"{who} holds for ever: {end.waiting()}")
            self._judge_order(who, order)

    def _judge_order(self, who: str, order: list[MessageId]) -> None:
        lost = {m for m, s in self.sent.items() if who in s.dests and m not in order}
        place = {message: i for i, message in enumerate(order)}
        for i, delivery in enumerate(self.delivered[who]):
            for need in delivery.unmet:
                if need.process not in self.gone:
                    fail(f"{who}: {delivery.message} misses {need}, whose sender remains")
                if need.message in place:
                    fail(f"{who}: {delivery.message} misses {need}, which is delivered")
            clean = self._past(delivery.message, lost)
            clean |= {m for m in self.sent if m.sender == delivery.source and m < delivery.message}
            late = sorted(m for m in clean if place.get(m, -1) > i)
            if late:
                fail(f"{who} delivered {delivery.message} before its causes {late}")
            if not delivery.unmet:
                past = self._past(delivery.message, set())
                late = sorted(m for m in past if place.get(m, -1) > i)
                if late:
                    fail(f"{who}: {delivery.message} overtook {late} and does not say so")

    def _past(self, message: MessageId, barred: set[MessageId]) -> set[MessageId]:
        """Return the messages with a chain to ``message`` past no send of those that are barred."""
        past: set[MessageId] = set()
        todo = [message]
        while todo:
            last = todo.pop()
            for cause in reversed(self.sent[last].before):
                if cause in barred and cause.sender == last.sender:
                    break
                if cause not in past and cause not in barred:
                    past.add(cause)
                    todo.append(cause)
        return past


def run(protocol: str, script: Script, **options: object) -> Group:
    """Run a script on a new group; raise :class:`BrokenError` if the oracle objects."""
    start = 3 + script[0][2] % 3 if script else 3
    group = Group(protocol, options, start)
    group.run(script)
    return group


def drawn(seed: int) -> Script:
    """Return a script drawn from a seed."""
    rng = Random(seed)
    kinds, numbers = len(WEIGHTED), range(64)
    return tuple(
        (rng.randrange(kinds), rng.choice(numbers), rng.choice(numbers))
        for _ in range(rng.randint(5, 80))
    )


def shrunk(protocol: str, script: Script, **options: object) -> Script:
    """Return a script that still fails and from which no step can be left out."""
    place = len(script) - 1
    while place >= 1:
        shorter = (*script[:place], *script[place + 1 :])
        try:
            run(protocol, shorter, **options)
        except BrokenError:
            script = shorter
        place -= 1
    return script


def main() -> int:
    """Run many scripts by hand: ``python -m tests.core.churn --scripts 20000``."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--scripts", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--protocol", action="append", default=[])
    asked = parser.parse_args()
    dynamic = [name for name, info in antecede.PROTOCOLS.items() if info.dynamic]
    bad = 0
    for protocol in asked.protocol or dynamic:
        for seed in range(asked.first, asked.first + asked.scripts):
            try:
                run(protocol, drawn(seed))
            except BrokenError as error:
                bad += 1
                print(f"{protocol}, seed {seed}: {error}")
                print(f"  {shrunk(protocol, drawn(seed))}", flush=True)
        print(f"{protocol}: {asked.scripts} scripts from seed {asked.first}", flush=True)
    print(f"{bad} scripts failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
