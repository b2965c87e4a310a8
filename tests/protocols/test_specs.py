"""Rules against their specifications: on the same script both send, deliver and keep the same.

A script sends, receives in any order, duplicates, restores endpoints, and passes packets through
their bytes. After every event, what was sent and delivered and what is kept must be equal.
"""

import random
from collections.abc import Callable
from typing import Any, cast

import pytest

import antecede
from antecede import PROTOCOLS, Codec
from antecede.check import edited
from antecede.endpoint.endpoint import Endpoint
from antecede.endpoint.messages import Effects, Packet
from antecede.endpoint.registry import rules_of
from antecede.protocols.specs import SPECIFIED, Copy, Specified, specification
from tests.support.rounds import seeds

STEPS = 120


def cases() -> list[tuple[str, str]]:
    """Return every specification with the sets of options that it covers."""
    found = []
    for name in SPECIFIED:
        labels = ("", *getattr(specification(name), "VARIANTS", ()))
        found += [(name, label) for label in labels]
    return found


class Script:
    """One random run of endpoints and specifications side by side."""

    def __init__(
        self, name: str, label: str, seed: int, spec: type[Specified] | None = None
    ) -> None:
        self.rng = rng = random.Random(f"{name} {label} {seed}")
        self.info = PROTOCOLS[name]
        n = rng.choice((2, 3, 3, 4, 5, 7))
        self.names = tuple(f"p{i}" for i in range(n))
        options: dict[str, Any] = {}
        if label:
            (variant,) = (v for v in self.info.variants if v.label == label)
            options = variant.options(self.names)
        make: Callable[..., Specified] = spec or specification(name).Process
        self.ends: dict[str, Endpoint] = {
            me: antecede.endpoint(name, process=me, members=self.names, **options)
            for me in self.names
        }
        self.specs: dict[str, Specified] = {
            me: make(me, self.names, **options) for me in self.names
        }
        self.events = dict.fromkeys(self.names, 0)
        self.codec = Codec(self.ends["p0"])
        self.is_coded = rng.random() < 0.3
        self.is_looked_at = rng.random() < 0.7  # to look can change when something is computed
        self.flight: list[tuple[Packet, Copy]] = []
        self.seen: set[tuple[str, str, int]] = set()
        self.now = 0

    def run(self, steps: int = STEPS) -> None:
        """Play the script, then let everything arrive."""
        for _ in range(steps):
            if self.flight and self.rng.random() < 0.6:
                self.receive(keep=self.rng.random() < 0.15)
            else:
                self.send()
            if self.info.opens_links and self.rng.random() < 0.1:
                self.link()
            if self.info.timed and self.rng.random() < 0.2:
                self.tick()
            if self.rng.random() < 0.03:
                me = self.rng.choice(self.names)
                self.ends[me] = self.codec.restore(self.codec.snapshot(self.ends[me]), resumed=True)
        while self.flight:
            self.receive(keep=False)
        assert not any(end.held or end.queued for end in self.ends.values())
        self.is_looked_at = True
        for me in self.names:
            self.compare_kept(me)

    def send(self) -> None:
        """One process sends, now and then to itself as well."""
        me = self.rng.choice(self.names)
        others = [name for name in self.names if name != me]
        most = 1 if self.info.casts == ("unicast",) else len(others)
        is_narrow = {"unicast", "multicast"} & set(self.info.casts)
        least = 1 if is_narrow else most
        dests = frozenset(self.rng.sample(others, self.rng.randint(least, most)))
        after = None
        if self.info.orders_by_after and self.rng.random() < 0.7:
            after = self.rng.randint(0, self.events[me])
        to_self = most > 1 and not self.info.orders_by_after and self.rng.random() < 0.1
        effects = self.ends[me].send((*sorted(dests), *[me] * to_self), b"x", after=after)
        self.specs[me].send(dests, after)
        assert len(effects.deliveries) == to_self
        self.events[me] += 1 + to_self
        self.compare(me, effects.packets)

    def link(self) -> None:
        """One process opens a link to another."""
        me, other = self.rng.sample(self.names, 2)
        packets = self.ends[me].link(other).packets
        cast("Any", self.specs[me]).link(other)
        self.compare(me, packets)

    def tick(self) -> None:
        """Time passes for everybody."""
        self.now += self.rng.choice((1, 2, 3, 13))
        for me in self.names:
            effects = self.ends[me].tick(self.now)
            expected = cast("Any", self.specs[me]).tick(self.now)
            self.compare_delivered(me, effects, expected)

    def receive(self, *, keep: bool) -> None:
        """A packet arrives; with ``keep`` it will arrive again."""
        place = self.rng.randrange(len(self.flight))
        packet, copy = self.flight[place] if keep else self.flight.pop(place)
        me = packet.dest
        name = packet.source, me, packet.n
        if self.is_coded:
            packet = self.codec.decode(self.codec.encode(packet))
        effects = self.ends[me].receive(packet)
        expected = [] if name in self.seen else self.specs[me].receive(copy)
        self.seen.add(name)
        self.compare_delivered(me, effects, expected)

    def compare_delivered(self, me: str, effects: Effects, expected: list[Copy]) -> None:
        """Compare what was delivered, and what was sent with that."""
        self.events[me] += len(effects.deliveries)
        assert [tuple(d.message) for d in effects.deliveries] == [
            (one.sender or one.source, one.number) for one in expected
        ]
        self.compare(me, effects.packets)

    def compare(self, me: str, packets: tuple[Packet, ...]) -> None:
        """Compare what was sent, and what is kept."""
        copies = list(self.specs[me].outbox)
        self.specs[me].outbox.clear()
        assert [copy_of(packet) for packet in packets] == copies
        self.flight += zip(packets, copies, strict=True)
        self.compare_kept(me)

    def compare_kept(self, me: str) -> None:
        """Compare what is kept."""
        if self.is_looked_at:
            assert self.ends[me].kept() == self.specs[me].kept()


