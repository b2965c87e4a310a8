"""All windows in this process, one after the other: the local engine, and the tests' workhorse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from antecede.pipeline.audits.windows.cuts import windows_of
from antecede.pipeline.audits.windows.hashing import hash_names
from antecede.pipeline.audits.windows.window import find_chains, run_window

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from antecede.pipeline.audits.windows.columns import Lookup
    from antecede.pipeline.audits.windows.jit import Ints
    from antecede.pipeline.audits.windows.join import Open
    from antecede.pipeline.audits.windows.matching import Events
    from antecede.pipeline.audits.windows.rounds import Group
    from antecede.pipeline.audits.windows.window import Request, Window


class Whole:
    """A log in memory, cut by ``cuts`` (one row of seqs per cut) or not at all."""

    def __init__(
        self, events: Events, names: list[str], lookup: Lookup, cuts: Ints | None = None
    ) -> None:
        self.events = events
        self.names = names
        self.hashes = hash_names(names)
        self._lookup = lookup
        count = 0 if cuts is None else len(cuts)
        self.windows = count + 1
        self._window = None
        if cuts is not None and count:
            self._window = windows_of(events.process, events.seq, cuts)

    def _rows(self, group: Group) -> Ints:
        if self._window is None:
            return np.arange(len(self.events))
        return np.flatnonzero((group[0] <= self._window) & (self._window <= group[1]))

    def run(self, work: Sequence[tuple[Group, Request]]) -> list[Window]:
        """Run each group of windows as one window."""
        found = []
        for group, request in work:
            rows = self._rows(group)
            window = run_window(self.events.take(rows), self.hashes, request)
            name_rows(window, self.events.key, rows[window.rows], self._lookup)
            found.append(window)
        return found

    def confirm(self, windows: Sequence[Window]) -> None:
        """Check that every event is in exactly one window."""
        assert sum(window.events for window in windows) == len(self.events)

    def spell(self, keys: Sequence[int]) -> Mapping[int, str]:
        """Return the names of messages that no window has named."""
        rows = np.flatnonzero(np.isin(self.events.key, np.array(keys, np.int64)))
        found = self._lookup(rows)
        spelled = zip(self.events.key[rows].tolist(), found, strict=True)
        return {key: name for key, (name, _) in spelled if name is not None}

    def dests(self, messages: Sequence[Open]) -> Mapping[int, tuple[str, ...] | None]:
        """Return the stated destinations of messages of which no window told them."""
        return dict.fromkeys(message.key for message in messages)  # Windows say all there is.

    def chains(
        self, group: Group, settled: tuple[Ints, Ints, Ints], pairs: Sequence[tuple[int, int]]
    ) -> list[list[int]]:
        """Return shortest chains between keys sent within a group of windows."""
        return find_chains(self.events.take(self._rows(group)), self.hashes, settled, pairs)


def name_rows(window: Window, keys: Ints, rows: Ints, lookup: Lookup) -> None:
    """Give a window's result the names, and the destinations, of the messages it speaks of."""
    told = zip(keys[rows].tolist(), window.owners.tolist(), lookup(rows), strict=True)
    for key, owns, (name, dests) in told:
        if name is None:
            continue
        if window.names.setdefault(key, name) != name:
            window.collision = True
        if owns and dests is not None:
            window.dests[key] = dests
