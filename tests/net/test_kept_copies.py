"""Members keep copies for one another until no member lacks them, and no longer."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

import antecede
from antecede.net import Limits, Node, frames
from antecede.net.parcels import heading
from antecede.net.settings import Setup
from antecede.testing import Disk, Network, run
from tests.net.test_hostile_members import Deaf

FOUR = ("a", "b", "c", "d")
LIMITS = Limits(linger_seconds=0, outbox_count=100)


def one_of_four(network: Network, name: str, **given: Any) -> Node:
    given = {"limits": LIMITS, **given}
    return Node(name, peers=FOUR, transport=network.transport(name), seed=1, **given)


def kept_by(node: Node) -> int:
    assert node._driver is not None
    return sum(len(one.kept) for one in node._driver.machine.sides[0].channels.values())


async def consume(node: Node, found: list[bytes]) -> None:
    async for delivery in node:
        found.append(delivery.payload)
        await delivery.done()


@pytest.mark.parametrize("loss", [0.0, 0.2])
def test_one_message_that_waits_does_not_let_all_others_be_kept(loss: float) -> None:
    async def main() -> None:
        network = Network(seed=1, loss=loss)
        disk = Disk(network)
        async with AsyncExitStack() as stack:
            a, d = [await stack.enter_async_context(one_of_four(network, name)) for name in "ad"]
            b = await stack.enter_async_context(one_of_four(network, "b", store=disk.view()))
            found: dict[str, list[bytes]] = {"a": [], "b": [], "d": []}
            tasks = [asyncio.create_task(consume(node, found[node.process])) for node in (a, b, d)]
            await a.send(["b", "c"], b"c is down")
            most = 0
            for number in range(2000):
                await a.send(["b", "d"], b"%d" % number)
                if number % 100 == 0:
                    await asyncio.sleep(0.2)
                most = max(most, kept_by(b), kept_by(d))
            await asyncio.sleep(60)
            assert len(found["b"]) == 2001
            assert most <= 2 * LIMITS.outbox_count + 128
            assert kept_by(b) < 2 * LIMITS.outbox_count  # but the one that c lacks is among them
            assert b._driver is not None
            (side,) = b._driver.machine.sides
            assert b"c is down" in b"".join(side.channels["a"].kept.values())
            for task in tasks:
                task.cancel()
        assert len(disk.checkpoint or b"") < 50_000

    run(main())


def test_a_member_that_never_says_who_has_its_messages_is_held_up() -> None:
    end = antecede.endpoint("optimal", process="d", members=FOUR)
    codec, packets = antecede.Codec(end), []
    for number in range(1, 2000):
        copies = end.send(["b", "c"], b"x").packets
        parcel = heading(end.view, number, copies) + codec.encode(copies[0])
        packets.append((number, parcel))
    head = frames.Head(Setup("d", FOUR, "optimal", {}).digest, b"identity")

    async def main() -> None:
        network = Network(seed=1)
        async with one_of_four(network, "a") as a, one_of_four(network, "b") as b:
            found: list[bytes] = []
            task = asyncio.create_task(consume(b, found))
            mallory = network.transport("d")
            await mallory.start(Deaf())
            for begin in range(0, len(packets), 50):
                mallory.send("b", frames.encode(head, 0, (), packets[begin : begin + 50]))
                await asyncio.sleep(0.1)
            assert kept_by(b) <= 4 * LIMITS.outbox_count + 129
            await a.send(["b"], b"from a")
            await asyncio.sleep(1)
            assert found[-1] == b"from a"
            task.cancel()

    run(main())
