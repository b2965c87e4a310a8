"""The NATS client of Spark's Python processes: it asks, reads, publishes and retries.

Every call opens its own connection and closes it, so nothing has to survive between two calls, and
a server that comes back is found again. Only this module of the package uses the client.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from antecede.errors import UsageError

if TYPE_CHECKING:
    import datetime as dt

    from nats.aio.client import Client
    from nats.js import JetStreamContext

FETCH: Final = 1000
"""How many messages are asked for, or published, at a time."""
ANSWER_SECONDS: Final = 10.0
PAUSE_SECONDS: Final = 0.25
CLOSE_SECONDS: Final = 1.0
IDLE_SECONDS: Final = 300.0
"""The server forgets our consumer after this long without a request."""

T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """A stream on a server: where it is, and how long to wait for the server."""

    servers: tuple[str, ...]
    stream: str
    shown: str
    wait: float
    files: tuple[str, str, str] | None = None
    """Authority, certificate and key, in PEM form."""

    def options(self) -> dict[str, Any]:
        """Return the client's options for TLS."""
        if self.files is None:
            return {}
        import ssl

        context = ssl.create_default_context(cafile=self.files[0])
        context.load_cert_chain(self.files[1], self.files[2])
        return {"tls": context}


class State(NamedTuple):
    """A stream's creation time, and its first and last sequence number."""

    created: str
    first: int
    last: int


class Message(NamedTuple):
    """A message of a stream."""

    sequence: int
    subject: str
    time: dt.datetime
    headers: dict[str, str]
    data: bytes


class Outgoing(NamedTuple):
    """A message to publish; JetStream drops a second one with the same id within its window."""

    subject: str
    data: bytes
    id: str | None
    headers: dict[str, str]


