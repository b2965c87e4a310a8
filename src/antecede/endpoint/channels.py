"""Packet numbers per channel: which were used, and which have arrived."""

from __future__ import annotations


class Channels:
    """Of each source all packets up to ``prefix`` have arrived, and those in ``ahead``."""

    def __init__(self, n: int) -> None:
        self.sent = [0] * n
        self.prefix = [0] * n
        self.ahead: list[set[int]] = [set() for _ in range(n)]

    def is_seen(self, source: int, n: int) -> bool:
        """Tell whether this packet has arrived before."""
        return n <= self.prefix[source] or n in self.ahead[source]

    def accept(self, source: int, n: int) -> None:
        """Remember that a packet has arrived."""
        ahead, prefix = self.ahead[source], self.prefix[source]
        if n != prefix + 1:
            ahead.add(n)
            return
        while ahead and n + 1 in ahead:
            n += 1
            ahead.remove(n)
        self.prefix[source] = n
