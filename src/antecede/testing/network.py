"""An in-memory network with seeded faults."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterable

from antecede.errors import UsageError
from antecede.net.transports import Receiver


class Network:
    """Carries frames between named processes, with the faults that it is told to make.

    Parameters
    ----------
    seed
        The same seed and the same program give the same run.
    delay
        The least and the greatest number of seconds that a frame takes. Frames with different
        delays can overtake each other.
    loss, duplication
        The probability that a frame is lost, and that it arrives twice.
    fifo
        Keep the frames from one process to another in order.

    All of them are attributes that can be changed at any time; ``heal`` ends all faults at once.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        delay: tuple[float, float] = (0.001, 0.01),
        loss: float = 0.0,
        duplication: float = 0.0,
        fifo: bool = False,
    ) -> None:
        self.random = random.Random(seed)  # noqa: S311 - reproducible faults are no secret
        self.delay = delay
        self.loss = loss
        self.duplication = duplication
        self.fifo = fifo
        self.frames = 0
        self._live: dict[str, NetworkTransport] = {}
        self._groups: list[frozenset[str]] = []
        self._latest: dict[tuple[str, str], float] = {}

    def transport(self, name: str) -> NetworkTransport:
        """Return a transport for the process ``name``; a new one replaces the old one."""
        return NetworkTransport(self, name)

    def partition(self, *groups: Iterable[str]) -> None:
        """Lose all frames between ``groups``; processes not named can reach everyone."""
        self._groups = [frozenset(group) for group in groups]

    def heal(self) -> None:
        """End all faults: no partition, no loss, no duplication. Delays remain."""
        self._groups = []
        self.loss = self.duplication = 0.0

    def is_cut(self, source: str, dest: str) -> bool:
        """Return whether a partition separates two processes."""
        sides = [next((g for g in self._groups if name in g), None) for name in (source, dest)]
        return None not in sides and sides[0] != sides[1]

    def attach(self, transport: NetworkTransport) -> None:
        """Make a process reachable, and tell the processes that are already attached."""
        self._live[transport.name] = transport
        for name, other in list(self._live.items()):
            if other is not transport:
                other.tell_connected(transport.name)
                transport.tell_connected(name)

    def detach(self, transport: NetworkTransport) -> None:
        """Make a process unreachable."""
        if self._live.get(transport.name) is transport:
            del self._live[transport.name]

    def carry(self, source: str, dest: str, frame: bytes) -> None:
        """Accept a frame; hand it over later, perhaps twice, perhaps never."""
        self.frames += 1
        if self.is_cut(source, dest) or self.random.random() < self.loss:
            return
        copies = 2 if self.random.random() < self.duplication else 1
        loop = asyncio.get_running_loop()
        for _ in range(copies):
            due = loop.time() + self.random.uniform(*self.delay)
            if self.fifo:
                # Timers with equal times fire in any order.
                due = max(due, math.nextafter(self._latest.get((source, dest), 0.0), math.inf))
                self._latest[source, dest] = due
            loop.call_at(due, self._arrive, source, dest, frame)

    def _arrive(self, source: str, dest: str, frame: bytes) -> None:
        transport = self._live.get(dest)
        if transport is not None and not self.is_cut(source, dest):
            transport.take(source, frame)


class NetworkTransport:
    """One process's access to a :class:`Network`; it is an :class:`antecede.net.Transport`."""

    def __init__(self, network: Network, name: str) -> None:
        self.network = network
        self.name = name
        self._receiver: Receiver | None = None

    async def start(self, receiver: Receiver) -> None:
        """Begin to receive."""
        if self._receiver is not None:
            msg = f"the transport of {self.name!r} has been started already"
            raise UsageError(msg)
        self._receiver = receiver
        self.network.attach(self)

    def send(self, peer: str, frame: bytes) -> bool:
        """Give a frame to the network."""
        if self._receiver is None:
            return False
        self.network.carry(self.name, peer, frame)
        return True

    def counters(self) -> dict[str, int]:
        """Return no figures."""
        return {}

    async def close(self) -> None:
        """Leave the network."""
        self.cut()

    def cut(self) -> None:
        """Leave the network at once, as in a crash: no frame goes out or comes in any more."""
        self._receiver = None
        self.network.detach(self)

    def tell_connected(self, peer: str) -> None:
        """Tell the receiver, from the event loop, that ``peer`` can be reached."""
        asyncio.get_running_loop().call_soon(self._connected, peer)

    def take(self, source: str, frame: bytes) -> None:
        """Hand a frame to the receiver."""
        if self._receiver is not None:
            self._receiver.received(source, frame)

    def _connected(self, peer: str) -> None:
        if self._receiver is not None:
            self._receiver.connected(peer)
