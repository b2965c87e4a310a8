"""What is missing before windows can be joined, and the arithmetic of joining them.

Windows that cannot be joined are not an error: :func:`ask` returns what they still have to
describe, or which useless cuts must be removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from antecede.arrays import Flags, Ints, Vectors, jit
from antecede.audit.windows.clocks import NOTHING
from antecede.audit.windows.window import Window


@dataclass
class Needs:
    """What is missing before windows can be joined."""

    merge: set[int] = field(default_factory=set)  # cuts that separate nothing; cut k ends window k
    wanted: dict[int, set[int]] = field(default_factory=dict)  # window -> keys to describe
    senders: set[int] = field(default_factory=set)  # windows that need the senders of incoming keys
    resent: set[int] = field(default_factory=set)  # keys sent several times

    def __bool__(self) -> bool:
        return bool(self.merge or self.wanted or self.senders or self.resent)

    def want(self, window: int, key: int) -> None:
        """Ask ``window`` to describe ``key``."""
        self.wanted.setdefault(window, set()).add(key)


def ask(windows: Sequence[Window]) -> Needs:
    """Return what is missing; the result is false if the windows can be joined."""
    needs = Needs()
    _check_order(windows, needs)
    if not needs:
        _check_resent(windows, needs)
    if not needs:
        _check_arrivals(windows, needs)
    if not needs:
        needs.senders = {number for number, window in enumerate(windows) if window.needs_senders}
    return needs


def _check_order(windows: Sequence[Window], needs: Needs) -> None:
    """Check that each process's events in a window come after those in earlier windows."""
    if not windows:
        return
    last = np.full(windows[0].count.size, -(2**63), np.int64)
    window_of = np.zeros(last.size, np.int64)
    for number, window in enumerate(windows):
        some = window.count > 0
        for p in np.flatnonzero(some & (number > 0) & (window.low <= last)):
            needs.merge.update(range(int(window_of[p]), number))
        ahead = some & (window.high > last)
        last[ahead], window_of[ahead] = window.high[ahead], number


def _check_resent(windows: Sequence[Window], needs: Needs) -> None:
    """Find keys that were sent several times, which must be settled first."""
    for window in windows:
        needs.resent.update(window.resent[:, 2].tolist())
    if len(windows) > 1:
        sends = np.sort(np.concatenate([window.sends for window in windows]), kind="stable")
        needs.resent.update(sends[1:][sends[1:] == sends[:-1]].tolist())


def _check_arrivals(windows: Sequence[Window], needs: Needs) -> None:
    """Check that every message that enters a window was described by an earlier one."""
    described = {
        key: number
        for number, window in enumerate(windows)
        for key in window.open_key[window.open_detailed].tolist()
    }
    strangers: dict[int, list[int]] = {}
    for number, window in enumerate(windows):
        for key in window.incoming.tolist():
            if key not in described:
                strangers.setdefault(key, []).append(number)
            elif described[key] >= number:
                needs.merge.update(range(number, described[key]))
    if strangers and len(windows) > 1:
        _find_strangers(windows, strangers, needs)
    _find_cut_out(windows, needs)
    if needs.merge:
        needs.wanted.clear()


def _find_cut_out(windows: Sequence[Window], needs: Needs) -> None:
    """Keep a delivery that was cut out of a cycle in one window with its repetitions.

    Windows ignore repetitions, except those of a delivery that was cut out.
    """
    cut_out: dict[tuple[int, int], int] = {}
    for number, window in enumerate(windows):
        for b, process in window.arrivals[:, :2].tolist() if cut_out else ():
            first = cut_out.get((process, int(window.incoming[b])), number)
            needs.merge.update(range(first, number))
        for process, _, key in window.cycles.tolist():
            cut_out[process, key] = number


def _find_strangers(
    windows: Sequence[Window], strangers: dict[int, list[int]], needs: Needs
) -> None:
    """Find keys among all sends: an earlier window must describe them, or cuts must be removed."""
    keys = np.sort(np.fromiter(strangers, np.int64))
    for number, window in enumerate(windows):
        if not window.sends.size:
            continue
        at = np.minimum(np.searchsorted(window.sends, keys), window.sends.size - 1)
        for key in keys[window.sends[at] == keys].tolist():
            for place in strangers[key]:
                if place > number:
                    needs.want(number, key)
                else:
                    needs.merge.update(range(place, number))


@jit
def resolve(vectors: Vectors, entry: Ints, before: Ints, clocks: Ints, cross: Ints) -> Ints:
    """Return the clocks that symbolic ``vectors`` stand for.

    ``entry`` and ``before`` are the processes' clocks and counts of events at the window's start,
    ``clocks`` those of the messages that enter it, ``cross`` maps ``-r`` to them.
    """
    n = entry.shape[0]
    found = np.zeros((vectors.shape[0], n), np.int64)
    for row in range(vectors.shape[0]):
        out = found[row]
        for s in range(n):
            value = vectors[row, s]
            if value == NOTHING:
                continue
            source = entry[s] if value >= 0 else clocks[cross[s, -value]]
            for x in range(n):
                out[x] = max(out[x], source[x])
            if value > 0:
                out[s] = max(out[s], before[s] + value)
        for word in range(n, vectors.shape[1]):
            bits = vectors[row, word]
            for bit in range(32):
                if (bits >> bit) & 1:
                    source = clocks[32 * (word - n) + bit]
                    for x in range(n):
                        out[x] = max(out[x], source[x])
    return found


@jit
def decide(
    arrivals: Ints,
    judged: Flags,
    sender: Ints,
    place: Ints,
    rises: Ints,
    known: Ints,
    sources: Ints,
) -> Flags:
    """Return which arrivals come after an effect; both tables are in order of process, position.

    ``known`` is what each process had delivered when it entered; ``sources`` are the clocks of
    the symbols. ``sender`` and ``place`` are the event that sent each arriving message.
    """
    late = np.zeros(arrivals.shape[0], np.bool_)
    r = 0
    process = np.int64(-1)
    current = np.zeros(known.shape[1], np.int64)
    for row in range(arrivals.shape[0]):
        d = arrivals[row, 1]
        if d != process:
            process = d
            current[:] = known[d]
            while r < rises.shape[0] and rises[r, 0] < d:
                r += 1
        while r < rises.shape[0] and rises[r, 0] == d and rises[r, 1] < arrivals[row, 2]:
            source = sources[rises[r, 5]]
            for x in range(source.size):
                current[x] = max(current[x], source[x])
            r += 1
        if judged[row]:
            b = arrivals[row, 0]
            late[row] = current[sender[b]] >= place[b]
    return late


@jit
def first_rise(rises: Ints, sources: Ints, process: int, sender: int, place: int) -> int:
    """Return the first rise at ``process`` that brought the sender's event, or -1."""
    for r in range(rises.shape[0]):
        if rises[r, 0] == process and sources[rises[r, 5], sender] >= place:
            return r
    return -1
