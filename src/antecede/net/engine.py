"""The order of things inside a node: apply, save, and only then let out.

Every input (a send, a packet, ``done``) is applied to the machine at once and collected in a batch.
The batch is saved as one journal entry. Only then do its packets leave, its arrivals get
acknowledged, its deliveries reach the application, and its callers return. Inputs that come in
while a batch is being saved make up the next one: commits are grouped by themselves.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Iterable

from antecede.errors import HoldFullError, NodeClosedError, PeerError, UnknownProcessError
from antecede.events import EventLog
from antecede.net import frames, records
from antecede.net.bursts import Burst
from antecede.net.changing import Changing
from antecede.net.deliveries import Delivery, Keeper
from antecede.net.groups import was_removed
from antecede.net.heads import check_setup, is_first
from antecede.net.limits import Limits
from antecede.net.members import Members
from antecede.net.outcomes import write_events
from antecede.net.outgoing import Outgoing
from antecede.net.peers import Peer, wake_all
from antecede.net.runs import NEXT, standing_alone
from antecede.net.saving import NOW, Batch, Saving
from antecede.net.stores import Store
from antecede.net.transports import Transport
from antecede.net.watch import LOG, Watch


class Engine(Keeper):
    """Drives a machine between a transport, a store and the application."""

    def __init__(
        self,
        machine: Changing,
        transport: Transport,
        store: Store | None,
        *,
        limits: Limits,
        chance: random.Random,
        events: EventLog | None = None,
    ) -> None:
        super().__init__(machine.group.past)
        self.machine = machine
        self.is_durable = store is not None
        self.limits = limits
        self.events = events
        machine.keeps_log = events is not None
        self.loop = asyncio.get_running_loop()
        self.peers = {
            name: Peer(name, channel, limits, notes_down=self.is_durable)
            for name, channel in machine.channels.items()
        }
        self.ready: deque[Delivery] = deque()
        """What the application has not seen."""
        self._make_ready(list(machine.inbox.values()))
        self.watch = Watch(machine, limits.long_wait_seconds)
        self.outgoing = Outgoing(machine, transport, chance)
        self.failure: Exception | None = None
        self.is_closed = False
        self.done_count = 0
        self.counts = dict.fromkeys(("delivered", "duplicates", "refused"), 0)
        self._sends_before = machine.sends
        self.counts |= {"control_bytes": 0, "packet_bytes": 0}
        self.saving = Saving(machine, store, limits, self._seal, self._finish, self.fail)
        self.members = Members(
            machine, self.peers, self.saving, self.outgoing, is_full=lambda: self._is_inbox_full
        )
        self._has_pending = False
        self._consumers: deque[asyncio.Future[None]] = deque()
        self._arrival_waiters: deque[asyncio.Future[None]] = deque()

    # What the node calls.

    def send(
        self, burst: Burst | None, dests: tuple[str, ...] | str, payload: bytes, after: int | None
    ) -> None:
        """Apply a send; it goes on with a burst, if it can."""
        machine = self.machine
        if burst is None or not machine.send_on(burst, payload):
            machine.send(dests, payload, after)
        if self.is_durable:
            self.saving.batch.records.append(records.send_record(dests, payload, after))
        if not self.saving.is_scheduled:
            self.saving.schedule()

    def done(self, event: int) -> Awaitable[None]:
        """Apply that the application has dealt with a delivery; again does nothing."""
        if self.is_closed or self.failure is not None:
            self.check()
        machine = self.machine
        delivery = machine.inbox.pop(event, None)
        if delivery is not None:  # this is machine.done(): it happens for every message
            machine.inbox_bytes -= len(delivery.payload)
            self.done_count += 1
            if self.is_durable:
                self.saving.batch.records.append(records.done_record(event))
                self.saving.schedule()
            if self._has_pending:
                self._admit_pending()
            if self._arrival_waiters:
                wake_all(self._arrival_waiters)
        return self.saving.saved() if self.is_durable else NOW

    def name_of(self, label: str) -> str:
        """Return the name of the process behind a label."""
        return self.machine.group.name_of(label)

    def room(self, dests: Iterable[str] | str) -> asyncio.Future[None] | None:
        """Return a future that is done when a destination has room again; None if all have."""
        peers, me = self.peers, self.machine.setup.process
        for name in peers if isinstance(dests, str) else dests:
            peer = peers.get(name)
            if peer is None:
                if name == me and self._is_inbox_full:
                    return self.next_input()
                continue
            if peer.is_full:
                peer.waiters.append(waiter := self.loop.create_future())
                return waiter
        return None

    def next_input(self) -> asyncio.Future[None]:
        """Return a future that is done when something has arrived or been marked done."""
        self._arrival_waiters.append(waiter := self.loop.create_future())
        return waiter

    def next_delivery(self) -> asyncio.Future[None]:
        """Return a future that is done when there may be a delivery."""
        self._consumers.append(waiter := self.loop.create_future())
        return waiter

    @property
    def sent(self) -> int:
        """How many messages were sent since the node was opened."""
        return self.machine.sends - self._sends_before

    def unacknowledged(self) -> int:
        """Return how many packets peers have not acknowledged."""
        return sum(len(peer.channel.outbox) for peer in self.peers.values())

    # What the transport calls.

    def connected(self, peer: str) -> None:
        """Send again what the peer has not acknowledged."""
        found = self.peers.get(peer)
        if found is None or self.is_closed or self.failure is not None:
            return
        self.outgoing.reconnected(found)

    def received(self, peer: str, frame: bytes) -> None:
        """Take a frame from a peer."""
        if self.is_closed or self.failure is not None:
            return
        try:
            found = self.peers.get(peer)
            if found is None:
                self.members.answer_stranger(peer)
            else:
                self._take_frame(found, frame)
        except PeerError as error:
            self._refuse(peer, str(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, the node must not go on
            self.fail(error)

    # Arrivals.

    @property
    def _is_inbox_full(self) -> bool:
        machine, limits = self.machine, self.limits
        return len(machine.inbox) >= limits.inbox_count or machine.inbox_bytes >= limits.inbox_bytes

    def _take_frame(self, peer: Peer, data: bytes) -> None:
        frame = frames.decode(data)
        head, channel = frame.head, peer.channel
        check_setup(self.machine, peer.name, head)
        if head.view < channel.joined:
            self.members.answer_stranger(peer.name)  # an earlier incarnation
            return
        for note in frame.notes:
            self.members.note(peer, note)
        if self.members.told_removed:
            self._stop_as_removed()
        if self.peers.get(peer.name) is not peer:
            return
        is_usual = head.view == peer.view == self.machine.group.number
        if not is_usual and not self.members.is_level(peer, head.view):
            return
        if is_first(self.machine, peer.name, channel, head):
            self.machine.meet(peer.name, head.source)
            if self.is_durable:
                self.saving.batch.records.append(records.meet_record(peer.name, head.source))
        peer.acknowledge(self.machine, frame.prefix, frame.above, self.loop.time())
        if channel.kept:
            channel.settle(head.stable)
        if frame.packets:
            self._take_packets(peer, frame.packets)
        if self._arrival_waiters:
            wake_all(self._arrival_waiters)

    def _take_packets(self, peer: Peer, packets: list[tuple[int, bytes]]) -> None:
        channel, machine = peer.channel, self.machine
        count_max, bytes_max = self.limits.inbox_count, self.limits.inbox_bytes
        first, last = packets[0][0], packets[-1][0]
        channel.last_in = None
        if channel.above or first != channel.prefix + 1 or last - first >= len(packets):
            packets = self._new_ones(peer, standing_alone(machine.codec, packets))
        arrive, inbox, name = machine.arrive, machine.inbox, peer.name
        place, end = 0, len(packets)
        while place < end:
            n, parcel = packets[place]
            if len(inbox) >= count_max or machine.inbox_bytes >= bytes_max:
                for later, whole in standing_alone(machine.codec, packets)[place:]:
                    peer.put_aside(later, whole)
                self._has_pending = True
                break
            taken = 0
            if parcel[:1] == NEXT:
                room = min(end - place, count_max - len(inbox))
                taken = machine.take_run(channel, packets[place : place + room], bytes_max)
            if not taken:
                try:
                    arrive(name, n, parcel)
                    taken = 1
                except (PeerError, HoldFullError) as error:
                    self._not_taken(name, error)
            if self.is_durable:
                self.saving.batch.records += [
                    records.arrive_record(name, k, data)
                    for k, data in packets[place : place + taken]
                ]
            place += taken or 1
        channel.last_in = None
        self._owe(peer)

    def _new_ones(self, peer: Peer, packets: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Return the packets that we have not, and that are not too far ahead."""
        made, far = peer.new_ones(packets)
        self.counts["duplicates"] += len(packets) - len(made) - len(far)
        for n in far:
            reason = f"packet {n} is too far ahead of packet {peer.channel.prefix + 1}"
            self._refuse(peer.name, reason)
        return made

    def _not_taken(self, name: str, error: Exception) -> None:
        if isinstance(error, (HoldFullError, UnknownProcessError)):
            # Not acknowledged, so the peer sends it again; by then there may be room.
            self.counts["refused"] += 1
            self.watch.tell_once(name, type(error).__name__, f"from {name}: {error}")
        else:
            self._refuse(name, str(error))

    def _admit_pending(self) -> None:
        """Take in packets that waited for room, in turn."""
        waiting = [peer for peer in self.peers.values() if peer.pending]
        while waiting and not self._is_inbox_full:
            peer = waiting.pop(0)
            n, packet = peer.take_pending()
            if not peer.channel.has(n):
                self._take_packets(peer, [(n, packet)])
            if peer.pending:
                waiting.append(peer)
        self._has_pending = bool(waiting)

    def _owe(self, peer: Peer) -> None:
        """Acknowledge the peer's packets with the next frame."""
        batch, machine = self.saving.batch, self.machine
        if (
            self.is_durable
            or self.events is not None
            or batch.held
            or self.watch.since
            or machine.group.flush is not None
            or (batch.packets and not self.saving.is_scheduled)
        ):
            batch.arrivals[peer.name] = None
            self.saving.schedule_arrivals()
            return
        # With nothing to save, to log or to watch, arrivals need not wait for the rest of a batch.
        channel = peer.channel
        peer.saved = (channel.prefix, tuple(sorted(channel.above)) if channel.above else ())
        self.outgoing.stable = machine.stable
        if peer.name not in batch.packets and peer.name not in batch.notes:
            self.outgoing.owe(peer)
        if batch.deliveries:
            self._hand_over(batch)

    def _refuse(self, name: str, reason: str) -> None:
        self.counts["refused"] += 1
        self.watch.tell_once(name, "refused", f"turned away what {name} sent: {reason}")

    def _stop_as_removed(self) -> None:
        self.fail(NodeClosedError(was_removed(self.machine.setup.process)))

    # Batches.

    def _seal(self, batch: Batch) -> None:
        """Complete a batch with what is true now."""
        self.members.seal(batch)
        if batch.held or self.watch.since:
            self.watch.note(batch)
        self.counts["packet_bytes"] += batch.size
        self.counts["control_bytes"] += batch.control
        for name in batch.arrivals:
            channel = self.peers[name].channel
            batch.arrivals[name] = (channel.prefix, tuple(sorted(channel.above)))
        if batch.records:
            for peer in self.peers.values():
                if peer.acknowledged:
                    batch.records.append(records.acknowledged_record(peer.name, peer.acknowledged))
                    peer.acknowledged = []

    def _finish(self, batch: Batch) -> None:
        """Let out what is saved now."""
        write_events(self.events, batch.logged)
        self.members.release(batch)
        for name, arrivals in batch.arrivals.items():
            peer = self._peer(name)
            if peer is not None and arrivals is not None:
                peer.saved = arrivals
                if name not in batch.packets and name not in batch.notes:
                    self.outgoing.owe(peer)
        for name in {**batch.packets, **batch.notes} if batch.notes else batch.packets:
            peer = self._peer(name)
            if peer is not None:
                packets = batch.packets.get(name, [])
                if packets:
                    peer.released = packets[-1][0]
                self.outgoing.transmit(peer, packets, batch.notes.get(name))
        if batch.deliveries:
            self._hand_over(batch)
        if batch.waiters:
            wake_all(deque(batch.waiters))
        if self.machine.group.is_removed:
            self._stop_as_removed()

    def _hand_over(self, batch: Batch) -> None:
        """Let the application have the deliveries of a batch."""
        self.counts["delivered"] += len(batch.deliveries)
        self._make_ready(batch.deliveries)
        batch.deliveries = []
        if self._consumers:
            wake_all(self._consumers)
            if not self.is_durable:  # they run next; then what they send leaves in the same turn
                self.saving.schedule()

    def _make_ready(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            delivery._keeper = self
        self.ready += deliveries

    def _peer(self, name: str) -> Peer | None:
        return self.peers.get(name) or self.members.former.get(name)

    # The end.

    def fail(self, error: Exception) -> None:
        """Stop for good: nothing more leaves, and whoever waits is told why."""
        if self.failure is None:
            self.failure = error
            LOG.error("%s: the node stops: %s", self.machine.setup.process, error)
        self.outgoing.stop(list(self.peers.values()))
        self.members.stop()
        self.saving.stop(self.failure)
        self.wake_everyone()

    def wake_everyone(self) -> None:
        """Let all who wait look again, for instance because the node is closed."""
        wake_all(self._consumers)
        wake_all(self._arrival_waiters)
        for peer in self.peers.values():
            peer.wake()

    async def close(self) -> None:
        """Save the last inputs and a checkpoint; then nothing goes in or out."""
        self.is_closed = True
        self.wake_everyone()
        self.saving.schedule()
        await self.saving.settle()
        self.watch.stop()
        self.outgoing.stop(list(self.peers.values()))
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
