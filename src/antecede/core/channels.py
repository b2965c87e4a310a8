"""Channel numbers: what was seen from each peer, and FIFO order for protocols that need it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antecede.core.messages import Packet


class Channels:
    """Numbers outgoing packets, recognises duplicates, and puts packets in channel order.

    Memory is one integer for each peer and one for each gap: numbers up to ``prefix`` have all
    been seen, those in ``ahead`` as well.
    """

    def __init__(self) -> None:
        self.sent: dict[str, int] = {}
        self.prefix: dict[str, int] = {}
        self.ahead: dict[str, set[int]] = {}
        self.parked: dict[str, dict[int, Packet]] = {}

    def next_number(self, dest: str) -> int:
        """Return the next packet number on the channel to ``dest`` and use it up."""
        self.sent[dest] = self.sent.get(dest, 0) + 1
        return self.sent[dest]

    def is_seen(self, packet: Packet) -> bool:
        """Tell whether this packet was accepted before."""
        source = packet.source
        return packet.n <= self.prefix.get(source, 0) or packet.n in self.ahead.get(source, ())

    def is_next(self, packet: Packet) -> bool:
        """Tell whether every earlier packet of the channel has been accepted."""
        return packet.n == self.prefix.get(packet.source, 0) + 1

    def accept(self, packet: Packet) -> None:
        """Remember the packet's number."""
        source = packet.source
        if not self.is_next(packet):
            self.ahead.setdefault(source, set()).add(packet.n)
            return
        prefix = packet.n
        ahead = self.ahead.get(source, set())
        while prefix + 1 in ahead:
            prefix += 1
            ahead.remove(prefix)
        self.prefix[source] = prefix
        if not ahead:
            self.ahead.pop(source, None)

    def park(self, packet: Packet) -> None:
        """Keep a packet that came before its turn on the channel."""
        self.parked.setdefault(packet.source, {})[packet.n] = packet

    def unpark(self, source: str) -> list[Packet]:
        """Return, in channel order, the parked packets whose turn has come."""
        waiting = self.parked.get(source)
        if waiting is None:
            return []
        prefix = self.prefix.get(source, 0)
        due = sorted(n for n in waiting if n <= prefix)
        packets = [waiting.pop(n) for n in due]
        if not waiting:
            del self.parked[source]
        return packets

    @property
    def parked_count(self) -> int:
        """The number of packets kept for channel order."""
        return sum(map(len, self.parked.values()))

    def forget(self, process: str) -> None:
        """Drop what is kept about a process that is gone for good."""
        for table in (self.sent, self.prefix, self.ahead, self.parked):
            table.pop(process, None)
