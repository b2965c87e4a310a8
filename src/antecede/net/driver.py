"""The order of steps inside a node: apply, save, and only then release.

Every input (a send, a packet, ``done``) is applied to the machine at once and collected in a batch.
The batch is saved as one journal entry. Only then do its packets leave, its arrivals get
acknowledged, its deliveries reach the application, and its callers return. Inputs that come in
while a batch is being saved form the next one: so commits group themselves, and the slower the
disk, the larger the batches.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import Final, NamedTuple

from antecede.endpoint.messages import MessageId, Need
from antecede.errors import (
    AntecedeError,
    HoldFullError,
    NodeClosedError,
    PeerError,
    QueueFullError,
    StoreError,
    UsageError,
)
from antecede.events import EventLog
from antecede.net import frames, journal
from antecede.net.group.views import is_quorum, was_removed
from antecede.net.journal import CHECKSUM_BYTES, Logged, Store, sealed
from antecede.net.log import tell
from antecede.net.machine import VIEW_STEP, Channel, Delivery, Machine, Met, Outcome, Send, Side
from antecede.net.members import Members
from antecede.net.parcels import NEXT, is_control, packet_in, standing_alone
from antecede.net.peers import GAP_MAX, UNMET, Link, Outgoing, Peer, wake_all
from antecede.net.settings import Limits
from antecede.net.transports import Transport

MARK_BITS: Final = 32


class Now:
    """An awaitable that never waits."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


NOW: Final = Now()


class Batch(Outcome):
    """Inputs that are saved together, and the effects that may follow once they are."""

    __slots__ = (
        "arrivals",
        "is_due",
        "met",
        "notes",
        "records",
        "stables",
        "unstables",
        "waiters",
    )

    def __init__(self) -> None:
        self.packets, self.deliveries, self.logged, self.held = {}, [], [], []
        self.size = self.control = 0
        self.records: list[bytes] = []
        self.arrivals: dict[Channel, tuple[int, tuple[int, ...]]] = {}
        self.is_due = False
        """Whether something about the group has changed."""
        self.met: dict[str, Met] = {}
        """By peer, the store that it has shown."""
        self.notes: dict[str, list[bytes]] = {}
        """By peer, notes about the group; with an empty list it only gets a frame."""
        self.waiters: list[asyncio.Future[None]] = []
        self.stables: dict[int, int] = {}
        self.unstables: dict[int, bytes] = {}

    @property
    def is_empty(self) -> bool:
        """Whether the batch has nothing to save or release."""
        return not (
            self.records
            or self.packets
            or self.arrivals
            or self.deliveries
            or self.notes
            or self.met
            or self.is_due
            or self.waiters
        )


