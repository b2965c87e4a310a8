"""Three nodes in one program, on loopback: enough to try an example."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Self

from antecede.net import Node

NAMES = ("ann", "bob", "cat")


@contextlib.asynccontextmanager
async def three_nodes() -> AsyncIterator[dict[str, Node]]:
    """Open three nodes that know each other; everything is in memory."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in NAMES]
        ports = [sock.getsockname()[1] for sock in sockets]
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(NAMES, ports, strict=True)}
    async with contextlib.AsyncExitStack() as opened:
        nodes = {}
        for name in NAMES:
            node = Node(name, listen=addresses[name], peers=addresses)
            nodes[name] = await opened.enter_async_context(node)
        yield nodes


class Serving:
    """A program that handles what its node delivers, from entering ``async with`` to leaving it."""

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._serve())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _serve(self) -> None:
        """Handle deliveries until cancelled."""
        raise NotImplementedError
