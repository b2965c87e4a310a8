"""Batches of inputs: saved as one journal entry each, and let out only then.

Inputs that come in while a batch is being saved make up the next one, so commits are grouped by
themselves: the slower the disk, the larger the batches.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import Final

from antecede.net.limits import Limits
from antecede.net.machine import Machine
from antecede.net.outcomes import Outcome
from antecede.net.records import Logged, sealed
from antecede.net.stores import Store


class Now:
    """An awaitable that never waits."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


NOW: Final = Now()


class Batch(Outcome):
    """Inputs that are saved together, and what may happen once they are."""

    __slots__ = ("arrivals", "notes", "records", "stable", "view", "waiters")

    def __init__(self) -> None:
        super().__init__()
        self.records: list[bytes] = []
        self.arrivals: dict[str, tuple[int, tuple[int, ...]] | None] = {}
        self.notes: dict[str, list[bytes]] = {}
        """What peers must hear that concerns the group; an empty list stands for a frame."""
        self.waiters: list[asyncio.Future[None]] = []
        self.view = 0
        self.stable = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits for this batch."""
        return not (
            self.records
            or self.packets
            or self.arrivals
            or self.deliveries
            or self.notes
            or self.waiters
        )


class Saving:
    """Saves batches one after the other.

    ``seal`` completes a batch before it is saved, ``finish`` lets out what it holds, ``fail`` hears
    of an error. Without a store a batch is let out at the end of the event loop's turn, or when
    packets have arrived.
    """

    def __init__(
        self,
        machine: Machine,
        store: Store | None,
        limits: Limits,
        seal: Callable[[Batch], None],
        finish: Callable[[Batch], None],
        fail: Callable[[Exception], None],
    ) -> None:
        self.machine = machine
        self.store = store
        self.limits = limits
        self.batch = machine.into = Batch()
        self.commits = 0
        self.journal_bytes = self.checkpoint_bytes = 0
        self._seal, self._finish, self._fail = seal, finish, fail
        self._loop = asyncio.get_running_loop()
        self._failure: Exception | None = None
        self.is_scheduled = False
        self._under_way: Batch | None = None
        self._task: asyncio.Task[None] | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    def schedule(self) -> None:
        """Save the current batch soon."""
        if self.is_scheduled or self._task is not None:
            return
        self.is_scheduled = True
        self._idle.clear()
        self._loop.call_soon(self._begin)

    def schedule_arrivals(self) -> None:
        """Save the current batch soon; let it out at once if there is nothing to wait for."""
        if self.store is not None:
            self.schedule()
        elif self._failure is None:
            self._let_out(self._next())

    def saved(self) -> Awaitable[None]:
        """Return what is done when everything applied so far is saved."""
        if self._failure is None and (
            self.store is None or (not self.batch.records and self._task is None)
        ):
            return NOW
        waiter = self._loop.create_future()
        if self._failure is not None:
            waiter.set_exception(self._failure)
        else:
            self.batch.waiters.append(waiter)
            self.schedule()
        return waiter

    async def settle(self) -> None:
        """Wait until everything applied so far is saved and let out."""
        while not self._idle.is_set():
            await self._idle.wait()

    async def checkpoint(self, unlogged: Iterable[Logged] = ()) -> None:
        """Save the machine as it is now in place of its journal."""
        if self.store is not None:
            data = self.machine.checkpoint(unlogged)
            self.journal_bytes, self.checkpoint_bytes = 0, len(data)
            await self.store.replace(data)

    def part(self, peer: str) -> None:
        """Let out no more packets to a peer and acknowledge no more of its: it was removed.

        That holds for what is being saved, too. Its packets are in no outbox any more, and by the
        time it is saved another process may have joined under the same name.
        """
        for batch in filter(None, (self._under_way, self.batch)):
            batch.packets.pop(peer, None)
            batch.arrivals.pop(peer, None)

    def stop(self, error: Exception) -> None:
        """Save nothing more; tell those who wait why."""
        self._failure = error
        for batch in filter(None, (self._under_way, self.batch)):
            for waiter in batch.waiters:
                if not waiter.done():
                    waiter.set_exception(error)
            batch.waiters.clear()

    def _begin(self) -> None:
        self.is_scheduled = False
        if self.store is not None and self._failure is None:
            self._task = self._loop.create_task(self._save_all())
            return
        if self._failure is None and not self.batch.is_empty:
            self._let_out(self._next())
        self._idle.set()

    def _next(self) -> Batch:
        batch = self.batch
        self._seal(batch)
        self.batch = self.machine.into = Batch()
        return batch

    def _let_out(self, batch: Batch) -> None:
        try:
            self._finish(batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, the node must not go on
            self._fail(error)

    async def _save_all(self) -> None:
        """Save and let out batches until there is nothing left to do."""
        try:
            while self._failure is None and not self.batch.is_empty:
                self._under_way = self._next()
                await self._save(self._under_way)
                self._let_out(self._under_way)
        except Exception as error:  # noqa: BLE001 - whatever it is, the node must not go on
            self._fail(error)
        finally:
            self._under_way = self._task = None
            self._idle.set()

    async def _save(self, batch: Batch) -> None:
        if not batch.records or self.store is None:
            return
        self.commits += 1
        entry = sealed(b"".join(batch.records))
        if self.journal_bytes + len(entry) <= self.limits.journal_bytes + self.checkpoint_bytes:
            self.journal_bytes += len(entry)
            await self.store.append(entry)
        else:
            await self.checkpoint(batch.logged)
