"""The NATS transport: frames between nodes in a JetStream stream, packets for readers in another.

A frame stays in its stream until its receiver has saved what it brought: only then is it
acknowledged to JetStream. The nodes' own acknowledgements and resending stay in force, so a server
that loses its disk loses no message either. After every connection the consumer is made anew, which
hands out again at once whatever is not acknowledged; the endpoint drops what it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import random
import secrets
import ssl
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from nats.aio.client import Client
from nats.errors import Error, NoServersError
from nats.js import JetStreamContext, api
from nats.js.errors import APIError, NotFoundError, ServiceUnavailableError

from antecede.errors import PeerError, UsageError
from antecede.net import frames
from antecede.net.nats_names import GROUP, PAYLOAD_BYTES, Names, parse_url, token
from antecede.net.nats_readers import Readers
from antecede.net.nats_session import MAX_ACK_PENDING, Session, close
from antecede.net.tls import Tls
from antecede.net.transports import Receiver

LOG: Final = logging.getLogger("antecede.net")
BACK_OFF_MIN: Final = 0.05
BACK_OFF_MAX: Final = 5.0
STABLE_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 10.0
ROOM_BYTES: Final = 1 << 18
"""What a message takes besides a payload at most, and the size of a frame of small packets."""
ACK_SECONDS: Final = 10.0
"""After so long JetStream hands out a frame again that the node could not take."""
FRAME_SECONDS: Final = 20.0
"""A frame that is sent again within this time is dropped by JetStream; after it, it may help."""
PACKET_SECONDS: Final = 120.0
FRAMES_MAX: Final = 8192
"""How many frames from one process to another a stream keeps; the oldest are dropped."""
OPTIONS: Final = ("reader", "replicas", "server")


class NatsTransport:
    """Carries frames through a NATS server with JetStream.

    Parameters
    ----------
    process
        This process's name.
    url
        ``nats://[user:password@]host[:port][,host...]/group``, with these options behind ``?``:
        ``reader=NAME`` (may be repeated) for a peer that is no node but a stream of packets, for
        instance for Spark; ``replicas=3`` for streams on several servers; ``server=NAME`` if the
        server's certificate is for another name than its host's.
    peers
        The names of the other processes, readers included.
    tls
        As for :class:`antecede.net.Node`. Without it the server must be on loopback, unless
        ``allow_plaintext`` is true.
    payload_bytes
        The largest payload that the node takes; the server must allow for it.
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
        self._chance = chance or random.Random()  # noqa: S311 - jitter needs no secrecy
        self._readers = Readers(process, readers, (process, *self.peers), self.names, self.tell)
        self._run = secrets.token_hex(8)
        self._receiver: Receiver | None = None
        self._session: Session | None = None
        self._task: asyncio.Task[None] | None = None
        self._counts = dict.fromkeys(("connects", "reconnects", "turned_away", "redelivered"), 0)
        self._told: set[str] = set()

    async def start(self, receiver: Receiver) -> None:
        """Connect. A wrong call is told at once; a server that is away is waited for."""
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
        session.saved(peer, parts.prefix, parts.above)
        headers = None
        if parts.packets and not parts.notes:
            headers = {api.Header.MSG_ID.value: self._frame_id(peer, parts)}
        return session.put(self.names.frames_to(peer, self.process), frame, headers=headers)

    def check(self, address: str | None) -> None:
        """Refuse changes of a group with readers: they cannot take part in them."""
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
        """Take frames from a peer no more."""
        self._known.discard(peer)

    def counters(self) -> dict[str, int]:
        """Return how often the server was connected to, and frames were refused or came again."""
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

    # What a session calls.

    def arrived(self, session: Session, peer: str, frame: bytes, reply: str, tries: int) -> None:
        """Take a frame that JetStream handed out."""
        if tries > 1:
            self._counts["redelivered"] += 1
        if self._receiver is None:
            return
        numbers: list[int] = []
        if peer in self._known:
            with contextlib.suppress(PeerError):  # the node refuses it, and counts that
                numbers = [n for n, _ in frames.decode(frame).packets]
        else:  # the node may know it nevertheless, for instance while one of them joins
            self._counts["turned_away"] += 1
            sentence = f"a frame came from {peer[:64]!r}, which is not among the peers"
            self.tell(f"peer {peer}", sentence)
        if peer not in self._readers:
            self._receiver.received(peer, frame)
        session.expect(peer, reply, numbers, tries)

    def tell(self, what: str, sentence: str) -> None:
        """Log a warning, the first time only."""
        if what not in self._told and len(self._told) < 1000:
            self._told.add(what)
            LOG.warning("%s: %s", self.process, sentence)

    # The connection.

    async def _stay_connected(self, first: asyncio.Future[None]) -> None:
        loop = asyncio.get_running_loop()
        back_off = BACK_OFF_MIN
        while True:
            begin = loop.time()
            try:
                await self._connect(first)
                LOG.info("%s: the connection to %s broke", self.process, self.url)
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
                self._told.discard("server")
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
        """See to the streams, and make the consumer anew."""
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
        """Return a stream that exists, or make it."""
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
        """Return an id by which JetStream drops a frame that is sent again soon.

        It differs after a restart, which may have forgotten what the peer had acknowledged: only an
        answer to the same frame tells the node again. It differs in another view: a process that
        was removed and comes back gets packets from number 1 again. And it differs if the frame
        acknowledges something else: that must not be dropped with the packets.
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
