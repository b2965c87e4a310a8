"""How much is held, in all and of each peer, and whether there is room for more.

Half of a limit is divided equally among the peers: nobody can use up another's part of it. The
other half goes to whoever comes first. So one peer cannot keep out the packets of all others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.errors import HoldFullError

if TYPE_CHECKING:
    from antecede.core.endpoint import Endpoint
    from antecede.core.messages import Packet


class Tally:
    """Counts the packets held, and the bytes of their payloads, by source."""

    __slots__ = ("bytes", "bytes_of", "count", "counts_of")

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self.counts_of: dict[str, int] = {}
        self.bytes_of: dict[str, int] = {}

    def add(self, packet: Packet) -> None:
        """Count a packet that is held from now on."""
        source, size = packet.source, len(packet.payload)
        self.count += 1
        self.bytes += size
        if source in self.counts_of:
            self.counts_of[source] += 1
            self.bytes_of[source] += size
        else:
            self.counts_of[source] = 1
            self.bytes_of[source] = size

    def remove(self, packet: Packet) -> None:
        """Count a packet that is no longer held."""
        source, size = packet.source, len(packet.payload)
        self.count -= 1
        self.bytes -= size
        count = self.counts_of[source] - 1
        if count:
            self.counts_of[source] = count
            self.bytes_of[source] -= size
        else:
            del self.counts_of[source], self.bytes_of[source]

    def is_low(self, end: Endpoint, packet: Packet) -> bool:
        """Tell whether less than half of every limit is in use, so that anything may be held."""
        size = 2 * (self.bytes + len(packet.payload))
        return 2 * self.count + 2 < end.held_max and size <= end.held_bytes_max

    def has_room(self, end: Endpoint, packet: Packet, *, is_blocked: bool) -> bool:
        """Tell whether a packet that must be held fits under the limits.

        In pull mode the last place is reserved for a packet that can be taken, and so is half of
        the bytes: if blocked packets filled the buffer, what they wait for would be refused and
        nothing could move on.
        """
        source, peers = packet.source, len(end.members) - 1
        if end.pull and is_blocked:
            places, limit = end.held_max - 1, end.held_bytes_max // 2
        else:
            places, limit = end.held_max, end.held_bytes_max
        if not fits(places, self.counts_of, 1, source, peers):
            return False
        if end.pull and not is_blocked and not end._hold.ready:
            return True
        return fits(limit, self.bytes_of, len(packet.payload), source, peers)

    def full(self, end: Endpoint, packet: Packet) -> HoldFullError:
        """Return the error for a packet that does not fit."""
        mine, size = self.counts_of.get(packet.source, 0), len(packet.payload)
        return HoldFullError(
            f"packet {packet.n} from {packet.source!r} ({size} bytes) must be held, but "
            f"{self.count} ({self.bytes} bytes) are held already, {mine} of them from "
            f"{packet.source!r} (held_max={end.held_max}, held_bytes_max={end.held_bytes_max}); "
            "offer it again after others have arrived",
            held=self.count,
            held_max=end.held_max,
        )


def fits(limit: int, used: dict[str, int], more: int, source: str, peers: int) -> bool:
    """Tell whether ``more`` of ``source`` fit under a limit, and leave the others their shares."""
    total = sum(used.values()) + more
    if total > limit:
        return False
    share = limit // (2 * max(peers, 1))
    if used.get(source, 0) + more <= share:
        return True
    others = [amount for name, amount in used.items() if name != source]
    kept = share * max(peers - 1 - len(others), 0)
    return total + kept + sum(max(share - amount, 0) for amount in others) <= limit
