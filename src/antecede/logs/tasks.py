"""The background tasks of a consumer in asyncio, and the iteration that they feed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from antecede.errors import BrokerError, CauseMissingError

T = TypeVar("T")


class Tasks:
    """Starts and ends background tasks; hands an error of one to whoever iterates."""

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = topics
        self._wake = asyncio.Event()
        self._is_over = False
        self._failure: Exception | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, *works: Callable[[], Awaitable[None]]) -> None:
        """Run each of these in a task."""
        self._tasks = [asyncio.create_task(self._guarded(work)) for work in works]

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Let the iteration raise an error."""
        self._failure = error
        self.wake()

    def wake(self) -> None:
        """Let the iteration look again whether there is something."""
        self._wake.set()

    def stop(self) -> None:
        """End the iteration."""
        self._is_over = True
        self.wake()

    async def end(self) -> None:
        """End the iteration, and cancel the tasks until they have ended.

        One that just got a result may miss it the first time.
        """
        self.stop()
        left, self._tasks = set(self._tasks), []
        while left:
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=1)

    async def iterate(self, take: Callable[[], T | None]) -> AsyncIterator[T]:
        """Yield what can be taken, until :meth:`stop`."""
        while True:
            if isinstance(self._failure, CauseMissingError):  # it may be caught, and go on
                failure, self._failure = self._failure, None
                raise failure
            if self._failure is not None:
                msg = f"cannot read {', '.join(self._topics)}: {self._failure!r}"
                raise BrokerError(msg) from self._failure
            if self._is_over:
                return
            self._wake.clear()
            found = take()
            if found is None:
                await self._wake.wait()
            else:
                yield found
