"""The node: what an application uses."""

from __future__ import annotations

import asyncio
import os
import random
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from antecede.core.messages import MessageId
from antecede.core.registry import PROTOCOLS
from antecede.errors import NodeClosedError, UsageError
from antecede.events import EventLog
from antecede.net.carriers import transport_for
from antecede.net.changing import Changing
from antecede.net.deliveries import Delivery
from antecede.net.engine import Engine
from antecede.net.frames import IDENTITY_BYTES
from antecede.net.limits import Limits
from antecede.net.lobby import Lobby
from antecede.net.metrics import MetricsServer, metrics_text
from antecede.net.nats_names import PAYLOAD_BYTES
from antecede.net.outcomes import write_events
from antecede.net.records import Logged
from antecede.net.sending import send_now
from antecede.net.setups import Setup
from antecede.net.stores import SqliteStore, Store
from antecede.net.tls import Tls
from antecede.net.transports import Changeable, Transport
from antecede.net.watch import LOG, Waiting


class Node:
    """One process of a group that exchanges messages in causal order.

    Use it as an asynchronous context manager::

        async with Node("a", listen="127.0.0.1:7001", peers={"b": "127.0.0.1:7002"}) as node:
            await node.send(["b"], b"hello")
            async for delivery in node:
                print(delivery.source, delivery.payload)
                await delivery.done()

    Parameters
    ----------
    process
        This process's name. All nodes together must name the same processes.
    listen
        The address to listen on, ``host:port``.
    peers
        The other processes with their addresses. With ``transport`` given, their names suffice.
    protocol, options
        Any of ``antecede.PROTOCOLS``, and its options; the same on all nodes.
    store
        A path: the node is durable, in SQLite. What ``send`` returned for, and every delivery that
        is not marked done, survives a crash. None: everything is in memory and ends with the
        process; its peers turn it away if it comes back under the same name. Any other
        :class:`Store` can be given instead.
    tls
        A :class:`Tls`, or a folder made by ``antecede node certs``. Without it the node listens and
        connects on loopback only, unless ``allow_plaintext`` is true: then whoever reaches the port
        can read and forge messages.
    transport
        Use this instead of TCP: ``nats://host:port/group``, with ``antecede[nats]`` installed, or
        any :class:`Transport`.
    joining
        The node is new in a running group: wait, when it is opened, until a member has added it.
        ``peers`` names some of the members; the others become known. A node that finds itself in
        its store has joined before, and goes on.
    events
        A file to which sends and deliveries are logged, for ``antecede audit``.
    metrics
        An address on which to serve metrics in the text format of Prometheus.
    limits
        See :class:`Limits`.
    seed
        Makes the node's random choices reproducible, for tests.
    """

    def __init__(
        self,
        process: str,
        *,
        peers: Mapping[str, str] | Iterable[str] = (),
        listen: str | None = None,
        protocol: str = "optimal",
        options: Mapping[str, Any] | None = None,
        store: str | os.PathLike[str] | Store | None = None,
        tls: Tls | str | os.PathLike[str] | None = None,
        transport: Transport | str | None = None,
        events: str | os.PathLike[str] | None = None,
        metrics: str | None = None,
        limits: Limits | None = None,
        allow_plaintext: bool = False,
        joining: bool = False,
        seed: int | None = None,
    ) -> None:
        addresses = dict(peers) if isinstance(peers, Mapping) else dict.fromkeys(peers, "")
        addresses.pop(process, None)
        members = tuple(sorted((process, *addresses)))
        self.setup = Setup(process, members, protocol, dict(options or {}))
        self.limits = limits or Limits()
        if isinstance(transport, str) and self.limits.payload_bytes == Limits().payload_bytes:
            self.limits = replace(self.limits, payload_bytes=PAYLOAD_BYTES)
        self._chance = random.Random(seed)  # noqa: S311 - jitter needs no secrecy
        self._identity = (
            secrets.token_bytes(IDENTITY_BYTES)
            if seed is None
            else self._chance.randbytes(IDENTITY_BYTES)
        )
        Changing(self.setup, self._identity)  # refuses a wrong setup before anything is opened
        self._joining = joining
        if joining:
            self._check_dynamic()
        self._store: Store | None = (
            SqliteStore(Path(store)) if isinstance(store, (str, os.PathLike)) else store
        )
        self._transport = transport_for(
            process,
            transport,
            listen=listen,
            peers=addresses,
            tls=Tls.of(tls, process),
            allow_plaintext=allow_plaintext,
            payload_bytes=self.limits.payload_bytes,
            chance=self._chance,
        )
        self._events = None if events is None else Path(events)
        self._metrics = metrics
        self._metrics_server: MetricsServer | None = None
        self._engine: Engine | None = None
        self._is_used = False
        self._is_started = False
        self._addresses = addresses
        self._listen = listen

    @property
    def process(self) -> str:
        """The name of this process."""
        return self.setup.process

    @property
    def members(self) -> tuple[str, ...]:
        """All processes, this one included, in the order in which they joined."""
        return self.setup.members if self._engine is None else self._engine.machine.group.names

    @property
    def view(self) -> int:
        """How often the members have changed, as far as this node knows."""
        return self._opened(is_ending=True).machine.group.number

    async def add(self, process: str, address: str = "") -> None:
        """Add a process to the group; return when the members have agreed.

        Start the process with ``joining=True``, before or after. A majority of the members must be
        up. Cancelled while it waits, the change may happen or not.
        """
        engine = self._opened()
        self._check_dynamic()
        if not isinstance(process, str) or not process:
            msg = f"process {process!r} is not a name; expected a string that is not empty"
            raise UsageError(msg)
        if process in engine.machine.group.members:
            msg = f"process {process!r} is a member already; remove it before you add it again"
            raise UsageError(msg)
        self._check_transport(address)
        await self._change(engine, is_add=True, process=process, address=address)

    async def remove(self, process: str) -> None:
        """Remove a process for good; return when that has taken effect here.

        A majority of the members must agree. Then the members that remain pass on to each other
        what they have from the process and others lack. So this waits for members that are down.
        To take the process in again, start it with an empty store and add it.
        """
        engine = self._opened()
        self._check_dynamic()
        if process == self.process:
            msg = f"process {process!r} cannot remove itself; let another member remove it"
            raise UsageError(msg)
        if process not in engine.machine.group.members:
            msg = f"process {process!r} is not a member; the members are {', '.join(self.members)}"
            raise UsageError(msg)
        self._check_transport(None)
        await self._change(engine, is_add=False, process=process)

    async def _change(
        self, engine: Engine, *, is_add: bool, process: str, address: str = ""
    ) -> None:
        wish = engine.machine.group.wish(is_add=is_add, name=process, address=address)
        waiter = engine.members.want(wish)
        try:
            await waiter
        except asyncio.CancelledError:
            if engine.failure is None and not engine.is_closed:
                engine.members.unwant(wish)
            raise
        engine.check()

    def _check_transport(self, address: str | None) -> None:
        if isinstance(self._transport, Changeable):
            self._transport.check(address)

    def _check_dynamic(self) -> None:
        info = PROTOCOLS[self.setup.protocol]
        if not info.dynamic:
            others = ", ".join(name for name, other in PROTOCOLS.items() if other.dynamic)
            msg = (
                f"under {info.name} processes cannot join or leave ({info.fixed_because}); "
                f"choose one of {others}"
            )
            raise UsageError(msg)

    async def send(
        self, dests: Iterable[str] | str, payload: bytes = b"", *, after: int | None = None
    ) -> MessageId:
        """Send ``payload`` to ``dests`` (process names, or the name of a group).

        With a store, the message is on disk when this returns, and reaches every destination sooner
        or later. It waits while a destination's outbox is full. Cancelled while it waits, the
        message may be sent or not.
        """
        engine = self._engine or self._opened()
        names = dests if isinstance(dests, str) else tuple(dests)
        while not isinstance(sent := send_now(engine, names, payload, after), MessageId):
            await sent
        if engine.is_durable:
            await engine.saving.saved()
        return sent

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        engine = self._engine or self._opened(is_ending=True)
        ready = engine.ready
        while not ready:
            if engine.failure is not None:
                engine.check()
            if engine.is_closed:
                raise StopAsyncIteration
            await engine.next_delivery()
        return ready.popleft()

    async def flush(self) -> None:
        """Wait until all peers have acknowledged everything that was sent to them."""
        engine = self._opened()
        while engine.unacknowledged():
            await engine.next_input()
            engine.check()

    def waiting(self) -> list[Waiting]:
        """Return the messages that arrived and are held: for how long, and what for."""
        return self._opened(is_ending=True).watch.waiting()

    def metrics(self) -> str:
        """Return the metrics in the text format of Prometheus."""
        engine = self._opened(is_ending=True)
        return metrics_text(engine, self._transport.counters(), self._store)

    async def __aenter__(self) -> Self:
        if self._is_used:
            msg = f"the node {self.process!r} has been started already; make a new Node"
            raise UsageError(msg)
        self._is_used = True
        events: EventLog | None = None
        lobby = Lobby(self.setup, self._identity)
        try:
            machine, logged = await self._machine(lobby)
            if self._events is not None:
                events = EventLog(self._events, process=machine.label)
            engine = self._engine = Engine(
                machine,
                self._transport,
                self._store,
                limits=self.limits,
                chance=self._chance,
                events=events,
            )
            write_events(events, logged)
            await engine.saving.checkpoint()
            self._get_to_know(machine)
            if not self._is_started:
                await self._transport.start(lobby)
            lobby.open(engine)
            engine.members.start()
            if self._metrics is not None:
                self._metrics_server = MetricsServer(self._metrics, self.metrics)
                await self._metrics_server.start()
        except BaseException:
            await self._close_all(events)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        engine = self._opened(is_ending=True)
        try:
            if error is None and engine.failure is None:
                await self._linger(engine)
            await engine.close()
        finally:
            await self._close_all(engine.events)
        if error is None and engine.failure is not None:
            raise engine.failure

    async def _machine(self, lobby: Lobby) -> tuple[Changing, list[Logged]]:
        if self._store is not None:
            saved = await self._store.open()
            if saved.checkpoint is not None:
                return Changing.restored(self.setup, saved.checkpoint, saved.journal)
        if not self._joining:
            return Changing(self.setup, self._identity), []
        self._is_started = True
        await self._transport.start(lobby)
        return Changing(self.setup, self._identity, await lobby.welcome), []

    def _get_to_know(self, machine: Changing) -> None:
        """Let the transport reach the members as they are now, not as they once were."""
        machine.group.locate({**self._addresses, self.process: self._listen or ""})
        if not isinstance(self._transport, Changeable) or not machine.group.number:
            return
        members = machine.group.members
        for name in self._addresses:
            if name not in members:
                self._transport.leave(name)
        for name, member in members.items():
            if name != self.process and name not in self._addresses:
                try:
                    self._transport.join(name, member.address)
                except UsageError as error:
                    LOG.warning("%s: cannot reach %s yet: %s", self.process, name, error)

    async def _linger(self, engine: Engine) -> None:
        """Give messages that are only in memory a little time to reach their peers."""
        if engine.is_durable:
            return
        try:
            async with asyncio.timeout(self.limits.linger_seconds):
                await self.flush()
        except TimeoutError:
            LOG.warning(
                "%s: gave up on %d packets that peers have not acknowledged; they were in memory "
                "only and are lost",
                self.process,
                engine.unacknowledged(),
            )
        except NodeClosedError:
            return

    async def _close_all(self, events: EventLog | None) -> None:
        if self._metrics_server is not None:
            await self._metrics_server.close()
        await self._transport.close()
        if self._store is not None:
            await self._store.close()
        if events is not None:
            events.close()

    def _opened(self, *, is_ending: bool = False) -> Engine:
        if self._engine is None:
            msg = f"the node {self.process!r} is not open; use it in: async with Node(...) as node"
            raise UsageError(msg)
        if not is_ending:
            self._engine.check()
        return self._engine
