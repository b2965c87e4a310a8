"""The holding buffer: messages held back, indexed by the first thing that each waits for."""

import heapq
from collections.abc import Hashable, Iterator

from antecede.core.messages import MessageId, Need, Packet
from antecede.core.tally import Tally


class HoldingBuffer:
    """Packets that arrived and are not delivered, by arrival number.

    A packet is either *ready* or registered under exactly one unmet need. When a need is met, only
    the packets registered at or below the level reached wake up; no others are looked at. Of the
    ready packets the earliest arrival goes first, so runs are deterministic.
    """

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self.packets: dict[int, Packet] = {}
        self.arrivals = 0
        self.ready: list[int] = []
        """The arrival numbers of ready packets, a heap."""
        self.waiting: dict[Hashable, list[tuple[int, int]]] = {}
        """The other packets, by the place at which each waits: heaps of (level, arrival)."""
        self._messages: dict[MessageId | None, int] | None = None

    def __len__(self) -> int:
        return len(self.packets)

    def has(self, message: MessageId | None) -> bool:
        """Tell whether this message is held; the index is made at the first question."""
        if self._messages is None:
            self._messages = {}
            for packet in self.packets.values():
                self._count(packet, 1)
        return message in self._messages

    def take_in(self, packet: Packet) -> int:
        """Hold a packet and return its arrival number."""
        self.arrivals = arrival = self.arrivals + 1
        self.packets[arrival] = packet
        self._tally.add(packet)
        if self._messages is not None:
            self._count(packet, 1)
        return arrival

    def put_back(self, arrival: int, packet: Packet) -> None:
        """Hold a packet under the number it had before."""
        self.packets[arrival] = packet
        self._tally.add(packet)
        if self._messages is not None:
            self._count(packet, 1)

    def take_out(self, arrival: int) -> Packet:
        """Stop holding a packet that is neither ready nor registered."""
        packet = self.packets.pop(arrival)
        self._tally.remove(packet)
        if self._messages is not None:
            self._count(packet, -1)
        return packet

    def _count(self, packet: Packet, change: int) -> None:
        """Count the packets that bring a message: two may bring the same."""
        assert self._messages is not None
        count = self._messages.pop(packet.message, 0) + change
        if count:
            self._messages[packet.message] = count

    def file(self, arrival: int, need: Need | None) -> None:
        """Register a held packet under what it waits for, or as ready."""
        if need is None:
            heapq.heappush(self.ready, arrival)
        else:
            self.file_at(arrival, (need.process, need.unit, need.scope), need.number)

    def file_at(self, arrival: int, place: Hashable, level: int) -> None:
        """Register a held packet at a place; it wakes when the level there is reached."""
        queue = self.waiting.get(place)
        if queue is None:
            self.waiting[place] = [(level, arrival)]
        else:
            heapq.heappush(queue, (level, arrival))

    def wake(self, reached: Need) -> list[int]:
        """Take out, in order of arrival, the packets whose registered need is now met."""
        return self.wake_at((reached.process, reached.unit, reached.scope), reached.number)

    def wake_at(self, place: Hashable, level: int) -> list[int]:
        """Take out, in order of arrival, what waits at a place for this level or a lower one."""
        queue = self.waiting.get(place)
        if queue is None:
            return []
        woken: list[int] = []
        while queue[0][0] <= level:
            woken.append(heapq.heappop(queue)[1])
            if not queue:
                del self.waiting[place]
                break
        woken.sort()
        return woken

    def wake_all(self, process: str) -> list[int]:
        """Take out the packets that wait for anything of ``process``."""
        places = [key for key in self.waiting if isinstance(key, tuple) and key[0] == process]
        return sorted(arrival for key in places for _, arrival in self.waiting.pop(key))

    def wake_everything(self) -> list[int]:
        """Take out every packet, ready ones too, to file it again."""
        self.ready.clear()
        self.waiting.clear()
        return sorted(self.packets)

    def pop_ready(self, source: str | None = None) -> tuple[int, Packet] | None:
        """Take out the ready packet that arrived first (from ``source``, if one is named)."""
        if source is None:
            if not self.ready:
                return None
            arrival = heapq.heappop(self.ready)
        else:
            mine = [a for a in self.ready if _sender(self.packets[a]) == source]
            if not mine:
                return None
            arrival = min(mine)
            self.ready.remove(arrival)
            heapq.heapify(self.ready)
        return arrival, self.take_out(arrival)

    def __iter__(self) -> Iterator[tuple[int, Packet]]:
        """Iterate over the packets held, earliest arrival first."""
        return iter(sorted(self.packets.items()))


def _sender(packet: Packet) -> str:
    return packet.source if packet.message is None else packet.message.sender
