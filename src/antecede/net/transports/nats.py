"""The NATS transport: frames between nodes in a JetStream stream, packets for readers in another.

A frame stays in its stream until its receiver has saved its packets: only then is it acknowledged
to JetStream. The nodes' own acknowledgements and resending stay in force, so no message is lost
even if a server loses its disk. Each connection makes the consumer anew, which at once hands out
again whatever is not acknowledged; the endpoint drops duplicates.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import logging
import random
import secrets
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self
from urllib.parse import quote

from nats.aio.client import Client
from nats.errors import Error, NoServersError
from nats.js import JetStreamContext, api
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from antecede.endpoint.messages import Packet
from antecede.endpoint.view import View
from antecede.errors import PeerError, UsageError
from antecede.net import frames, log
from antecede.net.parcels import packet_of
from antecede.net.transports import Receiver
from antecede.net.transports.nats_names import (
    GROUP,
    MESSAGE_HEADER,
    PACKET_HEADER,
    PAYLOAD_BYTES,
    STORE_HEADER,
    Names,
    parse_url,
    token,
    untoken,
)
from antecede.net.transports.tls import Tls
from antecede.wire.codec import Codec

if TYPE_CHECKING:
    from nats.aio.msg import Msg

BACK_OFF_MIN: Final = 0.05
BACK_OFF_MAX: Final = 5.0
STABLE_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 10.0
ROOM_BYTES: Final = 1 << 18
"""The most that a message takes besides its payload, and the size of a frame of small packets."""
ACK_SECONDS: Final = 10.0
"""After this time JetStream hands out again a frame that the node could not accept."""
FRAME_SECONDS: Final = 20.0
"""JetStream drops a frame that is resent within this time; after it, the frame may help."""
PACKET_SECONDS: Final = 120.0
FRAMES_MAX: Final = 8192
"""How many frames from one process to another a stream keeps; the oldest are dropped."""
OPTIONS: Final = ("reader", "replicas", "server")
WRITE_BYTES_MAX: Final = 16 << 20
"""How many bytes may wait to be written; frames beyond that are dropped, and sent again later."""
MAX_ACK_PENDING: Final = 1024
"""How many frames JetStream hands out before it waits for acknowledgements."""
PULL_FRAMES: Final = 256
PULL_SECONDS: Final = 20.0
PAUSE_SECONDS: Final = 1.0
TRIES_MAX: Final = 6
"""A frame that the node could not accept this many times is dropped; its sender resends it."""
CLOSE_SECONDS: Final = 1.0
ACK: Final = b"+ACK"
TERM: Final = b"+TERM"
_SAFE: Final = " !#$&'()*,-./:;<=>?@[]^_`{|}~"


class NatsTransport:
    """Carries frames through a NATS server with JetStream.

    Parameters
    ----------
    process
        This process's name.
    url
        ``nats://[user:password@]host[:port][,host...]/group``, with these options after ``?``:
        ``reader=NAME`` (may be repeated) for a peer that is a stream of packets instead of a node,
        for instance for Spark; ``replicas=3`` for streams on several servers; ``server=NAME`` if
        the server's certificate names something other than its host.
    peers
        The names of the other processes, readers included.
    tls
        As for :class:`antecede.net.Node`. Without it the server must be on loopback, unless
        ``allow_plaintext`` is true.
    payload_bytes
        The largest payload that the node accepts; the server must allow for it.
    view
        The view of the group, which readers cannot leave.
    """

    def __init__(
        self,
        process: str,
        url: str,
        *,
        peers: Iterable[str] = (),
        tls: Tls | None = None,
        allow_plaintext: bool = False,
        payload_bytes: int = PAYLOAD_BYTES,
        chance: random.Random | None = None,
        view: View | None = None,
    ) -> None:
        self.process = process
        self.url = parse_url(url, OPTIONS, name=GROUP)
        self.names = Names(self.url.name)
        self.peers = tuple(name for name in peers if name != process)
        readers = self.url.options.get("reader", ())
        for reader in readers:
            if reader not in self.peers:
                msg = f"reader {reader!r} is not among the peers {', '.join(self.peers) or 'none'}"
                raise UsageError(msg)
        self._known = set(self.peers) - set(readers)
        self._replicas = _replicas(self.url.option("replicas"))
        if tls is None and not allow_plaintext:
            self._check_loopback()
        self._tls = {} if tls is None else _tls_options(tls, self.url.option("server"))
        self._least_bytes = payload_bytes + ROOM_BYTES
        self.packet_bytes_max = payload_bytes + ROOM_BYTES // 2
        self._chance = chance or random.Random()  # noqa: S311 - jitter needs no secrecy
        self._readers = Readers(
            process, readers, (process, *self.peers), self.names, self.tell, view
        )
        self._run = secrets.token_hex(8)
        self._receiver: Receiver | None = None
        self._session: Session | None = None
        self._task: asyncio.Task[None] | None = None
        self._counts = dict.fromkeys(("connects", "reconnects", "turned_away", "redelivered"), 0)
        self._told: set[str] = set()

    async def start(self, receiver: Receiver) -> None:
        """Connect; raise at once for a wrong call, but wait for a server that is away."""
        self._receiver = receiver
        first: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.get_running_loop().create_task(self._stay_connected(first))
        await first

    def send(self, peer: str, frame: bytes) -> bool:
        """Give a frame to the connection, if there is one with room."""
        session = self._session
        if session is None:
            return False
        parts = frames.decode(frame)
        if peer in self._readers:
            return self._readers.store(peer, parts, session)
        session.saved((peer, parts.head.view), parts.prefix, parts.above)
        headers = None
        if parts.packets and not parts.notes:
            headers = {api.Header.MSG_ID.value: self._frame_id(peer, parts)}
        return session.put(self.names.frames_to(peer, self.process), frame, headers=headers)

    def check(self, address: str | None) -> None:
        """Refuse changes of a group with readers, which cannot take part in them."""
        del address
        if self._readers:
            msg = "a group with readers cannot change; start it anew with other members"
            raise UsageError(msg)

    def join(self, peer: str, address: str) -> None:
        """Carry frames to and from another peer; NATS needs no address."""
        del address
        self._known.add(peer)
        if self._session is not None and self._receiver is not None:
            asyncio.get_running_loop().call_soon(self._receiver.connected, peer)

    def leave(self, peer: str) -> None:
        """Stop accepting frames from a peer."""
        self._known.discard(peer)

    def counters(self) -> dict[str, int]:
        """Return how often we connected to the server, and frames were refused or repeated."""
        return dict(self._counts)

    async def close(self) -> None:
        """Publish what was accepted, within a second, and disconnect."""
        if self._session is not None:
            with contextlib.suppress(Error, OSError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._session.drained()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._receiver = None

    # Called by a session.

    def arrived(self, session: Session, peer: str, frame: bytes, reply: str, tries: int) -> None:
        """Process a frame that JetStream handed out."""
        if tries > 1:
            self._counts["redelivered"] += 1
        if self._receiver is None:
            return
        numbers, view = list[int](), 0
        if peer in self._known:
            with contextlib.suppress(PeerError):  # the node refuses and counts it
                parts = frames.decode(frame)
                numbers, view = [n for n, _ in parts.packets], parts.head.view
        else:  # the node may know the peer, for instance while it joins
            self._counts["turned_away"] += 1
            sentence = f"a frame came from {peer[:64]!r}, which is not among the peers"
            self.tell(f"peer {peer}", sentence)
        if peer not in self._readers:
            self._receiver.received(peer, frame)
        session.expect((peer, view), reply, numbers, tries)

    def tell(self, what: str, sentence: str) -> None:
        """Log a warning, but only the first time."""
        if what not in self._told and len(self._told) < 1000:
            self._told.add(what)
            log.tell(logging.WARNING, self.process, what.partition(" ")[0], sentence)

    # The connection.

    async def _stay_connected(self, first: asyncio.Future[None]) -> None:
        loop = asyncio.get_running_loop()
        back_off = BACK_OFF_MIN
        while True:
            begin = loop.time()
            try:
                await self._connect(first)
                sentence = f"the connection to {self.url} broke"
                log.tell(logging.INFO, self.process, "disconnected", sentence)
            except UsageError as error:
                if not first.done():
                    first.set_exception(error)
                    return
                self.tell("server", str(error))
            except (Error, OSError, TimeoutError) as error:
                reason = str(error) or type(error).__name__
                self.tell("server", f"cannot connect to {self.url} yet: {reason}")
            if not first.done():
                first.set_result(None)
            if loop.time() - begin > STABLE_SECONDS:
                back_off = BACK_OFF_MIN
            await asyncio.sleep(back_off * self._chance.uniform(0.5, 1.5))
            back_off = min(2 * back_off, BACK_OFF_MAX)

    async def _connect(self, first: asyncio.Future[None]) -> None:
        """Connect, and stay until the connection breaks."""
        ended = asyncio.Event()

        async def end() -> None:
            ended.set()

        client = await self._client(end)
        try:
            session = Session(client, self.arrived, ended)
            await self._prepare(client, session)
            async with session:
                self._session = session
                if "server" in self._told:
                    self._told.discard("server")
                    sentence = f"connected to {self.url}"
                    log.tell(logging.WARNING, self.process, "connected", sentence)
                self._counts["reconnects" if self._counts["connects"] else "connects"] += 1
                if not first.done():
                    first.set_result(None)
                assert self._receiver is not None
                for peer in (*self._known, *self._readers):
                    self._receiver.connected(peer)
                await ended.wait()
        finally:
            self._session = None
            await close(client)

    async def _client(self, end: Callable[[], Awaitable[None]]) -> Client:
        heard: list[Exception] = []

        async def hear(error: Exception) -> None:
            heard[:] = [error]

        client = Client()
        try:
            await client.connect(
                list(self.url.servers),
                name=f"antecede {self.process}",
                error_cb=hear,
                closed_cb=end,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=int(CONNECT_SECONDS),
                ping_interval=10,
                **self._tls,
            )
        except BaseException as error:
            await close(client)
            if isinstance(error, NoServersError) and heard:
                raise heard[0] from error
            if not isinstance(error, Error) or "authorization" not in str(error).lower():
                raise
            msg = f"{self.url} refuses the user or password; give them as nats://user:password@..."
            raise UsageError(msg) from error
        if client.max_payload < self._least_bytes:
            least, most = self._least_bytes, client.max_payload
            await close(client)
            msg = (
                f"{self.url} takes messages of at most {most} bytes, the node needs {least}; raise "
                "max_payload of the server, or lower payload_bytes in the limits of all nodes"
            )
            raise UsageError(msg)
        return client

    async def _prepare(self, client: Client, session: Session) -> None:
        """Make the streams if they are missing, and make the consumer anew."""
        names, jetstream = self.names, client.jetstream(timeout=CONNECT_SECONDS)
        try:
            await self._stream(
                jetstream,
                api.StreamConfig(
                    name=names.frames,
                    subjects=[f"{names.group}.frames.*.*"],
                    retention=api.RetentionPolicy.WORK_QUEUE,
                    max_msgs_per_subject=FRAMES_MAX,
                    discard=api.DiscardPolicy.OLD,
                    duplicate_window=FRAME_SECONDS,
                ),
            )
            if self._readers:
                info = await self._stream(
                    jetstream,
                    api.StreamConfig(
                        name=names.packets,
                        subjects=[f"{names.group}.packets.*.*"],
                        retention=api.RetentionPolicy.LIMITS,
                        discard=api.DiscardPolicy.NEW,
                        allow_direct=True,
                        duplicate_window=PACKET_SECONDS,
                    ),
                )
                assert self._receiver is not None
                await self._readers.begin(client, jetstream, info, self._receiver)
            durable = token(self.process)
            with contextlib.suppress(NotFoundError):
                await jetstream.delete_consumer(names.frames, durable)
            await jetstream.add_consumer(
                names.frames,
                name=durable,
                durable_name=durable,
                filter_subject=names.frames_to(self.process),
                ack_policy=api.AckPolicy.EXPLICIT,
                ack_wait=ACK_SECONDS,
                max_ack_pending=MAX_ACK_PENDING,
            )
        except ServiceUnavailableError as error:
            msg = f"{self.url} has no JetStream; start the server with it: nats-server -js"
            raise UsageError(msg) from error
        await session.subscribe(names.frames, durable)

    async def _stream(
        self, jetstream: JetStreamContext, config: api.StreamConfig
    ) -> api.StreamInfo:
        """Return a stream; make it if it does not exist."""
        assert config.name is not None
        try:
            info = await jetstream.stream_info(config.name)
        except NotFoundError:
            config = config.evolve(
                storage=api.StorageType.FILE,
                num_replicas=self._replicas,
            )
            try:
                info = await jetstream.add_stream(config)
            except APIError as error:
                if error.code is None or error.code >= 500:
                    raise
                msg = f"{self.url} refuses the stream {config.name!r}: {error.description}"
                raise UsageError(msg) from error
        if info.config.subjects != config.subjects or info.config.retention != config.retention:
            msg = (
                f"the stream {config.name!r} on {self.url} is not one of antecede's; give the "
                "group another name"
            )
            raise UsageError(msg)
        return info

    def _frame_id(self, peer: str, frame: frames.Frame) -> str:
        """Return an id by which JetStream drops a frame that is resent soon.

        It differs after a restart, when the node may have forgotten what the peer acknowledged:
        only an answer to the same frame tells it again. It differs in another view: a process that
        was removed and comes back gets packets from number 1 again. And it differs if the frame
        acknowledges something else, which must not be dropped with the packets.
        """
        said = (frame.head.view, frame.prefix, frame.above, [n for n, _ in frame.packets])
        digest = hashlib.blake2b(repr(said).encode(), digest_size=8).hexdigest()
        return f"{self._run}.{frame.head.source.hex()}.{token(peer)}.{digest}"

    def _check_loopback(self) -> None:
        for address in self.url.addresses:
            if not address.is_loopback:
                msg = (
                    f"the NATS server {address} is not on loopback, and without TLS anyone could "
                    "read and forge messages; give tls=, or allow_plaintext=True if that is what "
                    "you want"
                )
                raise UsageError(msg)


def _replicas(text: str | None) -> int:
    if text is None:
        return 1
    if text not in ("1", "2", "3", "4", "5"):
        msg = f"replicas={text!r} is not understood; JetStream keeps 1 to 5 copies of a stream"
        raise UsageError(msg)
    return int(text)


def _tls_options(tls: Tls, server: str | None) -> dict[str, Any]:
    context = tls.context(is_server=False)
    context.check_hostname = True
    context.hostname_checks_common_name = True
    context.verify_mode = ssl.CERT_REQUIRED
    return {"tls": context} | ({} if server is None else {"tls_hostname": server})


# One connection: frames sent in order, frames pulled in, and those that are saved.


class _Outgoing(NamedTuple):
    subject: str
    data: bytes
    reply: str
    headers: dict[str, str] | None


Arrived = Callable[["Session", str, bytes, str, int], None]


class Session:
    """One connection; ``ended`` is set when it breaks."""

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
        self._open: dict[tuple[str, int], dict[str, list[int]]] = {}
        """By peer and view, frames not acknowledged to JetStream: reply subjects and packets."""
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

    # Sending.

    def put(
        self, subject: str, data: bytes, *, reply: str = "", headers: dict[str, str] | None = None
    ) -> bool:
        """Publish a message soon; return False if too much waits already."""
        if self._queue_bytes > WRITE_BYTES_MAX or self._ended.is_set():
            return False
        self._queue.append(_Outgoing(subject, data, reply, headers))
        self._queue_bytes += len(data)
        self._has_work.set()
        self._is_idle.clear()
        return True

    async def drained(self) -> None:
        """Wait until the server has every message from :meth:`put`."""
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

    # Receiving.

    async def subscribe(self, stream: str, consumer: str) -> None:
        """Receive the frames that the consumer hands out."""
        self._next = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._inbox = self.client.new_inbox()
        await self.client.subscribe(self._inbox, cb=self._receive)

    def _pull(self) -> None:
        """Ask for the next frames as soon as there are any."""
        asked = {"batch": PULL_FRAMES, "expires": int(PULL_SECONDS * 1e9)}
        self._left = PULL_FRAMES
        self._last_pull = asyncio.get_running_loop().time()
        self.put(self._next, json.dumps(asked).encode(), reply=self._inbox)

    def _watch(self) -> None:
        """Ask again if the server has forgotten our request."""
        loop = asyncio.get_running_loop()
        if loop.time() - self._last_pull > PULL_SECONDS + 5 * PAUSE_SECONDS:
            self._pull()
        self._timer = loop.call_later(PAUSE_SECONDS, self._watch)

    async def _receive(self, message: Msg) -> None:
        if not message.reply:  # a status, such as that no frame came
            if (message.headers or {}).get("Status") in ("404", "408"):
                self._pull()
            else:  # for instance, another program with this name took over the consumer
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

    # Acknowledging saved frames.

    def expect(self, peer: tuple[str, int], reply: str, numbers: list[int], tries: int) -> None:
        """Acknowledge a frame to JetStream when the node has saved its packets."""
        if not numbers:
            self.acknowledge(reply)
        elif tries >= TRIES_MAX:
            self.put(reply, TERM)
        else:
            self._open.setdefault(peer, {})[reply] = numbers

    def saved(self, peer: tuple[str, int], prefix: int, above: Iterable[int]) -> None:
        """Acknowledge to JetStream the frames whose packets the node has acknowledged to a peer."""
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
    """Close a connection, which may be broken or half open, without waiting long."""
    with contextlib.suppress(Error, OSError, TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await client.close()


# Readers: peers that are a stream of packets for Spark or another consumer instead of a node. Each
# packet becomes one message of the stream: its data is the payload as the application sent it, its
# headers have what the order needs. JetStream's acknowledgement replaces the reader's, so a node
# forgets a packet when the stream has it. Senders need a store: after a restart without one a node
# counts its packets from 1 again, and a reader could not tell them from the old ones.


class Readers:
    """Acts for the readers of a group towards one node."""

    def __init__(
        self,
        process: str,
        readers: Iterable[str],
        members: Iterable[str],
        names: Names,
        tell: Callable[[str, str], None],
        view: View | None = None,
    ) -> None:
        self._process = process
        self._readers = tuple(readers)
        self._codec = Codec(sorted(members) if view is None else view)
        self._names = names
        self._tell = tell
        self._identity = b""
        self._owner: dict[str, str] = {}
        """By reader, the identity of the store whose packets it has from this process."""
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
        """Learn which packets of this process the stream has, and listen for acknowledgements."""
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
        """Publish those packets of a frame that the stream may not have yet."""
        if not self._may_store(reader, frame.head):
            return False
        self._head = frame.head
        if frame.notes:
            self._answer(reader)
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
        """Return whether the stream is the one that this store began; warn if it is not."""
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
        """Process JetStream's answer that it has stored a packet, or why not."""
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
        self._answer(reader, n)

    def _answer(self, reader: str, *stored: int) -> None:
        """Answer soon for a reader, with what the stream has stored."""
        if not self._stored:
            asyncio.get_running_loop().call_soon(self._tell_node)
        self._stored.setdefault(reader, []).extend(stored)

    def _tell_node(self) -> None:
        """Acknowledge to the node what the stream has, as the readers would."""
        stored, self._stored = self._stored, {}
        if self._receiver is None or self._head is None:
            return
        last = self._head
        head = frames.Head(
            last.setup,
            self._identity,
            last.source,
            last.view,
            known=last.opening,
            known_mark=last.mark,
        )
        for reader, numbers in stored.items():
            numbers.sort()
            for begin in range(0, max(1, len(numbers)), frames.ABOVE_MAX):
                some = numbers[begin : begin + frames.ABOVE_MAX]
                self._receiver.received(reader, frames.encode(head, 0, some, []))
