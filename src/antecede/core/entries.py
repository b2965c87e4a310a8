"""Entries (sender, clock, destinations): the explicit information of [KS98] and [JPCY97].

An entry says that a message of ``sender`` may still have to be waited for at ``destinations``. In a
process's state entries are a nested dict, in a packet a sorted tuple.
"""

from __future__ import annotations

import itertools
from typing import TypeGuard

from antecede.core.messages import MessageId
from antecede.core.validation import is_count

Log = dict[str, dict[int, frozenset[str]]]
"""Sender -> clock -> remaining destinations."""
Entry = tuple[str, int, tuple[str, ...]]
Entries = tuple[Entry, ...]


def as_entries(log: Log) -> Entries:
    """Return a log as it travels: sorted by sender and clock, destinations sorted."""
    return tuple(
        (sender, clock, tuple(sorted(dests)))
        for sender, entries in sorted(log.items())
        for clock, dests in sorted(entries.items())
    )


def as_log(entries: Entries) -> Log:
    """Return travelling entries as a log."""
    log: Log = {}
    for sender, clock, dests in entries:
        log.setdefault(sender, {})[clock] = frozenset(dests)
    return log


def explicit(log: Log) -> dict[MessageId, frozenset[str]]:
    """Return the messages that still have destinations, in order."""
    return {
        MessageId(sender, clock): dests
        for sender, entries in sorted(log.items())
        for clock, dests in sorted(entries.items())
        if dests
    }


def without_empty(log: Log) -> Log:
    """Drop entries without destinations, except the newest of each sender."""
    result: Log = {}
    for sender, entries in log.items():
        newest = max(entries, default=0)
        kept = {clock: dests for clock, dests in entries.items() if dests or clock == newest}
        if kept:
            result[sender] = kept
    return result


def is_entries(control: object) -> TypeGuard[Entries]:
    """Tell whether ``control`` has the form that :func:`as_entries` gives."""
    return is_sorted_keys(control, 3) and all(
        type(dests) is tuple
        and all(type(dest) is str for dest in dests)
        and all(a < b for a, b in itertools.pairwise(dests))
        for _, _, dests in control
    )


def is_sorted_keys(rows: object, width: int) -> TypeGuard[tuple[tuple[str, int, object], ...]]:
    """Tell whether these are tuples of a ``width``, sorted by sender and clock, each once."""
    if type(rows) is not tuple:
        return False
    for row in rows:
        if type(row) is not tuple or len(row) != width:
            return False
        if type(row[0]) is not str or not is_count(row[1], 1):
            return False
    return all(a[:2] < b[:2] for a, b in itertools.pairwise(rows))
