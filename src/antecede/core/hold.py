"""The holding buffer: messages held back, indexed by the first thing that each waits for."""

import heapq
from collections.abc import Iterator

from antecede.core.messages import MessageId, Need, Packet

Key = tuple[str, str, str]


class HoldingBuffer:
    """Packets that arrived and are not delivered, by arrival number.

    A packet is either *ready* or registered under exactly one unmet need. When a need is met, only
    the packets registered at or below the level reached wake up; no others are looked at. Of the
    ready packets the earliest arrival goes first, so runs are deterministic.
    """

    def __init__(self) -> None:
        self.packets: dict[int, Packet] = {}
        self.arrivals = 0
        self._ready: list[int] = []
        self._waiting: dict[Key, list[tuple[int, int]]] = {}

    def __len__(self) -> int:
        return len(self.packets)

    def has(self, message: MessageId | None) -> bool:
        """Tell whether this message is held."""
        return any(packet.message == message for packet in self.packets.values())

    def take_in(self, packet: Packet) -> int:
        """Hold a packet and return its arrival number."""
        self.arrivals += 1
        self.packets[self.arrivals] = packet
        return self.arrivals

    def file(self, arrival: int, need: Need | None) -> None:
        """Register a held packet under what it waits for, or as ready."""
        if need is None:
            heapq.heappush(self._ready, arrival)
        else:
            key = (need.process, need.unit, need.scope)
            heapq.heappush(self._waiting.setdefault(key, []), (need.number, arrival))

    def wake(self, reached: Need) -> list[int]:
        """Take out, in order of arrival, the packets whose registered need is now met."""
        key = (reached.process, reached.unit, reached.scope)
        queue = self._waiting.get(key)
        if queue is None:
            return []
        woken = []
        while queue and queue[0][0] <= reached.number:
            woken.append(heapq.heappop(queue)[1])
        if not queue:
            del self._waiting[key]
        return sorted(woken)

    def wake_all(self, process: str) -> list[int]:
        """Take out the packets that wait for anything of ``process``."""
        keys = [key for key in self._waiting if key[0] == process]
        return sorted(arrival for key in keys for _, arrival in self._waiting.pop(key))

    def pop_ready(self, source: str | None = None) -> tuple[int, Packet] | None:
        """Take out the ready packet that arrived first (from ``source``, if one is named)."""
        if source is None:
            if not self._ready:
                return None
            arrival = heapq.heappop(self._ready)
        else:
            mine = [a for a in self._ready if _sender(self.packets[a]) == source]
            if not mine:
                return None
            arrival = min(mine)
            self._ready.remove(arrival)
            heapq.heapify(self._ready)
        return arrival, self.packets.pop(arrival)

    def __iter__(self) -> Iterator[tuple[int, Packet]]:
        """Iterate over the packets held, earliest arrival first."""
        return iter(sorted(self.packets.items()))


def _sender(packet: Packet) -> str:
    return packet.source if packet.message is None else packet.message.sender
