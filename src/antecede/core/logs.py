"""The log of [KS98] by numbers: sends and deliveries touch only what they change.

See :mod:`antecede.core.stamps` for its two parts, ``tops`` and ``log``. A delivery only notes what
its message carried. It is merged when the log is next asked for, usually by a send, and then most
of it need not be looked at: whoever knew of a message when sending another had merged what the
first carried, so the second carries all that matters of it.
"""

from __future__ import annotations

from typing import Final, TypeVar

from antecede.core.entries import Log
from antecede.core.messages import MessageId
from antecede.core.roster import Roster
from antecede.core.stamps import Stamp, Translation, new_stamp

S = TypeVar("S", bound=Stamp)
Needs = dict[int, list[int]]
"""Keys of messages by the number of the process that must have delivered them."""
NOTED_MAX: Final = 64
"""How many messages may wait to be merged."""


class CausalLog:
    """What one process knows about messages that someone may still have to wait for."""

    __slots__ = ("_is_base", "_log", "_me", "_tops", "noted", "roster")

    def __init__(self, roster: Roster, me: int) -> None:
        self.roster = roster
        self._me = me
        self._is_base = True
        self._tops = list(range(len(roster)))
        self._log: dict[int, int] = {}
        self.noted: list[tuple[Stamp, int, int]] = []
        """Stamps, keys and destinations of messages that are not merged yet, RCV(4).

        Nobody may have lost what it knew by a restart: else use :meth:`merge`. If there are more
        than NOTED_MAX, call :meth:`settle`. Our own last message stands, at first, for all that we
        knew, instead of ``_log``: then ``_is_base`` is False.
        """

    @property
    def tops(self) -> list[int]:
        """Each sender's newest message."""
        if self.noted:
            self.settle()
        return self._tops

    @tops.setter
    def tops(self, tops: list[int]) -> None:
        self._tops = tops

    @property
    def log(self) -> dict[int, int]:
        """The destinations that may still have to wait for a message."""
        if self.noted:
            self.settle()
        return self._log

    @log.setter
    def log(self, log: dict[int, int]) -> None:
        self._log = log

    def take(self, targets: int) -> Needs:
        """Drop ``targets`` from every entry, SND(3); return the entries that named each."""
        if self.noted:
            self.settle()
        log = self._log
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
        if self.noted:
            self.settle()
        log = self._log
        if not log:
            return []
        needs = [key for key, mask in log.items() if mask & bit]
        for key in needs:
            if rest := log[key] ^ bit:
                log[key] = rest
            else:
                del log[key]
        return needs

    def stamp(self, kind: type[S], key: int, dests: int, *, is_plain: bool) -> S:
        """Return what all copies of a message of our own carry, and record it: SND(4)."""
        if self.noted:
            self.settle()
        made = new_stamp(kind, self._tops, self._log, is_plain)
        self.noted.append((made, key, dests))
        self._is_base = False
        return made

    def settle(self) -> None:
        """Merge what is noted, the newest first; leave out what someone knew who sent later."""
        roster, bits = self.roster, self.roster.bits
        low, mine = roster.low, bits[self._me]
        log: dict[int, int] = {}
        tops: list[int] = []
        for stamp, key, dests in reversed(self.noted):
            source = key & low
            if not tops:
                log, tops = stamp.log.copy(), stamp.tops.copy()
            elif key > tops[source]:
                log, tops = _merged(log, tops, stamp.log, stamp.tops, low)
            else:
                continue
            tops[source] = key
            if rest := dests & ~(bits[source] | mine):
                log[key] = rest
        self.noted.clear()
        if self._is_base:
            log, tops = _merged(log, tops, self._log, self._tops, low)
        self._log, self._tops, self._is_base = log, tops, True

    def merge(self, stamp: Stamp, key: int, targets: int) -> None:
        """Merge at once, also what we knew before, or what others may have lost."""
        source = key & self.roster.low
        mine, tops = self.log, self._tops
        if key <= tops[source]:
            targets &= mine.get(key, 0)
        bounds = stamp.tops.copy()
        bounds[source] = key
        self._log, self._tops = _merged(mine, tops, stamp.log, bounds, self.roster.low)
        if targets:
            self._log[key] = targets

    def drop(self, mask: int) -> None:
        """Drop processes from every entry."""
        keep = ~mask
        self._log = {k: rest for k, dests in self.log.items() if (rest := dests & keep)}

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
        self.noted = []
        self._is_base = True
        self._tops = list(range(len(roster)))
        self._log = {}
        for sender, entries in log.items():
            number = roster.numbers[sender]
            for clock, dests in entries.items():
                key = clock << shift | number
                mask = roster.mask_of(tuple(dests))
                if mask:
                    self._log[key] = mask
            if entries:
                self._tops[number] = max(self._tops[number], max(entries) << shift | number)

    def move(self, by: Translation, me: int) -> None:
        """Count by another roster from now on."""
        self._tops, self._log = by.tops(self.tops), by.log(self.log)
        self.roster = by.after
        self._me = me


def _merged(
    mine: dict[int, int], tops: list[int], theirs: dict[int, int], bounds: list[int], low: int
) -> tuple[dict[int, int], list[int]]:
    """Merge two logs with their tops.

    An entry that one side lacks although it has a newer one of the same sender was purged there in
    the causal past, so it goes. Entries that both have keep the destinations that both have.
    """
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
    return log, [a if a > b else b for a, b in zip(tops, bounds)]  # noqa: B905, FURB136 - hot
