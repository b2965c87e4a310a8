"""The inbox for asyncio: the same names, but calls that wait for the store are awaited."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self, TypeVar
from weakref import WeakKeyDictionary

from antecede.errors import UsageError
from antecede.inbox.api import (
    Message,
    Opened,
    Place,
    Relay,
    Transaction,
    check_callable,
    check_limit,
    current,
)
from antecede.inbox.causes import Entry
from antecede.inbox.events import write_events
from antecede.inbox.records import Offer, Outgoing, Parked, Report, Waiting

#: How many handlers may wait for a database at the same time.
THREADS = 32
Result = TypeVar("Result")


class AsyncTransaction:
    """The transaction in which a message is handled; ``send`` is not awaited."""

    def __init__(self, inbox: AsyncInbox, transaction: Transaction) -> None:
        self._inbox, self._transaction = inbox, transaction
        self.message, self.send = transaction.message, transaction.send

    async def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """Run a statement on the inbox's database, in its SQL dialect; return the cursor."""
        return await self._inbox.call(self._transaction.execute, statement, values)


class AsyncMessage:
    """A message that is ready: ``async with message as transaction:`` handles it."""

    def __init__(self, inbox: AsyncInbox, message: Message) -> None:
        self._inbox, self._message = inbox, message
        self._turn = AsyncExitStack()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._message, name)

    def __repr__(self) -> str:
        return repr(self._message)

    async def __aenter__(self) -> AsyncTransaction:
        if self._message.is_closed:  # It was given back, and is taken again.
            await self._turn.enter_async_context(self._inbox.writing())
        try:
            return AsyncTransaction(self._inbox, self._message.enter())
        except BaseException:
            await self._turn.aclose()
            raise

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._message.exit()
        end = self._message.finish if error is None else lambda: self._message.fail(error)
        async with self._turn:
            await self._inbox.call(end)


class Offering:
    """The result of ``offer``: await it to keep the message, or iterate to handle what is ready."""

    def __init__(self, inbox: AsyncInbox, offer: Offer | None) -> None:
        self._inbox, self._offer = inbox, offer

    def __await__(self) -> Generator[Any, None, str]:
        return self._inbox.take(self._offer).__await__()

    async def __aiter__(self) -> AsyncIterator[AsyncMessage]:
        await self._inbox.take(self._offer)
        async for message in self._inbox.hand_over():
            yield message


async def _ended(running: asyncio.Future[Any]) -> None:
    """Wait for something that cannot be stopped, even if this task is cancelled meanwhile."""
    while not running.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([running])


def _task() -> asyncio.Task[Any]:
    task = asyncio.current_task()
    assert task is not None
    return task


