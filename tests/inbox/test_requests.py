"""Requests and events as bad networks, applications and senders make them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antecede.errors import PeerError, UsageError
from antecede.inbox import AsyncInbox, Inbox, Offer, Outgoing
from antecede.inbox.asgi import CausalRequests
from antecede.inbox.cloudevents import event_of, offer_of


def read(headers: Any, body: bytes) -> Offer | None:
    return Offer(headers["x-id"], topic="a") if "x-id" in headers else None


class Shop:
    """An application, behind an inbox."""

    def __init__(self, **options: Any) -> None:
        self.seen: list[bytes] = []
        self.inbox = AsyncInbox(None, topics={"a"}, **options)
        self._app = CausalRequests(self._handle, self.inbox, read=read)

    async def _handle(self, scope: Any, receive: Any, send: Any) -> None:
        body = (await receive())["body"]
        self.seen.append(body)
        if body == b"bad":
            msg = "the application made a mistake"
            raise UsageError(msg)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"thanks"})

    async def post(
        self, body: bytes, name: str | None = "1", *, is_whole: bool = True
    ) -> list[int]:
        """Post a body, or only the beginning of one; return the statuses of the answer."""
        events = [{"type": "http.request", "body": body, "more_body": not is_whole}]
        events.append({"type": "http.disconnect"})
        answer: list[Any] = []

        async def receive() -> Any:
            return events.pop(0)

        async def send(event: Any) -> None:
            answer.append(event)

        headers = [] if name is None else [(b"x-id", name.encode())]
        scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
        await self._app(scope, receive, send)
        return [event["status"] for event in answer if "status" in event]


def test_half_a_request_is_not_taken_for_a_message() -> None:
    async def run() -> None:
        shop = Shop()
        assert await shop.post(b"half", is_whole=False) == []
        assert await shop.post(b"half and half") == [200]
        assert shop.seen == [b"half and half"]

    asyncio.run(run())


def test_causes_are_found_in_the_body_of_a_request() -> None:
    async def run() -> None:
        found: list[bytes] = []
        shop = Shop(causes=found.append)
        await shop.post(b"x")
        assert found == [b"x"]

    asyncio.run(run())


def test_a_mistake_of_the_application_is_no_answer_to_another_sender() -> None:
    async def run() -> None:
        shop = Shop()
        with pytest.raises(UsageError, match="the application made a mistake"):
            await shop.post(b"bad", "1")
        assert await shop.post(b"good", "2") == [200]
        with pytest.raises(UsageError, match="the application made a mistake"):
            await shop.post(b"bad", None)
        assert shop.seen == [b"bad", b"bad", b"good", b"bad"]

    asyncio.run(run())


def test_a_cloudevent_may_have_bytes() -> None:
    event = event_of(Outgoing("a/1", (), b"\0\xff", 0.0), "t")
    assert event["data_base64"] == "AP8="
    assert offer_of(event).body == b"\0\xff"
    with Inbox(None, topics={"a"}) as inbox:
        (message,) = inbox.offer(**offer_of(event)._asdict())
        assert message.body == b"\0\xff"
    with pytest.raises(PeerError, match="data_base64 is '!'; give bytes in base64"):
        offer_of({**event, "data_base64": "!"})
