"""Nodes for programs without asyncio: the same node, in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from antecede.endpoint.messages import MessageId
from antecede.errors import UsageError
from antecede.net import machine, node
from antecede.net.driver import Waiting

T = TypeVar("T")


class Transaction:
    """Sends because of a delivery, which leave together with the mark that it is handled."""

    def __init__(self, inner: machine.Transaction) -> None:
        self._inner = inner

    @property
    def sent(self) -> tuple[MessageId, ...]:
        """The ids of the messages, after the block."""
        return self._inner.sent

    def send(
        self, dests: Iterable[str] | str, payload: bytes = b"", *, after: int | None = None
    ) -> None:
        """Send a message at the end of the block, unless it ends with an error."""
        self._inner.add(dests, payload, after)


class Delivery:
    """A message handed to the application, which calls :meth:`done` when it has handled it."""

    def __init__(self, owner: Node, inner: machine.Delivery) -> None:
        self._owner, self._inner = owner, inner
        self.message, self.source, self.dests = inner.message, inner.source, inner.dests
        self.payload, self.event, self.unmet = inner.payload, inner.event, inner.unmet

    def done(self) -> None:
        """Mark the delivery as handled; return when that is saved."""

        async def mark() -> None:
            await self._inner.done()

        self._owner.call(mark())

    def __enter__(self) -> Transaction:
        return Transaction(self._owner.call(self._inner.__aenter__()))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._owner.call(self._inner.__aexit__(kind, error, trace))


class Node:
    """A node whose calls block; several threads may use it at once.

    It takes the arguments of :class:`antecede.net.Node`::

        with Node("a", listen="127.0.0.1:7001", peers={"b": "127.0.0.1:7002"}) as node:
            node.send(["b"], b"hello")
            for delivery in node:
                print(delivery.source, delivery.payload)
                delivery.done()
    """

    def __init__(self, process: str, **given: Any) -> None:  # noqa: ANN401 - as the other takes it
        self._given = {"process": process, **given}
        self._inner: node.Node | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"antecede-{process}")

    def __enter__(self) -> Self:
        if self._loop.is_closed() or self._thread.is_alive():
            msg = "the node has been started already; make a new Node"
            raise UsageError(msg)
        self._thread.daemon = True  # so that a program that does not close it can end
        self._thread.start()

        async def begin() -> node.Node:
            return await node.Node(**self._given).__aenter__()

        try:
            self._inner = self._wait(begin(), None)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        inner, self._inner = self._opened(), None
        try:
            self._wait(inner.__aexit__(kind, error, trace), None)
        finally:
            self._end()

    @property
    def process(self) -> str:
        """The name of this process."""
        return self._opened().process

    @property
    def members(self) -> tuple[str, ...]:
        """All processes, this one included, in the order in which they joined."""
        return self._opened().members

    @property
    def view(self) -> int:
        """How often the members have changed, as far as this node knows."""
        return self._opened().view

    @property
    def missing(self) -> tuple[str, ...]:
        """The members that a change waits for."""
        return self.call(_called(lambda: self._opened().missing))

    def send(
        self,
        dests: Iterable[str] | str,
        payload: bytes = b"",
        *,
        after: int | None = None,
        timeout: float | None = None,
    ) -> MessageId:
        """Send a message; return when it is saved. After a timeout it may be sent or not."""
        return self.call(self._opened().send(dests, payload, after=after), timeout)

    def receive(self, timeout: float | None = None) -> Delivery | None:
        """Return the next delivery; None after a timeout, or if the node gets closed."""
        try:
            return Delivery(self, self.call(anext(self._opened()), timeout))
        except (TimeoutError, StopAsyncIteration):
            return None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivery:
        if (found := self.receive()) is None:
            raise StopIteration
        return found

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all peers have acknowledged everything that was sent to them."""
        self.call(self._opened().flush(), timeout)

    def add(self, process: str, address: str = "", timeout: float | None = None) -> None:
        """Add a process to the group; return when the members have agreed."""
        self.call(self._opened().add(process, address), timeout)

    def remove(self, *processes: str, timeout: float | None = None) -> None:
        """Remove processes for good; return when that has taken effect here."""
        self.call(self._opened().remove(*processes), timeout)

    def change(
        self,
        *,
        add: Mapping[str, str] | None = None,
        remove: Iterable[str] = (),
        timeout: float | None = None,
    ) -> None:
        """Add processes (with their addresses) and remove others, all at once."""
        self.call(self._opened().change(add=add, remove=remove), timeout)

    def waiting(self) -> list[Waiting]:
        """Return the held messages: how long each has waited, and for what."""
        return self.call(_called(lambda: self._opened().waiting()))

    def skip(self, process: str, upto: int) -> None:
        """Declare that messages of ``process`` up to this number will never arrive here."""
        self.call(self._opened().skip(process, upto))

    def metrics(self) -> str:
        """Return the metrics in the text format of Prometheus."""
        return self.call(_called(lambda: self._opened().metrics()))

    def call(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run a coroutine in the node's event loop; raise TimeoutError if it takes too long."""
        if self._inner is None:
            work.close()
            self._opened()
        return self._wait(work, timeout)

    def _wait(self, work: Coroutine[Any, Any, T], timeout: float | None) -> T:
        async def timed() -> T:
            async with asyncio.timeout(timeout):
                return await work

        running = asyncio.run_coroutine_threadsafe(timed(), self._loop)
        try:
            return running.result()
        except BaseException:  # Ctrl-C interrupts this thread, not the other
            running.cancel()
            raise

    def _opened(self) -> node.Node:
        if self._inner is None:
            msg = "the node is not open; use it in: with Node(...) as node"
            raise UsageError(msg)
        return self._inner

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


async def _called(function: Callable[[], T]) -> T:
    return function()