class Saving:
    """Saves batches one after the other.

    ``seal`` completes a batch before it is saved, ``finish`` releases its effects, ``fail`` is
    called with an error. Without a store a batch is released at the end of the event loop's turn,
    or when packets have arrived.
    """

    def __init__(
        self,
        machine: Machine,
        store: Store | None,
        limits: Limits,
        seal: Callable[[Batch], None],
        finish: Callable[[Batch], None],
        fail: Callable[[Exception], None],
    ) -> None:
        self.machine = machine
        self.store = store
        self.limits = limits
        self.batch = machine.into = Batch()
        self.commits = 0
        self.journal_bytes = self.checkpoint_bytes = 0
        self._last = b""
        """The last checksum saved."""
        self._seal, self._finish, self._fail = seal, finish, fail
        self._loop = asyncio.get_running_loop()
        self._failure: Exception | None = None
        self.is_scheduled = False
        self._under_way: Batch | None = None
        self._task: asyncio.Task[None] | None = None
        self._settling: deque[asyncio.Future[None]] = deque()

    def schedule(self) -> None:
        """Save the current batch soon."""
        if self.is_scheduled or self._task is not None:
            return
        self.is_scheduled = True
        self._loop.call_soon(self._begin)

    def schedule_arrivals(self) -> None:
        """Save the current batch soon; release it at once if there is nothing to wait for."""
        if self.store is not None:
            self.schedule()
        elif self._failure is None:
            self._let_out(self._next())

    def saved(self) -> Awaitable[None]:
        """Return an awaitable that is done when everything applied so far is saved."""
        if self._failure is None and (
            self.store is None or (not self.batch.records and self._task is None)
        ):
            return NOW
        waiter = self._loop.create_future()
        if self._failure is not None:
            waiter.set_exception(self._failure)
        else:
            self.batch.waiters.append(waiter)
            self.schedule()
        return waiter

    async def settle(self) -> None:
        """Wait until everything applied so far is saved and released."""
        while self.is_scheduled or self._task is not None:
            self._settling.append(waiter := self._loop.create_future())
            await waiter

    async def checkpoint(self, unlogged: Iterable[Logged] = ()) -> None:
        """Save a checkpoint of the machine in place of its journal."""
        if self.store is not None:
            data = self.machine.checkpoint(unlogged)
            self.journal_bytes, self.checkpoint_bytes = 0, len(data)
            self._last = data[-CHECKSUM_BYTES:]
            await self.store.replace(data)

    def stop(self, error: Exception) -> None:
        """Stop saving, and tell waiting callers why."""
        self._failure = error
        for batch in filter(None, (self._under_way, self.batch)):
            for waiter in batch.waiters:
                if not waiter.done():
                    waiter.set_exception(error)
            batch.waiters.clear()

    def _begin(self) -> None:
        self.is_scheduled = False
        if self.store is not None and self._failure is None:
            self._task = self._loop.create_task(self._save_all())
            return
        if self._failure is None and not self.batch.is_empty:
            self._let_out(self._next())
        wake_all(self._settling)

    def _next(self) -> Batch:
        batch = self.batch
        self._seal(batch)
        self.batch = self.machine.into = Batch()
        return batch

    def _let_out(self, batch: Batch) -> None:
        try:
            self._finish(batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, the node must not go on
            self._fail(error)

    async def _save_all(self) -> None:
        """Save and release batches until none is left."""
        try:
            while self._failure is None and not self.batch.is_empty:
                self._under_way = self._next()
                await self._save(self._under_way)
                self._let_out(self._under_way)
        except Exception as error:  # noqa: BLE001 - whatever it is, the node must not go on
            self._fail(error)
        finally:
            self._under_way = self._task = None
            wake_all(self._settling)

    async def _save(self, batch: Batch) -> None:
        if not batch.records or self.store is None:
            return
        self.commits += 1
        entry = sealed(b"".join(batch.records), self._last)
        if self.journal_bytes + len(entry) <= self.limits.journal_bytes + self.checkpoint_bytes:
            self.journal_bytes += len(entry)
            self._last = entry[-CHECKSUM_BYTES:]
            await self.store.append(entry)
        else:
            await self.checkpoint(batch.logged)


class Waiting(NamedTuple):
    """A held message: for how many seconds it has been held, and what it waits for."""

    message: MessageId
    seconds: float
    needs: tuple[Need, ...]

    def __str__(self) -> str:
        needs = " and ".join(map(str, self.needs)) or "its turn"
        return f"message {self.message} has waited {self.seconds:.0f} s for {needs}"


class Watch:
    """Keeps the arrival time of each held message; logs those that wait for long."""

    def __init__(
        self, machine: Machine, limits: Limits, give_up: Callable[[str, int], object]
    ) -> None:
        self.machine = machine
        self.seconds = limits.long_wait_seconds
        self.most = limits.held_seconds_max if limits.on_lost == "mark" else 0.0
        self._give_up = give_up
        self.loop = asyncio.get_running_loop()
        self.since = dict.fromkeys(machine.waiting(), self.loop.time())
        self._told: set[tuple[str, str]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._set_timer()

    def note(self, outcome: Outcome) -> None:
        """Note the messages that are held now, and those that were delivered."""
        now = self.loop.time()
        for message in outcome.held:
            self.since[message] = now
        for delivery in outcome.deliveries:
            self.since.pop(delivery.message, None)
        self._set_timer()

    def waiting(self) -> list[Waiting]:
        """Return the held messages, those that have waited longest first."""
        now, needs = self.loop.time(), self.machine.waiting()
        return [
            Waiting(message, now - since, needs[message])
            for message, since in self.since.items()
            if message in needs
        ]

    def oldest(self) -> float:
        """Return for how many seconds the oldest held message has waited."""
        first = next(iter(self.since.values()), None)
        return 0.0 if first is None else self.loop.time() - first

    def tell_once(self, who: str, what: str, sentence: str) -> None:
        """Log a warning about a peer, but only the first time."""
        if (who, what) not in self._told:
            self._told.add((who, what))
            self._warn(what, sentence, peer=who)

    def stop(self) -> None:
        """Stop logging."""
        if self._timer is not None:
            self._timer.cancel()

    def _set_timer(self) -> None:
        if self._timer is None and self.since:
            pause = self.seconds
            if self.most:
                pause = min(pause, max(self.most - self.oldest(), self.most / 10))
            self._timer = self.loop.call_later(pause, self._check)

    def _check(self) -> None:
        self._timer = None
        if self.oldest() >= self.seconds and (found := self.waiting()):
            more = f" ({len(found) - 1} more wait)" if len(found) > 1 else ""
            message, seconds, needs = found[0]
            self._warn(
                "long wait",
                f"{found[0]}{more}",
                held=str(message),
                seconds=round(seconds, 3),
                needs=[str(need) for need in needs],
            )
        if self.most and self.oldest() >= self.most:
            self._give_up_oldest()
        self._set_timer()

    def _warn(self, event: str, sentence: str, **fields: object) -> None:
        tell(logging.WARNING, self.machine.setup.process, event, sentence, **fields)

    def _give_up_oldest(self) -> None:
        """Declare lost the causes of messages that have waited too long."""
        number = self.machine.sides[0].number * VIEW_STEP
        own, lost = self.machine.setup.process, dict[str, int]()
        for held in self.waiting():
            for need in held.needs if held.seconds >= self.most else ():
                # Under flooding a message may wait until another member has passed on one of ours.
                if need.unit == "message" and need.number > number and need.process != own:
                    lost[need.process] = max(need.number - number, lost.get(need.process, 0))
        for process, upto in lost.items():
            gone = f"messages of {process} up to {number + upto}"
            sentence = f"gave up on {gone}, which did not come for {self.most:g} s"
            self._warn("gave up", sentence, peer=process, upto=number + upto)
            self._give_up(process, upto)


class Driver:
    """Drives a machine between a transport, a store and the application."""

    def __init__(
        self,
        machine: Machine,
        transport: Transport,
        store: Store | None,
        *,
        limits: Limits,
        chance: random.Random,
        events: EventLog | None = None,
    ) -> None:
        self.machine = machine
        self.is_durable = store is not None
        self.limits = limits
        self.events = events
        machine.keeps_log = events is not None
        machine.packet_bytes_max = getattr(transport, "packet_bytes_max", 0)
        self.loop = asyncio.get_running_loop()
        self.peers: dict[str, Peer] = {}
        """The other members of the newest view."""
        self.links: dict[Channel, Link] = {}
        self.ready: deque[Delivery] = deque()
        """Deliveries that the application has not seen."""
        self._make_ready(list(machine.inbox.values()))
        self.watch = Watch(machine, limits, self._skip)
        self.outgoing = Outgoing(machine, transport, chance, chance.getrandbits(MARK_BITS))
        self.failure: Exception | None = None
        self.is_closed = False
        self.stale: dict[str, str] = {}
        """Peers that have shown that our store is old, each with its reason."""
        self.sent_count = self.done_count = 0
        self.counts = dict.fromkeys(("delivered", "duplicates", "refused"), 0)
        self.counts |= {"control_bytes": 0, "packet_bytes": 0}
        self.saving = Saving(machine, store, limits, self._seal, self._finish, self.fail)
        self.members = Members(machine, self.peers, self.outgoing, limits, self)
        self._sides: list[Side] = []
        self._has_pending = False
        self._consumers: deque[asyncio.Future[None]] = deque()
        self._input_waiters: deque[asyncio.Future[None]] = deque()
        self.follow_views()

    # Called by the node.

    def send(
        self, dests: tuple[str, ...] | str, payload: bytes, after: int | None
    ) -> MessageId | asyncio.Future[None]:
        """Send a message; if there is no room, return a future to await before trying again."""
        if self.is_closed or self.failure is not None:
            self.check()
        machine, limits, sent = self.machine, self.limits, None
        if self.stale or type(payload) is not bytes or len(payload) > limits.payload_bytes:
            self._check_send(dests, payload)
        elif (run := machine.run) is not None and dests == run.dests and after is None:
            channel = run.channel
            if (
                len(channel.outbox) < limits.outbox_count
                and channel.outbox_bytes < limits.outbox_bytes
            ):
                sent = machine.send_on(run, payload)
        if sent is None:
            room = self._room(dests)
            if room is not None:
                return room
            try:
                sent = machine.send(dests, payload, after)
            except QueueFullError:
                return self.next_input()
        self.sent_count += 1
        if self.is_durable:
            self.saving.batch.records.append(journal.send_record(dests, payload, after))
        if not self.saving.is_scheduled:
            self.saving.schedule()
        return sent

    def check_stale(self, dests: Iterable[str] | str) -> None:
        """Raise StoreError if a destination has shown that our store is old."""
        for name, sentence in self.stale.items():
            if isinstance(dests, str) or name in dests:
                raise StoreError(sentence)

    def done(self, event: int) -> Awaitable[None]:
        """Record that the application has handled a delivery; calling again does nothing."""
        if self.is_closed or self.failure is not None:
            self.check()
        machine = self.machine
        delivery = machine.inbox.pop(event, None)
        if delivery is not None:  # machine.done(), inlined because it is hot
            machine.inbox_bytes -= len(delivery.payload)
            self.done_count += 1
            if self.is_durable:
                self.saving.batch.records.append(journal.done_record(event))
                self.saving.schedule()
            if self._has_pending:
                self._admit_pending()
            if self._input_waiters:
                wake_all(self._input_waiters)
        return self.saving.saved() if self.is_durable else NOW

    async def commit(self, event: int, sends: list[Send]) -> tuple[MessageId, ...]:
        """Send messages and mark a delivery as handled, in one entry of the journal."""
        while not isinstance(sent := self._try_commit(event, sends), tuple):
            await sent
        await self.saving.saved()
        return sent

    def _try_commit(
        self, event: int, sends: list[Send]
    ) -> tuple[MessageId, ...] | asyncio.Future[None]:
        """Commit at once, or return a future to await before trying again."""
        self.check()
        if event not in self.machine.inbox:
            msg = "the delivery is marked done already, so nothing is sent for it again"
            raise UsageError(msg)
        for dests, payload, _ in sends:
            self._check_send(dests, payload)
            if (room := self._room(dests, is_done=True)) is not None:
                return room
        try:
            if len(sends) > 1:
                self.machine.check_sends(sends)
            made = [self._apply(one) for one in sends]
        except QueueFullError:
            return self.next_input()
        self.done(event)
        return tuple(made)

    def _apply(self, given: Send) -> MessageId:
        sent = self.machine.send(*given)
        self.sent_count += 1
        if self.is_durable:
            self.saving.batch.records.append(journal.send_record(*given))
        self.saving.schedule()
        return sent

    def _check_send(self, dests: tuple[str, ...] | str, payload: bytes) -> None:
        """Refuse a payload that is too long, or a destination that knows that our store is old."""
        most = self.limits.payload_bytes
        if isinstance(payload, bytes) and len(payload) > most:
            msg = (
                f"payload has {len(payload)} bytes, at most {most} are allowed; "
                "send it in parts, or raise payload_bytes in the limits of all nodes"
            )
            raise UsageError(msg)
        if self.stale:
            self.check_stale(dests)

    def skip(self, process: str, upto: int | None) -> Awaitable[None]:
        """Declare lost messages of the view that is being delivered."""
        self._skip(process, upto)
        return self.saving.saved()

    def _skip(self, process: str, upto: int | None) -> None:
        if self.is_closed or self.failure is not None:
            return
        self.machine.skip(process, upto)
        if self.is_durable:
            self.saving.batch.records.append(journal.skip_record(process, upto))
        self.saving.schedule()

    def _room(
        self, dests: Iterable[str] | str, *, is_done: bool = False
    ) -> asyncio.Future[None] | None:
        """Return a future that is done when a destination has room again; None if all have.

        ``is_done`` means that a delivery leaves our own inbox at the same time.
        """
        channels, limits = self.machine.sides[-1].channels, self.limits
        for name in channels if isinstance(dests, str) else dests:
            channel = channels.get(name) if isinstance(name, str) else None
            if channel is None:
                is_own = name == self.machine.setup.process
                if is_own and self.is_inbox_full and not is_done:
                    return self.next_input()
            elif (
                len(channel.outbox) >= limits.outbox_count
                or channel.outbox_bytes >= limits.outbox_bytes
            ):
                self.links[channel].waiters.append(waiter := self.loop.create_future())
                return waiter
        return None

    def next_input(self) -> asyncio.Future[None]:
        """Return a future that is done when something has arrived or been marked done."""
        self._input_waiters.append(waiter := self.loop.create_future())
        return waiter

    def next_delivery(self) -> asyncio.Future[None]:
        """Return a future that is done when there may be a delivery."""
        self._consumers.append(waiter := self.loop.create_future())
        return waiter

    def unacknowledged(self) -> int:
        """Return how many packets peers have not acknowledged."""
        return sum(len(link.channel.outbox) for link in self.links.values())

    # Called by the transport.

    def connected(self, peer: str) -> None:
        """Resend the packets that the peer has not acknowledged."""
        found = self.peers.get(peer)
        if found is None or self.is_closed or self.failure is not None:
            return
        for link in found.links.values():
            self.outgoing.reconnected(link)

    def received(self, peer: str, frame: bytes) -> None:
        """Process a frame from a peer."""
        if self.is_closed or self.failure is not None:
            return
        try:
            found = self.peers.get(peer)
            if found is None:
                self.members.answer_stranger(peer)
            else:
                self._take_frame(found, frame)
        except AntecedeError as error:
            self.refuse(peer, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the node must not go on
            self.fail(error)

    def refused(self, peer: str, view: int) -> None:
        """Note that a process does not count us among the members of its view."""
        if not self.is_closed and self.failure is None:
            self.members.told_removed(peer, view)

    # Arrivals.

    @property
    def is_inbox_full(self) -> bool:
        """Whether deliveries that are not marked done have reached a limit."""
        machine, limits = self.machine, self.limits
        return len(machine.inbox) >= limits.inbox_count or machine.inbox_bytes >= limits.inbox_bytes

    def _take_frame(self, peer: Peer, data: bytes) -> None:
        frame = frames.decode(data, peer.head)
        head, machine = frame.head, self.machine
        if head is not peer.head:
            if not self._is_right(peer, frame):
                return
            peer.head = head
        for note in frame.notes:
            self.members.note(peer, note)
            if self.peers.get(peer.name) is not peer:
                return
        if head.view != peer.view:
            self.members.seen(peer, head.view)
        link = peer.links.get(head.view)
        if link is None or not self._agrees(link, frame):
            return
        if link.channel.outbox:
            link.acknowledge(machine, frame.prefix, frame.above, self.loop.time())
        if link.channel.kept:
            link.channel.settle(head.stable)
        if frame.packets:
            self._take_packets(link, frame.packets)
        if self._input_waiters:
            wake_all(self._input_waiters)

    def _is_right(self, peer: Peer, frame: frames.Frame) -> bool:
        """Return whether a frame is from a member with our setup and the store that we know."""
        head, group = frame.head, self.machine.group
        if head.setup != group.digest:
            msg = (
                f"{peer.name!r} runs another setup than {self.machine.setup.sentence}; give all "
                "nodes the same members, protocol and options"
            )
            raise PeerError(msg)
        if peer.name not in group.members:  # both of us were removed
            return False
        if head.view < group.members[peer.name].joined:
            self.members.answer_stranger(peer.name)  # it was removed; its name has joined anew
            return False
        return self._is_known(peer, frame)

    def _is_known(self, peer: Peer, frame: frames.Frame) -> bool:
        """Note the store that a frame comes from; refuse one whose store was lost or is old.

        Return False for a frame that may have been on its way since before a restart.
        """
        head, machine = frame.head, self.machine
        known = machine.met.get(peer.name, UNMET)
        if known.identity and head.source != known.identity:
            msg = f"{peer.name!r} has lost its store since it and this node last met; {_ANEW}"
            raise PeerError(msg)
        if head.dest and head.dest != machine.identity:
            joined = machine.group.members[machine.setup.process].joined
            if self.is_durable and head.view >= joined:
                self._prove_stale(peer.name, f"{peer.name} knows another store of it")
                return False
            msg = f"this node has lost its store since {peer.name!r} and it last met; {_ANEW}"
            raise PeerError(msg)
        if head.dest and self.is_durable and self._is_newer(peer.name, head):
            return False
        if known != (head.source, head.opening, head.mark):
            if head.opening < known.opening:
                self.outgoing.owe(peer.newest)  # it may be late, or from an old copy of the store
                return False
            if head.opening == known.opening:
                self.outgoing.owe(peer.newest)
                msg = f"{peer.name!r} runs twice, with copies of one store; {_ANEW}"
                raise PeerError(msg)
            if lost := self._lost_by(peer, frame):
                msg = f"{peer.name!r} has lost packets that it had saved, such as {lost}; {_ANEW}"
                raise PeerError(msg)
            met = Met(head.source, head.opening, head.mark)
            machine.meet(peer.name, *met)
            self.saving.batch.met[peer.name] = met
            if self.is_durable:
                self.saving.batch.records.append(journal.meet_record(peer.name, *met))
            self._owe(peer.links.get(head.view) or peer.newest)
            self.members.came_back()
        if not peer.knows_us and head.dest and head.known == machine.opening:
            peer.knows_us = True
            self.members.knows_us(peer)
            for link in peer.links.values():
                self.outgoing.reconnected(link)
        return True

    def _is_newer(self, name: str, head: frames.Head) -> bool:
        """Return whether a peer has seen a later opening of our store, or the same in a copy."""
        opening = self.machine.opening
        if head.known > opening:
            reason = f"it was opened {head.known} times by now, this copy {opening} times"
        elif head.known == opening and head.known_mark != self.outgoing.mark:
            reason = "another node runs with a copy of it"
        else:
            return False
        self._prove_stale(name, reason)
        return True

    def _lost_by(self, peer: Peer, frame: frames.Frame) -> int:
        """Return a packet that a peer acknowledged before and no longer has, or 0."""
        link = peer.links.get(frame.head.view)
        if link is None:
            return 0
        channel = link.channel
        first = next(iter(channel.outbox), channel.sent + 1)
        return 0 if frame.prefix + 1 >= first else frame.prefix + 1

    def _agrees(self, link: Link, frame: frames.Frame) -> bool:
        """Return whether a peer has seen only packets and acknowledgements that we know of."""
        channel = link.channel
        if not self.is_durable:  # a state in memory is never old: the peer lies
            return True
        most = max(frame.prefix, frame.above[-1] if frame.above else 0)
        if most > channel.sent:
            told = f"{link.name} has packet {most} of it, but it has sent only {channel.sent}"
            self._prove_stale(link.name, told)
            return False
        if frame.head.low > channel.prefix + 1 and not all(
            channel.has(n)
            for n in range(channel.prefix + 1, min(frame.head.low, channel.prefix + GAP_MAX))
        ):
            told = f"packet {channel.prefix + 1} of {link.name} was acknowledged and is not in it"
            self._prove_stale(link.name, told)
            return False
        return True

    def _prove_stale(self, name: str, reason: str) -> None:
        """Stop if enough others show that our store is old; until then, send this one nothing.

        One member alone may lie. That only stops what we send to it, as its silence would too.
        """
        process = self.machine.setup.process
        if name not in self.stale:
            self.stale[name] = (
                f"the store of {process!r} is older than what {name!r} has seen of it ({reason}): "
                f"do not use it again; remove {process!r} from the group and add it again with an "
                "empty store"
            )
            tell(logging.ERROR, process, "stale store", self.stale[name], peer=name)
            wake_all(self._input_waiters)
            for link in self.peers[name].links.values():
                link.wake()
        others = list(self.peers)
        if is_quorum(self.stale, others) and len(self.stale) >= min(2, len(others)):
            self.machine.is_stale = True
            self.fail(StoreError(self.stale[name]))

    def _take_packets(self, link: Link, packets: list[tuple[int, bytes]]) -> None:
        channel, machine, codec = link.channel, self.machine, link.side.codec
        first, last = packets[0][0], packets[-1][0]
        channel.last_in = None
        if channel.above or first != channel.prefix + 1 or last - first >= len(packets):
            packets = self._new_ones(link, standing_alone(codec, packets))
        place, is_spelt = 0, False
        while place < len(packets):
            if link.side is not machine.sides[0] or (
                self.is_inbox_full and self._fills_inbox(link, packets[place][1])
            ):
                if not is_spelt:
                    packets, is_spelt = standing_alone(codec, packets), True
                    continue
                link.put_aside(*packets[place])
                self._has_pending = True
                place += 1
                continue
            taken = self._take_some(link, packets, place)
            if self.is_durable:
                self.saving.batch.records += [
                    journal.arrive_record(link.name, n, parcel)
                    for n, parcel in packets[place : place + taken]
                ]
            place += taken or 1
            while not taken and place < len(packets) and packets[place][1][:1] == NEXT:
                place += 1  # unreadable without the packet that they follow; they are resent
        channel.last_in = None
        if machine.sides != self._sides:
            self.follow_views()
            self.saving.batch.is_due = True
            self.saving.schedule()
        self._owe(link)

    def _fills_inbox(self, link: Link, parcel: bytes) -> bool:
        """Return whether a packet may bring a delivery here: some are only passed on."""
        side = link.side
        if is_control(parcel):
            return False
        if not side.endpoint.info.has_roles or parcel.startswith(NEXT):
            return True
        content = side.codec.decode(packet_in(parcel)).content
        return bool(content.dests >> side.view.numbers[side.process] & 1)

    def _take_some(self, link: Link, packets: list[tuple[int, bytes]], place: int) -> int:
        """Process a packet, or several of a run; return how many."""
        machine, limits, channel = self.machine, self.limits, link.channel
        n, parcel = packets[place]
        is_full = len(channel.kept) > link.kept_max or channel.kept_bytes > link.kept_bytes_max
        if is_full and parcel[:1] > NEXT:
            channel.fresh += 1
            kept = f"{len(channel.kept)} messages of {link.name} are kept, which others lack"
            self._not_taken(link.name, HoldFullError(kept))
            return 0
        if parcel[:1] != NEXT:
            link.has_run = True
        elif link.has_run:
            some = packets[place : place + limits.inbox_count - len(machine.inbox)]
            if taken := machine.take_run(channel, some, limits.inbox_bytes):
                return taken
            link.has_run = False  # something waits: process them one by one
        try:
            machine.arrive(link.name, n, parcel)
        except AntecedeError as error:
            self._not_taken(link.name, error)
            return 0
        return 1

    def _new_ones(self, link: Link, packets: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Return the packets that are new and not too far ahead."""
        made, far = link.new_ones(packets)
        self.counts["duplicates"] += len(packets) - len(made) - len(far)
        for n in far:
            reason = f"packet {n} is too far ahead of packet {link.channel.prefix + 1}"
            self.refuse(link.name, reason)
        return made

    def _not_taken(self, name: str, error: AntecedeError) -> None:
        if isinstance(error, HoldFullError):
            # Not acknowledged, so the peer sends it again; by then there may be room.
            self.counts["refused"] += 1
            self.watch.tell_once(name, "no room", f"from {name}: {error}")
        else:
            self.refuse(name, str(error))

    def _admit_pending(self) -> None:
        """Process packets that waited for room or for their view, from each peer in turn."""
        first = self.machine.sides[0]
        waiting = [link for link in self.links.values() if link.pending and link.side is first]
        while waiting and not self.is_inbox_full:
            link = waiting.pop(0)
            n, packet = link.take_pending()
            if not link.channel.has(n):
                self._take_packets(link, [(n, packet)])
            if link.side is not self.machine.sides[0]:
                return  # follow_views() took care of the others
            if link.pending:
                waiting.append(link)
        self._has_pending = any(link.pending for link in self.links.values())

    def _owe(self, link: Link) -> None:
        """Acknowledge the peer's packets with the next frame."""
        batch, channel = self.saving.batch, link.channel
        if channel not in self.links:
            return
        if (
            self.is_durable
            or self.events is not None
            or batch.held
            or self.watch.since
            or self.machine.flush is not None
            or batch.met
            or (batch.packets and not self.saving.is_scheduled)
        ):
            batch.arrivals[channel] = (0, ())
            self.saving.schedule_arrivals()
            return
        # With nothing to save, log or watch, arrivals need not wait for the rest of the batch.
        link.saved = (channel.prefix, tuple(sorted(channel.above)) if channel.above else ())
        if link.side.tickets:
            self.outgoing.stables[channel.view] = link.side.stable
        if channel not in batch.packets and link.name not in batch.notes:
            self.outgoing.owe(link)
        if batch.deliveries:
            self._hand_over(batch)

    def refuse(self, name: str, reason: str) -> None:
        """Count what a peer sent and we refused; log it the first time."""
        self.counts["refused"] += 1
        self.watch.tell_once(name, "refused", f"turned away what {name} sent: {reason}")

    # Views.

    def follow_views(self) -> None:
        """Make and remove links, so that each channel of the machine has one."""
        machine = self.machine
        if machine.group.is_removed:
            return
        self._sides = list(machine.sides)
        members = [name for name in machine.group.members if name != machine.setup.process]
        for name in [name for name in self.peers if name not in members]:
            for link in self.peers.pop(name).links.values():
                self.links.pop(link.channel, None)
                link.end()
        for name in members:
            peer = self.peers.get(name)
            if peer is None:
                peer = self.peers[name] = Peer(name, machine.met.get(name, UNMET))
            sides = {
                side.number: side
                for side in machine.sides
                if name in side.channels and side.is_open(side.channels[name])
            }
            for number in [number for number in peer.links if number not in sides]:
                link = peer.links.pop(number)
                self.links.pop(link.channel, None)
                link.end()
            for number, side in sides.items():
                if number not in peer.links:
                    link = peer.links[number] = Link(
                        peer, side, side.channels[name], self.limits, notes_down=self.is_durable
                    )
                    self.links[link.channel] = link
        numbers = {side.number for side in machine.sides}
        outgoing = self.outgoing
        outgoing.stables = {one: outgoing.stables.get(one, 0) for one in sorted(numbers)}
        outgoing.unstables = {v: note for v, note in outgoing.unstables.items() if v in numbers}
        self._has_pending = any(link.pending for link in self.links.values())
        if self._has_pending:
            self.loop.call_soon(self._admit_later)
        wake_all(self._input_waiters)

    def _admit_later(self) -> None:
        if not self.is_closed and self.failure is None:
            self._admit_pending()

    def changed(self, record: bytes) -> None:
        """Note that the machine has processed an input about the group."""
        if self.is_durable:
            self.saving.batch.records.append(record)
        if self.machine.sides != self._sides:
            self.follow_views()
        self.saving.batch.is_due = True
        self.saving.schedule()

    def tell(self, name: str, note: bytes | None) -> None:
        """Send a note with the next batch; with None, a frame with what the peer has missed."""
        found = self.saving.batch.notes.setdefault(name, [])
        if note is not None:
            found.append(note)
        self.saving.schedule()

    def stop_as_removed(self) -> None:
        """Stop, because the others have removed this process."""
        self.fail(NodeClosedError(was_removed(self.machine.setup.process)))

    # Batches.

    def _seal(self, batch: Batch) -> None:
        """Complete a batch with the present state."""
        if self.machine.flush is not None or self.members.flush is not None:
            self.members.seal()
        for side in self.machine.sides:
            if side.tickets:
                batch.stables[side.number] = side.stable
            if side.unstable and (note := side.unstable_note()) is not None:
                batch.unstables[side.number] = note
                for name in self.peers:
                    batch.notes.setdefault(name, []).append(note)
        if batch.held or self.watch.since:
            self.watch.note(batch)
        self.counts["packet_bytes"] += batch.size
        self.counts["control_bytes"] += batch.control
        for channel in batch.arrivals:
            batch.arrivals[channel] = (channel.prefix, tuple(sorted(channel.above)))
        if batch.records:
            for link in self.links.values():
                if link.acknowledged:
                    channel, gone = link.channel, link.acknowledged
                    batch.records.append(
                        journal.acknowledged_record(channel.view, channel.name, gone)
                    )
                    link.acknowledged = []

    def _finish(self, batch: Batch) -> None:
        """Release the effects of a batch that is saved."""
        if batch.logged:
            write_events(self.events, batch.logged)
        if batch.stables:
            self.outgoing.stables.update(batch.stables)
            self.outgoing.unstables.update(batch.unstables)
        if batch.is_due or batch.notes:
            self.members.release()
        self._transmit(batch)
        if batch.deliveries:
            self._hand_over(batch)
        if batch.waiters:
            for waiter in batch.waiters:
                if not waiter.done():
                    waiter.set_result(None)
        if self.machine.group.is_removed:
            self.stop_as_removed()

    def _transmit(self, batch: Batch) -> None:
        """Send frames with the packets, acknowledgements and notes of a batch."""
        for name, met in batch.met.items():
            if name in self.peers:
                self.peers[name].shown = met
        for channel, arrivals in batch.arrivals.items():
            link = self.links.get(channel)
            if link is not None:
                link.saved = arrivals
                if channel not in batch.packets and channel.name not in batch.notes:
                    self.outgoing.owe(link)
        for channel, packets in batch.packets.items():
            link = self.links.get(channel)
            if link is not None:
                link.released = packets[-1][0]
                notes = batch.notes.pop(channel.name, None) if batch.notes else None
                self.outgoing.transmit(link, packets, notes)
        for name, notes in batch.notes.items():
            if name in self.peers:
                self.outgoing.transmit(self.peers[name].newest, [], notes)

    def _hand_over(self, batch: Batch) -> None:
        """Give the deliveries of a batch to the application."""
        self.counts["delivered"] += len(batch.deliveries)
        self._make_ready(batch.deliveries)
        batch.deliveries = []
        if self._consumers:
            wake_all(self._consumers)
            if not self.is_durable:  # consumers run next; their sends leave in the same turn
                self.saving.schedule()

    def _make_ready(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            delivery.keeper = self
        self.ready += deliveries

    # The end.

    def fail(self, error: Exception) -> None:
        """Stop for good: nothing more leaves, and waiting callers are told why."""
        if self.failure is None:
            self.failure = error
            sentence = f"the node stops: {error}"
            tell(logging.ERROR, self.machine.setup.process, "stopped", sentence)
        self.outgoing.stop(self.links.values())
        self.members.stop()
        self.saving.stop(self.failure)
        self.wake_everyone()

    def wake_everyone(self) -> None:
        """Wake all callers that wait, for instance because the node is closed."""
        wake_all(self._consumers)
        wake_all(self._input_waiters)
        for link in self.links.values():
            link.wake()

    async def close(self) -> None:
        """Save the last inputs and a checkpoint; then nothing goes in or out."""
        self.is_closed = True
        self.wake_everyone()
        self.saving.schedule()
        await self.saving.settle()
        self.watch.stop()
        self.outgoing.stop(self.links.values())
        self.members.stop()
        if self.failure is None:
            await self.saving.checkpoint()

    def check(self) -> None:
        """Raise NodeClosedError if the node has failed or is closed."""
        if self.failure is not None:
            msg = f"the node has stopped: {self.failure}"
            raise NodeClosedError(msg) from self.failure
        if self.is_closed:
            msg = "the node is closed; make a new one to go on"
            raise NodeClosedError(msg)


_ANEW: Final = "remove the process and add it again with an empty store"


def write_events(log: EventLog | None, logged: Iterable[Logged]) -> None:
    """Write events to the event log, if there is one, unless it has them."""
    for event, message, dests in logged:
        if log is None or event <= log.last_seq:
            continue
        if dests is None:
            log.deliver(message, seq=event)
        else:
            log.send(message, dests or None, seq=event)
