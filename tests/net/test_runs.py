"""Runs of packets are short in frames, read back as the same packets, and cannot harm a node."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import antecede
from antecede import MessageId
from antecede.errors import PeerError
from antecede.net import Limits, frames
from antecede.net.machine import Channel, Machine, Outcome
from antecede.net.parcels import ALONE, NEXT, later, packet_of, standing_alone
from antecede.net.settings import Setup
from antecede.testing import Host, Network, run
from tests.net.test_hostile_members import CODEC, Deaf, frame
from tests.net.test_node import NAMES, node_on, take, three


@pytest.mark.parametrize("protocol", ["optimal", "pruned", "matrix"])
def test_a_packet_that_follows_another_is_made_from_it(protocol: str) -> None:
    """Whatever an endpoint would have sent, it sends by :meth:`Endpoint.repeat` too."""
    count = 0
    for seed in range(20):
        chance = random.Random(seed)
        quick, slow = (
            {name: antecede.endpoint(protocol, process=name, members=NAMES) for name in NAMES}
            for _ in range(2)
        )
        codec = antecede.Codec(quick["a"])
        for _ in range(60):
            source, dest = chance.sample(NAMES, 2)
            first = quick[source].send([dest], b"x").packets[0]
            assert slow[source].send([dest], b"x").packets[0] == first
            way = [first]
            for ahead in range(1, chance.randrange(5)):
                n = quick[source].repeat(first.dest_no)
                if not n:
                    break
                made = later(first, n, b"%d" % ahead)
                (sent,) = slow[source].send([dest], b"%d" % ahead).packets
                assert made == sent, seed
                assert codec.encode(made) == codec.encode(sent), seed
                way.append(made)
                count += 1
            if chance.random() < 0.7:
                for packet in way:
                    quick[dest].receive(packet)
                    slow[dest].receive(packet)
            assert codec.snapshot(quick[source]) == codec.snapshot(slow[source])
    assert (count > 100) == (protocol == "optimal")


def test_a_message_to_oneself_ends_a_run() -> None:
    end = antecede.endpoint("optimal", process="a", members=NAMES)
    (first,) = end.send(["b"]).packets
    end.send(["a"])
    assert not end.repeat(first.dest_no)
    assert end.send(["b"]).packets[0].message == ("a", 3)


def parcels(count: int) -> list[tuple[int, bytes]]:
    """Return a run from c to a."""
    end = antecede.endpoint("optimal", process="c", members=NAMES)
    sent = [end.send(["a"], b"%d" % number).packets[0] for number in range(count)]
    whole = [(1, ALONE + CODEC.encode(sent[0]))]
    return whole + [(packet.n, NEXT + packet.payload) for packet in sent[1:]]


def test_only_the_first_of_a_run_is_spelt_out(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[frames.Frame] = []

    async def main() -> None:
        network = Network(seed=1)
        async with node_on(network, "a") as a, node_on(network, "b") as b:
            send = a._transport.send

            def watch(peer: str, data: bytes) -> bool:
                seen.append(frames.decode(data))
                return send(peer, data)

            monkeypatch.setattr(a._transport, "send", watch)
            await asyncio.gather(*(a.send(["b"], b"%d" % number) for number in range(50)))
            assert await take(b, 50) == [b"%d" % number for number in range(50)]
            await a.send(["b"], b"one more, in another frame")
            assert await take(b, 1) == [b"one more, in another frame"]

    run(main())
    (batch,) = [found.packets for found in seen if len(found.packets) == 50]
    assert [parcel.startswith(NEXT) for _, parcel in batch] == [False] + [True] * 49
    assert standing_alone(CODEC, batch)[7][1].startswith(ALONE)
    (single,) = [found.packets for found in seen if found.packets and found.packets[0][0] == 51]
    assert single[0][1].startswith(ALONE)


@pytest.mark.parametrize(
    "broken",
    [
        lambda: frame(*parcels(3)[1:]),
        lambda: frame(*parcels(4)[:1], *parcels(4)[2:]),
        lambda: frame(*parcels(2), (3, NEXT + b"x"), (3, NEXT + b"x")),
        lambda: frame((1, NEXT)),
        lambda: frame((1, b"")),
    ],
    ids=["without its first", "with a gap", "a number twice", "nothing before it", "empty"],
)
def test_a_broken_run_harms_neither_the_node_nor_its_store(broken: object, tmp_path: Path) -> None:
    assert callable(broken)

    async def main() -> None:
        network = Network(seed=1)
        for _ in range(2):  # the second time from what the first has saved
            async with node_on(network, "a", store=tmp_path / "a.db") as a:
                mallory = network.transport("c")
                await mallory.start(Deaf())
                mallory.send("a", broken())
                await a.send(["a"], b"still here")
                found: list[bytes] = []
                while b"still here" not in found:
                    found += await take(a, 1)
                await asyncio.sleep(1)
                await mallory.close()

    run(main())


def test_a_run_can_only_continue_what_was_accepted() -> None:
    (_, whole), *_ = parcels(1)
    first = CODEC.decode(whole[1:])
    for last, n in ((None, 1), (first, 1), (first, 3)):
        with pytest.raises(PeerError, match="should follow"):
            packet_of(CODEC, last, n, NEXT + b"x")
    matrix = antecede.endpoint("matrix", process="c", members=NAMES)
    hardware = antecede.endpoint("optimal", process="c", members=NAMES, hardware_multicast=True)
    for without_runs in (matrix, hardware):
        with pytest.raises(PeerError, match="should follow"):
            later(without_runs.send(["a"], b"x").packets[0], 2, b"x")


def test_a_run_survives_a_crash_of_its_sender_and_a_full_receiver() -> None:
    async def main() -> None:
        network = Network(seed=2, delay=(0.001, 0.01))
        network.partition(["a"], ["b"])
        host, sent = Host(network, "a"), asyncio.Event()

        async def program(host: Host) -> None:
            async with node_on(network, "a", store=host.store) as a:
                if not sent.is_set():
                    await asyncio.gather(*(a.send(["b"], b"%d" % n) for n in range(20)))
                    sent.set()
                await asyncio.sleep(3600)

        async with node_on(network, "b", limits=Limits(inbox_count=3)) as b:
            host.start(program)
            await sent.wait()
            host.crash()
            await host.wait()
            host.start(program)
            network.partition()
            assert await take(b, 20) == [b"%d" % n for n in range(20)]
            host.crash()
            await host.wait()

    run(main())


def test_a_node_without_a_store_keeps_nothing_of_what_was_acknowledged() -> None:
    async def main() -> None:
        network = Network(seed=1)
        async with three(network) as nodes:
            for _ in range(5):
                await nodes["a"].send(["b"], b"x")
            await take(nodes["b"], 5)
            await nodes["a"].flush()
            driver = nodes["a"]._driver
            assert driver is not None
            link = driver.peers["b"].newest
            assert not link.channel.outbox
            assert len(link.channel.runs) <= 1
            assert not link.acknowledged

    run(main())


def test_frames_number_their_packets_in_order() -> None:
    for numbers in ((1, 1), (2, 2, 5)):
        with pytest.raises(PeerError, match="number"):
            frames.decode(frame(*((n, b"x") for n in numbers)))


# Messages in a row by the short cut leave a machine as the long way does.

FOUR = ("a", "b", "c", "d")
Parcels = list[tuple[int, bytes]]


@dataclass
class Twin:
    """A machine that takes the short cut when it can, and one that never does."""

    name: str
    options: dict[str, object]
    short: int = 0
    """The number of messages that took the short cut."""
    given: list[tuple[MessageId, tuple[str, ...], bytes, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        setup = Setup(self.name, FOUR, "optimal", dict(self.options))
        self.quick, self.slow = (Machine(setup, bytes(8)) for _ in range(2))
        for machine in (self.quick, self.slow):
            machine.keeps_log = False

    def send(self, dests: tuple[str, ...], payload: bytes) -> None:
        self.slow.send(dests, payload, None)
        quick = self.quick
        run = quick.run
        if run is not None and run.dests == dests and quick.send_on(run, payload):
            self.short += 1
            return
        quick.send(dests, payload, None)

    def out(self) -> dict[str, Parcels]:
        """Return the quick machine's packets; written out, both machines' must be equal."""
        made: dict[str, Parcels] = {}
        quick = {channel.name: packets for channel, packets in self.quick.into.packets.items()}
        for channel, packets in self.slow.into.packets.items():
            name, found = channel.name, quick[channel.name]
            assert [n for n, _ in found] == [n for n, _ in packets]
            for n, _ in packets:
                assert self.whole(self.quick, name, n) == self.whole(self.slow, name, n)
            found[0] = (found[0][0], self.whole(self.quick, name, found[0][0]))
            made[name] = found
        self.quick.into.packets, self.slow.into.packets = {}, {}
        return made

    def whole(self, machine: Machine, name: str, n: int) -> bytes:
        return self.channel(machine, name).whole(machine.sides[0].codec, n)

    def channel(self, machine: Machine, name: str) -> Channel:
        return machine.sides[0].channels[name]

    def take(self, peer: str, frame: Parcels, bytes_max: int) -> None:
        channel = self.channel(self.quick, peer)
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
        for n, parcel in standing_alone(self.slow.sides[0].codec, frame):
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
    """Four twins that send at random; their frames arrive at random times."""

    def __init__(self, seed: int, options: dict[str, object]) -> None:
        self.chance = random.Random(seed)
        self.twins = {name: Twin(name, options) for name in FOUR}
        self.ways: dict[tuple[str, str], list[Parcels]] = {}

    def send(self, name: str) -> None:
        chance = self.chance
        others = [other for other in FOUR if other != name]
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
            frame = standing_alone(twin.quick.sides[0].codec, frame)
        twin.take(source, frame, self.chance.choice((9, 1 << 20)))

    def run(self) -> int:
        """Return how many messages took the short cut."""
        chance = self.chance
        for _ in range(60):
            name = chance.choice(FOUR)
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
