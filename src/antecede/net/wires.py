"""Connections of the TCP transport: frames in a byte stream, and who is at the other end.

The one who connects sends a greeting with its own name and the name of whom it wants, and waits for
the same greeting back. After that it sends frames, each behind its length in four bytes. Frames
travel in one direction only: each process connects to every other.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Final, cast

from antecede.errors import PeerError
from antecede.net.fields import Fields, put_names
from antecede.net.tls import common_name

FRAME_BYTES_MAX: Final = 65 << 20
"""More than the largest packet. Only peers may send that much."""
GREETING_BYTES_MAX: Final = 1024
GREETING_SECONDS_MAX: Final = 10.0
SILENCE_SECONDS_MAX: Final = 30.0
WRITE_BYTES_MAX: Final = 16 << 20
READ_BYTES: Final = 1 << 16
"""How much a connection that brings frames reads at a time."""
_MARK: Final = b"antecede 1\n"


def greeting(source: str, dest: str) -> bytes:
    """Return the frame with which ``source`` greets ``dest``."""
    out = bytearray(_MARK)
    put_names(out, (source, dest))
    return bytes(out)


def names_in(frame: bytes) -> tuple[str, str]:
    """Return who greets whom; raise PeerError if it is not a greeting."""
    if not frame.startswith(_MARK):
        msg = f"the connection begins with {frame[:16]!r}, which is not a greeting"
        raise PeerError(msg)
    fields = Fields(frame, len(_MARK))
    names = fields.names()
    if len(names) != 2 or fields.left:
        msg = "the greeting does not name two processes"
        raise PeerError(msg)
    return names[0], names[1]


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Let the system notice within half a minute that the other machine is gone."""
    sock: socket.socket | None = transport.get_extra_info("socket")
    if sock is None:
        return
    options = [("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)]
    options += [("TCP_NODELAY", 1), ("TCP_USER_TIMEOUT", 30_000)]
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
        """Take the connection."""
        self.transport = cast("asyncio.Transport", transport)
        keep_alive(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits for the end."""
        del exc
        self.buffer.clear()
        if not self.closed.done():
            self.closed.set_result(None)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Let the event loop read into the same memory each time: a new one costs more."""
        del sizehint
        return self._space

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read."""
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
        """Tell whether there is a frame in the buffer, or one that is too long."""
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
        """Send a frame, unless too many bytes wait to be sent already."""
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

    def __init__(self, process: str, peer: str, *, has_tls: bool) -> None:
        super().__init__(GREETING_BYTES_MAX)
        self.process = process
        self.peer = peer
        self.has_tls = has_tls
        self.welcome: asyncio.Future[None] = self.loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greet, if it is the right process."""
        super().connection_made(transport)
        if self.has_tls:
            name = common_name(transport.get_extra_info("peercert"))
            if name != self.peer:
                self.turn_away(f"its certificate is for {name!r}")
                return
        self.write(greeting(self.process, self.peer))

    def frame_received(self, frame: bytes) -> None:
        """Take the greeting that comes back; nothing else may come."""
        if self.welcome.done():
            self.turn_away("it sends on a connection that is ours to send on")
        elif names_in(frame) != (self.peer, self.process):
            self.turn_away(f"it calls itself {names_in(frame)[0]!r}")
        else:
            self.welcome.set_result(None)

    def turn_away(self, reason: str) -> None:
        """Close the connection and tell who waits for the greeting."""
        if not self.welcome.done():
            self.welcome.set_exception(PeerError(f"turned {self.peer!r} away: {reason}"))
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever waits."""
        super().connection_lost(exc)
        if not self.welcome.done():
            msg = f"{self.peer!r} closed the connection before it greeted us"
            self.welcome.set_exception(PeerError(msg))
            self.welcome.exception()  # perhaps nobody waits for it any more


class Inbound(Wire):
    """A connection that someone opened to us; nobody until it has greeted us."""

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
        """Look at the certificate, which TLS has verified."""
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
        """Take the greeting first, then frames of the peer."""
        if self.peer:
            self._receive(self.peer, frame)
            return
        source, dest = names_in(frame)
        if self.has_tls and source != self.certified:
            self.turn_away(f"it calls itself {source!r}, its certificate {self.certified!r}")
        elif dest != self.process:
            self.turn_away(f"it looks for {dest!r}, but this is {self.process!r}")
        else:
            self._greet(self, source)

    def turn_away(self, reason: str) -> None:
        """Close the connection for a reason."""
        self._refuse(self, reason)
        self.abort()