class Turn:
    """A lock that its owner, a task, may acquire again."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._owner: asyncio.Task[Any] | None = None
        self._depth = 0

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """Hold the lock inside the block."""
        if self._owner is not _task():
            await self._lock.acquire()
            self._owner = _task()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if self._depth == 0:
                self._owner = None
                self._lock.release()


class AsyncInbox(Opened):
    """:class:`antecede.inbox.Inbox` for asyncio, with the same parameters and names.

    ``offer`` is awaited to only keep the message, or iterated over by ``async for``. ``fetch`` and
    ``publish`` may be coroutine functions. A transaction's ``send`` is not awaited.
    """

    def __init__(
        self,
        place: Place = None,
        *,
        topics: Iterable[str] | None = None,
        name: str = "inbox",
        fetch: Callable[[list[str]], Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(place, topics, name, fetch, options)
        self._threads = ThreadPoolExecutor(1 if self._desk.store.is_exclusive else THREADS)
        self._is_closed = False
        self._turn = Turn()  # held by the one writer, if the store has only one
        self._relaying = asyncio.Lock()
        #: The last message that each task took.
        self._last: WeakKeyDictionary[asyncio.Task[Any], Message] = WeakKeyDictionary()

    def causes_in(self, body: object) -> Iterable[object] | None:
        """Return the causes that the inbox finds in a body; None if it was not told how."""
        find = self._desk.policy.causes
        return None if find is None else find(body)

    async def call(
        self,
        function: Callable[..., Result],
        *words: Any,
        undo: Callable[[Result], object] | None = None,
    ) -> Result:
        """Run a function that waits for the store, to its end even if this task is cancelled.

        If it is, the result is lost, and ``undo`` is called with it.
        """
        loop = asyncio.get_running_loop()
        if self._is_closed:
            raise UsageError("this AsyncInbox is closed; open it again")
        running = loop.run_in_executor(self._threads, function, *words)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await _ended(running)
            if undo is not None and running.exception() is None:
                await _ended(loop.run_in_executor(self._threads, undo, running.result()))
            raise

    @asynccontextmanager
    async def writing(self, name: str = "") -> AsyncIterator[None]:
        """Give back what this task took but did not handle; wait to be the one writer, if any."""
        last = self._last.get(_task())
        if last is not None and self._desk.must_leave(last, name):
            await self.call(last.leave)
        if not self._desk.store.is_exclusive:
            yield
            return
        self._desk.must_leave(current.get())  # A task started by a handler cannot wait for it.
        async with self._turn.taken():
            yield

    def offer(
        self,
        id: str,
        body: object = None,
        *,
        causes: Iterable[object] | None = None,
        topic: str | None = None,
        time: float | None = None,
    ) -> Offering:
        """Take a message when it is awaited or iterated over; see ``Inbox.offer``."""
        return Offering(self, Offer(id, body, causes, topic, time))

    def ready(self) -> Offering:
        """Iterate over the messages that are ready now, causes first."""
        return Offering(self, None)

    async def take(self, offer: Offer | None) -> str:
        """Keep a message, and do the upkeep that is due; return its state, or ``"duplicate"``."""
        desk, state = self._desk, ""
        entry = None if offer is None else desk.policy.entry(*offer)
        async with self.writing():
            if entry is not None:
                state = await self.call(desk.take, entry)
            if desk.policy.period is None and self._fetch is None:
                return state
            now = desk.policy.clock()
            missing = await self.call(lambda: desk.keep_up(now, has_fetch=self._fetch is not None))
        if missing and self._fetch is not None:
            found = self._fetch(missing)
            found = await found if isinstance(found, Awaitable) else found
            async with self.writing():
                await self.call(desk.take_fetched, found)
        return state

    async def hand_over(self) -> AsyncIterator[AsyncMessage]:
        """Iterate over the messages that are ready now, without upkeep."""
        left: frozenset[str] = frozenset()
        store = self._desk.store

        def undo(taken: Entry | None) -> None:
            if taken is not None:
                store.abandon(taken)

        while True:
            async with self.writing():
                taken = await self.call(store.begin, left, undo=undo)
                if taken is None:
                    return
                message = self._last[_task()] = Message(self._desk, taken)
                try:
                    yield AsyncMessage(self, message)
                finally:
                    if not message.is_closed and not message.is_entered:
                        await self.call(message.leave)
            if not message.is_done:
                self._desk.must_leave(message)
                left |= {message.key}

    @asynccontextmanager
    async def group(self) -> AsyncIterator[None]:
        """Commit everything that this task does inside the block at once, at its end (SQLite)."""
        async with self.writing():
            group = self._desk.store.group()

            def undo(error: BaseException | None) -> None:
                stop = error or asyncio.CancelledError()
                group.__exit__(type(stop), stop, None)

            await self.call(group.__enter__, undo=undo)
            try:
                yield
            except BaseException as error:
                await self.call(undo, error)
                raise
            await self.call(group.__exit__, None, None, None)

    async def waiting(self, limit: int | None = None) -> list[Waiting]:
        """Return the waiting messages, with what they wait for and since when, oldest first."""
        desk = self._desk
        check_limit(limit)
        return await self.call(desk.store.waiting, desk.policy.clock(), limit)

    async def parked(self, limit: int | None = None) -> list[Parked]:
        """Return the messages kept for a person, and why."""
        check_limit(limit)
        return await self.call(self._desk.store.parked, limit)

    async def release(self, id: str) -> None:
        """Release a message without its missing causes; ``id`` may be ``topic/id``."""
        async with self.writing(id):
            await self.call(self._desk.release, id)

    async def park(self, id: str, reason: str = "by hand") -> None:
        """Keep a message for a person."""
        async with self.writing(id):
            await self.call(self._desk.park, id, reason)

    async def retry(self, id: str) -> None:
        """Treat a parked message as if it arrived now."""
        async with self.writing(id):
            await self.call(self._desk.retry, id)

    async def report(self) -> Report:
        """Return figures on the inbox's messages and on those that arrived early."""
        return await self.call(self._desk.report)

    async def relay(self, publish: Callable[[Outgoing], Any], limit: int | None = None) -> int:
        """Publish what handlers sent, causes first; see ``Inbox.relay``."""
        self._desk.must_leave(current.get())
        check_callable("publish", publish)
        relay, is_more = Relay(self._desk, limit), True
        with relay.alone() as is_alone:
            while is_more and is_alone:
                async with self._relaying:
                    try:
                        due = await self.call(relay.begin)
                        for one in filter(relay.may_go, due):
                            with relay.going(one):
                                done = publish(one)
                                if isinstance(done, Awaitable):
                                    await done
                    finally:
                        try:
                            async with self.writing():
                                await self.call(relay.end)
                        finally:
                            await self.call(relay.close)
                is_more = bool(due)
        return relay.result()

    async def events(self, path: str | os.PathLike[str]) -> int:
        """Write what was handled as an event log for ``antecede audit``; return the event count."""
        return await self.call(write_events, path, [self._desk.store])

    async def close(self) -> None:
        """Close the store; calling again does nothing."""
        self._is_closed = True
        self._desk.store.close()
        self._threads.shutdown(wait=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()
