"""The node, which applications use."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import secrets
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import NoneType, TracebackType
from typing import Any, Final, Never, Self

from antecede.endpoint.messages import MessageId
from antecede.endpoint.registry import view_of
from antecede.endpoint.view import View
from antecede.errors import NodeClosedError, StoreError, UsageError, shown
from antecede.events import EventLog
from antecede.net.driver import Driver, Waiting, write_events
from antecede.net.frames import IDENTITY_BYTES
from antecede.net.group.joining import Lobby
from antecede.net.group.views import Group, Wish
from antecede.net.journal import Logged, SqliteStore, Store
from antecede.net.log import tell
from antecede.net.machine import Delivery, Machine, named
from antecede.net.metrics import Figure, MetricsServer, figures, metrics_text, why_not_ready
from antecede.net.settings import Limits, Setup
from antecede.net.transports import Changeable, Transport
from antecede.net.transports.nats_names import PAYLOAD_BYTES
from antecede.net.transports.tcp import TcpTransport
from antecede.net.transports.tls import Tls


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
        This process's name. All nodes must name the same processes.
    listen
        The address to listen on, ``host:port``.
    peers
        The other processes with their addresses. With ``transport`` given, their names suffice.
    protocol, options
        Any of ``antecede.PROTOCOLS``, and its options; the same on all nodes.
    store
        A path: the node is durable, in SQLite. Messages whose ``send`` has returned, and deliveries
        that are not marked done, survive a crash. None: everything is in memory and ends with the
        process; its peers turn it away if it comes back under the same name. Any other
        :class:`Store` can be given instead.
    tls
        A :class:`Tls`, or a folder made by ``antecede node certs``. Without it the node listens and
        connects on loopback only, unless ``allow_plaintext`` is true: then anyone who reaches the
        port can read and forge messages.
    transport
        Use this instead of TCP: ``nats://host:port/group``, with ``antecede[nats]`` installed, or
        any :class:`Transport`.
    joining
        The node is new in a running group: opening it waits until a member has added it. ``peers``
        names some of the members; the node learns the others. A node whose store shows that it
        has joined before simply goes on.
    events
        A file to which sends and deliveries are logged, for ``antecede audit``.
    metrics
        An address on which to serve metrics in the text format of Prometheus, and ``/healthz`` and
        ``/readyz``. Anyone who reaches it can read them.
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
        _check_kinds(
            process=process, peers=peers, options=options, store=store, tls=tls,
            transport=transport, events=events, limits=limits, seed=seed,
        )  # fmt: skip
        listed = dict(peers) if isinstance(peers, Mapping) else list(peers)
        if not all(isinstance(name, str) for name in listed):
            msg = f"peers={shown(peers)} are not names of processes; expected strings"
            raise UsageError(msg)
        for name in options or ():
            if name in _NO_OPTIONS or not isinstance(name, str):
                msg = f"options has {shown(name)}, which no protocol leaves to you; leave it out"
                raise UsageError(msg)
        addresses = listed if isinstance(listed, dict) else dict.fromkeys(listed, "")
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
        Machine(self.setup, self._identity)  # refuses a wrong setup early
        self.limits.check(self.setup.options)
        self._joining = joining
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
            joining=joining,
            view=view_of(protocol, members, **self.setup.own_options),
        )
        self._events = None if events is None else Path(events)
        self._metrics = metrics
        self._metrics_server: MetricsServer | None = None
        self._driver: Driver | None = None
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
        return self.setup.members if self._driver is None else self._driver.machine.group.names

    @property
    def is_open(self) -> bool:
        """Whether the node has been opened and has neither been closed nor stopped since."""
        driver = self._driver
        return driver is not None and not driver.is_closed and driver.failure is None

    @property
    def view(self) -> int:
        """How often the members have changed, as far as this node knows."""
        return self._opened(is_ending=True).machine.group.number

    @property
    def missing(self) -> tuple[str, ...]:
        """The members that a change waits for; while one of them is down it cannot go on."""
        return tuple(self._opened(is_ending=True).members.missing())

    async def add(self, process: str, address: str = "") -> None:
        """Add a process to the group; return when the members have agreed.

        Start the process with ``joining=True``, before or after. All members must be up for a
        moment: :attr:`missing` names those that are not. Sends go on meanwhile. If the call is
        cancelled while it waits, the change may happen or not.
        """
        if not isinstance(process, str):
            msg = f"process {shown(process)} cannot be added: expected its name"
            raise UsageError(msg)
        await self.change(add={process: address})

    async def remove(self, *processes: str) -> None:
        """Remove processes for good; return when that has taken effect here.

        All members that stay must be up, and a majority of all must agree. Those that stay pass on
        messages of the removed that others lack. To let a process return, start it with an empty
        store and add it.
        """
        await self.change(remove=processes)

    async def change(
        self, *, add: Mapping[str, str] | None = None, remove: Iterable[str] = ()
    ) -> None:
        """Add processes (with their addresses) and remove others, all at once."""
        driver = self._opened()
        wishes = self._wishes(driver.machine.group, add or {}, remove)
        if not wishes:
            return
        waiters = driver.members.want(wishes)
        try:
            for waiter in waiters:
                await waiter
        except asyncio.CancelledError:
            if driver.failure is None and not driver.is_closed:
                driver.members.unwant(wishes)
            raise
        driver.check()

    def _wishes(self, group: Group, joins: Mapping[str, str], remove: Iterable[str]) -> list[Wish]:
        """Return the wishes of a change; refuse impossible ones."""
        wishes, leaves = list[Wish](), named(remove)
        if not isinstance(joins, Mapping):
            msg = f"add={shown(joins)} does not say where; write add={{'name': 'host:port'}}"
            raise UsageError(msg)
        for name, address in joins.items():
            if not isinstance(name, str) or not name or not isinstance(address, str):
                msg = f"process {shown(name)} at {shown(address)} cannot be added: expected strings"
                raise UsageError(msg)
            if name in group.members:
                msg = f"process {name!r} is a member already; remove it before you add it again"
                raise UsageError(msg)
            self._check_transport(address)
            wishes.append(Wish(is_join=True, name=name, address=address))
        for name in (leaves,) if isinstance(leaves, str) else leaves:
            if name == self.process:
                msg = f"process {name!r} cannot remove itself; let another member remove it"
                raise UsageError(msg)
            if not isinstance(name, str) or name not in group.members:
                members = ", ".join(self.members)
                msg = f"process {shown(name)} is not a member; the members are {members}"
                raise UsageError(msg)
            self._check_transport(None)
            wishes.append(Wish(is_join=False, name=name, joined=group.members[name].joined))
        if wishes and (fault := group.fault_of(group.change_of(wishes))):
            msg = f"the members cannot change so: {fault}"
            raise UsageError(msg)
        return wishes

    def _check_transport(self, address: str | None) -> None:
        if isinstance(self._transport, Changeable):
            self._transport.check(address)

    async def send(
        self, dests: Iterable[str] | str, payload: bytes = b"", *, after: int | None = None
    ) -> MessageId:
        """Send ``payload`` to ``dests`` (process names, or the name of a group).

        With a store, the message is on disk when this returns, and reaches every destination sooner
        or later. It waits while a destination's outbox is full. If the call is cancelled while it
        waits, the message may be sent or not.
        """
        driver = self._driver or self._opened()
        names = tuple(dests) if type(dests) is list else named(dests)
        while not isinstance(sent := driver.send(names, payload, after), MessageId):
            await sent
        if driver.is_durable:
            await driver.saving.saved()
        return sent

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        driver = self._driver or self._opened(is_ending=True)
        ready = driver.ready
        while not ready:
            if driver.failure is not None:
                driver.check()
            if driver.is_closed:
                raise StopAsyncIteration
            await driver.next_delivery()
        return ready.popleft()

    async def flush(self) -> None:
        """Wait until all peers have acknowledged everything that was sent to them."""
        driver = self._opened()
        driver.check_stale(driver.peers)
        while driver.unacknowledged():
            await driver.next_input()
            driver.check()
            driver.check_stale(driver.peers)

    def waiting(self) -> list[Waiting]:
        """Return the held messages: how long each has waited, and for what."""
        return self._opened(is_ending=True).watch.waiting()

    async def skip(self, process: str, upto: int) -> None:
        """Declare that messages of ``process`` up to this number will never arrive here.

        Numbers are as in :meth:`waiting`. Messages that wait only for these are delivered, and
        ``Delivery.unmet`` names them; should they arrive later, they are refused.
        """
        driver = self._opened()
        machine = driver.machine
        offset, known = machine.sides[0].offset, machine.known_of(process)
        if type(upto) is not int or not offset < upto <= offset + known:
            msg = f"upto={shown(upto)} is no message of waiting(): nothing waits for that"
            raise UsageError(msg)
        await driver.skip(process, upto - offset)

    def figures(self) -> list[Figure]:
        """Return the metrics as data; other threads may call this too."""
        driver = self._opened(is_ending=True)
        return list(figures(driver, self._transport.counters(), self._store))

    def metrics(self) -> str:
        """Return the metrics in the text format of Prometheus."""
        return metrics_text(self.process, self.figures())

    def _health(self) -> str:
        if self._driver is not None:
            self._driver.check()
        return "ok\n"

    def _readiness(self) -> str:
        driver, reason = self._driver, "the node is not open yet"
        if driver is not None:
            driver.check()
            reason = why_not_ready(driver)
        if reason:
            raise NodeClosedError(reason)
        return "ok\n"

    def __enter__(self) -> Never:
        msg = "a Node is asynchronous; write `async with Node(...)`, or use antecede.net.sync.Node"
        raise UsageError(msg)

    def __exit__(self, *_: object) -> None:
        """Do nothing, as nothing was entered."""

    async def __aenter__(self) -> Self:
        if self._is_used:
            msg = f"the node {self.process!r} has been started already; make a new Node"
            raise UsageError(msg)
        self._is_used = True
        events: EventLog | None = None
        lobby = Lobby(self.setup, self._identity)
        try:
            if self._metrics is not None:
                pages = {"": self.metrics, "/metrics": self.metrics}
                pages |= {"/healthz": self._health, "/readyz": self._readiness}
                self._metrics_server = MetricsServer(self._metrics, pages)
                await self._metrics_server.start()
            machine, logged = await self._machine(lobby)
            if self._events is not None:
                events = EventLog(self._events, process=self.process)
            driver = self._driver = Driver(
                machine,
                self._transport,
                self._store,
                limits=self.limits,
                chance=self._chance,
                events=events,
            )
            write_events(events, logged)
            await driver.saving.checkpoint()
            self._get_to_know(machine)
            if not self._is_started:
                await self._transport.start(lobby)
            lobby.open(driver)
            driver.members.start()
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
        driver = self._opened(is_ending=True)
        try:
            if error is None and driver.failure is None:
                await self._linger(driver)
            await driver.close()
            if driver.machine.is_stale:
                await driver.saving.checkpoint()
        finally:
            await self._close_all(driver.events)
        if error is None and driver.failure is not None:
            raise driver.failure

    async def _machine(self, lobby: Lobby) -> tuple[Machine, list[Logged]]:
        if self._store is not None:
            saved = await self._store.open()
            if saved.checkpoint is None and saved.journal:
                msg = (
                    "the store has a journal without a checkpoint: it is damaged; remove "
                    f"{self.process!r} from the group and add it again with an empty store"
                )
                raise StoreError(msg)
            if saved.checkpoint is not None:
                machine, logged = Machine.restored(self.setup, saved.checkpoint, saved.journal)
                machine.opening += 1
                return machine, logged
        if not self._joining:
            return Machine(self.setup, self._identity), []
        self._is_started = True
        await self._transport.start(lobby)
        return Machine(self.setup, self._identity, await lobby.welcome), []

    def _get_to_know(self, machine: Machine) -> None:
        """Let the transport reach the present members instead of the original ones."""
        machine.group.locate({**self._addresses, self.process: self._listen or ""})
        if isinstance(self._transport, TcpTransport):
            self._transport.joined()
            self._transport.tell_view(machine.group.number)
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
                    sentence = f"cannot reach {name} yet: {error}"
                    tell(logging.WARNING, self.process, "unreachable", sentence, peer=name)

    async def _linger(self, driver: Driver) -> None:
        """Give messages that are only in memory a little time to reach peers."""
        if driver.is_durable:
            return
        try:
            async with asyncio.timeout(self.limits.linger_seconds):
                await self.flush()
        except TimeoutError:
            count = driver.unacknowledged()
            sentence = (
                f"gave up on {count} packets that peers have not acknowledged; they were in memory "
                "only and are lost"
            )
            tell(logging.WARNING, self.process, "gave up", sentence, packets=count)
        except NodeClosedError:
            return

    async def _close_all(self, events: EventLog | None) -> None:
        """Close everything, even if closing one part fails or is cancelled."""
        async with AsyncExitStack() as stack:
            if events is not None:
                stack.callback(events.close)
            if self._store is not None:
                stack.push_async_callback(self._store.close)
            stack.push_async_callback(self._transport.close)
            if self._metrics_server is not None:
                stack.push_async_callback(self._metrics_server.close)

    def _opened(self, *, is_ending: bool = False) -> Driver:
        if self._driver is None:
            msg = f"the node {self.process!r} is not open; use it in: async with Node(...) as node"
            raise UsageError(msg)
        if not is_ending:
            self._driver.check()
        return self._driver


_NO_OPTIONS: Final = ("protocol", "process", "members", "view", "number", "pull")
"""What a node tells its endpoints itself."""
_PATH: Final = (str, os.PathLike, NoneType)
_KINDS: Final[Mapping[str, tuple[tuple[type, ...], str]]] = {
    "process": ((str,), "the name of a process"),
    "peers": ((Iterable,), "a mapping of names to addresses, or a list of names"),
    "options": ((Mapping, NoneType), "a mapping of names to values"),
    "store": ((Store, *_PATH), "a path, or a Store"),
    "transport": ((Transport, str, NoneType), "the address of a NATS server, or a Transport"),
    "tls": ((Tls, *_PATH), "a Tls, or a folder of certificates"),
    "events": (_PATH, "a path"),
    "limits": ((Limits, NoneType), "a Limits"),
    "seed": ((int, NoneType), "a whole number"),
}


def _check_kinds(**given: object) -> None:
    """Refuse arguments of the wrong type."""
    for name, value in given.items():
        kinds, meant = _KINDS[name]
        if not isinstance(value, kinds):
            msg = f"{name}={shown(value)} is not understood; expected {meant}"
            raise UsageError(msg)


def transport_for(
    process: str,
    given: Transport | str | None,
    *,
    listen: str | None,
    peers: Mapping[str, str],
    tls: Tls | None,
    allow_plaintext: bool,
    payload_bytes: int,
    chance: random.Random,
    joining: bool,
    view: View,
) -> Transport:
    """Return the transport that the arguments of a node ask for: TCP, NATS, or the one given."""
    if given is not None and not isinstance(given, str):
        return given
    if given is None:
        return TcpTransport(
            process,
            listen=listen,
            peers=peers,
            tls=tls,
            allow_plaintext=allow_plaintext,
            chance=chance,
            joining=joining,
        )
    if listen is not None:
        msg = f"listen={listen!r} is for TCP; with transport={given!r} leave it out"
        raise UsageError(msg)
    try:
        from antecede.net.transports.nats import NatsTransport
    except ModuleNotFoundError as error:
        msg = (
            f"a node over NATS needs {error.name}, which is not installed; "
            "run: pip install 'antecede[nats]'"
        )
        raise UsageError(msg) from error
    return NatsTransport(
        process,
        given,
        peers=peers,
        tls=tls,
        allow_plaintext=allow_plaintext,
        payload_bytes=payload_bytes,
        chance=chance,
        view=view,
    )
