"""Three nodes talk through a NATS server; an archive, which is only a stream, gets every message.

Start a server with ``nats-server -js``, then::

    python examples/nats_shop.py nats://127.0.0.1:4222/shop

Each node sends to some of the others and to the archive. Stores and the event log are files in the
current folder, so a second call goes on where the first one ended. Kill the server meanwhile if you
like, and start it again.
"""

from __future__ import annotations

import argparse
import asyncio
import random
from pathlib import Path

from antecede.net import Node

NODES = ("ann", "bob", "cat")
ARCHIVE = "archive"


async def serve(
    name: str, url: str, folder: Path, messages: int, all_done: asyncio.Barrier
) -> None:
    """Run one node: send some messages, and take in what the others send."""
    async with Node(
        name,
        peers=(*NODES, ARCHIVE),
        transport=f"{url}?reader={ARCHIVE}",
        store=folder / f"{name}.db",
        events=folder / "events.jsonl",
    ) as node:

        async def listen() -> None:
            async for delivery in node:
                await delivery.done()

        listening = asyncio.create_task(listen())
        others = [other for other in NODES if other != name]
        for number in range(messages):
            dests = random.sample(others, random.randint(1, 2))
            await node.send([*dests, ARCHIVE], f"{name} says {number}".encode())
            await asyncio.sleep(random.random() / 50)
        await node.flush()  # the others and the archive's stream have everything
        await all_done.wait()
        listening.cancel()


async def talk(url: str, folder: Path, messages: int) -> None:
    """Run all nodes until everything has arrived."""
    all_done = asyncio.Barrier(len(NODES))
    async with asyncio.TaskGroup() as group:
        for name in NODES:
            group.create_task(serve(name, url, folder, messages, all_done))


def main() -> None:
    """Talk."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("url", help="such as nats://127.0.0.1:4222/shop")
    parser.add_argument("--messages", type=int, default=100, help="by each node")
    asked = parser.parse_args()
    asyncio.run(talk(asked.url, Path(), asked.messages))
    print(f"{len(NODES)} nodes sent {asked.messages} messages each; see events.jsonl")


if __name__ == "__main__":
    main()
