"""A fair lock without a server, after [RA81]_.

Whoever wants the lock asks all others and waits until all have agreed. One who wants it too, and
asked earlier by its stamp, agrees only after it has had its turn. Causal order makes the lock fair
in a sense that users notice: if you asked because someone told you that they had asked, your
request never reaches anyone before theirs does.

.. [RA81] G. Ricart and A. K. Agrawala. "An optimal algorithm for mutual exclusion in computer
   networks". Communications of the ACM 24(1), 1981.

Try it: ``python examples/lock.py``.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from antecede.net import Node
from antecede.testing import Service, loopback_nodes

Stamp = tuple[int, str]


class Lock(Service):
    """One process's side of the lock."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._others = [name for name in node.members if name != node.process]
        self._clock = 0
        self._request: Stamp | None = None
        self._agreed: set[str] = set()
        self._put_off: list[str] = []
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Wait for the lock, and give it back at the end."""
        self._clock += 1
        self._request, self._agreed = (self._clock, self.node.process), set()
        await self._tell(self._others, kind="ask", stamp=self._request)
        async with self._changed:
            await self._changed.wait_for(lambda: self._agreed == set(self._others))
        try:
            yield
        finally:
            self._request = None
            waiting, self._put_off = self._put_off, []
            for name in waiting:
                await self._tell([name], kind="agree")

    async def _tell(self, whom: list[str], **what: object) -> None:
        await self.node.send(whom, json.dumps(what).encode())

    async def serve(self) -> None:
        """Answer requests for the lock, and note who agreed."""
        async for delivery in self.node:
            note = json.loads(delivery.payload)
            if note["kind"] == "agree":
                async with self._changed:
                    self._agreed.add(delivery.source)
                    self._changed.notify_all()
            else:
                theirs = (note["stamp"][0], note["stamp"][1])
                self._clock = max(self._clock, theirs[0])
                if self._request is not None and self._request < theirs:
                    self._put_off.append(delivery.source)
                else:
                    await self._tell([delivery.source], kind="agree")
            await delivery.done()


async def main() -> None:
    """Let three processes take turns."""
    async with (
        loopback_nodes("ann", "bob", "cat") as nodes,
        Lock(nodes["ann"]) as ann,
        Lock(nodes["bob"]) as bob,
        Lock(nodes["cat"]) as cat,
    ):

        async def turn(lock: Lock) -> None:
            async with lock.held():
                print(lock.node.process, "has the lock")

        await asyncio.gather(*map(turn, (ann, bob, cat)))


if __name__ == "__main__":
    asyncio.run(main())
