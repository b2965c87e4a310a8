"""Logs packed into bits: entries (sender, clock, destinations), as ``optimal`` and ``pruned`` send.

Most senders have one entry, often without destinations, so entries are grouped by sender: the
newest clock of each (these are close together), the number of older ones, their distances, then the
destination sets. [KS98] section 6.2 suggests complements for large sets; see ``sets``.
"""

import itertools
from typing import cast

from antecede.wire.bits import BitReader, BitWriter
from antecede.wire.roster import Scope
from antecede.wire.sets import get_names, get_set, put_names, put_set
from antecede.wire.stream import INTEGER_MAX

Entry = tuple[str, int, tuple[str, ...]]


def is_log(value: tuple[object, ...], scope: Scope) -> bool:
    """Tell whether a tuple is a log: sorted, and only the newest entry without destinations.

    If all names must be processes, a log that names a non-member is refused.
    """
    last_sender, last_clock, last_is_empty = "", 0, False
    for entry in value:
        if type(entry) is not tuple or len(entry) != 3:
            return False
        sender, clock, dests = entry
        if type(sender) is not str or type(clock) is not int or type(dests) is not tuple:
            return False
        if not 1 <= clock <= INTEGER_MAX or any(type(dest) is not str for dest in dests):
            return False
        same = sender == last_sender
        if sender < last_sender or (same and (clock <= last_clock or last_is_empty)):
            return False
        if any(a >= b for a, b in itertools.pairwise(dests)):
            return False
        last_sender, last_clock, last_is_empty = sender, clock, not dests
    names = {
        name for sender, _, dests in cast("tuple[Entry, ...]", value) for name in (sender, *dests)
    }
    unknown = sorted(names.difference(scope.roster.numbers))
    if unknown and scope.is_strict:
        scope.roster.number(unknown[0])
    return not unknown


def put_log(bits: BitWriter, log: tuple[Entry, ...], scope: Scope) -> None:
    """Append a log."""
    scope.charge(2 * len(log) + sum([len(dests) for _, _, dests in log]))
    groups: dict[int, list[Entry]] = {}
    for entry in log:
        groups.setdefault(scope.roster.numbers[entry[0]], []).append(entry)
    senders = sorted(groups)
    for sender in senders:
        groups[sender].reverse()
    put_set(bits, senders, scope)
    bits.spread([groups[sender][0][1] for sender in senders])
    bits.small([len(groups[sender]) - 1 for sender in senders])
    bits.small(
        [
            newer[1] - older[1] - 1
            for sender in senders
            for newer, older in itertools.pairwise(groups[sender])
        ]
    )
    for sender in senders:
        bits.put(1 if groups[sender][0][2] else 0, 1)
        for _, _, dests in groups[sender]:
            if dests:
                put_names(bits, dests, scope)


def get_log(bits: BitReader, scope: Scope) -> tuple[Entry, ...]:
    """Read a log."""
    roster = scope.roster
    senders = get_set(bits, scope)
    newest = bits.spread(len(senders))
    counts = bits.small(len(senders), INTEGER_MAX)
    bits.expect(sum(counts), 1)
    scope.charge(2 * (len(senders) + sum(counts)))
    gaps = iter(bits.small(sum(counts), INTEGER_MAX))
    groups: dict[int, list[Entry]] = {}
    for sender, first, count in zip(senders, newest, counts, strict=True):
        name, clock = roster.names[sender], first
        has_dests = bits.get(1)
        dests = get_names(bits, scope) if has_dests else ()
        group = [(name, clock, dests)]
        for gap in itertools.islice(gaps, count):
            clock -= gap + 1
            group.append((name, clock, get_names(bits, scope)))
        if clock < 1:
            bits.fail(f"has an entry of clock {clock}")
        groups[sender] = group[::-1]
    by_name = sorted(groups, key=roster.ranks.__getitem__)
    return tuple(entry for sender in by_name for entry in groups[sender])
