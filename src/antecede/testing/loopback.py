"""Nodes on loopback in one program, and services on them, for trying things out."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Self

from antecede.net import Node


@contextlib.asynccontextmanager
async def loopback_nodes(*names: str) -> AsyncIterator[dict[str, Node]]:
    """Open nodes that know each other, by name; they keep everything in memory."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in names]
        ports = [sock.getsockname()[1] for sock in sockets]
    addresses = {name: f"127.0.0.1:{port}" for name, port in zip(names, ports, strict=True)}
    async with contextlib.AsyncExitStack() as opened:
        nodes = {}
        for name in names:
            node = Node(name, listen=addresses[name], peers=addresses)
            nodes[name] = await opened.enter_async_context(node)
        yield nodes


class Service:
    """A program that handles what its node delivers, from entering ``async with`` to leaving it."""

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.serve())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def serve(self) -> None:
        """Handle deliveries until cancelled."""
        raise NotImplementedError
