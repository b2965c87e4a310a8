"""A monitor that sees causes before effects.

Services report what they do to a monitor and pass work on to each other. Reports take different
ways, so without causal order "paid" can come in before "ordered". With it, the monitor can check
rules as simple as "nothing is paid that was not ordered" without ever crying wolf.

Try it: ``python examples/monitor.py``.
"""

import asyncio
from collections.abc import AsyncIterator

from antecede.net import Node
from antecede.testing import loopback_nodes


async def report(node: Node, monitor: str, text: str) -> None:
    """Tell the monitor what happened here."""
    await node.send([monitor], text.encode())


async def hand_over(node: Node, service: str, order: str) -> None:
    """Give an order to the next service."""
    await node.send([service], order.encode())


async def reports(node: Node) -> AsyncIterator[tuple[str, str]]:
    """Yield what services report, every cause before its effects."""
    async for delivery in node:
        yield delivery.source, delivery.payload.decode()
        await delivery.done()


async def shop(node: Node, monitor: str, till: str, orders: list[str]) -> None:
    """Take orders, report them, and hand them to the till."""
    for order in orders:
        await report(node, monitor, f"ordered {order}")
        await hand_over(node, till, order)


async def cash(node: Node, monitor: str) -> None:
    """Report every order as paid."""
    async for delivery in node:
        await report(node, monitor, f"paid {delivery.payload.decode()}")
        await delivery.done()


async def watch(node: Node, count: int) -> list[str]:
    """Return the first reports; complain about a payment without an order."""
    seen: list[str] = []
    async for source, text in reports(node):
        word, _, order = text.partition(" ")
        if word == "paid" and f"ordered {order}" not in seen:
            seen.append(f"alarm: {source} cashed {order}, which nobody ordered")
        seen.append(text)
        if len(seen) >= count:
            break
    return seen


async def main() -> None:
    """Run a shop, a till and a monitor."""
    async with loopback_nodes("ann", "bob", "cat") as nodes:
        till = asyncio.create_task(cash(nodes["bob"], "cat"))
        await shop(nodes["ann"], "cat", "bob", ["tea", "coffee"])
        print("\n".join(await watch(nodes["cat"], 4)))
        till.cancel()


if __name__ == "__main__":
    asyncio.run(main())
