"""Which messages are delivered, where the messages of a channel may be delivered in any order.

Every packet must be a message, so that its number is its place on the channel.
"""

from __future__ import annotations

from antecede.endpoint.fields import SAVED_MAX, Fields
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

    def state(self) -> dict[str, object]:
        """Return it by field names."""
        ahead = [sorted(map(list, numbers.items())) for numbers in self._ahead]
        return {"places": list(self._places), "keys": list(self._keys), "ahead": ahead}

    def load(self, state: Fields) -> None:
        """Take over what :meth:`state` returned."""
        view = self._view
        self._places = state.numbers("places", view.n)
        self._keys = state.keys("keys", view.n, view.shift)
        for source, pairs in enumerate(state.list("ahead", view.n)):
            one = Fields("ahead", {"ahead": pairs})
            place = self._places[source] + 1
            for number, key in one.pairs("ahead", most=(SAVED_MAX + 1 << view.shift) - 1):
                if number <= place or key <= view.low or key & view.low != source:
                    raise state.wrong("ahead", pairs, "messages beyond the first gap, in order")
                place = number
                self._ahead[source][number] = key
                self._beyond.add(key)
        state.end()
