"""A replicated key-value store with causal reads.

Every replica answers at once from its own copy. A write is sent to all, and since messages arrive
in causal order, whoever sees a write has seen everything that its writer had seen. A client that
changes replicas takes a *token* along: ``get(key, after=token)`` waits until the new replica has
seen what the client saw at the old one. Of two writes that know nothing of each other, the one with
the greater stamp wins, everywhere the same.

Try it: ``python examples/store.py``.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Self

from antecede.net import Delivery, Node
from antecede.testing import loopback_nodes

Token = dict[str, int]
"""How many writes of each process a client has seen."""


class Replica:
    """One copy of the store; use it in ``async with``."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.seen: Token = {}
        self._cells: dict[str, tuple[tuple[int, str], str]] = {}
        self._stamp = 0
        self._changed = asyncio.Condition()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._apply_all())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def put(self, key: str, value: str) -> Token:
        """Write; return a token with which any replica shows this write."""
        write = {"key": key, "value": value, "stamp": self._stamp + 1}
        message = await self.node.send(self.node.members, json.dumps(write).encode())
        token = {**self.seen, message.sender: message.seq}
        await self._catch_up(token)
        return token

    async def get(self, key: str, *, after: Mapping[str, int] | None = None) -> str | None:
        """Read, once this replica has seen everything that ``after`` names."""
        await self._catch_up(after or {})
        found = self._cells.get(key)
        return None if found is None else found[1]

    def token(self) -> Token:
        """Return what this replica has seen, for a client that reads here and leaves."""
        return dict(self.seen)

    async def _catch_up(self, token: Mapping[str, int]) -> None:
        async with self._changed:
            await self._changed.wait_for(
                lambda: all(self.seen.get(name, 0) >= count for name, count in token.items())
            )

    async def _apply_all(self) -> None:
        async for delivery in self.node:
            async with self._changed:
                self._apply(delivery)
                self._changed.notify_all()
            await delivery.done()

    def _apply(self, delivery: Delivery) -> None:
        write = json.loads(delivery.payload)
        stamp = (write["stamp"], delivery.source)
        self._stamp = max(self._stamp, write["stamp"])
        if write["key"] not in self._cells or self._cells[write["key"]][0] < stamp:
            self._cells[write["key"]] = (stamp, write["value"])
        self.seen[delivery.source] = delivery.message.seq


async def main() -> None:
    """Write at one replica, read at another."""
    async with (
        loopback_nodes("ann", "bob", "cat") as nodes,
        Replica(nodes["ann"]) as ann,
        Replica(nodes["cat"]) as cat,
    ):
        token = await ann.put("colour", "blue")
        print("cat reads", await cat.get("colour", after=token))


if __name__ == "__main__":
    asyncio.run(main())
