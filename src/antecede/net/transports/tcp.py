"""The TCP transport: a connection to every peer, opened again whenever it breaks.

The process that connects sends a greeting with its own name and its peer's name, and waits for the
same greeting back. After that it sends frames, each after its length in four bytes. Frames travel
in one direction only: each process connects to every other. An empty frame is answered by another,
so that a connection that swallows bytes is detected and replaced. A process that does not know the
one that greets it says so, with the number of its view.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
from collections.abc import Callable, Mapping
from typing import Final, cast

from antecede.errors import PeerError, UsageError
from antecede.net.fields import Fields, put_names, put_number
from antecede.net.log import tell
from antecede.net.transports import Receiver
from antecede.net.transports.addresses import Address, parsed
from antecede.net.transports.tls import HAS_EXPIRED, Tls, common_name, expiry, spelt

STRANGERS_MAX: Final = 64
"""How many connections may be open that have not greeted."""
BACKLOG: Final = 1024
"""How many connections the system may queue until we accept them."""
BACK_OFF_MIN: Final = 0.05
BACK_OFF_MAX: Final = 10.0
STABLE_SECONDS: Final = 5.0
"""A connection that lasted this long is reopened without delay."""
SWEEP_SECONDS: Final = 2.0
FRAME_BYTES_MAX: Final = 65 << 20
"""More than the largest packet. Only peers may send frames this large."""
ROOM_BYTES: Final = 1 << 18
"""The most that a frame takes besides a packet."""
GREETING_BYTES_MAX: Final = 1024
GREETING_SECONDS_MAX: Final = 10.0
SILENCE_SECONDS_MAX: Final = 30.0
HEARTBEAT_SECONDS: Final = 10.0
"""How often we ask for an answer on each connection that we opened."""
REASONS_MAX: Final = 8
"""How many reasons are logged for one peer."""
WRITE_BYTES_MAX: Final = 16 << 20
UNSENT_BYTES: Final = 1 << 17
"""How many bytes the system may buffer besides those on their way: we count the rest."""
READ_BYTES: Final = 1 << 16
"""How many bytes an inbound connection reads at a time."""
_MARK: Final = b"antecede 2\n"
_UNKNOWN: Final = b"antecede unknown\n"


def greeting(source: str, dest: str) -> bytes:
    """Return the frame with which ``source`` greets ``dest``."""
    out = bytearray(_MARK)
    put_names(out, (source, dest))
    return bytes(out)


def names_in(frame: bytes) -> tuple[str, str]:
    """Return who greets whom; raise PeerError if the frame is not a greeting."""
    if not frame.startswith(_MARK):
        msg = f"the connection begins with {frame[:16]!r}, which is not a greeting"
        raise PeerError(msg)
    fields = Fields(frame, len(_MARK))
    names = fields.names()
    if len(names) != 2 or fields.left:
        msg = "the greeting does not name two processes"
        raise PeerError(msg)
    return names[0], names[1]


def unknown(view: int) -> bytes:
    """Return the frame that tells a process that it is not a member of our newest view."""
    out = bytearray(_UNKNOWN)
    put_number(out, view)
    return bytes(out)


def reason_of(error: Exception) -> str:
    """Return in words why a connection failed, such as what is wrong with a certificate."""
    if words := getattr(error, "verify_message", ""):
        return f"its certificate is not accepted: {words}"
    reason = getattr(error, "reason", None)
    said = str(reason).lower().replace("_", " ") if reason else str(error)
    return said or type(error).__name__


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Let the system notice within half a minute when the other machine is gone."""
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is None:
        return
    options = [("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)]
    options += [("TCP_NODELAY", 1), ("TCP_USER_TIMEOUT", 30_000)]
    options += [("TCP_NOTSENT_LOWAT", UNSENT_BYTES)]
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in options:
            if (number := getattr(socket, name, None)) is not None:
                sock.setsockopt(socket.IPPROTO_TCP, number, value)


class Wire(asyncio.BufferedProtocol):
    """A connection whose bytes are cut into frames."""

    def __init__(self, read_bytes: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport | None = None
        self.closed: asyncio.Future[None] = self.loop.create_future()
        self.frame_bytes_max = GREETING_BYTES_MAX
        self.last_data = self.born = self.loop.time()
        self.buffer = bytearray()
        self._space = memoryview(bytearray(read_bytes))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the connection is open."""
        self.transport = cast("asyncio.Transport", transport)
        keep_alive(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake those that wait for the end."""
        del exc
        self.buffer.clear()
        if not self.closed.done():
            self.closed.set_result(None)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Let the event loop read into the same memory each time, as new memory costs more."""
        del sizehint
        return self._space

    def buffer_updated(self, nbytes: int) -> None:
        """Process the bytes that were read."""
        self.data_received(bytes(self._space[:nbytes]))

    def data_received(self, data: bytes) -> None:
        """Cut bytes into frames."""
        if self.transport is None or self.transport.is_closing():
            return
        if self.buffer:
            self.buffer += data
            data = bytes(self.buffer) if self._is_whole() else b""
        self.last_data = self.loop.time()
        position, end = 0, len(data)
        try:
            while end - position >= 4:
                size = int.from_bytes(data[position : position + 4], "big")
                if size > self.frame_bytes_max:
                    most = self.frame_bytes_max
                    self.turn_away(f"a frame claims {size} bytes, at most {most} are allowed")
                    return
                if end - position - 4 < size:
                    break
                begin, position = position + 4, position + 4 + size
                self.frame_received(data[begin:position])
                if self.transport is None or self.transport.is_closing():
                    return
        except PeerError as error:
            self.turn_away(str(error))
            return
        if data:
            self.buffer = bytearray(data[position:]) if position < end else bytearray()

    def _is_whole(self) -> bool:
        """Return whether the buffer has a whole frame, or the beginning of one that is too long."""
        size = int.from_bytes(self.buffer[:4], "big")
        return len(self.buffer) >= 4 and (
            len(self.buffer) - 4 >= size or size > self.frame_bytes_max
        )

    def frame_received(self, frame: bytes) -> None:
        """Take a frame."""
        raise NotImplementedError

    def turn_away(self, reason: str) -> None:
        """Close the connection for a reason."""
        raise NotImplementedError

    def write(self, frame: bytes) -> bool:
        """Send a frame unless too many bytes wait to be sent already."""
        transport = self.transport
        if transport is None or transport.is_closing():
            return False
        if transport.get_write_buffer_size() > WRITE_BYTES_MAX:
            return False
        transport.write(len(frame).to_bytes(4, "big") + frame)
        return True

    @property
    def address(self) -> object:
        """The address of the other end."""
        return self.transport.get_extra_info("peername") if self.transport is not None else None

    def abort(self) -> None:
        """Close the connection at once."""
        if self.transport is not None:
            self.transport.abort()


class Outbound(Wire):
    """A connection that we opened to ``peer``."""

    def __init__(
        self,
        process: str,
        peer: str,
        *,
        has_tls: bool,
        refused: Callable[[int], None] = lambda _: None,
    ) -> None:
        super().__init__(GREETING_BYTES_MAX)
        self._refused = refused
        self.process = process
        self.peer = peer
        self.has_tls = has_tls
        self.welcome: asyncio.Future[None] = self.loop.create_future()
        self._asked = 0.0
        """When we asked for an answer that has not come; 0 if none is due."""
        self._left = 0

    def is_dead(self, now: float) -> bool:
        """Return whether an answer has been due for too long; ask for one now and then."""
        if self.transport is None or not self.welcome.done():
            return False
        left, before = self.transport.get_write_buffer_size(), self._left
        self._left = left
        if not self._asked:
            if now - self.last_data >= HEARTBEAT_SECONDS and self.write(b""):
                self._asked = now
        elif left < before:
            self._asked = now  # bytes from before are still on their way
        return bool(self._asked) and now - self._asked > SILENCE_SECONDS_MAX

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet the other end if it is the right process."""
        super().connection_made(transport)
        if self.has_tls:
            name = common_name(transport.get_extra_info("peercert"))
            if name != self.peer:
                self.turn_away(f"its certificate is for {name!r}")
                return
        self.write(greeting(self.process, self.peer))

    def frame_received(self, frame: bytes) -> None:
        """Process the greeting that comes back and answers that we asked for; refuse the rest."""
        if self.welcome.done() and not frame:
            self._asked = 0.0
        elif self.welcome.done():
            self.turn_away("it sends on a connection that is ours to send on")
        elif frame.startswith(_UNKNOWN):
            view = Fields(frame, len(_UNKNOWN)).number()
            self.turn_away(f"it does not count us among its members, in view {view}")
            self._refused(view)
        elif names_in(frame) != (self.peer, self.process):
            self.turn_away(f"it claims to be {names_in(frame)[0]!r}")
        else:
            self.welcome.set_result(None)

    def turn_away(self, reason: str) -> None:
        """Close the connection and tell the caller that waits for the greeting."""
        if not self.welcome.done():
            self.welcome.set_exception(PeerError(f"turned {self.peer!r} away: {reason}"))
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake those that wait for the connection."""
        super().connection_lost(exc)
        if not self.welcome.done():
            why = f" ({reason_of(exc)})" if exc is not None else ""
            msg = f"{self.peer!r} closed the connection before it greeted us{why}"
            self.welcome.set_exception(PeerError(msg))
            self.welcome.exception()  # mark as seen: perhaps nobody waits for it


class Inbound(Wire):
    """A connection that someone opened to us; ``peer`` is empty until it has greeted us."""

    def __init__(
        self,
        process: str,
        *,
        has_tls: bool,
        admit: Callable[[Inbound], None],
        greet: Callable[[Inbound, str], None],
        receive: Callable[[str, bytes], None],
        refuse: Callable[[Inbound, str], None],
        lost: Callable[[Inbound], None],
    ) -> None:
        super().__init__(READ_BYTES)
        self.process = process
        self.has_tls = has_tls
        self.peer = ""
        self.certified: str | None = None
        self._admit, self._greet, self._receive = admit, greet, receive
        self._refuse, self._lost = refuse, lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Read the name in the certificate, which TLS has verified."""
        super().connection_made(transport)
        self._admit(self)
        if self.has_tls:
            self.certified = common_name(transport.get_extra_info("peercert"))
            if self.certified is None:
                self.turn_away("its certificate has no common name")

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._lost(self)

    def frame_received(self, frame: bytes) -> None:
        """Process the greeting first, then the peer's frames."""
        if self.peer:
            if frame:
                self._receive(self.peer, frame)
            elif self.transport is not None and not self.transport.get_write_buffer_size():
                self.write(b"")
            return
        source, dest = names_in(frame)
        if self.has_tls and source != self.certified:
            self.turn_away(
                f"it claims to be {source!r}, but its certificate says {self.certified!r}"
            )
        elif dest != self.process:
            self.turn_away(f"it looks for {dest!r}, but this is {self.process!r}")
        else:
            self._greet(self, source)

    def turn_away(self, reason: str) -> None:
        """Close the connection for a reason."""
        self._refuse(self, reason)
        self.abort()


class TcpTransport:
    """Carries frames over TCP, with or without TLS.

    Without TLS anyone can claim to be a peer; so plain connections are for loopback only, unless
    ``allow_plaintext`` is true.
    """

    def __init__(
        self,
        process: str,
        *,
        listen: str | None,
        peers: Mapping[str, str],
        tls: Tls | None = None,
        allow_plaintext: bool = False,
        chance: random.Random | None = None,
        joining: bool = False,
    ) -> None:
        self.process = process
        self.packet_bytes_max = FRAME_BYTES_MAX - ROOM_BYTES
        self._is_joining = joining
        self._view = 0
        if listen is None and peers:
            msg = f"the node {process!r} has peers, but no address; give listen='host:port'"
            raise UsageError(msg)
        self.listen = None if listen is None else parsed(listen)
        for name, text in peers.items():
            if not text:
                msg = f"peer {name!r} has no address; write peers={{{name!r}: 'host:port', ...}}"
                raise UsageError(msg)
        self.addresses = {name: parsed(text) for name, text in peers.items()}
        self._is_local = tls is None and not allow_plaintext
        named = {"listen": self.listen} if self.listen is not None else {}
        self._check_loopback({**named, **self.addresses})
        self._tls = tls
        self._files = None if tls is None else tls.stamp()
        self._server_context = None if tls is None else tls.context(is_server=True)
        self._client_context = None if tls is None else tls.context(is_server=False)
        self._chance = chance or random.Random()  # noqa: S311 - jitter needs no secrecy
        self._receiver: Receiver | None = None
        self._listener: socket.socket | None = None
        self._outbound: dict[str, Outbound] = {}
        self._inbound: dict[str, Inbound] = {}
        self._connections: set[Inbound] = set()
        self._handshakes: dict[asyncio.Task[None], socket.socket] = {}
        self._hints: dict[str, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._connecting: dict[str, asyncio.Task[None]] = {}
        self._counts = dict.fromkeys(("connects", "reconnects", "turned_away"), 0)
        self._met: set[str] = set()
        self._told: set[str] = set()
        self._failures: dict[str, dict[str, None]] = {}
        """By peer, why we could not connect to it, since its last connection."""

    @property
    def port(self) -> int:
        """The port that the transport listens on; 0 before that."""
        return self._listener.getsockname()[1] if self._listener is not None else 0

    async def start(self, receiver: Receiver) -> None:
        """Listen, and begin to connect to the peers."""
        self._receiver = receiver
        loop = asyncio.get_running_loop()
        if self.listen is not None:
            self._listener = _listening(self.listen)
            self._tasks.append(loop.create_task(self._accept_all(self._listener)))
        for peer, address in self.addresses.items():
            self._begin(peer, address)
        self._tasks.append(loop.create_task(self._sweep()))

    def check(self, address: str | None) -> None:
        """Raise UsageError unless the address is valid and allowed."""
        if address is not None:
            self._check_loopback({"address": parsed(address)})

    def join(self, peer: str, address: str) -> None:
        """Connect to another peer from now on."""
        where = parsed(address)
        self.leave(peer)
        self.addresses[peer] = where
        self._begin(peer, self.addresses[peer])

    def joined(self) -> None:
        """Accept frames only from known peers from now on; before, from anyone."""
        self._is_joining = False

    def tell_view(self, number: int) -> None:
        """Note the number of the newest view, to tell processes that are not members of it."""
        self._view = number

    def leave(self, peer: str) -> None:
        """Disconnect from a peer, and turn it away from now on."""
        self.addresses.pop(peer, None)
        self._hints.pop(peer, None)
        self._met.discard(peer)
        self._failures.pop(peer, None)
        if (task := self._connecting.pop(peer, None)) is not None:
            task.cancel()
        for wire in (self._outbound.pop(peer, None), self._inbound.pop(peer, None)):
            if wire is not None:
                wire.abort()

    def _begin(self, peer: str, address: Address) -> None:
        self._hints[peer] = asyncio.Event()
        task = asyncio.get_running_loop().create_task(self._stay_connected(peer, address))
        self._connecting[peer] = task

    def send(self, peer: str, frame: bytes) -> bool:
        """Write a frame to the peer's connection, if there is one with room."""
        wire = self._outbound.get(peer)
        return wire is not None and wire.write(frame)

    def backlog(self, peer: str) -> int:
        """Return how many bytes for a peer have not been given to the system yet."""
        wire = self._outbound.get(peer)
        if wire is None or wire.transport is None:
            return 0
        return wire.transport.get_write_buffer_size()

    def counters(self) -> dict[str, int]:
        """Return how often connections were made, remade and turned away."""
        return dict(self._counts)

    async def close(self) -> None:
        """Close all connections; what was written is still sent."""
        tasks = [*self._tasks, *self._handshakes, *self._connecting.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()
        for wire in (*self._outbound.values(), *self._connections):
            if wire.transport is not None:
                wire.transport.close()
        left = [wire.closed for wire in (*self._outbound.values(), *self._connections)]
        if left:
            await asyncio.wait(left, timeout=1.0)
        for wire in (*self._outbound.values(), *self._connections):
            wire.abort()
        self._receiver = None

    # Connections that we open.

    async def _stay_connected(self, peer: str, address: Address) -> None:
        loop = asyncio.get_running_loop()
        back_off = BACK_OFF_MIN
        while True:
            begin = loop.time()
            try:
                wire = await self._connect(peer, address)
            except (OSError, TimeoutError, PeerError, ValueError, OverflowError) as error:
                await self._tell_failure(peer, address, error)
            else:
                if self._failures.pop(peer, None):
                    tell(
                        logging.WARNING,
                        self.process,
                        "connected",
                        f"connected to {peer}",
                        peer=peer,
                    )
                self._counts["reconnects" if peer in self._met else "connects"] += 1
                self._met.add(peer)
                assert self._receiver is not None
                self._receiver.connected(peer)
                await wire.closed
                if self._outbound.get(peer) is wire:
                    del self._outbound[peer]
                sentence = f"the connection to {peer} broke"
                tell(logging.INFO, self.process, "disconnected", sentence, peer=peer)
            if loop.time() - begin > STABLE_SECONDS:
                back_off = BACK_OFF_MIN
            await self._pause(peer, back_off * self._chance.uniform(0.5, 1.5))
            back_off = min(2 * back_off, BACK_OFF_MAX)

    async def _connect(self, peer: str, address: Address) -> Outbound:
        context = self._client_context
        async with asyncio.timeout(GREETING_SECONDS_MAX):
            _, wire = await asyncio.get_running_loop().create_connection(
                lambda: Outbound(
                    self.process,
                    peer,
                    has_tls=context is not None,
                    refused=lambda view: self._refused_by(peer, view),
                ),
                address.host,
                address.port,
                ssl=context,
            )
            self._outbound[peer] = wire
            try:
                await wire.welcome
            except BaseException:
                wire.abort()
                if self._outbound.get(peer) is wire:
                    del self._outbound[peer]
                raise
        return wire

    async def _tell_failure(self, peer: str, address: Address, error: Exception) -> None:
        """Log why there is no connection; each reason only once until there is one."""
        known = self._failures.setdefault(peer, {})
        kind = reason_of(error)
        if kind in known or len(known) >= REASONS_MAX:
            return
        known[kind] = None
        sentence = (
            f"cannot connect to {peer} at {address} yet: {await self._reason(error, address)}"
        )
        tell(logging.WARNING, self.process, "cannot connect", sentence, peer=peer)

    async def _reason(self, error: Exception, address: Address) -> str:
        """Return why a connection failed; for an expired certificate, with its date."""
        reason, when = reason_of(error), ""
        if self._tls is None:
            return reason
        if getattr(error, "verify_code", 0) == HAS_EXPIRED:
            with contextlib.suppress(OSError, TimeoutError, ValueError):
                async with asyncio.timeout(GREETING_SECONDS_MAX):
                    when = spelt(await expiry(self._tls, address.host, address.port))
            return f"its certificate expired on {when}" if when else reason
        try:
            self._tls.check_time()
        except UsageError as fault:  # a likely reason why we were turned away
            reason = f"{reason}; {fault}"
        return reason

    def _refused_by(self, peer: str, view: int) -> None:
        """Tell the node that a peer does not count us among its members."""
        if self._receiver is not None and peer in self.addresses:
            self._receiver.refused(peer, view)

    async def _pause(self, peer: str, seconds: float) -> None:
        """Wait before the next attempt, unless the peer has just connected to us."""
        hint = self._hints[peer]
        try:
            async with asyncio.timeout(seconds):
                await hint.wait()
        except TimeoutError:
            return
        finally:
            hint.clear()

    # Connections that others open.

    async def _accept_all(self, listener: socket.socket) -> None:
        """Accept connections, but only a few that have not greeted."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(listener)
            except OSError as error:
                sentence = f"cannot accept connections: {error.strerror}"
                self._tell("accept", sentence, "cannot accept")
                await asyncio.sleep(SWEEP_SECONDS)
                continue
            strangers = len(self._handshakes) + len(self._connections) - len(self._inbound)
            if strangers >= STRANGERS_MAX:
                self._drop_oldest(strangers)
            task = loop.create_task(self._shake_hands(sock, address))
            self._handshakes[task] = sock
            task.add_done_callback(self._shaken)

    def _shaken(self, task: asyncio.Task[None]) -> None:
        """Forget a handshake that is over; a cancelled one may not even have begun."""
        sock = self._handshakes.pop(task)
        if task.cancelled():
            sock.close()

    def _drop_oldest(self, count: int) -> None:
        """Make room for a connection: end the one that has said the least for the longest time."""
        reason = f"{count} connections have not said who they are"
        nameless = [wire for wire in self._connections if not wire.peer]
        if nameless:
            min(nameless, key=lambda wire: wire.born).turn_away(reason)
        elif self._handshakes:
            next(iter(self._handshakes)).cancel()
            self._refuse("", reason)

    async def _shake_hands(self, sock: socket.socket, address: object) -> None:
        context = self._server_context
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._inbound_wire,
                sock,
                ssl=context,
                ssl_handshake_timeout=None if context is None else GREETING_SECONDS_MAX,
            )
        except (OSError, TimeoutError) as error:
            self._refuse(address, f"the TLS handshake failed ({reason_of(error)})")
            sock.close()
        except asyncio.CancelledError:
            sock.close()
            raise

    def _inbound_wire(self) -> Inbound:
        return Inbound(
            self.process,
            has_tls=self._server_context is not None,
            admit=self._connections.add,
            greet=self._greet,
            receive=self._receive,
            refuse=lambda wire, reason: self._refuse(wire.peer or wire.address, reason),
            lost=self._lost,
        )

    def _greet(self, wire: Inbound, peer: str) -> None:
        if peer not in self.addresses and not self._is_joining:
            wire.write(unknown(self._view))
            self._refuse(peer, f"{peer[:64]!r} is not a peer of {self.process!r}")
            if wire.transport is not None:
                wire.transport.close()
            return
        wire.peer = peer
        wire.frame_bytes_max = FRAME_BYTES_MAX
        if (older := self._inbound.get(peer)) is not None:
            older.abort()
        self._inbound[peer] = wire
        wire.write(greeting(self.process, peer))
        if peer in self._hints:
            self._hints[peer].set()

    def _receive(self, peer: str, frame: bytes) -> None:
        if self._receiver is not None:
            self._receiver.received(peer, frame)

    def _lost(self, wire: Inbound) -> None:
        self._connections.discard(wire)
        if self._inbound.get(wire.peer) is wire:
            del self._inbound[wire.peer]

    def _refuse(self, who: object, reason: str) -> None:
        """Count a connection that we turned away, and log it the first time."""
        self._counts["turned_away"] += 1
        kind = "".join(letter for letter in reason if not letter.isdigit())[:40]
        name = who if isinstance(who, str) else ""
        self._tell(f"in {name} {kind}", f"turned away {who}: {reason}", "turned away", name)

    def _tell(self, what: str, sentence: str, event: str, peer: str = "") -> None:
        """Log a warning, but only the first time."""
        if what not in self._told and len(self._told) < 1000:
            self._told.add(what)
            writable = sentence.encode(errors="backslashreplace").decode()  # for any handler
            tell(logging.WARNING, self.process, event, writable, **({"peer": peer} if peer else {}))

    async def _sweep(self) -> None:
        """Turn away peers that do not greet, stop within a frame, or do not answer."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = loop.time()
            self._renew()
            for wire in list(self._connections):
                if not wire.peer and now - wire.born > GREETING_SECONDS_MAX:
                    wire.turn_away("it does not say who it is")
                elif wire.buffer and now - wire.last_data > SILENCE_SECONDS_MAX:
                    wire.turn_away("it stopped within a frame")
            for peer, outbound in list(self._outbound.items()):
                if outbound.is_dead(now):
                    sentence = f"{peer} does not answer; connecting again"
                    tell(logging.WARNING, self.process, "no answer", sentence, peer=peer)
                    outbound.abort()

    def _renew(self) -> None:
        """Use changed certificates for connections from now on."""
        if self._tls is None or (files := self._tls.stamp()) == self._files:
            return
        self._files = files
        try:
            contexts = [self._tls.context(is_server=is_server) for is_server in (True, False)]
        except UsageError as error:
            sentence = f"goes on with its old certificates: {error}"
            tell(logging.WARNING, self.process, "certificates", sentence)
            return
        self._server_context, self._client_context = contexts
        tell(logging.INFO, self.process, "certificates", "reads new certificates")

    def _check_loopback(self, named: Mapping[str, Address]) -> None:
        for name, address in named.items():
            if self._is_local and not address.is_loopback:
                msg = (
                    f"{name} {address} is not on loopback, and without TLS anyone could read and "
                    "forge messages; give tls=, or allow_plaintext=True if that is what you want"
                )
                raise UsageError(msg)


def _listening(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        listener = socket.create_server(address, family=family, backlog=BACKLOG)
    except OSError as error:
        reason = error.strerror or str(error)
        msg = (
            f"cannot listen on {address}: {reason}; stop the program that has the port, or use "
            "another"
        )
        raise UsageError(msg) from error
    listener.settimeout(0)
    return listener
