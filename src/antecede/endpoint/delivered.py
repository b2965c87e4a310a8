"""Rules for protocols that may deliver the messages of a channel in any order.

Every packet must be a message, so that its number is its place on the channel.
"""

from antecede.endpoint.messages import FREE, Packet
from antecede.endpoint.rules import Rules, View
from antecede.endpoint.saved import SAVED_MAX, Saved, in_pairs


class Unordered(Rules):
    """Of each channel: its beginning that is delivered without a gap, and what is beyond."""

    def __init__(self, view: View, me: int) -> None:
        super().__init__(view, me)
        self._places = [0] * view.n
        """How long the beginnings are, and the key of the last message of each."""
        self._keys = list(range(view.n))
        self._ahead: list[dict[int, int]] = [{} for _ in range(view.n)]
        """What is delivered beyond: keys by place; and all these keys."""
        self._beyond: set[int] = set()

    def missing(self, packet: Packet) -> list[int]:
        """RCV(1): the needs that are not delivered; the order of a channel tells nothing."""
        return [key for key in self.needs(packet) if not self.is_delivered(key)]

    def blocker(self, packet: Packet) -> int:
        return next(iter(self.missing(packet)), FREE)

    def is_delivered(self, key: int) -> bool:
        """Tell whether a message for this process is delivered."""
        return key <= self._keys[key & self.low] or key in self._beyond

    def deliver(self, packet: Packet) -> int:
        """RCV(2): note that a message is delivered; return its key."""
        source, place, made = packet.source_no, packet.n, self.key(packet)
        self.reached[source] = max(made, self.reached[source])
        ahead, key = self._ahead[source], made
        if place != self._places[source] + 1:
            ahead[place] = key
            self._beyond.add(key)
            return made
        while place + 1 in ahead:
            place += 1
            key = ahead.pop(place)
            self._beyond.remove(key)
        self._places[source], self._keys[source] = place, key
        return made

    def newest(self, sender: int) -> int:
        return self._keys[sender] >> self.shift

    def ahead(self, sender: int) -> list[int]:
        return [key >> self.shift for key in self._ahead[sender].values()]

    def keep_delivered(self, saved: Saved) -> None:
        """Keep what is delivered."""
        low, most = self.low, (SAVED_MAX + 1 << self.shift) - 1
        self._places = saved.numbers("places", self._places)
        self._keys = saved.keys("keys", self._keys, self.shift)
        self._ahead = saved.each(
            "ahead", self._ahead, in_pairs, lambda one: saved.as_by_number("ahead", one, most, most)
        )
        self._beyond = {key for ahead in self._ahead for key in ahead.values()}
        for source, ahead in enumerate(self._ahead):
            first, places = self._places[source] + 2, [*ahead]
            is_right = places == sorted(places) and min(places, default=first) >= first
            is_right = is_right and all(low < k and k & low == source for k in ahead.values())
            saved.require(is_right, "ahead", ahead, "messages beyond the first gap, in order")
