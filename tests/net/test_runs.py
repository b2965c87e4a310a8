"""Runs of packets: short in frames, the same packets once read, and no way to harm a node."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

import antecede
from antecede.core.messages import Packet
from antecede.errors import PeerError
from antecede.net import Limits, frames
from antecede.net.parcels import ALONE
from antecede.net.runs import NEXT, is_next, next_packet, standing_alone
from antecede.testing import Host, Network, run
from tests.net.test_hostile_members import CODEC, Deaf, frame
from tests.net.test_node import NAMES, node_on, take, three


def packets_of(seed: int, protocol: str, names: tuple[str, ...]) -> list[Packet]:
    """Return the packets of a random exchange, many of them sent in a row."""
    chance = random.Random(seed)
    ends = {name: antecede.endpoint(protocol, process=name, members=names) for name in names}
    sent: list[Packet] = []
    way: list[Packet] = []
    for _ in range(60):
        source = chance.choice(names)
        dests = chance.sample([name for name in names if name != source], chance.choice((1, 1, 2)))
        for _ in range(chance.randint(1, 4)):
            way += ends[source].send(dests, chance.randbytes(3)).packets
        sent += way
        chance.shuffle(way)
        for _ in range(chance.randrange(len(way) + 1)):
            packet = way.pop()
            ends[packet.dest].receive(packet)
    return list(dict.fromkeys(sent))


@pytest.mark.parametrize("protocol", ["optimal", "pruned", "matrix"])
def test_a_packet_that_follows_another_is_made_from_it(protocol: str) -> None:
    codec, count = antecede.Codec(NAMES), 0
    for seed in range(20):
        last: dict[tuple[str, str], Packet] = {}
        for packet in packets_of(seed, protocol, NAMES):
            before = last.get((packet.source, packet.dest))
            if before is not None and is_next(before, packet):
                made = next_packet(codec.decode(codec.encode(before)), packet.n, packet.payload)
                assert made == packet, seed
                assert codec.encode(made) == codec.encode(packet), seed
                count += 1
            last[packet.source, packet.dest] = packet
    assert (count > 100) == (protocol != "matrix")


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
            next_packet(last, n, b"x")
    other = antecede.endpoint("matrix", process="c", members=NAMES).send(["a"], b"x").packets[0]
    with pytest.raises(PeerError, match="should follow"):
        next_packet(other, 2, b"x")


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
            engine = nodes["a"]._driver
            assert engine is not None
            (peer, _) = engine.peers.values()
            assert not peer.channel.outbox
            assert not peer.channel.runs
            assert not peer.acknowledged

    run(main())


def test_frames_number_their_packets_in_order() -> None:
    for numbers in ((1, 1), (2, 2, 5)):
        with pytest.raises(PeerError, match="number"):
            frames.decode(frame(*((n, b"x") for n in numbers)))
