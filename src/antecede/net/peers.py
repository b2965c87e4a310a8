"""One peer as a node sees it: when to resend, what to acknowledge, what waits for room."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from antecede.net.channels import Channel
from antecede.net.limits import Limits
from antecede.net.machine import Machine

if TYPE_CHECKING:
    import asyncio

RESEND_PACKETS: int = 64
"""How many of the oldest packets are sent again at a time; an answer sets off the next ones."""
GAP_MAX: int = 1 << 16
"""How far ahead of its first missing packet a peer may be."""


def wake_all(waiters: deque[asyncio.Future[None]]) -> None:
    """Let all who wait look again."""
    while waiters:
        waiter = waiters.popleft()
        if not waiter.done():
            waiter.set_result(None)


class Peer:
    """The volatile side of a channel; the part that must survive is in the machine."""

    def __init__(
        self, name: str, channel: Channel, limits: Limits, *, notes_down: bool = True
    ) -> None:
        self.name = name
        self.channel = channel
        self.limits = limits
        self.released = max(channel.outbox, default=0)
        """The last packet that is saved and so may leave."""
        self.saved: tuple[int, tuple[int, ...]] = (channel.prefix, tuple(sorted(channel.above)))
        """The arrivals that are saved and so may be acknowledged."""
        self.pending: dict[int, bytes] = {}
        """Packets that arrived and wait for room in the inbox."""
        self.pending_bytes = 0
        self.notes_down = notes_down
        """Whether there is a journal."""
        self.acknowledged: list[int] = []
        """Packets acknowledged since the last journal entry."""
        self.waiters: deque[asyncio.Future[None]] = deque()
        self.view = -1
        """The peer's view as it last said; -1 before that."""
        self.last_progress = 0.0
        self.patience = limits.resend_seconds
        self.timer: asyncio.TimerHandle | None = None

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
        """Return the packets that we have not, and the numbers of those that are too far ahead."""
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
        """Keep a packet until there is room in the inbox; False if too many are kept."""
        limits = self.limits
        if n in self.pending:
            return True
        if len(self.pending) >= limits.outbox_count or self.pending_bytes >= limits.outbox_bytes:
            return False
        self.pending[n] = packet
        self.pending_bytes += len(packet)
        return True

    def take_pending(self) -> tuple[int, bytes]:
        """Return the packet that has waited longest."""
        n, packet = next(iter(self.pending.items()))
        del self.pending[n]
        self.pending_bytes -= len(packet)
        return n, packet

    def acknowledge(self, machine: Machine, prefix: int, above: Iterable[int], now: float) -> None:
        """Forget packets that the peer has saved; let those who wait for room go on."""
        channel, first = self.channel, next(iter(self.channel.outbox), 0)
        limit = self.released
        if above:
            above = [n for n in above if n <= limit]
        elif not first or prefix < first:
            return
        gone = machine.acknowledged(self.name, min(prefix, limit), above)
        if not gone:
            return
        if self.notes_down:
            self.acknowledged += gone
        if first not in channel.outbox:
            # Only the oldest packet counts: later ones may pass while it is lost again and again.
            self.last_progress = now
            self.patience = self.limits.resend_seconds
        if not self.is_full:
            self.wake()

    def wake(self) -> None:
        """Let those who wait for room in the outbox look again."""
        wake_all(self.waiters)

    def unacknowledged(self, count: int | None = None) -> list[tuple[int, bytes]]:
        """Return the oldest packets that have left and are not acknowledged."""
        sent = takewhile(lambda item: item[0] <= self.released, self.channel.outbox.items())
        return list(islice(sent, count))

    def back_off(self) -> None:
        """Wait longer before the next attempt."""
        self.patience = min(2 * self.patience, self.limits.resend_seconds_max)
