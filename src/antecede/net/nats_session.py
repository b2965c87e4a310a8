"""One connection to a NATS server: what goes out in order, what is pulled in, what is saved."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from nats.errors import Error

from antecede.net.nats_names import untoken

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

WRITE_BYTES_MAX: Final = 16 << 20
"""How many bytes may wait to be written; frames beyond that are dropped, and sent again later."""
MAX_ACK_PENDING: Final = 1024
"""How many frames JetStream hands out that are not acknowledged."""
PULL_FRAMES: Final = 256
PULL_SECONDS: Final = 20.0
PAUSE_SECONDS: Final = 1.0
TRIES_MAX: Final = 6
"""A frame that the node could not take so often is dropped; its sender sends it again."""
CLOSE_SECONDS: Final = 1.0
ACK: Final = b"+ACK"
TERM: Final = b"+TERM"


class _Outgoing(NamedTuple):
    subject: str
    data: bytes
    reply: str
    headers: dict[str, str] | None


Arrived = Callable[["Session", str, bytes, str, int], None]


class Session:
    """A connection from its opening to its end; ``ended`` is set when it breaks."""

    def __init__(self, client: Client, arrived: Arrived, ended: asyncio.Event) -> None:
        self.client = client
        self._arrived = arrived
        self._ended = ended
        self._queue: deque[_Outgoing] = deque()
        self._queue_bytes = 0
        self._has_work = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._writer: asyncio.Task[None] | None = None
        self._open: dict[str, dict[str, list[int]]] = {}
        """Frames by peer that are not acknowledged to JetStream: where to, and their packets."""
        self._next = ""
        self._inbox = ""
        self._left = 0
        self._last_pull = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        self._writer = asyncio.get_running_loop().create_task(self._write())
        self._pull()
        self._watch()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)

    # Out.

    def put(
        self, subject: str, data: bytes, *, reply: str = "", headers: dict[str, str] | None = None
    ) -> bool:
        """Publish a message soon; False if too much waits already."""
        if self._queue_bytes > WRITE_BYTES_MAX or self._ended.is_set():
            return False
        self._queue.append(_Outgoing(subject, data, reply, headers))
        self._queue_bytes += len(data)
        self._has_work.set()
        self._is_idle.clear()
        return True

    async def drained(self) -> None:
        """Wait until the server has everything that was put."""
        await self._is_idle.wait()
        await self.client.flush()

    async def _write(self) -> None:
        try:
            while True:
                await self._has_work.wait()
                self._has_work.clear()
                while self._queue:
                    subject, data, reply, headers = self._queue.popleft()
                    self._queue_bytes -= len(data)
                    await self.client.publish(subject, data, reply=reply, headers=headers)
                self._is_idle.set()
        except (Error, OSError):
            self._ended.set()

    # In.

    async def subscribe(self, stream: str, consumer: str) -> None:
        """Receive what the consumer hands out."""
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._inbox = self.client.new_inbox()
        await self.client.subscribe(self._inbox, cb=self._receive)

    def _pull(self) -> None:
        """Ask for the next frames, as they come."""
        asked = {"batch": PULL_FRAMES, "expires": int(PULL_SECONDS * 1e9)}
        self._left = PULL_FRAMES
        self._last_pull = asyncio.get_running_loop().time()
        self.put(self._next, json.dumps(asked).encode(), reply=self._inbox)

    def _watch(self) -> None:
        """Ask again if the server has forgotten that it was asked."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._last_pull > PULL_SECONDS + 5 * PAUSE_SECONDS:
            self._pull()
        self._timer = loop.call_later(PAUSE_SECONDS, self._watch)

    async def _receive(self, message: Msg) -> None:
        if not message.reply:  # a remark, for instance that nothing came
            if (message.headers or {}).get("Status") in ("404", "408"):
                self._pull()
            else:  # for instance, another program of this name has made the consumer anew
                self._ended.set()
            return
        self._left -= 1
        if not self._left:
            self._pull()
        try:
            source = untoken(message.subject.rpartition(".")[2])
        except ValueError:
            self.acknowledge(message.reply)
            return
        tries = message.metadata.num_delivered
        self._arrived(self, source, message.data, message.reply, tries)

    # What is saved.

    def expect(self, peer: str, reply: str, numbers: list[int], tries: int) -> None:
        """Acknowledge a frame to JetStream when the node has saved its packets."""
        if not numbers:
            self.acknowledge(reply)
        elif tries >= TRIES_MAX:
            self.put(reply, TERM)
        else:
            self._open.setdefault(peer, {})[reply] = numbers

    def saved(self, peer: str, prefix: int, above: Iterable[int]) -> None:
        """Acknowledge the frames whose packets the node has told ``peer`` that it has saved."""
        frames = self._open.get(peer)
        if not frames:
            return
        more = frozenset(above)
        done = [
            reply
            for reply, numbers in frames.items()
            if all(n <= prefix or n in more for n in numbers)
        ]
        for reply in done:
            del frames[reply]
            self.acknowledge(reply)

    def acknowledge(self, reply: str) -> None:
        """Let JetStream forget a frame."""
        self.put(reply, ACK)


async def close(client: Client) -> None:
    """Close a connection, which may be broken or not quite open, without waiting long for it."""
    with contextlib.suppress(Error, OSError, TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await client.close()
