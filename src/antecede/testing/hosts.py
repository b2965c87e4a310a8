"""Hosts that crash: a program loses its memory and its connections, but not its disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from antecede.errors import StoreError, UsageError
from antecede.net.journal import Saved
from antecede.testing.network import Network, NetworkTransport


class Disk:
    """A store in memory that outlives crashes; it is an :class:`antecede.net.Store`.

    ``delay`` is the least and the greatest number of seconds that a write takes. If a crash
    interrupts a write, the network's seed decides whether it is stored whole or not at all.

    A host gives each run of its program a new view of the disk; after a crash the old view fails.
    """

    def __init__(self, network: Network, delay: tuple[float, float] = (0.0, 0.005)) -> None:
        self.network = network
        self.delay = delay
        self.checkpoint: bytes | None = None
        self.journal: list[bytes] = []
        self.writes = 0

    def view(self) -> View:
        """Return a new access to the disk, for one run of a program."""
        return View(self)


class View:
    """One run's access to a :class:`Disk`."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.is_dead = False

    async def open(self) -> Saved:
        """Return what the disk holds."""
        self._check()
        return Saved(self.disk.checkpoint, list(self.disk.journal))

    async def append(self, entry: bytes) -> None:
        """Add an entry, at the beginning or the end of the time that it takes."""
        await self._write(lambda: self.disk.journal.append(entry))

    async def replace(self, checkpoint: bytes) -> None:
        """Replace everything by a checkpoint."""

        def work() -> None:
            self.disk.checkpoint = checkpoint
            self.disk.journal.clear()

        await self._write(work)

    def size(self) -> int:
        """Return how many bytes are on the disk."""
        return len(self.disk.checkpoint or b"") + sum(map(len, self.disk.journal))

    async def close(self) -> None:
        """Do nothing: there is no file to close."""

    async def _write(self, work: Callable[[], None]) -> None:
        self._check()
        self.disk.writes += 1
        seconds = self.disk.network.random.uniform(*self.disk.delay)
        is_early = self.disk.network.random.random() < 0.5
        if is_early:
            work()
        await asyncio.sleep(seconds)
        self._check()
        if not is_early:
            work()

    def _check(self) -> None:
        if self.is_dead:
            msg = "the host has crashed"
            raise StoreError(msg)


class Host:
    """Runs a program that can crash and start again.

    The program is a coroutine function of the host; ``host.transport`` and ``host.store`` are new
    at each start::

        async def program(host: Host) -> None:
            async with Node(host.name, transport=host.transport, store=host.store, ...) as node:
                ...

        host = Host(network, "a")
        host.start(program)
        host.crash()
        host.start(program)
    """

    def __init__(
        self, network: Network, name: str, *, disk_delay: tuple[float, float] = (0.0, 0.005)
    ) -> None:
        self.network = network
        self.name = name
        self.disk = Disk(network, disk_delay)
        self.crashes = 0
        self.transport: NetworkTransport = network.transport(name)
        self.store: View = self.disk.view()
        self._task: asyncio.Task[None] | None = None
        self._dead: list[asyncio.Task[None]] = []

    @property
    def is_running(self) -> bool:
        """Whether the program runs."""
        return self._task is not None and not self._task.done()

    def start(self, program: Callable[[Host], Coroutine[Any, Any, None]]) -> None:
        """Start the program."""
        if self.is_running:
            msg = f"host {self.name!r} is running; crash it, or wait for its end, before a start"
            raise UsageError(msg)
        self.transport = self.network.transport(self.name)
        self.store = self.disk.view()
        self._task = asyncio.get_running_loop().create_task(program(self), name=self.name)

    def crash(self) -> None:
        """Kill the program at once: nothing that it still does has any effect."""
        self.crashes += 1
        self.transport.cut()
        self.store.is_dead = True
        if self._task is not None:
            self._task.cancel()
            self._task.add_done_callback(_forget)
            self._dead.append(self._task)
            self._task = None

    async def wait(self) -> None:
        """Wait for the program's end; raise what it raised."""
        await asyncio.gather(*self._dead, return_exceptions=True)
        if self._task is not None:
            await self._task


def _forget(task: asyncio.Task[None]) -> None:
    """Ignore what a killed program raised: nobody could have seen it."""
    if not task.cancelled():
        task.exception()
