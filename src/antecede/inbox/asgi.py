"""Requests in the order of their causes: middleware for any ASGI application.

::

    app = CausalRequests(app, inbox)

A request that identifies its message (by headers, or by ``read``) is kept in the inbox. If it is
ready, the application handles it at once, inside the transaction of the message, which is
``scope["antecede.transaction"]``; a response below 500 commits it. If it has to wait, the sender
gets ``202 Accepted``, and the application handles the request when its causes are done.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from antecede.errors import AntecedeError, HoldFullError, StoreError
from antecede.inbox.aio import AsyncInbox, AsyncMessage
from antecede.inbox.headers import offer_in, packed, unpacked
from antecede.inbox.records import Offer

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Read = Callable[[Mapping[str, str], bytes], Offer | None]

BODY_BYTES_MAX = 1 << 24
_log = logging.getLogger("antecede.inbox")


class _LeftError(Exception):
    """The sender was gone before its whole request had come; it has no answer."""


class RefusedError(Exception):
    """The application answered with a status of 500 or more; the message is tried again."""


class CausalRequests:
    """Middleware: requests that are messages reach the application after their causes.

    ``read`` is called with the headers (names in lower case) and the body of each POST, PUT and
    PATCH; it returns an :class:`Offer`, whose body is ignored, or None for other requests. If the
    offer has no causes, those count that the inbox finds in the request's body, if it was told how
    (``causes=``, which gets the body as bytes).
    """

    def __init__(
        self, app: App, inbox: AsyncInbox, *, read: Read | None = None,
        body_bytes_max: int = BODY_BYTES_MAX,
    ) -> None:  # fmt: skip
        self._app, self._inbox = app, inbox
        self._read: Read = read or offer_in
        self._most = body_bytes_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http" or scope["method"] not in ("POST", "PUT", "PATCH"):
            await self._app(scope, receive, send)
            return
        try:
            body = await _body(receive, self._most)
        except _LeftError:
            return
        if body is None:
            await _answer(send, 413, f"the body has more than {self._most:,} bytes")
            return
        headers = {
            key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]
        }
        try:
            offer = self._read(headers, body)
            state = "" if offer is None else await self._take(scope, offer, body)
        except (StoreError, HoldFullError) as error:
            await _answer(send, 503, str(error))
            return
        except AntecedeError as error:
            await _answer(send, 400, str(error))
            return
        if offer is None:
            await self._app(scope, _once(body), send)
        else:
            await self._hand_over(scope, send, offer, state)

    async def _take(self, scope: Scope, offer: Offer, body: bytes) -> str:
        """Keep a request; return the state of its message."""
        kept = packed(
            {
                "method": scope["method"],
                "path": scope["path"],
                "query": scope.get("query_string", b"").decode("latin-1"),
                "headers": [
                    [k.decode("latin-1"), v.decode("latin-1")] for k, v in scope["headers"]
                ],
            },
            body,
        )
        causes = self._inbox.causes_in(body) if offer.causes is None else offer.causes
        offered = offer._replace(body=kept, causes=() if causes is None else causes)
        return await self._inbox.offer(**offered._asdict())

    async def _hand_over(self, scope: Scope, send: Send, offer: Offer, state: str) -> None:
        """Let the application handle what is ready; answer the sender of one request."""
        topic = offer.topic or (min(self._inbox.topics) if len(self._inbox.topics) == 1 else None)
        answer: list[MutableMapping[str, Any]] = []
        try:
            async for message in self._inbox.hand_over():
                is_own = message.key == f"{topic}/{offer.id}"
                response = await self._handle(scope, message, is_own=is_own)
                if is_own:
                    answer = response
        except StoreError as error:
            if not answer:
                await _answer(send, 503, str(error))
                return
        if answer:
            for event in answer:
                await send(event)
        elif state == "duplicate":
            await _answer(send, 200, "duplicate")
        else:
            await _answer(send, 202, state or "kept")

    async def serve(self) -> int:
        """Handle what is ready without a request; call it at the start, then regularly."""
        count = 0
        async for message in self._inbox.ready():
            scope: dict[str, Any] = {
                "type": "http",
                "asgi": {"version": "3.0"},
                "http_version": "1.1",
            }
            scope |= {"scheme": "http", "root_path": "", "server": None, "client": None}
            await self._handle(scope, message, is_own=False)
            count += 1
        return count

    async def _handle(
        self, like: Scope, message: AsyncMessage, *, is_own: bool
    ) -> list[MutableMapping[str, Any]]:
        """Let the application handle a kept request; return its response."""
        parts, body = unpacked(message.body)
        response: list[MutableMapping[str, Any]] = []

        async def gather(event: MutableMapping[str, Any]) -> None:
            response.append(event)

        try:
            async with message as transaction:
                scope = {key: value for key, value in like.items() if key not in ("state", "path")}
                scope |= {
                    "method": parts["method"],
                    "path": parts["path"],
                    "raw_path": parts["path"].encode(),
                    "query_string": parts["query"].encode("latin-1"),
                    "headers": [
                        (k.encode("latin-1"), v.encode("latin-1")) for k, v in parts["headers"]
                    ],
                    "state": dict(like.get("state") or {}),
                    "antecede.message": message,
                    "antecede.transaction": transaction,
                }
                await self._app(scope, _once(body), gather)
                _require_success(response)
        except RefusedError:
            pass  # The sender sees the status, and the message is kept.
        except Exception:
            if is_own:
                raise
            _log.exception("the application failed on %s; it is tried again", message.key)
        return response


def _require_success(response: list[MutableMapping[str, Any]]) -> None:
    """Raise if the application could not handle a request."""
    status = next((event["status"] for event in response if "status" in event), 500)
    if status >= 500:
        raise RefusedError(f"status {status}")


async def _body(receive: Receive, most: int) -> bytes | None:
    parts: list[bytes] = []
    size = 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            raise _LeftError
        parts.append(event.get("body", b""))
        size += len(parts[-1])
        if size > most:
            return None
        if not event.get("more_body"):
            return b"".join(parts)


def _once(body: bytes) -> Receive:
    events: list[MutableMapping[str, Any]] = [
        {"type": "http.request", "body": body, "more_body": False}
    ]

    async def receive() -> MutableMapping[str, Any]:
        return events.pop() if events else {"type": "http.disconnect"}

    return receive


async def _answer(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode() + b"\n"})
