"""A consistent snapshot of running processes, with one message to each.

Accounts pay each other all the time. To add up all the money, someone asks everyone at once; each
answers with its balance and with what it has ever sent and received. Because messages arrive in
causal order, nobody can have received a payment that its sender made after the snapshot: the
question would have come first. So what was sent and not received is exactly what is under way
[AB92]_. Without causal order, money appears or vanishes.

.. [AB92] A. Acharya and B. R. Badrinath. "Recording distributed snapshots based on causal order of
   message delivery". Information Processing Letters 44(6), 1992.

Try it: ``python examples/snapshot.py``.
"""

import asyncio
import json

from antecede.net import Node
from antecede.testing import Service, loopback_nodes


class Account(Service):
    """An account that pays others and answers when asked for a snapshot."""

    def __init__(self, node: Node, balance: int) -> None:
        self.node = node
        self.balance = balance
        self.sent = self.received = 0
        self._answers: dict[int, dict[str, dict[str, int]]] = {}
        self._changed = asyncio.Condition()

    async def pay(self, whom: str, amount: int) -> None:
        """Pay someone."""
        self.balance -= amount
        self.sent += amount
        await self._tell([whom], kind="pay", amount=amount)

    async def total(self) -> int:
        """Return all the money there is, in accounts and under way."""
        number = len(self._answers)
        self._answers[number] = {}
        await self._tell(self.node.members, kind="ask", number=number)
        async with self._changed:
            await self._changed.wait_for(
                lambda: len(self._answers[number]) == len(self.node.members)
            )
        found = self._answers[number].values()
        under_way = sum(answer["sent"] - answer["received"] for answer in found)
        return sum(answer["balance"] for answer in found) + under_way

    async def _tell(self, whom: tuple[str, ...] | list[str], **what: object) -> None:
        await self.node.send(whom, json.dumps(what).encode())

    async def serve(self) -> None:
        """Move money, and note what a snapshot asks for."""
        async for delivery in self.node:
            note = json.loads(delivery.payload)
            if note["kind"] == "pay":
                self.balance += note["amount"]
                self.received += note["amount"]
            elif note["kind"] == "ask":
                mine = {"balance": self.balance, "sent": self.sent, "received": self.received}
                await self._tell(
                    [delivery.source], kind="answer", number=note["number"], answer=mine
                )
            else:
                async with self._changed:
                    self._answers[note["number"]][delivery.source] = note["answer"]
                    self._changed.notify_all()
            await delivery.done()


async def main() -> None:
    """Pay around, and count the money meanwhile."""
    async with (
        loopback_nodes("ann", "bob", "cat") as nodes,
        Account(nodes["ann"], 100) as ann,
        Account(nodes["bob"], 100) as bob,
        Account(nodes["cat"], 100) as cat,
    ):
        for _ in range(10):
            await ann.pay("bob", 7)
            await bob.pay("cat", 5)
        print("all the money:", await cat.total())


if __name__ == "__main__":
    asyncio.run(main())
