"""Reference counting between processes that never frees what is in use.

An object lives at its owner, which counts the references to it. Who passes a reference on tells the
owner first ("one more"), then the receiver; who drops one tells the owner ("one less"). Causal
order is all that is needed: "one more" is a cause of the receiver's "one less", so it arrives
first, and the count never falls to zero too early. Without causal order it can, and the object is
freed while someone still uses it.

Try it: ``python examples/references.py``.
"""

import asyncio
import json

from antecede.net import Node
from antecede.testing import Service, loopback_nodes


class Heap(Service):
    """One process's objects, and its references to the objects of others."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.counts: dict[str, int] = {}
        self.freed: list[str] = []
        self.held: dict[str, int] = {}
        self._changed = asyncio.Condition()

    def create(self, name: str) -> str:
        """Create an object; return the reference, which counts as one."""
        reference = f"{self.node.process}/{name}"
        self.counts[reference] = 1
        self.held[reference] = 1
        return reference

    async def share(self, reference: str, whom: str) -> None:
        """Pass a reference on: tell the owner, then the receiver."""
        assert self.held.get(reference), f"{reference} is not ours to share"
        await self._tell(reference, "more")
        await self._send(whom, "take", reference)

    async def drop(self, reference: str) -> None:
        """Give a reference up."""
        assert self.held.get(reference), f"{reference} is not ours to drop"
        self.held[reference] -= 1
        await self._tell(reference, "less")

    async def taken(self, reference: str) -> None:
        """Wait until someone has given us a reference."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.held.get(reference, 0) > 0)

    async def _tell(self, reference: str, what: str) -> None:
        await self._send(reference.partition("/")[0], what, reference)

    async def _send(self, whom: str, what: str, reference: str) -> None:
        await self.node.send([whom], json.dumps([what, reference]).encode())

    async def serve(self) -> None:
        """Keep or free what others refer to."""
        async for delivery in self.node:
            what, reference = json.loads(delivery.payload)
            async with self._changed:
                if what == "take":
                    self.held[reference] = self.held.get(reference, 0) + 1
                else:
                    assert reference not in self.freed, f"{reference} was freed too early"
                    self.counts[reference] += 1 if what == "more" else -1
                    if self.counts[reference] == 0:
                        self.freed.append(reference)
                self._changed.notify_all()
            await delivery.done()


async def main() -> None:
    """Pass a reference around and drop it everywhere."""
    async with (
        loopback_nodes("ann", "bob", "cat") as nodes,
        Heap(nodes["ann"]) as ann,
        Heap(nodes["bob"]) as bob,
    ):
        reference = ann.create("picture")
        await ann.share(reference, "bob")
        await ann.drop(reference)
        await bob.taken(reference)
        await bob.drop(reference)
        while not ann.freed:  # noqa: ASYNC110 - an example keeps it simple
            await asyncio.sleep(0.01)
        print("freed", ann.freed[0])


if __name__ == "__main__":
    asyncio.run(main())
