"""Causal order as a middleware of FastStream's Kafka broker.

Needs ``pip install 'antecede[faststream]'``. A subscriber of FastStream handles one record at a
time, of any partition, so a middleware must not wait: the cause may be the next record of the same
subscriber. ``order="shadow"`` counts early records and changes nothing else. ``order="enforce"``
returns an early record (FastStream seeks to it), so that others come first.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from aiokafka import TopicPartition
from faststream import BaseMiddleware
from faststream.exceptions import NackMessage

from antecede.errors import ContextEndedError, HeaderError, UsageError
from antecede.logs.aio import writing
from antecede.logs.events import Events
from antecede.logs.gate import Gate, Metrics
from antecede.logs.positions import HEADER, SCOPE, Context, Log, Positions, as_text
from antecede.logs.reader import MARK, OnLimit, Order, checked, log

if TYPE_CHECKING:
    from types import TracebackType

    from faststream._internal.context.repository import ContextRepo

#: Seconds until a returned record may come again.
PAUSE: Final = 0.002


class Causal:
    """Middleware for ``KafkaBroker(middlewares=[...])``: stamps what it sends, orders what it gets.

    Give it to every broker of the service. Its subscribers must share one group, must not be
    concurrent (``max_workers``) nor batched, and must acknowledge after the handler:
    ``ack_policy=AckPolicy.NACK_ON_ERROR``. Progress over offsets without records is published only
    when a record follows, so give a ``limit`` with transactions or compacted topics.

    Parameters
    ----------
    topics
        The topics that the group reads.
    order, limit, on_limit, events
        As those of the consumer in :mod:`antecede.logs.confluent`; ``group`` names the group in the
        event log.
    """

    def __init__(
        self,
        topics: Sequence[str],
        *,
        order: Order = "enforce",
        limit: float | None = None,
        on_limit: OnLimit = "mark",
        events: str | os.PathLike[str] | None = None,
        group: str = "faststream",
    ) -> None:
        names = checked(order, limit, on_limit, topics)
        if on_limit != "mark":
            raise UsageError(f"on_limit is {on_limit!r}; a middleware can only mark")
        self.order, self.limit = order, limit
        self.gate = Gate(names, shadow=order != "enforce")
        self.events = None if events is None else Events(events, group, names)
        #: When each returned record first came.
        self.since: dict[Log, tuple[int, float]] = {}

    @property
    def metrics(self) -> Metrics:
        """What the middleware has counted: ``early``, ``waited``, ``gave_up``, ``lost`` ..."""
        return self.gate.metrics

    def __call__(self, msg: Any, /, *, context: ContextRepo) -> _Scope:
        """Create the middleware of one message, as FastStream requires."""
        return _Scope(msg, context=context, causal=self)

    def needs_of(self, message: Any) -> Positions:
        """Return the positions that a message waits for; none if its header cannot be read."""
        text = message.headers.get(HEADER)
        try:
            return Positions.decode(None if text is None else text.encode())
        except HeaderError as error:
            self.metrics.refused += 1
            log.warning("a record is handled without waiting: %s", error)
            return Positions()

    async def may_start(self, message: Any, place: Log, needs: Positions) -> bool:
        """Return whether a message may be handled now, after looking up the group's commits."""
        raw, gate, now = message.raw_message, self.gate, time.monotonic()
        first = self.since.get(place)
        is_new = first is None or first[0] != raw.offset
        gate.reached(place, raw.offset)
        if not gate.missing(place, needs):
            return self._started(place, now)
        if is_new:
            gate.metrics.early += 1
            self.since[place] = (raw.offset, now)
        if gate.shadow:
            return self._started(place, now)
        client = message.consumer
        own = TopicPartition(place.topic, place.partition)
        await client.commit({own: (raw.offset, MARK)})  # rules C and G: everything below is done
        for other in gate.missing(place, needs):
            gate.metrics.look_ups += 1
            found = await client.committed(TopicPartition(other.topic, other.partition))
            gate.learn({other: found})
        if not gate.missing(place, needs):
            return self._started(place, now)
        if self.limit is not None and now - self.since[place][1] >= self.limit:
            gate.metrics.gave_up += 1
            log.warning("%s@%s starts without a cause: the limit is over", place, raw.offset)
            return self._started(place, now)
        return False

    def _started(self, place: Log, now: float) -> bool:
        found = self.since.pop(place, None)
        if found is not None and not self.gate.shadow:
            self.metrics.waited += now - found[1]
        self.metrics.records += 1
        return True


class _Scope(BaseMiddleware[Any, Any]):
    """The middleware of one message."""

    __slots__ = ("_causal", "_done", "_past")

    def __init__(self, msg: Any, /, *, context: ContextRepo, causal: Causal) -> None:
        super().__init__(msg, context=context)
        self._causal = causal
        self._past: Context | None = None
        self._done: tuple[Log, int, Positions] | None = None

    async def consume_scope(self, call_next: Callable[[Any], Awaitable[Any]], msg: Any) -> Any:
        """Handle a message after its causes, or return it."""
        causal, raw = self._causal, msg.raw_message
        if isinstance(raw, tuple | list):
            text = "positions need records one by one; leave batch=True out"
            raise UsageError(text)
        place, needs = Log(raw.topic, raw.partition), causal.needs_of(msg)
        if causal.order != "off" and not await causal.may_start(msg, place, needs):
            await asyncio.sleep(PAUSE)
            raise NackMessage
        self._past = scope = Context()
        scope.read(place, raw.offset, needs, raw.timestamp / 1000)
        token = SCOPE.set(scope)
        try:
            result = await call_next(msg)
            scope.settle()
        finally:
            SCOPE.reset(token)
        self._done = place, raw.offset, needs
        return result

    async def after_processed(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> bool | None:
        """Count a message as processed, after what its handler returned is published."""
        if exc_type is None and self._done is not None:
            place, offset, needs = self._done
            self._causal.gate.done(place, offset)
            if self._causal.events is not None:
                self._causal.events.processed(place, offset, needs)
        return await super().after_processed(exc_type, exc_val, exc_tb)

    async def publish_scope(self, call_next: Callable[[Any], Awaitable[Any]], cmd: Any) -> Any:
        """Stamp what is published, and wait for its acknowledgement (rule W).

        What a handler returns to a publisher is published after it, by the middleware of its
        message.
        """
        target = Log(cmd.destination, -1)
        async with writing(target, self._past, own=True) as (stamp, scope):
            cmd.headers[HEADER] = as_text(stamp)
            sent = await call_next(cmd)
            if asyncio.isfuture(sent):
                sent = await sent
            at = Log(sent.topic, sent.partition)
            if sent.offset < 0:
                raise ContextEndedError(
                    f"the broker had a record of {at.topic} already and does not tell its offset"
                )
            last = sent.offset + max(1, len(cmd.batch_bodies)) - 1  # of a batch, it has the first
        scope.report(target, last, time.time(), at=at)
        return sent
