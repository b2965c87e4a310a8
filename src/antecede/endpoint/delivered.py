"""Which messages are delivered, where the messages of a channel may be delivered in any order.

Every packet must be a message, so that its number is its place on the channel.
"""

from __future__ import annotations

from antecede.endpoint.saved import SAVED_MAX, Saved, in_pairs
from antecede.endpoint.view import View


class Delivered:
    """Of each channel: its beginning that is delivered without a gap, and what is beyond."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._places = [0] * view.n
        """How long the beginnings are, and the key of the last message of each."""
        self._keys = list(range(view.n))
        self._ahead: list[dict[int, int]] = [{} for _ in range(view.n)]
        """What is delivered beyond: keys by place; and all these keys."""
        self._beyond: set[int] = set()

    def add(self, source: int, place: int, key: int) -> None:
        """Note that the message at this place is delivered."""
        ahead, last = self._ahead[source], self._places[source]
        if place != last + 1:
            ahead[place] = key
            self._beyond.add(key)
            return
        while ahead and place + 1 in ahead:
            place += 1
            key = ahead.pop(place)
            self._beyond.remove(key)
        self._places[source] = place
        self._keys[source] = key

    def has(self, key: int) -> bool:
        """Tell whether a message for this process is delivered."""
        return key <= self._keys[key & self._view.low] or key in self._beyond

    def newest(self, sender: int) -> int:
        """Return the number up to which all messages of a sender are delivered."""
        return self._keys[sender] >> self._view.shift

    def ahead(self, sender: int) -> list[int]:
        """Return the numbers of those delivered beyond."""
        return [key >> self._view.shift for key in self._ahead[sender].values()]

    def keep(self, saved: Saved) -> None:
        """Keep all of it."""
        low, shift = self._view.low, self._view.shift
        self._places = saved.numbers("places", self._places)
        self._keys = saved.keys("keys", self._keys, shift)
        most = (SAVED_MAX + 1 << shift) - 1
        self._ahead = saved.each(
            "ahead", self._ahead, in_pairs, lambda one: saved.as_by_number("ahead", one, most, most)
        )
        self._beyond = {key for ahead in self._ahead for key in ahead.values()}
        for source, ahead in enumerate(self._ahead):
            first, places = self._places[source] + 2, [*ahead]
            is_right = places == sorted(places) and min(places, default=first) >= first
            is_right = is_right and all(low < k and k & low == source for k in ahead.values())
            saved.require(is_right, "ahead", ahead, "messages beyond the first gap, in order")
