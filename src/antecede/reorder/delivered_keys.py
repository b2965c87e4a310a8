"""Keys of delivered messages, remembered for a given time.

Keys are 64-bit hashes. Each batch adds one generation; generations older than the horizon are
forgotten. Lookups use a few sorted arrays that double in size, so that adding stays cheap.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from antecede.arrays import Flags, Ints


class Generation(NamedTuple):
    """The keys delivered in one batch, or in several that were merged; ``time`` is the latest."""

    time: int
    keys: Ints


class Memory:
    """The keys delivered within the horizon, and older ones that held messages still name."""

    def __init__(self) -> None:
        self.generations: dict[int, Generation] = {}
        self.pinned: set[int] = set()
        self._levels: list[Ints] = []

    def __len__(self) -> int:
        return sum(generation.keys.size for generation in self.generations.values())

    def has(self, keys: Ints) -> Flags:
        """Return for each key whether it was delivered."""
        # Sorted lookups are fast, because neighbours are near each other in memory.
        order = np.argsort(keys)
        wanted = keys[order]
        is_here = np.zeros(keys.size, np.bool_)
        for level in [*self._levels, np.sort(np.fromiter(self.pinned, np.int64))]:
            if level.size:
                at = np.searchsorted(level, wanted)
                at[at == level.size] = 0
                is_here |= level[at] == wanted
        found = np.empty(keys.size, np.bool_)
        found[order] = is_here
        return found

    def known(self, keys: Ints) -> set[int]:
        """Return the keys that were delivered."""
        return set(keys[self.has(keys)].tolist())

    def add(self, number: int, time: int, keys: Ints) -> None:
        """Remember the keys of one generation."""
        if keys.size:
            self.generations[number] = Generation(time, keys)
            self._push(np.sort(keys))

    def forget(self, before: int, named: Iterable[int]) -> list[int]:
        """Drop generations from before a time, but pin keys in ``named``; return their numbers."""
        gone = [number for number, old in self.generations.items() if old.time < before]
        if gone:
            dropped = np.concatenate([self.generations.pop(number).keys for number in gone])
            wanted = np.fromiter(named, np.int64)
            self.pinned.update(wanted[np.isin(wanted, dropped)].tolist())
            self._levels = []
            for generation in self.generations.values():
                self._push(np.sort(generation.keys))
        return gone

    def merge(self, span: int) -> tuple[list[int], dict[int, Generation]]:
        """Merge generations that lie within ``span``; return the numbers removed and the new."""
        gone: list[int] = []
        new: dict[int, Generation] = {}
        group: list[int] = []
        for number in [*sorted(self.generations), None]:
            if group and (
                number is None
                or self.generations[number].time - self.generations[group[0]].time > span
            ):
                if len(group) > 1:
                    parts = [self.generations.pop(old) for old in group]
                    keys = np.concatenate([part.keys for part in parts])
                    new[group[-1]] = Generation(parts[-1].time, keys)
                    gone += group[:-1]
                group = []
            if number is not None:
                group.append(number)
        self.generations.update(new)
        return gone, new

    def _push(self, keys: Ints) -> None:
        levels = self._levels
        levels.append(keys)
        while len(levels) > 1 and levels[-2].size <= 2 * levels[-1].size:
            last = levels.pop()
            levels[-1] = np.sort(np.concatenate([levels[-1], last]), kind="stable")
