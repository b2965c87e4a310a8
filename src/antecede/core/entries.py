"""Entries (sender, clock, destinations): the explicit information of [KS98] and [JPCY97].

An entry says that a message of ``sender`` may still have to be waited for at ``destinations``. In a
process's state entries are a nested dict, in a packet a sorted tuple.
"""

from collections.abc import Container
from typing import TypeGuard

from antecede.core.messages import ID_BYTES, PAIR_BYTES, ControlSize, MessageId
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


def restricted(entries: Entries, names: Container[str]) -> Entries:
    """Return entries without senders and destinations other than ``names``."""
    return tuple(
        (sender, clock, tuple(dest for dest in dests if dest in names))
        for sender, clock, dests in entries
        if sender in names
    )


def size_of(entries: Entries, pairs: int = 0) -> ControlSize:
    """Return the size by the model of [JPCY97], with so many pairs (sender, clock) besides."""
    count = len(entries) + pairs
    dests = sum(len(entry[2]) for entry in entries)
    return ControlSize(count, dests, PAIR_BYTES * count + ID_BYTES * dests)


def merged(mine: Log, theirs: Log) -> Log:
    """RCV(4) of [KS98]: absent from a log that knows a newer message of the sender means done."""
    result: Log = {}
    for sender in mine.keys() | theirs.keys():
        one, other = mine.get(sender, {}), theirs.get(sender, {})
        my_top, their_top = max(one, default=0), max(other, default=0)
        result[sender] = {
            clock: one.get(clock, dests) & dests
            for clock, dests in other.items()
            if clock in one or clock > my_top
        } | {
            clock: dests for clock, dests in one.items() if clock not in other and clock > their_top
        }
    return result


def purged(log: Log) -> Log:
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
    if type(control) is not tuple:
        return False
    last = ("", 0)
    for entry in control:
        if type(entry) is not tuple or len(entry) != 3:
            return False
        sender, clock, dests = entry
        if type(sender) is not str or not is_count(clock, 1) or (sender, clock) <= last:
            return False
        if type(dests) is not tuple:
            return False
        before = ""
        for dest in dests:
            if type(dest) is not str or dest <= before:
                return False
            before = dest
        last = (sender, clock)
    return True


def is_keys(keys: object) -> TypeGuard[tuple[tuple[str, int], ...]]:
    """Tell whether these are pairs (sender, clock), sorted, each once."""
    return type(keys) is tuple and is_entries(
        tuple((*key, ()) if type(key) is tuple else key for key in keys)
    )
