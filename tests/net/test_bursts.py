"""Messages in a row by the short cut leave a machine as the long way does."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from antecede.core.messages import MessageId
from antecede.net.changing import Changing
from antecede.net.outcomes import Outcome
from antecede.net.runs import NEXT, standing_alone
from antecede.net.settings import Setup

NAMES = ("a", "b", "c", "d")
Parcels = list[tuple[int, bytes]]


@dataclass
class Twin:
    """A machine that takes the short cut where it can, and one that never does."""

    name: str
    options: dict[str, object]
    short: int = 0
    """How many messages went by the short cut."""
    given: list[tuple[MessageId, tuple[str, ...], bytes, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        setup = Setup(self.name, NAMES, "optimal", dict(self.options))
        self.quick, self.slow = (Changing(setup, bytes(8)) for _ in range(2))
        for machine in (self.quick, self.slow):
            machine.keeps_log = False

    def send(self, dests: tuple[str, ...], payload: bytes) -> None:
        self.slow.send(dests, payload, None)
        quick = self.quick
        if dests == quick.last_dests:
            burst = quick.burst or quick.found_burst()
            if burst is not None and quick.send_on(burst, payload):
                self.short += 1
                return
        quick.send(dests, payload, None)

    def out(self) -> dict[str, Parcels]:
        """Return the packets of the quick machine; both must have the same, once spelt out."""
        found = self.quick.into.packets
        for name, packets in self.slow.into.packets.items():
            channels = self.quick.channels[name], self.slow.channels[name]
            assert [n for n, _ in found[name]] == [n for n, _ in packets]
            for n, _ in packets:
                assert self.quick.whole(channels[0], n) == self.slow.whole(channels[1], n)
            found[name][0] = (packets[0][0], self.quick.whole(channels[0], packets[0][0]))
        self.quick.into.packets, self.slow.into.packets = {}, {}
        return found

    def take(self, peer: str, frame: Parcels, bytes_max: int) -> None:
        channel = self.quick.channels[peer]
        channel.last_in = None
        place = 0
        while place < len(frame):
            taken = 0
            if frame[place][1].startswith(NEXT):
                taken = self.quick.take_run(channel, frame[place:], bytes_max)
                self.short += taken
            if not taken:
                self.quick.arrive(peer, *frame[place])
            place += taken or 1
        channel.last_in = None
        for n, parcel in standing_alone(self.slow.codec, frame):
            self.slow.arrive(peer, n, parcel)
        self.compare_deliveries()

    def compare_deliveries(self) -> None:
        quick, slow = (
            [(one.message, one.dests, one.payload, one.event) for one in machine.into.deliveries]
            for machine in (self.quick, self.slow)
        )
        assert quick == slow
        assert list(self.quick.inbox) == list(self.slow.inbox)
        self.given += quick
        for machine in (self.quick, self.slow):
            machine.into = Outcome()

    def compare(self) -> None:
        assert self.quick.checkpoint() == self.slow.checkpoint()


class Exchange:
    """Four twins that send at random; their frames arrive whenever it pleases."""

    def __init__(self, seed: int, options: dict[str, object]) -> None:
        self.chance = random.Random(seed)
        self.twins = {name: Twin(name, options) for name in NAMES}
        self.ways: dict[tuple[str, str], list[Parcels]] = {}

    def send(self, name: str) -> None:
        chance = self.chance
        others = [other for other in NAMES if other != name]
        for _ in range(chance.randint(1, 3)):
            dests = tuple(chance.sample(others, chance.choice((1, 1, 1, 2))))
            for _ in range(chance.choice((1, 2, 9))):
                self.twins[name].send(dests, chance.randbytes(chance.randrange(4)))

    def collect(self) -> None:
        for name, twin in self.twins.items():
            for dest, packets in twin.out().items():
                self.ways.setdefault((name, dest), []).append(packets)

    def carry(self) -> None:
        source, dest = way = self.chance.choice(list(self.ways))
        twin, frame = self.twins[dest], self.ways[way].pop(0)
        if not self.ways[way]:
            del self.ways[way]
        if self.chance.random() < 0.1:
            frame = standing_alone(twin.quick.codec, frame)
        twin.take(source, frame, self.chance.choice((9, 1 << 20)))

    def run(self) -> int:
        """Return how many messages went by the short cut."""
        chance = self.chance
        for _ in range(60):
            name = chance.choice(NAMES)
            self.send(name)
            if chance.random() < 0.7:
                self.collect()
            for _ in range(min(chance.randrange(3), len(self.ways))):
                self.carry()
            if chance.random() < 0.1:
                self.twins[name].compare()
        self.collect()
        while self.ways:
            self.carry()
        for twin in self.twins.values():
            twin.compare()
        return sum(twin.short for twin in self.twins.values())


@pytest.mark.parametrize(
    "options", [{}, {"lookahead": True}, {"hardware_multicast": True}, {"differential": True}]
)
def test_the_short_cut_leaves_a_machine_as_the_long_way_does(options: dict[str, object]) -> None:
    seeds = range(2 if options else 6)
    short = sum(Exchange(seed, options).run() for seed in seeds)
    assert (short > 1000) == (not options)


def test_a_message_that_is_held_ends_the_short_cut() -> None:
    a, b, c = (Twin(name, {}) for name in "abc")
    a.send(("b",), b"first")
    late = a.out()["b"]
    a.send(("c",), b"second")
    c.take("a", a.out()["c"], 1 << 20)
    for number in range(5):
        c.send(("b",), b"%d" % number)
    b.take("c", c.out()["b"], 1 << 20)
    assert not b.given
    b.take("a", late, 1 << 20)
    assert [payload for _, _, payload, _ in b.given] == [b"first", b"0", b"1", b"2", b"3", b"4"]
    assert (c.short, b.short) == (4, 0)
    b.compare()
