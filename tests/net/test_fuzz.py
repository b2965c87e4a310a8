"""Frames of a liar, and past attacks by a member or an outsider, do no harm."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import antecede
from antecede.net import frames
from antecede.net.fields import put_bytes, put_number
from antecede.net.group.paxos import ACCEPTED, PREPARE, PROMISE, REFUSED, Vote
from antecede.net.group.views import Ballot, Change
from antecede.testing import Disk, Network, run
from tests.net.fuzz import PROTOCOLS, session
from tests.net.test_hostile_members import Deaf
from tests.net.test_liars import LIMITS, head_of, is_well
from tests.net.test_node import node_on
from tests.net.test_tcp import Group, expect


@pytest.mark.parametrize(
    ("seed", "protocol"),
    [*enumerate((*PROTOCOLS, *PROTOCOLS)), (174, "permits"), (707, "optimal")],
)
def test_frames_of_a_liar_stop_nobody_and_cost_little(seed: int, protocol: str) -> None:
    found, _ = run(session(seed, protocol, is_removing=seed % 3 == 0))
    assert found == []


def test_no_vote_of_a_liar_makes_a_store_useless() -> None:
    async def main() -> None:
        network = Network(seed=1)
        disk, change = Disk(network), Change(1, leaves=("b",)).encoded()
        most = (1 << 63) - 1
        async with node_on(network, "b", limits=LIMITS) as b:
            async with node_on(network, "a", store=disk.view(), limits=LIMITS) as a:
                mallory = network.transport("c")
                await mallory.start(Deaf())
                for kind in (PREPARE, PROMISE, ACCEPTED, REFUSED):
                    for number in (1 << 20, most):
                        ballot = Ballot(number, "c")
                        note = Vote(kind, 1, ballot, ballot, change).encoded()
                        mallory.send("a", frames.encode(head_of("optimal"), 0, (), [], [note]))
                        await asyncio.sleep(1)
            async with node_on(network, "a", store=disk.view(), limits=LIMITS) as a:
                assert await is_well(a, b)
                removing = asyncio.create_task(a.remove("c"))
                async with asyncio.timeout(600):
                    await removing
                assert a.members == ("a", "b")

    run(main())


@pytest.mark.parametrize("kind", ["wrong numbers", "noise", "wrong own part", "endless"])
def test_a_liar_cannot_hold_up_its_own_removal_by_what_it_sent(kind: str) -> None:
    end = antecede.endpoint("optimal", process="c", members=("a", "b", "c"))
    codec, packets = antecede.Codec(end), list[tuple[int, bytes]]()
    for n in range(1, 200):
        copies = end.send(["a", "b"], b"x").packets
        about, out = bytearray(), bytearray()
        put_number(about, n)
        for dest in (0, 1) if kind != "endless" else range(2, 400):
            put_number(about, dest)
            put_number(about, 7 if kind == "wrong numbers" else (1 << 62) - n)
            put_bytes(about, b"\xff" * 9 if kind == "wrong own part" else b"")
        put_bytes(out, b"\x01\xff\xff" if kind == "noise" else bytes(about))
        packets.append((n, bytes(out) + codec.encode(copies[1])))

    async def main() -> None:
        network = Network(seed=1)
        given: Any = {"limits": LIMITS}
        async with node_on(network, "a", **given) as a, node_on(network, "b", **given) as b:
            mallory = network.transport("c")
            await mallory.start(Deaf())
            mallory.send("b", frames.encode(head_of("optimal"), 0, (), packets))
            await asyncio.sleep(1)
            async with asyncio.timeout(60):
                await a.remove("c")
            await asyncio.sleep(10)
            assert (a.members, b.members) == (("a", "b"), ("a", "b"))
            await a.send(["b"], b"question")
            async with asyncio.timeout(60):
                while (await anext(b)).payload != b"question":
                    pass

    run(main())


def test_idle_connections_of_an_outsider_keep_nobody_out() -> None:
    async def main() -> None:
        group = Group("ab")
        async with group.node("a") as a:
            idle = [await asyncio.open_connection("127.0.0.1", group.port("a")) for _ in range(150)]
            async with asyncio.timeout(8), group.node("b") as b:
                await b.send(["a"], b"hello")
                assert await expect(a, 1) == [b"hello"]
            for _, writer in idle:
                writer.close()

    asyncio.run(main())
