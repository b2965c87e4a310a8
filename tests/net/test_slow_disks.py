"""The group changes while a slow disk still saves data about the removed process."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from antecede.net import Limits, Node
from antecede.testing import Disk, Network, run
from tests.net.test_membership import newcomer
from tests.net.test_node import node_on, take

LIMITS = Limits(linger_seconds=0)
SLOW = (5.0, 5.0)


@asynccontextmanager
async def group(network: Network, disk: Disk) -> AsyncIterator[tuple[Node, Node, Node]]:
    """Open three nodes, of which b has a disk; c is removed and need not be closed."""
    async with asyncio.timeout(3600), AsyncExitStack() as stack:
        a = await stack.enter_async_context(node_on(network, "a", limits=LIMITS))
        b = node_on(network, "b", limits=LIMITS, store=disk.view())
        await stack.enter_async_context(b)
        yield a, b, await node_on(network, "c", limits=LIMITS).__aenter__()


def test_packets_to_a_removed_process_are_still_being_saved() -> None:
    async def main() -> None:
        network = Network(seed=1)
        disk = Disk(network)
        async with group(network, disk) as (a, b, _):
            await b.send(["c"], b"first")
            disk.delay = SLOW
            sending = asyncio.create_task(b.send(["c"], b"second"))
            await asyncio.sleep(1)
            await a.remove("c")
            await sending
            assert b.members == ("a", "b")
            await b.send(["a"], b"still here")
            assert await take(a, 1) == [b"still here"]

    run(main())


def test_arrivals_are_not_acknowledged_to_another_process_of_the_same_name() -> None:
    async def main() -> None:
        network = Network(seed=1)
        disk = Disk(network)
        async with group(network, disk) as (a, b, c):
            await c.send(["b"], b"one")
            await take(b, 1)
            disk.delay = SLOW
            await c.send(["b"], b"two")
            await asyncio.sleep(1)
            removing = asyncio.create_task(a.remove("c"))
            async with asyncio.timeout(3600):
                while a.view < 1:  # noqa: ASYNC110 - nothing tells when
                    await asyncio.sleep(1)
            adding = asyncio.create_task(a.add("c"))
            async with asyncio.timeout(3600):
                while b.view < 2:  # noqa: ASYNC110 - nothing tells when
                    await asyncio.sleep(1)
            await asyncio.sleep(SLOW[1])
            assert b._driver is not None
            saved = b._driver.peers["c"].newest.saved
            assert saved == (0, ()), "the newcomer has sent nothing yet"
            async with newcomer(network, "c", limits=LIMITS) as again:
                await asyncio.gather(removing, adding)
                await again.send(["b"], b"three")
                assert await take(b, 2) == [b"two", b"three"]

    run(main())
