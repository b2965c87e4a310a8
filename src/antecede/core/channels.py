"""Packet numbers per channel: which have arrived, and FIFO order for protocols that need it."""

from bisect import bisect_right

from antecede.core.messages import Packet


class Channels:
    """Numbers outgoing packets, recognises duplicates, and puts packets in channel order.

    It keeps one integer per peer and one interval per gap: all numbers up to ``prefix`` have
    arrived, and so have those in the intervals of ``ahead``, which are sorted and do not touch.
    """

    def __init__(self) -> None:
        self.sent: dict[str, int] = {}
        self.prefix: dict[str, int] = {}
        self.ahead: dict[str, list[tuple[int, int]]] = {}
        self.parked: dict[str, dict[int, Packet]] = {}

    def next_number(self, dest: str) -> int:
        """Return the next packet number on the channel to ``dest`` and count it."""
        self.sent[dest] = self.sent.get(dest, 0) + 1
        return self.sent[dest]

    def is_seen(self, packet: Packet) -> bool:
        """Tell whether this packet was accepted before."""
        if packet.n <= self.prefix.get(packet.source, 0):
            return True
        ahead = self.ahead.get(packet.source, [])
        place = bisect_right(ahead, packet.n, key=lambda interval: interval[0]) - 1
        return place >= 0 and packet.n <= ahead[place][1]

    def is_next(self, packet: Packet) -> bool:
        """Tell whether every earlier packet of the channel has been accepted."""
        return packet.n == self.prefix.get(packet.source, 0) + 1

    def accept(self, packet: Packet) -> None:
        """Remember the packet's number."""
        source, first, last = packet.source, packet.n, packet.n
        ahead = self.ahead.get(source, [])
        place = bisect_right(ahead, packet.n, key=lambda interval: interval[0])
        if place < len(ahead) and ahead[place][0] == last + 1:
            last = ahead.pop(place)[1]
        if place > 0 and ahead[place - 1][1] == first - 1:
            place -= 1
            first = ahead.pop(place)[0]
        if first == self.prefix.get(source, 0) + 1:
            self.prefix[source] = last
        else:
            ahead.insert(place, (first, last))
        if ahead:
            self.ahead[source] = ahead
        else:
            self.ahead.pop(source, None)

    def park(self, packet: Packet) -> None:
        """Keep a packet that arrived before its turn on the channel."""
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

    def forget(self, process: str) -> None:
        """Drop what is kept about a process that left, except what identifies its duplicates."""
        self.sent.pop(process, None)
        self.parked.pop(process, None)
