"""Readers: peers that are no nodes, but a stream of packets for Spark or any other consumer.

Each packet becomes one message of the stream: its data is the payload as the application sent it,
its headers are what the order needs. JetStream's acknowledgement stands for the reader's, so a node
forgets a packet when the stream has it. Senders need a store: after a restart without one a node
counts its packets from 1 again, and a reader could not tell them from the old ones.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from nats.js import JetStreamContext, api
from nats.js.errors import NotFoundError

from antecede.core.messages import Packet
from antecede.errors import PeerError
from antecede.net import frames
from antecede.net.nats_names import MESSAGE_HEADER, PACKET_HEADER, STORE_HEADER, Names, token
from antecede.net.nats_session import Session
from antecede.net.runs import packet_of
from antecede.net.transports import Receiver
from antecede.wire.codec import Codec

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

_SAFE: Final = " !#$&'()*,-./:;<=>?@[]^_`{|}~"


class Readers:
    """Stands in for the readers of a group towards one node."""

    def __init__(
        self,
        process: str,
        readers: Iterable[str],
        members: Iterable[str],
        names: Names,
        tell: Callable[[str, str], None],
    ) -> None:
        self._process = process
        self._readers = tuple(readers)
        self._codec = Codec(sorted(members))
        self._names = names
        self._tell = tell
        self._identity = b""
        self._owner: dict[str, str] = {}
        """Whose packets a reader has from this process: the identity of the store."""
        self._receiver: Receiver | None = None
        self._inbox = ""
        self._under_way: set[tuple[int, int]] = set()
        self._stored: dict[str, list[int]] = {}
        self._head: frames.Head | None = None

    def __contains__(self, name: object) -> bool:
        return name in self._readers

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __bool__(self) -> bool:
        return bool(self._readers)

    async def begin(
        self,
        client: Client,
        jetstream: JetStreamContext,
        info: api.StreamInfo,
        receiver: Receiver,
    ) -> None:
        """Learn what the stream has of this process, and listen for acknowledgements."""
        self._receiver = receiver
        text = f"{info.config.name} {info.created}"
        self._identity = hashlib.blake2b(text.encode(), digest_size=frames.IDENTITY_BYTES).digest()
        for reader in self._readers:
            subject = self._names.packets_to(reader, self._process)
            try:
                last = await jetstream.get_last_msg(self._names.packets, subject)
            except NotFoundError:
                continue
            self._owner[reader] = (last.headers or {}).get(STORE_HEADER, "")
        self._under_way.clear()
        self._inbox = client.new_inbox()
        await client.subscribe(f"{self._inbox}.*.*", cb=self._acknowledged)

    def store(self, reader: str, frame: frames.Frame, session: Session) -> bool:
        """Publish the packets of a frame that the stream may not have yet."""
        if not self._may_store(reader, frame.head):
            return False
        self._head = frame.head
        index = self._readers.index(reader)
        packet: Packet | None = None
        for n, data in frame.packets:
            try:
                packet = packet_of(self._codec, packet, n, data)
            except PeerError as error:
                self._tell(f"reader {reader}", f"cannot give {reader} a packet: {error}")
                return False
            if (index, n) in self._under_way:
                continue
            is_put = session.put(
                self._names.packets_to(reader, self._process),
                packet.payload,
                reply=f"{self._inbox}.{index}.{n}",
                headers=self._headers(reader, packet, frame.head.source),
            )
            if not is_put:
                return False
            self._under_way.add((index, n))
        return True

    def _may_store(self, reader: str, head: frames.Head) -> bool:
        """Refuse to go on in a stream that is not the one that was begun."""
        if head.dest and head.dest != self._identity:
            sentence = (
                f"the stream {self._names.packets!r} was made anew since {reader!r} got its first "
                "packets; put it back, or give all nodes new stores"
            )
            self._tell(f"reader {reader}", sentence)
            return False
        owner = self._owner.setdefault(reader, head.source.hex())
        if owner != head.source.hex():
            sentence = (
                f"the stream {self._names.packets!r} has packets for {reader!r} from this process "
                "with another store; put the store back, or delete the stream and all stores"
            )
            self._tell(f"reader {reader}", sentence)
            return False
        return True

    def _headers(self, reader: str, packet: Packet, store: bytes) -> dict[str, str]:
        header = self._codec.encode(packet, payload=False)
        headers = {
            api.Header.MSG_ID.value: f"{store.hex()}.{token(reader)}.{packet.n}",
            STORE_HEADER: store.hex(),
            PACKET_HEADER: base64.b64encode(header).decode(),
        }
        if packet.message is not None:
            headers[MESSAGE_HEADER] = quote(str(packet.message), safe=_SAFE)
        return headers

    async def _acknowledged(self, message: Msg) -> None:
        """Hear from JetStream that it has a packet, or why not."""
        index, n = map(int, message.subject.rsplit(".", 2)[1:])
        self._under_way.discard((index, n))
        reader = self._readers[index]
        try:
            answer = json.loads(message.data)
        except ValueError:
            answer = {"error": {"description": "no stream answers"}}
        if "error" in answer:
            reason = answer["error"].get("description", "no reason given")
            sentence = f"the stream {self._names.packets!r} refuses packets: {reason}"
            self._tell(f"stream {reason}", sentence)
            return
        if not self._stored:
            asyncio.get_running_loop().call_soon(self._tell_node)
        self._stored.setdefault(reader, []).append(n)

    def _tell_node(self) -> None:
        """Acknowledge to the node what the stream has, as the readers would."""
        stored, self._stored = self._stored, {}
        if self._receiver is None or self._head is None:
            return
        last = self._head
        head = frames.Head(last.setup, self._identity, last.source, last.view)
        for reader, numbers in stored.items():
            numbers.sort()
            for begin in range(0, len(numbers), frames.ABOVE_MAX):
                some = numbers[begin : begin + frames.ABOVE_MAX]
                self._receiver.received(reader, frames.encode(head, 0, some, []))
