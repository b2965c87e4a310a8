"""The log of [KS98] by numbers: sends and deliveries touch only what they change.

See :mod:`antecede.core.stamps` for its two parts, ``tops`` and ``log``. Both are replaced rather
than edited where a stamp shares them.
"""

from __future__ import annotations

from typing import TypeVar

from antecede.core.entries import Log
from antecede.core.messages import MessageId
from antecede.core.roster import Roster
from antecede.core.stamps import Stamp, Translation, new_stamp

S = TypeVar("S", bound=Stamp)
Needs = dict[int, list[int]]
"""Keys of messages by the number of the process that must have delivered them."""


class CausalLog:
    """What one process knows about messages that someone may still have to wait for."""

    __slots__ = ("log", "roster", "tops")

    def __init__(self, roster: Roster) -> None:
        self.roster = roster
        self.tops = list(range(len(roster)))
        self.log: dict[int, int] = {}

    def take(self, targets: int) -> Needs:
        """Drop ``targets`` from every entry, SND(3); return the entries that named each."""
        log = self.log
        needs: Needs = {}
        if not log:
            return needs
        for key in [key for key, mask in log.items() if mask & targets]:
            mask = log[key]
            hit = mask & targets
            if hit == mask:
                del log[key]
            else:
                log[key] = mask ^ hit
            while hit:
                number = hit.bit_length() - 1
                hit ^= 1 << number
                if number in needs:
                    needs[number].append(key)
                else:
                    needs[number] = [key]
        return needs

    def take_one(self, bit: int) -> list[int]:
        """Do the same for a single destination."""
        log = self.log
        if not log:
            return []
        needs = [key for key, mask in log.items() if mask & bit]
        for key in needs:
            if rest := log[key] ^ bit:
                log[key] = rest
            else:
                del log[key]
        return needs

    def stamp(self, kind: type[S], key: int, targets: int) -> S:
        """Return what all copies of a message of our own carry, and record it: SND(4)."""
        log, tops = self.log, self.tops
        made = new_stamp(kind, tops, log.copy())
        log[key] = targets
        self.tops = tops = tops.copy()
        tops[key & self.roster.low] = key
        return made

    def merge(self, stamp: Stamp, key: int, targets: int) -> None:
        """Merge what the message ``key`` carried, and itself with its destinations: RCV(4).

        An entry that one side lacks although it has a newer one of the same sender was purged there
        in the causal past, so it goes. Entries that both have keep the destinations that both have.
        """
        low = self.roster.low
        source = key & low
        tops, mine, theirs = self.tops, self.log, stamp.log
        bounds = stamp.tops.copy()
        bounds[source] = key
        if key <= tops[source]:
            targets &= mine.get(key, 0)
        log = {k: mask for k, mask in mine.items() if k > bounds[k & low]} if mine else {}
        if theirs:
            find = mine.get
            for k, mask in theirs.items():
                other = find(k)
                if other is None:
                    if k > tops[k & low]:
                        log[k] = mask
                elif rest := mask & other:
                    log[k] = rest
        if targets:
            log[key] = targets
        self.log = log
        self.tops = [a if a > b else b for a, b in zip(tops, bounds)]  # noqa: B905, FURB136 - hot

    def drop(self, mask: int) -> None:
        """Drop processes from every entry."""
        keep = ~mask
        self.log = {k: rest for k, dests in self.log.items() if (rest := dests & keep)}

    def count(self) -> int:
        """Return how many entries the paper's log has: also each sender's newest, if empty."""
        low, log = self.roster.low, self.log
        return len(log) + sum([key > low and key not in log for key in self.tops])

    def explicit(self) -> dict[MessageId, frozenset[str]]:
        """Return the messages that still have destinations, in order."""
        roster = self.roster
        shift, low, names = roster.shift, roster.low, roster.names
        found = [
            (MessageId(names[k & low], k >> shift), frozenset(roster.sorted_names(mask)))
            for k, mask in self.log.items()
        ]
        return dict(sorted(found, key=lambda pair: pair[0]))

    def spelt(self) -> Log:
        """Return the paper's log by names, with each sender's newest entry even if it is empty."""
        roster = self.roster
        shift, low, names = roster.shift, roster.low, roster.names
        entries = dict.fromkeys([key for key in self.tops if key > low], 0) | self.log
        result: Log = {}
        for key, mask in sorted(entries.items()):
            dests = frozenset(roster.sorted_names(mask))
            result.setdefault(names[key & low], {})[key >> shift] = dests
        return result

    def read(self, log: Log) -> None:
        """Take over a log by names."""
        roster = self.roster
        shift = roster.shift
        self.tops = list(range(len(roster)))
        self.log = {}
        for sender, entries in log.items():
            number = roster.numbers[sender]
            for clock, dests in entries.items():
                key = clock << shift | number
                mask = roster.mask_of(tuple(dests))
                if mask:
                    self.log[key] = mask
                self.tops[number] = max(self.tops[number], key)

    def move(self, by: Translation) -> None:
        """Count by another roster from now on."""
        self.tops, self.log = by.tops(self.tops), by.log(self.log)
        self.roster = by.after
