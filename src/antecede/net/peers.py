"""Peers as a node sees them, and the frames sent to them until packets are acknowledged."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice, takewhile
from operator import itemgetter
from typing import Final

from antecede.net import frames
from antecede.net.machine import TOLD_BYTES, TOLD_TICKETS, Channel, Machine, Met, Side
from antecede.net.parcels import NEXT
from antecede.net.settings import Limits
from antecede.net.transports import Transport

RESEND_PACKETS: Final = 64
"""How many of the oldest packets are resent at a time, if they fit into a frame."""
GAP_MAX: Final = 1 << 16
"""How far a peer's packets may be ahead of the first one missing."""
FRAME_BYTES: Final = 1 << 18
"""Packets are packed into frames of about this size."""
ACKNOWLEDGE_SECONDS: Final = 0.003
"""How long an acknowledgement waits for packets to travel with: this, or up to twice this."""
UNMET: Final = Met()
_PARCEL: Final = itemgetter(1)
HELLO: Final = b"H"
"""A note that asks for a frame."""


def wake_all(waiters: deque[asyncio.Future[None]]) -> None:
    """Wake all waiters, to check again."""
    while waiters:
        waiter = waiters.popleft()
        if not waiter.done():
            waiter.set_result(None)


class Peer:
    """What this run of the node knows about another process."""

    def __init__(self, name: str, shown: Met = UNMET) -> None:
        self.name = name
        self.shown = shown
        """The store that it has shown, as far as that is saved."""
        self.view = -1
        """The newest view in which it has sent a frame; -1 before its first one."""
        self.knows_us = False
        """Whether it has shown that it knows our store as it was opened now."""
        self.head: frames.Head | None = None
        """The head of its last frame that passed all checks."""
        self.links: dict[int, Link] = {}
        """By view, its link; the newest comes last."""

    @property
    def newest(self) -> Link:
        """The link in the newest view."""
        return next(reversed(self.links.values()))


