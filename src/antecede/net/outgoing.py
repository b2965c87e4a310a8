"""What leaves a node: frames, and packets again and again until they are acknowledged."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

from antecede.net import frames
from antecede.net.machine import Machine
from antecede.net.peers import RESEND_PACKETS, Peer
from antecede.net.runs import NEXT
from antecede.net.transports import Transport

FRAME_BYTES: Final = 1 << 18
"""Packets are packed into frames of about this size."""
ACKNOWLEDGE_SECONDS: Final = 0.003
"""For how long an acknowledgement waits for packets to travel with, and at most twice that."""


class Outgoing:
    """Sends frames to peers, and again after a while; it never sends what is not saved."""

    def __init__(self, machine: Machine, transport: Transport, chance: random.Random) -> None:
        self.machine = machine
        self.transport = transport
        self.chance = chance
        self.loop = asyncio.get_running_loop()
        self.is_stopped = False
        self.frames = self.resent = 0
        self.view = self.stable = 0
        """Our view, and our message up to which all have all of ours, as far as they are saved."""
        self.notes_for: Callable[[Peer], list[bytes]] = lambda _: []
        """Returns what a peer with another view has missed."""
        self._owed: dict[str, Peer] = {}
        self._overdue: dict[str, Peer] = {}
        self._owing: asyncio.TimerHandle | None = None

    def answer(self, name: str, note: bytes) -> None:
        """Send a note to a process that is not a member."""
        machine = self.machine
        head = frames.Head(machine.group.digest, machine.identity, b"", self.view)
        self.transport.send(name, frames.encode(head, 0, (), (), [note]))

    def owe(self, peer: Peer) -> None:
        """Acknowledge soon what a peer has sent, with packets if there are any by then."""
        self._owed[peer.name] = peer
        if self._owing is None:
            self._owing = self.loop.call_later(ACKNOWLEDGE_SECONDS, self._pay)

    def _pay(self) -> None:
        """Acknowledge what was owed the last time already; so busy nodes have time to answer."""
        self._owing = None
        for peer in list(self._overdue.values()):
            self.transmit(peer, [])
        self._overdue, self._owed = self._owed, {}
        if self._overdue:
            self._owing = self.loop.call_later(ACKNOWLEDGE_SECONDS, self._pay)

    def transmit(
        self, peer: Peer, packets: list[tuple[int, bytes]], notes: list[bytes] | None = None
    ) -> None:
        """Send packets with the latest acknowledgement; without packets, only that."""
        machine = self.machine
        self._owed.pop(peer.name, None)
        self._overdue.pop(peer.name, None)
        head = frames.Head(
            machine.group.digest, machine.identity, peer.channel.identity, self.view, self.stable
        )
        told = notes or []
        if peer.view != self.view:
            told = self.notes_for(peer) + told
        prefix, above = peer.saved
        begin = size = 0
        for end, (_, packet) in enumerate(packets):
            if size and size + len(packet) > FRAME_BYTES:
                part = self._readable(peer, packets[begin:end])
                self._send(peer, frames.encode(head, prefix, above, part, told))
                begin, size, told = end, 0, []
            size += len(packet)
        part = self._readable(peer, packets[begin:] if begin else packets)
        self._send(peer, frames.encode(head, prefix, above, part, told))
        if packets and peer.timer is None:
            peer.last_progress = self.loop.time()
            self._set_timer(peer)

    def _readable(self, peer: Peer, packets: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Spell out those packets of a frame that do not stand behind the one they follow."""
        if not packets:
            return packets
        first, last = packets[0][0], packets[-1][0]
        if last - first == len(packets) - 1 and not packets[0][1].startswith(NEXT):
            return packets
        made, before = [], 0
        for n, parcel in packets:
            is_cut = n != before + 1 and parcel.startswith(NEXT)
            made.append((n, self.machine.whole(peer.channel, n) if is_cut else parcel))
            before = n
        return made

    def resend(self, peer: Peer, count: int | None = None) -> None:
        """Send the oldest packets again that are not acknowledged."""
        packets = peer.unacknowledged(count)
        self.resent += len(packets)
        self.transmit(peer, packets)

    def reconnected(self, peer: Peer) -> None:
        """Send again whatever the broken connection may have lost."""
        peer.patience, peer.last_progress = peer.limits.resend_seconds, self.loop.time()
        self.resend(peer)

    def stop(self, peers: list[Peer]) -> None:
        """Send nothing more."""
        if self._owing is not None:
            self._owing.cancel()
        if not self.is_stopped:
            self._overdue.update(self._owed)
            self._owed = {}
            self._pay()
        self.is_stopped = True
        for peer in peers:
            if peer.timer is not None:
                peer.timer.cancel()

    def _send(self, peer: Peer, frame: bytes) -> None:
        if not self.is_stopped and self.transport.send(peer.name, frame):
            self.frames += 1

    def _set_timer(self, peer: Peer) -> None:
        if peer.timer is not None:
            return
        delay = peer.last_progress + peer.patience * self.chance.uniform(1, 1.25)
        peer.timer = self.loop.call_at(delay, self._check, peer)

    def _check(self, peer: Peer) -> None:
        """Send again if the oldest packet has not been acknowledged for too long."""
        peer.timer = None
        if self.is_stopped or not peer.unacknowledged(1):
            return
        if self.loop.time() >= peer.last_progress + peer.patience:
            peer.back_off()
            peer.last_progress = self.loop.time()
            self.resend(peer, RESEND_PACKETS)
        self._set_timer(peer)
