"""The member that drives a change dies during it, for good: the others continue and agree."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from antecede.errors import NodeClosedError
from antecede.net import Limits, Node
from antecede.testing import Host, Network, VirtualLoop, run

if TYPE_CHECKING:
    import pytest

FOUNDERS = ("a", "b", "c", "d")
LIMITS = Limits(linger_seconds=0)


def node_of(host: Host) -> Node:
    return Node(
        host.name,
        peers=FOUNDERS,
        transport=host.transport,
        store=host.store,
        joining=host.name == "e",
        limits=LIMITS,
        seed=1,
    )


async def coordinate(host: Host) -> None:
    """Send to two others, add e and remove d."""
    async with node_of(host) as node:
        await asyncio.sleep(0.1)
        await node.send(["b", "c"], b"from a")
        await node.add("e")
        await node.remove("d")
        await asyncio.sleep(1e6)


async def listen(host: Host) -> None:
    """Take part without sending."""
    with contextlib.suppress(NodeClosedError):
        async with node_of(host) as node:
            async for delivery in node:
                await delivery.done()


async def drained(node: Node) -> list[bytes]:
    """Return the messages delivered so far."""
    found = []
    with contextlib.suppress(TimeoutError):
        while True:
            async with asyncio.timeout(1):
                delivery = await anext(node)
            found.append(delivery.payload)
            await delivery.done()
    return found


def strike_at(step: int) -> int:
    """Let the coordinator die at a step of its changes; return the view that the others reach."""
    loop = VirtualLoop()

    async def main() -> int:
        network = Network(seed=step, delay=(0.001, 0.05))
        hosts = {name: Host(network, name) for name in "abcde"}
        async with AsyncExitStack() as stack:
            b, c = [await stack.enter_async_context(node_of(hosts[name])) for name in "bc"]
            for name in "de":
                hosts[name].start(listen)
            hosts["a"].start(coordinate)
            await asyncio.sleep(0.1)
            loop.at_step(loop.steps + step, hosts["a"].crash)
            await asyncio.sleep(60)
            await b.remove("a")
            await asyncio.sleep(60)
            assert b.members == c.members
            assert "a" not in b.members
            await b.send(["c"], b"still here")
            *before, last = await drained(c)
            assert last == b"still here"
            assert await drained(b) == before, "all get it, or none"
            for name in "ade":
                hosts[name].crash()
            return b.view

    return run(main(), loop=loop)


def test_the_coordinator_dies_at_any_step(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="antecede.net")
    views = [strike_at(step) for step in range(1, 240, 6)]
    assert set(views) == {1, 2, 3}, "nothing was changed, e was added, d was removed"