class Link:
    """A connection that is opened on demand, and again after an error."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.client: Client | None = None
        self.closed = asyncio.Event()

    async def open(self) -> JetStreamContext:
        """Return the JetStream context, connecting first if needed."""
        from nats.aio.client import Client

        async def ignore(_: Exception) -> None:
            """Ignore an error, which the client also raises."""

        async def close() -> None:
            self.closed.set()

        if self.client is None:
            self.closed.clear()
            self.client = Client()
            await self.client.connect(
                list(self.place.servers),
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=int(ANSWER_SECONDS),
                error_cb=ignore,
                closed_cb=close,
                **self.place.options(),
            )
        return self.client.jetstream(timeout=ANSWER_SECONDS)

    async def close(self) -> None:
        """Close the connection, if there is one."""
        client, self.client = self.client, None
        if client is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await client.close()


async def patiently(link: Link, work: Callable[[JetStreamContext], Awaitable[T]]) -> T:
    """Do some work, and try again while the server is away."""
    from nats.errors import Error
    from nats.js.errors import APIError, ServiceUnavailableError

    place, loop = link.place, asyncio.get_running_loop()
    deadline = loop.time() + place.wait
    while True:
        try:
            return await work(await link.open())
        except ServiceUnavailableError as error:
            # A server that has only just started gives the same answer.
            reason: Exception = error
        except APIError as error:
            if error.code is not None and error.code < 500:
                raise UsageError(f"{place.shown} refuses: {error.description}") from error
            reason = error
        except (Error, OSError, TimeoutError) as error:
            if "authorization" in str(error).lower():
                raise UsageError(f"{place.shown} refuses the user or password") from error
            reason = error
        if loop.time() > deadline:
            told = str(reason) or type(reason).__name__
            raise UsageError(
                f"{place.shown} did not answer for {place.wait:g} s ({told}); start the server "
                "with JetStream, and then the query again"
            ) from reason
        await link.close()
        await asyncio.sleep(PAUSE_SECONDS)


def asked(place: Place, work: Callable[[JetStreamContext], Awaitable[T]]) -> T:
    """Do some work over its own connection."""

    async def ask() -> T:
        link = Link(place)
        try:
            return await patiently(link, work)
        finally:
            await link.close()

    return asyncio.run(ask())


def state_of(place: Place) -> State:
    """Return the current state of the stream."""
    from nats.js.errors import NotFoundError

    async def ask(jetstream: JetStreamContext) -> State:
        try:
            info = await jetstream.stream_info(place.stream)
        except NotFoundError as error:
            raise UsageError(
                f"{place.shown} has no stream {place.stream!r}; make it first"
            ) from error
        return State(str(info.created), info.state.first_seq, info.state.last_seq)

    return asked(place, ask)


def make_stream(place: Place, subjects: Sequence[str], duplicate_window: float = 120.0) -> None:
    """Create a stream unless it exists; it recognises repeated ids for so many seconds."""
    from nats.js.errors import NotFoundError

    async def ask(jetstream: JetStreamContext) -> None:
        try:
            await jetstream.stream_info(place.stream)
        except NotFoundError:
            await jetstream.add_stream(
                name=place.stream, subjects=list(subjects), duplicate_window=duplicate_window
            )

    asked(place, ask)


def read(place: Place, subject: str | None, first: int, last: int) -> Iterator[list[Message]]:
    """Yield the messages from ``first`` to ``last`` that the stream still has."""
    with asyncio.Runner() as runner:
        reading = _Reading(place, subject, first, last)
        try:
            while (found := runner.run(reading.next())) is not None:
                yield found
        finally:
            runner.run(reading.link.close())


class _Reading:
    """Reads a range of a stream; after an error it continues after the last message read."""

    def __init__(self, place: Place, subject: str | None, first: int, last: int) -> None:
        self.link = Link(place)
        self.subject = subject
        self.at, self.last = first, last
        self._pending = 0
        self._pull: JetStreamContext.PullSubscription | None = None
        self._client: Client | None = None

    async def next(self) -> list[Message] | None:
        """Return the next messages, or None at the end."""
        return await patiently(self.link, self._next)

    async def _next(self, jetstream: JetStreamContext) -> list[Message] | None:
        if self._pull is None or self._client is not self.link.client:
            self._pull, self._client = await self._begin(jetstream), self.link.client
        if not self._pending or self.at > self.last:
            return None
        found = []
        for message in await self._pull.fetch(min(FETCH, self._pending), timeout=ANSWER_SECONDS):
            data = message.metadata
            if data.sequence.stream > self.last:
                self.at = data.sequence.stream
                break
            found.append(
                Message(
                    data.sequence.stream,
                    message.subject,
                    data.timestamp,
                    dict(message.headers or {}),
                    message.data,
                )
            )
            self.at = data.sequence.stream + 1
            self._pending = data.num_pending
        return found

    async def _begin(self, jetstream: JetStreamContext) -> JetStreamContext.PullSubscription:
        """Create a consumer that reads from here on and keeps no state on the server."""
        from nats.js import api

        info = await jetstream.add_consumer(
            self.link.place.stream,
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self.at,
            filter_subject=self.subject,
            ack_policy=api.AckPolicy.NONE,
            mem_storage=True,
            num_replicas=1,
            inactive_threshold=IDLE_SECONDS,
        )
        self._pending = info.num_pending or 0
        return await jetstream.pull_subscribe_bind(info.name, stream=self.link.place.stream)


def publish(place: Place, messages: Iterable[Outgoing]) -> int:
    """Publish messages in order; return how many were new to the stream."""
    waiting, new = iter(messages), 0
    with asyncio.Runner() as runner:
        link = Link(place)
        try:
            while chunk := list(islice(waiting, FETCH)):
                new += runner.run(patiently(link, partial(_publish, link, chunk)))
        finally:
            runner.run(link.close())
    return new


async def _publish(link: Link, chunk: list[Outgoing], jetstream: JetStreamContext) -> int:
    """Publish some messages; after an error repeat all of them, since ids prevent duplicates."""
    from nats.errors import ConnectionClosedError
    from nats.js import api

    assert link.client is not None
    answers = []
    for message in chunk:
        if len(message.data) > link.client.max_payload:
            raise UsageError(
                f"a row for {message.subject!r} has {len(message.data)} bytes, {link.place.shown} "
                f"takes {link.client.max_payload}; raise max_payload of the server"
            )
        headers = dict(message.headers)
        if message.id is not None:
            headers[api.Header.MSG_ID.value] = message.id
        answers.append(
            await jetstream.publish_async(
                message.subject, message.data, stream=link.place.stream, headers=headers
            )
        )
    broken = asyncio.ensure_future(link.closed.wait())
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            for answer in answers:
                await asyncio.wait((answer, broken), return_when=asyncio.FIRST_COMPLETED)
                if not answer.done():
                    raise ConnectionClosedError
        return sum(not answer.result().duplicate for answer in answers)
    finally:
        broken.cancel()
        for answer in answers:
            answer.cancel()
