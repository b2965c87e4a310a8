"""A chat in several terminals with nodes: durable, encrypted if you like, in causal order.

Make certificates once, then start one of these in each terminal, in any order::

    antecede node certs certs ann bob cat
    python examples/node_chat.py ann
    python examples/node_chat.py bob
    python examples/node_chat.py cat

``@cat hello`` writes only to cat. Kill a terminal and start it again: nothing is lost, and what it
had not shown yet is shown. ``chat.py`` is the same without a node; it shows what can go wrong.
"""

import argparse
import asyncio
import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import antecede
from antecede.net import Node

ROSTER = {"ann": "127.0.0.1:7101", "bob": "127.0.0.1:7102", "cat": "127.0.0.1:7103"}


async def chat(node: Node, lines: AsyncIterator[str], show: Callable[[str, str], None]) -> None:
    """Send the lines and show what others write, until the lines end."""
    showing = asyncio.create_task(show_all(node, show))
    async for line in lines:
        head, _, rest = line.partition(" ")
        dests = [head[1:]] if head.startswith("@") else [*node.members]
        text = rest if head.startswith("@") else line
        try:
            await node.send([name for name in dests if name != node.process], text.encode())
        except antecede.UsageError as error:
            print(f"not sent: {error}", file=sys.stderr)
    showing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await showing


async def show_all(node: Node, show: Callable[[str, str], None]) -> None:
    """Show what arrives. What is not marked done when we are killed is shown again."""
    async for delivery in node:
        show(delivery.source, delivery.payload.decode(errors="replace"))
        await delivery.done()


async def typed() -> AsyncIterator[str]:
    """Yield what is typed."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        yield line.rstrip("\n")


async def main() -> None:
    """Chat from a terminal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("me", choices=ROSTER)
    parser.add_argument("--certs", type=Path, default=Path("certs"))
    parser.add_argument("--events", help="log sends and deliveries for `antecede audit`")
    given = parser.parse_args()
    logging.basicConfig(format="(%(message)s)")
    if sys.stdin.isatty():
        print(f"You are {given.me}. Type a line, or @name and a line; Ctrl-D leaves.")
    async with Node(
        given.me,
        listen=ROSTER[given.me],
        peers=ROSTER,
        tls=given.certs if given.certs.exists() else None,
        store=f"{given.me}.db",
        events=given.events,
    ) as node:
        await chat(node, typed(), lambda who, text: print(f"{who}: {text}", flush=True))


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except antecede.AntecedeError as error:
        sys.exit(str(error))
