"""Packet numbers per channel: which have arrived, and FIFO order for protocols that need it."""

from bisect import bisect_left
from typing import Any, Generic, TypeVar, cast

from antecede.core.messages import Packet
from antecede.core.state import ChannelsState
from antecede.core.tally import Tally

K = TypeVar("K", str, int)
"""What stands for a peer: its name, or its number in a roster."""


class Channels(Generic[K]):
    """Numbers outgoing packets, recognises duplicates, and puts packets in channel order.

    It keeps one integer per peer and one interval per gap: all numbers up to ``prefix`` have
    arrived, and so have those in the intervals of ``ahead``, which are sorted and do not touch.
    """

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self.sent: dict[K, int] = {}
        self.prefix: dict[K, int] = {}
        self.ahead: dict[K, list[tuple[int, int]]] = {}
        self.parked: dict[K, dict[int, Packet]] = {}

    def next_number(self, dest: K) -> int:
        """Return the next packet number on the channel to ``dest`` and count it."""
        self.sent[dest] = number = self.sent.get(dest, 0) + 1
        return number

    def is_seen(self, source: K, n: int) -> bool:
        """Tell whether this packet was accepted before."""
        if n <= self.prefix.get(source, 0):
            return True
        ahead = self.ahead.get(source)
        if ahead is None:
            return False
        place = bisect_left(ahead, (n + 1, 0)) - 1
        return place >= 0 and n <= ahead[place][1]

    def is_next(self, source: K, n: int) -> bool:
        """Tell whether every earlier packet of the channel has been accepted."""
        return n == self.prefix.get(source, 0) + 1

    def accept(self, source: K, n: int) -> None:
        """Remember a packet's number."""
        prefix = self.prefix.get(source, 0)
        ahead = self.ahead.get(source)
        if ahead is None:
            if n == prefix + 1:
                self.prefix[source] = n
            else:
                self.ahead[source] = [(n, n)]
            return
        first = last = n
        place = bisect_left(ahead, (n + 1, 0))  # those before it begin at n or earlier
        if place < len(ahead) and ahead[place][0] == last + 1:
            last = ahead.pop(place)[1]
        if place > 0 and ahead[place - 1][1] == first - 1:
            place -= 1
            first = ahead.pop(place)[0]
        if first == prefix + 1:
            self.prefix[source] = last
        else:
            ahead.insert(place, (first, last))
        if not ahead:
            del self.ahead[source]

    def park(self, source: K, packet: Packet) -> None:
        """Keep a packet that arrived before its turn on the channel."""
        self.parked.setdefault(source, {})[packet.n] = packet
        self._tally.add(packet)

    def unpark(self, source: K, n: int) -> list[Packet]:
        """Return, in channel order, the parked packets whose turn has come with this one."""
        waiting = self.parked.get(source)
        if waiting is None:
            return []
        packets: list[Packet] = []
        while (packet := waiting.pop(n + 1, None)) is not None:
            self._tally.remove(packet)
            packets.append(packet)
            n += 1
        if not waiting:
            del self.parked[source]
        return packets

    def beside(self, source: K, n: int) -> tuple[Packet | None, Packet | None]:
        """Return the parked packets that come next before and after a number, if any."""
        parked, ahead = self.parked.get(source, {}), self.ahead.get(source, [])
        place = bisect_left(ahead, (n + 1, 0))
        before = parked.get(ahead[place - 1][1]) if place else None
        return before, parked.get(ahead[place][0]) if place < len(ahead) else None

    def forget(self, process: K) -> None:
        """Drop what is kept about a process that left, except what identifies its duplicates."""
        self.sent.pop(process, None)
        self.drop_parked(process)

    def drop_parked(self, process: K) -> None:
        """Drop the packets of a process that arrived before their turn."""
        for packet in self.parked.pop(process, {}).values():
            self._tally.remove(packet)

    def state(self) -> ChannelsState:
        """Return the numbers, as they are."""
        return cast(
            "ChannelsState",
            {"sent": self.sent, "prefix": self.prefix, "ahead": self.ahead, "parked": self.parked},
        )

    def load(self, state: ChannelsState) -> None:
        """Take over what :meth:`state` returned."""
        known = cast("dict[str, dict[K, Any]]", state)
        self.sent, self.prefix = known["sent"], known["prefix"]
        self.ahead, self.parked = known["ahead"], known["parked"]
        for packets in self.parked.values():
            for packet in packets.values():
                self._tally.add(packet)
