"""Messages of FastStream in the order of their causes: RabbitMQ, Redis, NATS, Kafka.

::

    broker = RabbitBroker(url, middlewares=[CausalMessages(inbox)])

    @broker.subscriber("payments")
    async def pay(body: dict, transaction=Context()) -> None: ...

A message is kept in the inbox, and the broker is told that it was taken. If it is ready, its
handler runs at once, inside the transaction of the message, which is ``Context("transaction")``;
else it runs when the causes are done. A queue, channel or subject is a topic.
"""

from __future__ import annotations

import copy
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from faststream import BaseMiddleware

from antecede.errors import UsageError
from antecede.inbox.aio import AsyncInbox, AsyncMessage
from antecede.inbox.api import current, current_causes
from antecede.inbox.headers import CAUSES, ID, headers_of, offer_in, packed, unpacked, written
from antecede.inbox.records import Offer, Outgoing, pack

if TYPE_CHECKING:
    from faststream import ContextRepo
    from faststream.message import StreamMessage

Next = Callable[[Any], Awaitable[Any]]
TopicOf = Callable[[Any], str]
_log = logging.getLogger("antecede.inbox")


def _part(raw: Any, name: str) -> Any:
    """Return a part of a client's message; in some clients it is a method."""
    found = getattr(raw, name, None)
    return found() if callable(found) else found


def topic_of(message: StreamMessage[Any]) -> str:
    """Return the queue, channel, subject or topic of a message."""
    raw = message.raw_message
    for name in ("routing_key", "subject", "topic"):
        if isinstance(found := _part(raw, name), str):
            return found
    if isinstance(raw, dict):
        found = raw.get("channel", "")
        return found.decode() if isinstance(found, bytes) else str(found)
    return ""


def id_of(message: StreamMessage[Any]) -> str:
    """Return the id of a message without our headers: its place in Kafka, or its message id."""
    partition, offset = (_part(message.raw_message, name) for name in ("partition", "offset"))
    return str(message.message_id) if offset is None else f"{partition}-{offset}"


class CausalMessages:
    """Middleware: subscribers get the messages of the inbox's topics after their causes.

    Messages of other topics pass. A message without our headers is identified by its
    ``message_id``, in Kafka by partition and offset, and gets the causes that the inbox finds in
    its body, if it was told how (``causes=``, which gets the body as bytes).
    """

    def __init__(self, inbox: AsyncInbox, *, topic: TopicOf = topic_of) -> None:
        self.inbox, self.topic = inbox, topic
        #: The function that runs each topic's handler, and a message to copy others from.
        self.routes: dict[str, tuple[Next, Any]] = {}

    def __call__(self, msg: Any, /, *, context: ContextRepo) -> BaseMiddleware[Any, Any]:
        """Create the middleware of one message."""
        return _Scope(self, msg, context)

    def offer_in(self, message: StreamMessage[Any]) -> Offer | None:
        """Return the offer for a message, or None if it is of another topic."""
        if isinstance(message.raw_message, (tuple, list)):
            raise UsageError(
                "a batch has no order of its own; subscribe without batch=True, or without inbox"
            )
        found = offer_in(message.headers, message.body)
        topic = (found and found.topic) or self.topic(message)
        if topic not in self.inbox.topics:
            return None
        return (found or Offer(id_of(message), message.body))._replace(topic=topic)


class _Scope(BaseMiddleware[Any, Any]):
    """The middleware of one message."""

    def __init__(self, shared: CausalMessages, msg: Any, context: ContextRepo) -> None:
        super().__init__(msg, context=context)
        self._shared = shared

    async def consume_scope(self, call_next: Next, msg: StreamMessage[Any]) -> Any:
        shared = self._shared
        offer = shared.offer_in(msg)
        if offer is None or current.get() is not None:
            return await call_next(msg)
        assert offer.topic is not None
        shared.routes[offer.topic] = (call_next, msg)
        if offer.causes is None:
            causes = shared.inbox.causes_in(offer.body)
            offer = offer._replace(causes=() if causes is None else causes)
        parts = {
            "headers": {key: str(value) for key, value in msg.headers.items()},
            "content_type": msg.content_type,
            "message_id": msg.message_id,
            "correlation_id": msg.correlation_id,
        }
        kept = offer._replace(body=packed(parts, bytes(msg.body)))
        result = None
        async for message in shared.inbox.offer(**kept._asdict()):
            if message.topic not in shared.routes:
                continue  # Its subscriber has not run in this process yet; it stays ready.
            if message.key == f"{offer.topic}/{offer.id}":
                result = await self._run(message, call_next, msg)
                continue
            try:
                route, like = shared.routes[message.topic]
                await self._run(message, route, _rebuilt(like, message.body))
            except Exception:  # one failure must not stop the next message
                _log.exception("the handler failed on %s; it is tried again", message.key)
        return result

    async def _run(self, message: AsyncMessage, route: Next, msg: Any) -> Any:
        async with message as transaction:
            with self.context.scope("transaction", transaction), self.context.scope("message", msg):
                return await route(msg)

    async def publish_scope(self, call_next: Next, cmd: Any) -> Any:
        """Add the causes to what a handler publishes directly."""
        causes = current_causes()
        if causes and CAUSES not in (cmd.headers or {}):
            name = (cmd.headers or {}).get(ID) or uuid.uuid4().hex
            added = written(name, str(cmd.destination), causes, time.time())
            cmd.headers = {**added, **(cmd.headers or {})}
        return await call_next(cmd)


def _rebuilt(like: StreamMessage[Any], kept: str) -> StreamMessage[Any]:
    """Return a kept message as the subscriber would have got it."""
    parts, body = unpacked(kept)
    message = copy.copy(like)
    message.clear_cache()
    message.body, message.headers = body, parts["headers"]
    message.content_type, message.message_id = parts["content_type"], parts["message_id"]
    message.correlation_id = parts["correlation_id"]
    return message


def publisher(broker: Any) -> Callable[[Outgoing], Awaitable[None]]:
    """Return a function for ``AsyncInbox.relay`` that publishes each message to its topic."""

    async def publish(out: Outgoing) -> None:
        _, data = pack(out.body)
        body = out.body if isinstance(out.body, str) else data or b""
        await broker.publish(body, out.topic, headers=headers_of(out))

    return publish