def copy_of(packet: Packet) -> Copy:
    """Return a packet as specifications have it: a message to its sender is no copy."""
    number = packet.message.seq if packet.message else 0
    if rules_of(packet.protocol).RELAYS:
        sender = packet.view.members[packet.content.sender]
        dests = frozenset(packet.dests) - {sender}
        return Copy(packet.source, packet.dest, number, dests, packet.control, sender, packet.n)
    dests = frozenset(packet.dests) - {packet.source}
    return Copy(packet.source, packet.dest, number, dests, packet.control)


@pytest.mark.parametrize(("name", "label"), cases(), ids=lambda part: part or "default")
def test_rules_do_what_the_specification_says(name: str, label: str) -> None:
    for seed in seeds(6):
        Script(name, label, seed).run()


MUTANTS = [
    ("optimal", "self.log[both] &= o_m.pop(both)", "self.log[both] |= o_m.pop(both)"),
    ("optimal", "o not in self.log and has_newer(self.log, o)", "False"),
    ("optimal", "entry not in o_m and has_newer(o_m, entry)", "False"),
    ("optimal", "(remaining - dests) | {d}", "remaining - dests"),
    ("optimal", "t <= self.sr[m]", "t <= self.sr[m] + 1"),
    (
        "optimal",
        "self.log[self.j, self.clock] = dests",
        "self.log[self.j, self.clock] = frozenset()",
    ),
    ("pruned", "self.ci[k] = remaining - {j}", "pass"),
    ("pruned", "self.ci[k] &= ci_m.pop(k)", "ci_m.pop(k)"),
    ("pruned", "k not in ci_m and has_newer(ci_m, k)", "False"),
    ("pruned", "copy.dests - {self.i}", "copy.dests"),
    ("buffered", "if self.ob and self.awaited is None:", "if self.ob:"),
    ("buffered", "self.ob.pop(0)", "self.ob.pop()"),
    ("matrix", "self.deliv[k] >= st_m[k][self.i]", "self.deliv[k] + 1 >= st_m[k][self.i]"),
    ("matrix", "for dest in copy.dests:", "for dest in {self.i}:"),
    ("broadcast", "elif time > self.vt[k]:", "elif time > self.vt[k] + 1:"),
    ("vectors", "for d in copy.dests - {self.p}:", "for d in ():"),
    ("vectors", "count <= self.time[k]", "count <= self.time[k] + 1"),
    ("direct", "self.delivered[j] = plus(self.delivered[j], before)", "pass"),
    ("direct", "mine.get(k, 0) >= x", "mine.get(k, 0) + 1 >= x"),
    ("semantic", "(self.prev if precedes else self.conc)", "self.conc"),
    ("semantic", "self.mcv = self.later.pop(0)[0]", "self.later.pop(0)"),
    ("bounded", "while len(self.m) > self.k:", "while len(self.m) > self.k + 1:"),
    ("bounded", "if self.m[cell] <= theirs.get(cell, 0):", "if False:"),
    ("tree", "if near != source and dests", "if dests"),
    ("tree", "if self.i in copy.dests:", "if True:"),
    ("flooding", "self.q - {source}", "self.q"),
    ("flooding", "self.b[q] = []", "self.q.add(q)"),
    ("probabilistic", "- (x in self.f[copy.source])", "- 1"),
    ("delta", "max(self.last.values()) + 1", "0"),
    ("delta", "time <= self.last[k] or", "time <= self.last[k] + 1 or"),
]


@pytest.mark.parametrize(("name", "line", "instead"), MUTANTS)
def test_a_specification_with_one_wrong_step_is_caught(name: str, line: str, instead: str) -> None:
    mutant = edited(name, (line, instead))
    assert any(not is_equal(Script(name, "", seed, mutant)) for seed in range(25))


def is_equal(script: Script) -> bool:
    """Return whether a script runs to its end without a difference."""
    try:
        script.run()
    except (AssertionError, KeyError):
        return False
    return True
