"""A replicated key-value store with causal reads, on a network that delays, reorders and repeats.

Each process keeps some of the keys, and answers reads of these at once. A write goes to those who
keep its key. Whoever sees a write has seen everything that its writer had read or written before.
Of two writes that know nothing of each other, the same one wins everywhere.

Try it: ``python examples/store.py``.
"""

import asyncio
from collections.abc import Iterable, Mapping
from random import Random

from antecede import Codec, Packet
from antecede.replicas import Outcome, Replica


class Store:
    """All processes of a store, and the network between them."""

    def __init__(
        self, members: Iterable[str], where: Mapping[str, Iterable[str]], seed: int = 1
    ) -> None:
        self.clients = {name: Client(self, Replica(name, members, where)) for name in members}
        self._random = Random(seed)
        self._codec = Codec(next(iter(self.clients.values())).replica.view)
        self._flights: set[asyncio.Task[None]] = set()

    def post(self, packets: Iterable[Packet]) -> None:
        """Send packets as bytes, some of them twice; they arrive in any order."""
        for packet in packets:
            for _ in range(self._random.choice((1, 1, 2))):
                delay = self._random.expovariate(100)
                task = asyncio.create_task(self._fly(self._codec.encode(packet), delay))
                self._flights.add(task)
                task.add_done_callback(self._flights.discard)

    async def _fly(self, data: bytes, delay: float) -> None:
        await asyncio.sleep(delay)
        packet = self._codec.decode(data)
        self.clients[packet.dest].take(packet)

    async def quiet(self) -> None:
        """Wait until nothing is in flight."""
        while self._flights:
            await asyncio.gather(*self._flights)


class Client:
    """What programs use at one process."""

    def __init__(self, store: Store, replica: Replica) -> None:
        self.replica = replica
        self._store = store
        self._lock = asyncio.Lock()  # the operations of a process go one after the other
        self._changed = asyncio.Event()
        self._answer: asyncio.Future[bytes | None] | None = None

    async def put(self, key: str, value: bytes) -> None:
        """Write a value."""
        async with self._lock:
            self._carry_out(self.replica.write(key, value))

    async def get(self, key: str) -> bytes | None:
        """Read a value: here, or where it is kept."""
        async with self._lock:
            if self.replica.process in self.replica.keepers(key):
                return self.replica.read(key)
            self._answer = asyncio.get_running_loop().create_future()
            self._carry_out(self.replica.fetch(key))
            return await self._answer

    async def wait_for(self, key: str) -> bytes:
        """Read a key that is kept here as soon as it has a value."""
        while (value := await self.get(key)) is None:
            self._changed.clear()
            await self._changed.wait()
        return value

    def take(self, packet: Packet) -> None:
        """Take a packet from the network."""
        self._carry_out(self.replica.receive(packet))

    def _carry_out(self, outcome: Outcome) -> None:
        self._store.post(outcome.packets)
        if outcome.applied:
            self._changed.set()
        if outcome.answer is not None and self._answer is not None:
            self._answer.set_result(outcome.answer.value)


async def main() -> None:
    """Show that a comment never arrives before the photo that it is about."""
    where = {"photo": ("ann", "cat"), "album": ("ann", "bob"), "comment": ("bob", "cat")}
    store = Store(("ann", "bob", "cat"), where)
    ann, bob, cat = store.clients.values()
    await ann.put("photo", b"of the lake")
    await ann.put("album", b"has the photo")
    await bob.wait_for("album")
    await bob.put("comment", b"what a lake")
    print("cat reads", await cat.wait_for("comment"), "about the photo", await cat.get("photo"))
    print("bob fetches", await bob.get("photo"))
    await store.quiet()


if __name__ == "__main__":
    asyncio.run(main())
