"""Who is taken in, and as whom: newcomers, processes that come back, and members that were away."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from antecede.errors import NodeClosedError
from antecede.net import Limits, Node
from antecede.net.changing import Changing
from antecede.testing import Host, Network, run
from tests.net.test_membership import newcomer
from tests.net.test_node import NAMES, node_on, take


@pytest.mark.parametrize("have_met", [True, False])
def test_a_member_that_missed_a_removal_does_not_welcome_the_process_as_what_it_was(
    have_met: bool,
) -> None:
    async def b_lives(host: Host) -> None:
        given: Any = {"transport": host.transport, "store": host.store, "seed": 1}
        async with Node("b", peers=NAMES, **given) as b:
            async for delivery in b:
                await delivery.done()

    async def main() -> None:
        network, hasty = Network(seed=1), Limits(linger_seconds=0)
        host = Host(network, "b")
        host.start(b_lives)
        async with node_on(network, "a") as a, node_on(network, "c"):
            if not have_met:
                network.partition(["b"], ["d"])
            changes = [asyncio.create_task(a.add("d"))]

            async def first_life() -> None:
                async with newcomer(network, limits=hasty) as d:
                    await changes[0]
                    await d.send(["b"], b"first life")
                    await asyncio.sleep(50)
                    host.crash()
                    changes.append(asyncio.create_task(a.remove("d")))
                    await asyncio.sleep(100)

            with pytest.raises(NodeClosedError, match="joining=True"):
                await first_life()
            network.partition(["a", "c"], ["b", "d"])
            host.start(b_lives)
            async with AsyncExitStack() as stack:
                d = newcomer(network, limits=hasty, seed=3)
                joining = asyncio.create_task(stack.enter_async_context(d))
                await asyncio.sleep(100)
                assert not joining.done()
                network.heal()
                await changes[1]
                await a.add("d")
                await joining
                await d.send(["a"], b"second life")
                assert str((await anext(a)).message) == "d#3:1"
            host.crash()

    run(main())


def test_a_node_that_starts_again_takes_packets_that_name_those_it_had_forgotten() -> None:
    async def main() -> None:
        network = Network(seed=1)
        host = Host(network, "c")
        given: Any = {"transport": host.transport, "store": host.store, "seed": 1}
        c = Node("c", peers=NAMES, **given)
        async with node_on(network, "a") as a, node_on(network, "b") as b, c:
            adding = asyncio.create_task(a.add("d"))

            async def short_life() -> None:
                async with newcomer(network) as d:
                    await adding
                    await d.send(["a", "b", "c"], b"hello")
                    for node in (a, b, c):
                        assert await take(node, 1) == [b"hello"]
                    await a.remove("d")
                    await asyncio.sleep(5)

            with pytest.raises(NodeClosedError, match="joining=True"):
                await short_life()
            for _ in range(5):
                for node in (a, b, c):
                    await node.send([name for name in NAMES if name != node.process], b"more")
                for node in (a, b, c):
                    assert len(await take(node, 2)) == 2
        saved = await host.disk.view().open()
        assert saved.checkpoint is not None
        machine, _ = Changing.restored(c.setup, saved.checkpoint, saved.journal)
        assert machine.endpoint.departed == ()  # so it has forgotten it
        assert list(machine.group.past) == ["d"]
        assert machine.endpoint._is_gone("d")

    run(main())


def test_the_first_of_two_can_take_a_newcomer_in_while_the_other_is_down() -> None:
    async def main() -> None:
        network, pair = Network(seed=1), ("a", "b")
        given: Any = {"transport": network.transport("a"), "limits": Limits(linger_seconds=0)}
        async with Node("a", peers=pair, seed=1, **given) as a, asyncio.timeout(300):
            adding = asyncio.create_task(a.add("c"))
            joining: Any = {"transport": network.transport("c"), "joining": True, "seed": 2}
            async with Node("c", peers=pair, **joining) as c:
                await adding
                await c.send(["a"], b"here")
                assert await take(a, 1) == [b"here"]

    run(main())
