"""The arrangement in one process: a log in memory, whose windows run one after the other."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np

from antecede.arrays import Ints
from antecede.audit.windows.columns import Lookup
from antecede.audit.windows.copies import Copies
from antecede.audit.windows.cuts import windows_of
from antecede.audit.windows.edges import SIGNAL
from antecede.audit.windows.matching import DELIVER, SEND, Events
from antecede.audit.windows.rounds import Arrangement, Group
from antecede.audit.windows.window import Request, Window, run_window
from antecede.events.hashing import hash_names


def say_compiling() -> None:
    """Say on a terminal that the first audit of its kind takes longer, if this is the first."""
    place = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent)
    if sys.stderr.isatty() and not any(place.rglob("clocks._sweep-*.nbi")):
        sys.stderr.write("antecede: compiling once (about 20 s)\n")


class LocalWindows(Arrangement):
    """A log in memory, cut by ``cuts`` (one row of seqs per cut) or left whole."""

    facts = MappingProxyType({"engine": "local"})

    def __init__(
        self,
        events: Events,
        names: list[str],
        lookup: Lookup,
        cuts: Ints | None = None,
        rejected: int = 0,
        ahead: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        self.rejected = rejected
        self.ahead = ahead
        self.events = events
        self._count = int(np.count_nonzero((events.kind & 3) != SIGNAL))
        self.has_clocks = self._count < len(events)
        self.names = names
        self.hashes = hash_names(names)
        self._lookup = lookup
        self.windows = 1 if cuts is None else len(cuts) + 1
        self._window = windows_of(events.process, events.seq, () if cuts is None else cuts)

    def _rows(self, group: Group) -> Ints:
        return np.flatnonzero((group[0] <= self._window) & (self._window <= group[1]))

    def run(self, work: Sequence[tuple[Group, Request]]) -> list[Window]:
        """Run each group of windows as one window."""
        found = []
        for group, request in work:
            window = run_window(self.events_of(group), self.hashes, request)
            name_rows(window, self._rows(group)[window.rows], self._lookup)
            found.append(window)
        return found

    def confirm(self, windows: Sequence[Window]) -> None:
        """Check that every event is in exactly one window."""
        assert sum(window.events for window in windows) == self._count

    def names_of(self, keys: Sequence[int]) -> Mapping[int, str]:
        """Return the names of messages that no window has named, by key."""
        rows = rows_of(self.events, np.array(keys, np.int64))
        named = zip(self.events.key[rows].tolist(), self._lookup(rows), strict=True)
        return {key: name for key, (name, _) in named if name is not None}

    def copies(self, keys: Ints) -> Copies:
        """Return all sends and deliveries of some messages."""
        rows = rows_of(self.events, keys)
        return copies_of(self.events.take(rows), [d for _, d in self._lookup(rows)], self.names)

    def events_of(self, group: Group) -> Events:
        """Return the events of a group of windows."""
        is_whole = group == (0, self.windows - 1)
        return self.events if is_whole else self.events.take(self._rows(group))


def rows_of(events: Events, keys: Ints) -> Ints:
    """Return the rows of the sends and deliveries of messages, given by key."""
    is_event = ((events.kind & 3) == SEND) | (events.kind == DELIVER)
    return np.flatnonzero(is_event & np.isin(events.key, keys))


def copies_of(rows: Events, dests: Sequence[Sequence[str] | None], names: Sequence[str]) -> Copies:
    """Return sends and deliveries, with the destinations of sends as processes."""
    number = {name: p for p, name in enumerate(names)}
    found = [
        None if stated is None else frozenset(number[d] for d in stated if d in number)
        for stated in dests
    ]
    return Copies(rows, found)


def name_rows(window: Window, rows: Ints, lookup: Lookup) -> None:
    """Add to a window's result the names and destinations of the messages in it."""
    named = zip(window.row_keys.tolist(), window.owns.tolist(), lookup(rows), strict=True)
    for key, owns, (name, dests) in named:
        if name is None:
            continue
        if window.names.setdefault(key, name) != name:
            window.collision = True
        if owns and dests is not None:
            window.dests[key] = dests
