"""What has arrived: packet numbers per channel, and the packets that wait, within limits.

Half of a limit is divided equally among the peers: nobody can use up another's share. The other
half is first come, first served. So one peer cannot keep out the packets of all others.
"""

from heapq import heapify, heappop, heappush

from antecede.endpoint.messages import FREE, Packet
from antecede.errors import HoldFullError


class Channels:
    """Packet numbers: from each source, all up to ``prefix`` and all in ``ahead`` have arrived."""

    def __init__(self, n: int) -> None:
        self.sent = [0] * n
        self.prefix = [0] * n
        self.ahead: list[set[int]] = [set()] * n
        """Sources without gaps share one empty set, which is replaced before anything is added."""

    def is_seen(self, source: int, n: int) -> bool:
        """Return whether this packet has arrived before."""
        return n <= self.prefix[source] or n in self.ahead[source]

    def accept(self, source: int, n: int) -> None:
        """Remember that a packet has arrived."""
        ahead, prefix = self.ahead[source], self.prefix[source]
        if n != prefix + 1:
            if not ahead:
                self.ahead[source] = ahead = set()
            ahead.add(n)
            return
        while ahead and n + 1 in ahead:
            n += 1
            ahead.remove(n)
        self.prefix[source] = n


class Hold:
    """Packets that wait, by what each waits for; of the ready packets, the oldest goes first."""

    def __init__(self, n: int, low: int, count_max: int, bytes_max: int, *, pull: bool) -> None:
        self.count_max, self.bytes_max = count_max, bytes_max
        self.count = self.bytes = 0
        """How many packets are held, and the bytes of their payloads; then both by source."""
        self.counts, self.sizes = [0] * n, [0] * n
        self.packets: dict[int, Packet] = {}
        self.arrivals = 0
        self.ready: list[int] = []
        """A heap of arrivals that may be delivered; control packets have a heap of their own."""
        self.controls: list[int] = []
        self.waiting: dict[int, list[tuple[int, int]]] = {}
        """Other arrivals, by the place where each waits: heaps of (key, arrival)."""
        self._low, self._pull = low, pull

    def has_plenty(self, count: int, size: int) -> bool:
        """Return whether packets of this count and size certainly fit, whoever sent them."""
        has_places = 2 * (self.count + count) < self.count_max
        return has_places and 2 * (self.bytes + size) <= self.bytes_max

    def check_room(self, packet: Packet, size: int, *, is_blocked: bool, count: int = 1) -> None:
        """Refuse a packet that must be held if there is no room for it."""
        if self.has_plenty(count, size):
            return
        places, limit = self.count_max, self.bytes_max
        if self._pull and is_blocked:
            # Leave room for a packet that can be taken: all the others may wait for it.
            places, limit = places - 1, limit // 2
        source = packet.source_no
        is_alone = self._pull and not is_blocked and not self.ready
        if _fits(places, self.counts, count, source) and (
            is_alone or _fits(limit, self.sizes, size, source)
        ):
            return
        many = f"brings {count} messages, {size} bytes, which"
        brought = many if count > 1 else f"({size} bytes)"
        msg = (
            f"packet {packet.n} from {packet.source!r} {brought} must be held, but "
            f"{self.count} ({self.bytes} bytes) are held already, {self.counts[source]} of them "
            f"from {packet.source!r} (held_max={self.count_max}, held_bytes_max={self.bytes_max}); "
            "offer it again after others have arrived"
        )
        raise HoldFullError(msg, held=self.count, held_max=self.count_max)

    def add(self, packet: Packet, need: int) -> None:
        """Hold a packet that waits for ``need``."""
        self.arrivals = arrival = self.arrivals + 1
        self.put_back(arrival, packet)
        self.file(arrival, need)

    def put_back(self, arrival: int, packet: Packet) -> None:
        """Hold a packet under the number that it had before; :meth:`file` must follow."""
        self.packets[arrival] = packet
        self.count_in(packet)

    def count_in(self, packet: Packet, sign: int = 1) -> None:
        """Count a packet against the limits; with sign -1, stop counting it."""
        size, source = sign * len(packet.content.payload), packet.source_no
        self.count += sign
        self.bytes += size
        self.counts[source] += sign
        self.sizes[source] += size

    def file(self, arrival: int, need: int) -> None:
        """Note what a held packet waits for."""
        if need == FREE:
            heappush(self.ready if self.packets[arrival].content.seq else self.controls, arrival)
            return
        place = need & self._low
        heap = self.waiting.get(place)
        if heap is None:
            self.waiting[place] = [(need, arrival)]
        else:
            heappush(heap, (need, arrival))

    def wake(self, place: int, reached: int) -> list[int]:
        """Return the arrivals, in order, that waited at a place for keys up to ``reached``."""
        heap = self.waiting[place]
        woken: list[int] = []
        while heap and heap[0][0] <= reached:
            woken.append(heappop(heap)[1])
        if not heap:
            del self.waiting[place]
        woken.sort()
        return woken

    def wake_for(self, key: int) -> list[int]:
        """Return the arrivals, in order, that waited for exactly this key."""
        place = key & self._low
        if self.waiting.get(place, [(key + 1, 0)])[0][0] > key:
            return []
        heap = self.waiting.pop(place)
        rest = [pair for pair in heap if pair[0] != key]
        if rest:
            heapify(rest)
            self.waiting[place] = rest
        return sorted([arrival for need, arrival in heap if need == key])

    def wake_all(self) -> list[int]:
        """Return all arrivals, in order, to be filed again."""
        self.waiting.clear()
        self.ready.clear()
        self.controls.clear()
        return sorted(self.packets)

    def take(self, arrival: int) -> Packet:
        """Stop holding a packet that is not filed."""
        packet = self.packets.pop(arrival)
        size, source = len(packet.content.payload), packet.source_no
        self.count -= 1
        self.bytes -= size
        self.counts[source] -= 1
        self.sizes[source] -= size
        return packet

    def pop_ready(self, sender: int | None = None) -> int:
        """Unfile and return the oldest ready arrival (from ``sender``, if given), or 0."""
        if sender is None:
            return heappop(self.ready) if self.ready else 0
        first = min([a for a in self.ready if self.packets[a].content.sender == sender], default=0)
        if first:
            self.ready.remove(first)
            heapify(self.ready)
        return first


def _fits(limit: int, used: list[int], more: int, source: int) -> bool:
    """Return whether ``more`` from a source fit and leave the other peers their shares."""
    total, peers = sum(used) + more, max(len(used) - 1, 1)  # we send nothing to ourselves
    if total > limit:
        return False
    share = limit // (2 * peers)
    if used[source] + more <= share:
        return True
    kept = sum([share - amount for amount in used if amount < share])
    kept -= share + max(share - used[source], 0)  # ours, and the source's own
    return total + kept <= limit