class Link:
    """The volatile side of a channel; the part that must survive is in the machine."""

    def __init__(
        self, peer: Peer, side: Side, channel: Channel, limits: Limits, *, notes_down: bool = True
    ) -> None:
        self.peer = peer
        self.name = peer.name
        self.side = side
        self.channel = channel
        self.limits = limits
        self.released = channel.sent
        """The last packet that is saved, so that it may leave."""
        self.saved: tuple[int, tuple[int, ...]] = (channel.prefix, tuple(sorted(channel.above)))
        """The arrivals that are saved, so that they may be acknowledged."""
        self.pending: dict[int, bytes] = {}
        """Packets that arrived and wait for room in the inbox, or for their view."""
        self.pending_bytes = 0
        self.has_run = True
        """Whether packets that continue a run may be processed all at once."""
        members = len(side.view.members)
        self.kept_max = members * limits.outbox_count + 2 * TOLD_TICKETS
        self.kept_bytes_max = members * limits.outbox_bytes + 2 * TOLD_BYTES
        """As much as the peer's outboxes can hold, and so as much as others can lack."""
        self.notes_down = notes_down
        """Whether there is a journal."""
        self.acknowledged: list[int] = []
        """Packets acknowledged since the last journal entry."""
        self.waiters: deque[asyncio.Future[None]] = deque()
        self.last_progress = 0.0
        self.patience = limits.resend_seconds
        self.timer: asyncio.TimerHandle | None = None
        self.head: frames.Head | None = None
        self.shown: Met | None = None
        """The store that the peer had shown when ``head`` was made."""

    @property
    def is_full(self) -> bool:
        """Whether the outbox has reached a limit."""
        channel, limits = self.channel, self.limits
        return (
            len(channel.outbox) >= limits.outbox_count
            or channel.outbox_bytes >= limits.outbox_bytes
        )

    def new_ones(
        self, packets: list[tuple[int, bytes]]
    ) -> tuple[list[tuple[int, bytes]], list[int]]:
        """Return the packets that are new, and the numbers of those too far ahead."""
        channel, made, far = self.channel, dict[int, bytes](), list[int]()
        for n, parcel in packets:
            if channel.has(n) or n in made:
                continue
            if n > channel.prefix + GAP_MAX:
                far.append(n)
            else:
                made[n] = parcel
        return list(made.items()), far

    def put_aside(self, n: int, packet: bytes) -> bool:
        """Keep a packet until it can be processed; return False if too many are kept."""
        limits = self.limits
        if n in self.pending:
            return True
        if len(self.pending) >= limits.outbox_count or self.pending_bytes >= limits.outbox_bytes:
            return False
        self.pending[n] = packet
        self.pending_bytes += len(packet)
        return True

    def take_pending(self) -> tuple[int, bytes]:
        """Remove and return the packet that has waited longest."""
        n, packet = next(iter(self.pending.items()))
        del self.pending[n]
        self.pending_bytes -= len(packet)
        return n, packet

    def acknowledge(self, machine: Machine, prefix: int, above: Iterable[int], now: float) -> None:
        """Forget packets that the peer has saved; let senders that wait for room go on."""
        channel, first = self.channel, next(iter(self.channel.outbox), 0)
        limit = self.released
        if above:
            above = [n for n in above if n <= limit]
        elif not first or prefix < first:
            return
        gone = machine.acknowledged(self.side, self.name, min(prefix, limit), above)
        if not gone:
            return
        if self.notes_down:
            self.acknowledged += gone
        if first not in channel.outbox:
            # Only the oldest packet counts: later ones may arrive while it is lost again and again.
            self.last_progress = now
            self.patience = self.limits.resend_seconds
        if not self.is_full:
            self.wake()

    def wake(self) -> None:
        """Wake senders that wait for room in the outbox."""
        wake_all(self.waiters)

    def unacknowledged(self, count: int | None = None) -> list[tuple[int, bytes]]:
        """Return packets sent but not acknowledged, or the oldest ``count`` that fit a frame."""
        sent = takewhile(lambda item: item[0] <= self.released, self.channel.outbox.items())
        if count is None:
            return list(sent)
        made, size = list[tuple[int, bytes]](), 0
        for n, parcel in islice(sent, count):
            size += len(parcel)
            if made and size > FRAME_BYTES:
                break
            made.append((n, parcel))
        return made

    def back_off(self) -> None:
        """Wait longer before the next attempt."""
        self.patience = min(2 * self.patience, self.limits.resend_seconds_max)

    def end(self) -> None:
        """Stop the timer and wake senders: the view is over, or the peer was removed."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        self.wake()


def _frames_of(packets: list[tuple[int, bytes]]) -> list[list[tuple[int, bytes]]]:
    """Return packets divided into frames; one empty frame if there are none."""
    size = sum(map(len, map(_PARCEL, packets)))
    if size <= FRAME_BYTES and len(packets) <= frames.PACKETS_MAX:
        return [packets]
    parts, begin, size = [], 0, 0
    for end, (_, packet) in enumerate(packets):
        if size and (size + len(packet) > FRAME_BYTES or end - begin >= frames.PACKETS_MAX):
            parts.append(packets[begin:end])
            begin, size = end, 0
        size += len(packet)
    return [*parts, packets[begin:]]


class Outgoing:
    """Sends frames to peers, and resends them; it never sends a packet that is not saved."""

    def __init__(
        self, machine: Machine, transport: Transport, chance: random.Random, mark: int
    ) -> None:
        self.machine = machine
        self.transport = transport
        self.chance = chance
        self.mark = mark
        self.loop = asyncio.get_running_loop()
        self.is_stopped = False
        self.frames = self.resent = 0
        self.stables: dict[int, int] = {}
        """By view, our ticket up to which all have our messages, as far as that is saved."""
        self.unstables: dict[int, bytes] = {}
        """By view, the last note on messages that others lack; it may have been lost."""
        self.notes_for: Callable[[Peer], list[bytes]] = lambda _: []
        """Returns the notes that a peer may have missed."""
        self._owed: dict[Channel, Link] = {}
        self._overdue: dict[Channel, Link] = {}
        self._owing: asyncio.TimerHandle | None = None
        self._backlog: Callable[[str], int] = getattr(transport, "backlog", lambda _: 0)

    def answer(self, name: str, note: bytes) -> None:
        """Send a note to a process that is not a member."""
        machine = self.machine
        head = frames.Head(
            machine.group.digest,
            machine.identity,
            view=machine.group.number,
            opening=machine.opening,
            mark=self.mark,
        )
        self.transport.send(name, frames.encode(head, 0, (), (), [note]))

    def owe(self, link: Link) -> None:
        """Acknowledge a peer's packets soon, together with packets if there are any by then."""
        self._owed[link.channel] = link
        if self._owing is None:
            self._owing = self.loop.call_later(ACKNOWLEDGE_SECONDS, self._pay)

    def _pay(self) -> None:
        """Acknowledge what was owed at the last call already; so busy nodes have time to answer."""
        self._owing = None
        for link in list(self._overdue.values()):
            self.transmit(link, [])
        self._overdue, self._owed = self._owed, {}
        if self._overdue:
            self._owing = self.loop.call_later(ACKNOWLEDGE_SECONDS, self._pay)

    def transmit(
        self, link: Link, packets: list[tuple[int, bytes]], notes: list[bytes] | None = None
    ) -> None:
        """Send packets with the latest acknowledgement, or the acknowledgement alone."""
        machine, channel, peer = self.machine, link.channel, link.peer
        self._owed.pop(channel, None)
        self._overdue.pop(channel, None)
        head = link.head
        if head is None or link.shown is not peer.shown:
            head = self._head(link)
        head.stable = self.stables.get(channel.view, 0)
        head.low = next(iter(channel.outbox), channel.sent + 1)
        told = notes or []
        if peer.view != machine.group.number:
            told = self.notes_for(peer) + told
        prefix, above = link.saved
        if not peer.knows_us:
            told = [*told, HELLO]
            if machine.opening > 1:  # until the peer shows that this store is no old copy
                packets = []
        for part in _frames_of(packets):
            readable = self._readable(link, part)
            self._send(peer, frames.encode(head, prefix, above, readable, told))
            told = []
        if link.timer is None and link.channel.outbox:
            link.last_progress = self.loop.time()
            self._set_timer(link)

    def _head(self, link: Link) -> frames.Head:
        """Make the head of all frames on a link, until the peer restarts."""
        machine, met = self.machine, link.peer.shown
        link.shown, link.head = (
            met,
            frames.Head(
                machine.group.digest,
                machine.identity,
                met.identity,
                link.channel.view,
                machine.opening,
                self.mark,
                met.opening,
                met.mark,
            ),
        )
        return link.head

    def _readable(self, link: Link, packets: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Spell out packets that do not come right after the one that they follow."""
        if not packets:
            return packets
        (first, parcel), last = packets[0], packets[-1][0]
        if last - first == len(packets) - 1:  # usual: only the first may need it
            if parcel[:1] == NEXT:
                packets = [(first, link.channel.whole(link.side.codec, first)), *packets[1:]]
            return packets
        made, before = [], 0
        for n, parcel in packets:
            is_cut = n != before + 1 and parcel.startswith(NEXT)
            made.append((n, link.channel.whole(link.side.codec, n) if is_cut else parcel))
            before = n
        return made

    def resend(self, link: Link, count: int | None = None) -> None:
        """Resend the oldest packets that are not acknowledged."""
        packets = link.unacknowledged(count)
        self.resent += len(packets)
        note = self.unstables.get(link.channel.view)
        self.transmit(link, packets, None if note is None else [note])

    def reconnected(self, link: Link) -> None:
        """Resend whatever the broken connection may have lost."""
        link.patience, link.last_progress = link.limits.resend_seconds, self.loop.time()
        self.resend(link)

    def stop(self, links: Iterable[Link]) -> None:
        """Stop sending, after the acknowledgements owed."""
        if self._owing is not None:
            self._owing.cancel()
        if not self.is_stopped:
            self._overdue.update(self._owed)
            self._owed = {}
            self._pay()
        self.is_stopped = True
        for link in links:
            if link.timer is not None:
                link.timer.cancel()

    def _send(self, peer: Peer, frame: bytes) -> None:
        if not self.is_stopped and self.transport.send(peer.name, frame):
            self.frames += 1

    def _set_timer(self, link: Link) -> None:
        if link.timer is not None:
            return
        delay = link.last_progress + link.patience * self.chance.uniform(1, 1.25)
        link.timer = self.loop.call_at(delay, self._check, link)

    def _check(self, link: Link) -> None:
        """Resend if the oldest packet has not been acknowledged for too long."""
        link.timer = None
        if self.is_stopped or not link.unacknowledged(1):
            return
        now = self.loop.time()
        if now >= link.last_progress + link.patience and not self._backlog(link.name):
            link.back_off()
            link.last_progress = now
            self.resend(link, RESEND_PACKETS)
        elif now >= link.last_progress + link.patience:
            link.last_progress = now  # earlier bytes are still on their way
        self._set_timer(link)
