"""Groups whose members join, leave and restart, and an oracle that knows what is promised then.

A script is a list of steps, each a tuple of small integers; every list of such tuples is a script,
so Hypothesis can draw and shrink them, and a seed can draw very many quickly. The oracle uses no
clock: it records who sent and delivered what, and searches the chains between messages.

What it demands once everything has arrived and everyone knows of all changes of membership:

- every message between members that remain is delivered, and nothing is held any more;
- two messages of one sender are delivered in the order in which they were sent;
- if a message precedes another, every process that gets both gets them in that order. Only under
  ``optimal`` and ``pruned`` may the second come first, and only if a third message between the two
  was addressed to that process and lost with a removed sender;
- a delivery that is out of order for that reason has a non-empty ``unmet``;
- ``unmet`` names only messages of removed processes that are never delivered.

A process that restarts from an old snapshot (where the protocol can go on after that) forgets what
it did since; what arrived since arrives again, as if it had saved before it acknowledged. Its
previous incarnation counts as removed for all who hear of the new one. The restarted process itself
promises no order for messages that it had delivered before and forgot.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from random import Random
from typing import NamedTuple, NoReturn

import antecede
from antecede import Delivery, Effects, Endpoint, MessageId, Need, Packet, PeerError
from antecede.core.numbered import Numbered
from antecede.core.registry import protocol_class

Step = tuple[int, int, int]
Script = tuple[Step, ...]

SEND, ARRIVE, REPEAT, JOIN, LEAVE, LEARN, RESUME, SAVE, RESTART = range(9)
"""What the first number of a step means; the others choose who, which packet, and to whom."""
WEIGHTED = (
    *[SEND] * 8,
    *[ARRIVE] * 7,
    *[LEARN] * 3,
    *[LEAVE] * 2,
    REPEAT,
    JOIN,
    RESUME,
    *[SAVE] * 2,
    *[RESTART] * 2,
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


class Saved(NamedTuple):
    """A snapshot, and what the oracle knew of the process when it was made."""

    data: bytes
    change_count: int
    events: tuple[MessageId, ...]
    delivered: tuple[Delivery, ...]


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
        self.ghosts: set[str] = set()
        self.news: dict[str, list[tuple[str, str]]] = {name: [] for name in names}
        self.flying: list[Packet] = []
        self.sent: dict[MessageId, Sent] = {}
        self.events: dict[str, list[MessageId]] = {name: [] for name in names}
        self.is_minimal = issubclass(protocol_class(protocol), Numbered)
        self.can_restart = self.is_minimal and not options
        self.saved: dict[str, Saved] = {}
        self.arrived: dict[str, list[Packet]] = {}
        self.forgotten: dict[str, set[MessageId]] = {}
        self.lives: dict[str, int] = {}
        self.change_counts: dict[str, int] = {}
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
        elif kind == JOIN and len(self._remaining()) < MEMBERS_MAX:
            self._join()
        elif kind == LEAVE and len(self._remaining()) > 2 and who not in self.ghosts:
            self._leave(who, how)
        elif kind == LEARN and self.news[who]:
            self._learn(who, how)
        elif kind == RESUME:
            self._restore(who, self._codec().snapshot(self.ends[who]), resumed=True)
        elif kind == SAVE and self.can_restart:
            self._save(who)
        elif kind == RESTART and self.can_restart:
            self._restart(who)

    def _remaining(self) -> list[str]:
        return sorted(self.ends.keys() - self.ghosts)

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
            dests += [who] * (how >> MEMBERS_MAX - 1 & 1)
        effects = end.send(dests, b"")
        life = self.lives.get(who, 0)
        count = sum(m.sender == who and m.seq >> 32 == life for m in self.sent)
        message = MessageId(who, (life << 32) + count + 1)
        self.sent[message] = Sent(tuple(dests), tuple(self.events[who]))
        self.events[who].append(message)
        self._take(who, effects)

    def _arrive(self, packet: Packet) -> None:
        """Hand a packet over.

        One that does not fit, or names a process still to be added, is offered again.
        """
        end = self.ends.get(packet.dest)
        if end is None:
            return
        try:
            effects = end.receive(packet)
        except antecede.HoldFullError:
            self.flying.append(packet)
            return
        except antecede.UnknownProcessError:
            news = self.news[packet.dest]
            if packet.source not in self.gone or ("add", packet.source) in news:
                self.flying.append(packet)
            return  # from one who left so long ago that it is forgotten
        except PeerError as error:
            if packet.source in end.members and packet.incarnation == self.lives.get(
                packet.source, 0
            ):
                fail(f"{packet.dest} refuses {packet}: {error}")
            return  # its sender was removed here, or has restarted: the packet is lost
        self.arrived.setdefault(packet.dest, []).append(packet)
        self._take(packet.dest, effects)

    def _take(self, who: str, effects: Effects) -> None:
        self.flying.extend(effects.packets)
        for delivery in effects.deliveries:
            self.delivered[who].append(delivery)
            if delivery.source != who:
                self.events[who].append(delivery.message)

    def _join(self) -> None:
        name, others = f"p{self.named}", self._remaining()
        self.named += 1
        for other in others:
            self.news[other].append(("add", name))
        self.ends[name] = self._made(name, (*others, name), self.gone)
        self.news[name] = []
        self.events[name] = []
        self.delivered[name] = []

    def _leave(self, who: str, how: int) -> None:
        """Stop a process: what it had under way is lost at once, or may still arrive.

        Or it is suspected wrongly, and goes on with those who have not removed it yet.
        """
        self.gone.append(who)
        if how % 3 == 2:
            self.ghosts.add(who)
        else:
            del self.ends[who]
        for other in self._remaining():
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
        self.change_counts[who] = self.change_counts.get(who, 0) + 1
        end = self.ends[who]
        self._take(who, end.add(name) if kind == "add" else end.remove(name))

    def _codec(self) -> antecede.Codec:
        return antecede.Codec(tuple(f"p{i}" for i in range(self.named)))

    def _save(self, who: str) -> None:
        data = self._codec().snapshot(self.ends[who])
        events, delivered = tuple(self.events[who]), tuple(self.delivered[who])
        self.saved[who] = Saved(data, self.change_counts.get(who, 0), events, delivered)
        self.arrived[who] = []

    def _restore(self, who: str, data: bytes, *, resumed: bool = False) -> None:
        self.ends[who] = self._codec().restore(data, resumed=resumed)
        self.ends[who].recall([name for name in self.gone if ("add", name) not in self.news[who]])

    def _restart(self, who: str) -> None:
        """Go on from the last snapshot, unless the membership has changed since."""
        saved = self.saved.get(who)
        if saved is None or saved.change_count != self.change_counts.get(who, 0):
            return
        self._restore(who, saved.data)
        self.lives[who] = self.ends[who].incarnation
        self.flying += self.arrived[who]
        self.events[who] = list(saved.events)
        since = {delivery.message for delivery in self.delivered[who][len(saved.delivered) :]}
        self.forgotten.setdefault(who, set()).update(since)
        self.delivered[who] = list(saved.delivered)
        self._save(who)

    def _settle(self) -> None:
        for who in self.ghosts:
            del self.ends[who]
        for who in sorted(self.ends):
            while self.news[who]:
                self._learn(who, 0)
        for who in self.lives:
            if who in self.ends:
                self._send(who, -1)  # all must hear that it has restarted
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
            owed = {m for m, s in self.sent.items() if self._remains(m) and who in s.dests}
            if missing := sorted(owed - set(order)):
                fail(f"{who} never delivered {missing}; it waits: {end.waiting()}")
            if end.held:
                fail(f"{who} holds for ever: {end.waiting()}")
            self._judge_order(who, order)

    def _remains(self, message: MessageId) -> bool:
        """Tell whether a message's sender, in that incarnation, is still there."""
        life = self.lives.get(message.sender, 0)
        return message.sender in self.ends and message.seq >> 32 == life

    def _judge_order(self, who: str, order: list[MessageId]) -> None:
        lost = {m for m, s in self.sent.items() if who in s.dests and m not in order}
        place = {message: i for i, message in enumerate(order)}
        for i, delivery in enumerate(self.delivered[who]):
            for need in delivery.unmet:
                named = self._named(who, need)
                if need.process in self.ends and (named is None or self._remains(named)):
                    fail(f"{who}: {delivery.message} misses {need}, which is not lost")
                if named in place:
                    fail(f"{who}: {delivery.message} misses {need}, which is delivered")
            past = self._past(delivery.message)
            excused: set[MessageId] = set()
            for between in past & lost if self.is_minimal else ():
                excused |= self._past(between)
            excused = {m for m in excused if m.sender != delivery.source}
            excused |= self.forgotten.get(who, set())
            if late := sorted(m for m in past - excused if place.get(m, -1) > i):
                fail(f"{who} delivered {delivery.message} before its causes {late}")
            past -= self.forgotten.get(who, set())
            late = sorted(m for m in past if place.get(m, -1) > i)
            if late and not delivery.unmet:
                fail(f"{who}: {delivery.message} overtook {late} and does not say so")

    def _named(self, who: str, need: Need) -> MessageId | None:
        """Return the message to ``who`` that a need is about, if it is about one."""
        if need.unit == "event":
            event = self.events[need.process][need.number - 1]
            is_send = event.sender == need.process and who in self.sent[event].dests
            return event if is_send else None
        if need.unit == "message" or "unicast" not in self.casts:
            return MessageId(need.process, need.number)
        to = [m for m, s in self.sent.items() if m.sender == need.process and who in s.dests]
        return to[need.number - 1]

    def _past(self, message: MessageId) -> set[MessageId]:
        """Return the messages that precede ``message``."""
        past: set[MessageId] = set()
        todo = [message]
        while todo:
            fresh = set(self.sent[todo.pop()].before) - past
            past |= fresh
            todo += fresh
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
