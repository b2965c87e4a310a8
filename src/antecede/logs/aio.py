"""What the adapters of asyncio clients share: starting, closing, writing, background tasks."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Self, TypeVar

from antecede.errors import BrokerError, CauseMissingError, UsageError
from antecede.logs.positions import Context, Log, current

T = TypeVar("T")


class Started(ABC):
    """Starts at the beginning of an ``async with`` block and closes at its end."""

    @abstractmethod
    async def start(self) -> None:
        """Connect."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


@asynccontextmanager
async def writing(
    target: Log, context: Context | None, *, own: bool = False, horizon: float | None = None
) -> AsyncIterator[tuple[bytes, Context]]:
    """Yield the header of a write and its context, after the context's earlier writes (rule W).

    If the block raises, the context ends, because it is unknown whether the record was written.
    """
    context = current() if context is None else context
    while context.must_wait(None):
        await asyncio.sleep(0.001)  # another task of the same context is writing
    now = time.time()
    header = context.begin(target, own=own, horizon=horizon, now=now)
    try:
        yield header, context
    except BaseException as error:
        context.report(target, None, now, repr(error))
        raise


class Tasks:
    """Starts and ends background tasks; the iteration raises their errors."""

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = topics
        self._wake = asyncio.Event()
        self._is_over = False
        self._failure: Exception | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def start(self, *works: Callable[[], Awaitable[None]]) -> None:
        """Run each of these functions in a task."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        self._tasks = [asyncio.create_task(self._guarded(work)) for work in works]

    async def _guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Make the iteration raise an error."""
        if self._failure is None or isinstance(self._failure, CauseMissingError):
            self._failure = error  # the first that ended a task stays
        self.wake()

    def wake(self, *events: asyncio.Event) -> None:
        """Make the iteration check again whether there is something to yield; set events too.

        Handlers may end in any thread.
        """
        for event in (self._wake, *events):
            if self._loop is None or threading.get_ident() == self._thread:
                event.set()
            else:
                with suppress(RuntimeError):  # the loop is closed
                    self._loop.call_soon_threadsafe(event.set)

    def stop(self) -> None:
        """End the iteration."""
        self._is_over = True
        self.wake()

    async def end(self) -> None:
        """End the iteration, and cancel the tasks until they have ended.

        A task that has just got a result may miss the first cancellation.
        """
        self.stop()
        left, self._tasks = set(self._tasks), []
        while left:
            for task in left:
                task.cancel()
            _, left = await asyncio.wait(left, timeout=1)

    async def iterate(self, take: Callable[[], T | None]) -> AsyncIterator[T]:
        """Yield what ``take`` returns, until :meth:`stop`."""
        if not self._tasks and not self._is_over:
            raise UsageError("the consumer is not started; use it as `async with Consumer(...)`")
        while True:
            if isinstance(self._failure, CauseMissingError):  # the caller may catch it and continue
                failure, self._failure = self._failure, None
                raise failure
            if self._failure is not None:
                raise BrokerError(
                    f"cannot read {', '.join(self._topics)}: {self._failure!r}"
                ) from self._failure
            if self._is_over:
                return
            self._wake.clear()
            found = take()
            if found is None:
                await self._wake.wait()
            else:
                yield found
