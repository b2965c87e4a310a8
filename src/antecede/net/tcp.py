"""The TCP transport: a connection to every peer, opened again whenever it breaks."""

from __future__ import annotations

import asyncio
import logging
import random
import socket
from collections.abc import Mapping
from typing import Final

from antecede.errors import PeerError, UsageError
from antecede.net.addresses import Address, parsed
from antecede.net.tls import Tls
from antecede.net.transports import Receiver
from antecede.net.wires import (
    FRAME_BYTES_MAX,
    GREETING_SECONDS_MAX,
    SILENCE_SECONDS_MAX,
    Inbound,
    Outbound,
    greeting,
)

LOG: Final = logging.getLogger("antecede.net")
STRANGERS_MAX: Final = 64
"""How many connections may be open that have not said who they are."""
BACKLOG: Final = 1024
"""How many connections the system may keep until we look at them."""
BACK_OFF_MIN: Final = 0.05
BACK_OFF_MAX: Final = 10.0
STABLE_SECONDS: Final = 5.0
"""A connection that lasted this long is opened again without delay."""
SWEEP_SECONDS: Final = 2.0


class TcpTransport:
    """Carries frames over TCP, with or without TLS.

    Without TLS a peer is whoever says so; that is why plain connections are for loopback only,
    unless ``allow_plaintext`` is true.
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
    ) -> None:
        self.process = process
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
        self._server_context = None if tls is None else tls.context(is_server=True)
        self._client_context = None if tls is None else tls.context(is_server=False)
        self._chance = chance or random.Random()  # noqa: S311 - jitter needs no secrecy
        self._receiver: Receiver | None = None
        self._listener: socket.socket | None = None
        self._outbound: dict[str, Outbound] = {}
        self._inbound: dict[str, Inbound] = {}
        self._connections: set[Inbound] = set()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._hints: dict[str, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._connecting: dict[str, asyncio.Task[None]] = {}
        self._counts = dict.fromkeys(("connects", "reconnects", "turned_away"), 0)
        self._met: set[str] = set()
        self._told: set[str] = set()

    @property
    def port(self) -> int:
        """The port that the transport listens on; 0 before it does."""
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
        """Raise UsageError unless the address is one, and allowed."""
        if address is not None:
            self._check_loopback({"address": parsed(address)})

    def join(self, peer: str, address: str) -> None:
        """Connect to another peer from now on."""
        where = parsed(address)
        self.leave(peer)
        self.addresses[peer] = where
        self._begin(peer, self.addresses[peer])

    def leave(self, peer: str) -> None:
        """Disconnect from a peer, and turn it away from now on."""
        self.addresses.pop(peer, None)
        self._hints.pop(peer, None)
        self._met.discard(peer)
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

    def counters(self) -> dict[str, int]:
        """Return how often connections were made, made again, and turned away."""
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
            except (OSError, TimeoutError, PeerError) as error:
                reason = getattr(error, "reason", None) or str(error) or type(error).__name__
                self._tell(f"out {peer}", f"cannot connect to {peer} at {address} yet: {reason}")
            else:
                self._told.discard(f"out {peer}")
                self._counts["reconnects" if peer in self._met else "connects"] += 1
                self._met.add(peer)
                assert self._receiver is not None
                self._receiver.connected(peer)
                await wire.closed
                if self._outbound.get(peer) is wire:
                    del self._outbound[peer]
                LOG.info("%s: the connection to %s broke", self.process, peer)
            if loop.time() - begin > STABLE_SECONDS:
                back_off = BACK_OFF_MIN
            await self._pause(peer, back_off * self._chance.uniform(0.5, 1.5))
            back_off = min(2 * back_off, BACK_OFF_MAX)

    async def _connect(self, peer: str, address: Address) -> Outbound:
        context = self._client_context
        async with asyncio.timeout(GREETING_SECONDS_MAX):
            _, wire = await asyncio.get_running_loop().create_connection(
                lambda: Outbound(self.process, peer, has_tls=context is not None),
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

    async def _pause(self, peer: str, seconds: float) -> None:
        """Wait before the next attempt; but not if the peer has just connected to us."""
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
        """Accept connections, but not more than a few that have not said who they are."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(listener)
            except OSError as error:
                self._tell("accept", f"cannot accept connections: {error.strerror}")
                await asyncio.sleep(SWEEP_SECONDS)
                continue
            strangers = len(self._handshakes) + len(self._connections) - len(self._inbound)
            if strangers >= STRANGERS_MAX:
                sock.close()
                self._refuse(address, f"{strangers} connections have not said who they are")
                continue
            task = loop.create_task(self._shake_hands(sock, address))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

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
            reason = getattr(error, "reason", None) or type(error).__name__
            self._refuse(address, f"the TLS handshake failed ({reason})")
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
        if peer not in self.addresses:
            wire.turn_away(f"{peer[:64]!r} is not a peer of {self.process!r}")
            return
        wire.peer = peer
        wire.frame_bytes_max = FRAME_BYTES_MAX
        if (older := self._inbound.get(peer)) is not None:
            older.abort()
        self._inbound[peer] = wire
        wire.write(greeting(self.process, peer))
        self._hints[peer].set()

    def _receive(self, peer: str, frame: bytes) -> None:
        if self._receiver is not None:
            self._receiver.received(peer, frame)

    def _lost(self, wire: Inbound) -> None:
        self._connections.discard(wire)
        if self._inbound.get(wire.peer) is wire:
            del self._inbound[wire.peer]

    def _refuse(self, who: object, reason: str) -> None:
        """Count a connection that was turned away, and log it the first time."""
        self._counts["turned_away"] += 1
        kind = "".join(letter for letter in reason if not letter.isdigit())[:40]
        name = who if isinstance(who, str) else ""
        self._tell(f"in {name} {kind}", f"turned away {who}: {reason}")

    def _tell(self, what: str, sentence: str) -> None:
        if what not in self._told and len(self._told) < 1000:
            self._told.add(what)
            LOG.warning("%s: %s", self.process, sentence)

    async def _sweep(self) -> None:
        """Turn away those who do not say who they are, and those who stop within a frame."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = loop.time()
            for wire in list(self._connections):
                if not wire.peer and now - wire.born > GREETING_SECONDS_MAX:
                    wire.turn_away("it does not say who it is")
                elif wire.buffer and now - wire.last_data > SILENCE_SECONDS_MAX:
                    wire.turn_away("it stopped within a frame")

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
