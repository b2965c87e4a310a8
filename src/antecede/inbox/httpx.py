"""Causes on requests of httpx: a hook for what a handler posts, and a publisher for the outbox.

::

    client = httpx.Client(event_hooks={"request": [carry]})
    inbox.relay(publisher(client, "https://stock.example/events"))
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from antecede.inbox.api import current_causes
from antecede.inbox.headers import CAUSES, ID, TIME, TOPIC, headers_of, written
from antecede.inbox.records import Outgoing, pack

if TYPE_CHECKING:
    import httpx


def carry(request: httpx.Request) -> None:
    """Add the causes to a request that is made while a message is handled.

    A request that has an ``antecede-id`` keeps it. Name the receiver's topic for these requests in
    the header ``antecede-topic``, as JSON, unless the receiver has only one. What a handler posts
    itself is sent even if it fails later; what it sends by the outbox is not.
    """
    causes = current_causes()
    if causes or ID in request.headers:
        name = request.headers.get(ID)
        added = written(uuid.uuid4().hex, "", causes, time.time())
        for key in (ID, CAUSES, TIME):
            if key not in request.headers and (key != ID or name is None):
                request.headers[key] = added[key]


async def carry_async(request: httpx.Request) -> None:
    """Add the same headers, as a hook of ``httpx.AsyncClient``."""
    carry(request)


def _request(out: Outgoing) -> dict[str, Any]:
    form, data = pack(out.body)
    kind = ("application/octet-stream", "application/octet-stream", "text/plain; charset=utf-8",
            "application/json")[form]  # fmt: skip
    return {"content": data or b"", "headers": {**headers_of(out), "content-type": kind}}


def publisher(client: httpx.Client, url: str | Callable[[str], str]) -> Callable[[Outgoing], None]:
    """Return a function for ``Inbox.relay`` that posts messages; ``url`` may use the topic."""

    def publish(out: Outgoing) -> None:
        where = url if isinstance(url, str) else url(out.topic)
        client.post(where, **_request(out)).raise_for_status()

    return publish


def publisher_async(
    client: httpx.AsyncClient, url: str | Callable[[str], str]
) -> Callable[[Outgoing], Awaitable[None]]:
    """Return a function for ``AsyncInbox.relay`` that posts each message."""

    async def publish(out: Outgoing) -> None:
        where = url if isinstance(url, str) else url(out.topic)
        (await client.post(where, **_request(out))).raise_for_status()

    return publish


__all__ = ["TOPIC", "carry", "carry_async", "publisher", "publisher_async"]
