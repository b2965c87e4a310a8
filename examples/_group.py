"""Three nodes in one program, on loopback: enough to try an example."""

import contextlib
import socket
from collections.abc import AsyncIterator

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
