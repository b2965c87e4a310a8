"""Which sequence numbers of a channel have come: a few runs, not every number.

A run has a lower and an upper end and the time it last grew. Where numbers are dense, one run is
all there is. Where they have gaps for ever (a source that writes to several destinations), runs
older than the horizon collapse into ``floor``: every number up to it counts as having come.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from enum import Enum

Run = tuple[int, int, int]


class Came(Enum):
    """What is known of a number that arrives."""

    NEW = "new"
    SEEN = "seen"
    FORGOTTEN = "forgotten"


class Runs:
    """The numbers of one channel that have come."""

    __slots__ = ("_highs", "_lows", "_times", "floor")

    def __init__(self) -> None:
        self.floor: int | None = None
        self._lows: list[int] = []
        self._highs: list[int] = []
        self._times: list[int] = []

    def add(self, number: int, now: int) -> Came:
        """Note a number; say whether it is new."""
        highs = self._highs
        if highs and number == highs[-1] + 1:
            highs[-1], self._times[-1] = number, now
            return Came.NEW
        at = bisect_right(self._lows, number)
        if at and number <= highs[at - 1]:
            return Came.SEEN
        if self.floor is not None and number <= self.floor:
            return Came.FORGOTTEN
        self._insert(at, number, number, now)
        return Came.NEW

    def is_new(self, low: int, high: int) -> bool:
        """Return whether none of the numbers from ``low`` to ``high`` has come."""
        at = bisect_right(self._lows, high)
        if at and self._highs[at - 1] >= low:
            return False
        return self.floor is None or low > self.floor

    def add_run(self, low: int, high: int, now: int) -> None:
        """Note all numbers from ``low`` to ``high``, none of which has come before."""
        self._insert(bisect_right(self._lows, low), low, high, now)

    def _insert(self, at: int, low: int, high: int, now: int) -> None:
        lows, highs, times = self._lows, self._highs, self._times
        joins_before = at > 0 and highs[at - 1] == low - 1
        joins_after = at < len(lows) and lows[at] == high + 1
        if joins_before and joins_after:
            highs[at - 1], times[at - 1] = highs[at], max(now, times[at])
            del lows[at], highs[at], times[at]
        elif joins_before:
            highs[at - 1], times[at - 1] = high, now
        elif joins_after:
            lows[at], times[at] = low, max(now, times[at])
        else:
            lows.insert(at, low)
            highs.insert(at, high)
            times.insert(at, now)

    def forget(self, before: int) -> None:
        """Collapse what last grew before this time, if there is more than one run."""
        old = [at for at, time in enumerate(self._times[:-1]) if time < before]
        if not old:
            return
        last = old[-1]
        self.floor = self._highs[last]
        del self._lows[: last + 1], self._highs[: last + 1], self._times[: last + 1]

    def __iter__(self) -> Iterator[Run]:
        return iter(zip(self._lows, self._highs, self._times, strict=True))

    def __len__(self) -> int:
        return len(self._lows)
