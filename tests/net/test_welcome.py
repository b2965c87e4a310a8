"""Who is taken in, and as whom: newcomers, processes that come back, and members that were away."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from antecede.errors import NodeClosedError
from antecede.net import Limits, Node
from antecede.testing import Host, Network, run
from tests.net.test_membership import newcomer
from tests.net.test_node import NAMES, node_on


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
                assert str((await anext(a)).message) == "d:3000000000001"
            host.crash()

    run(main())
