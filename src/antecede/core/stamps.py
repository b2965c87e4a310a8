"""What all copies of a message carry, by numbers: the log of [KS98] in two parts.

``tops`` holds, for each process, the key of its newest message that the sender knew of. ``log``
holds, for each message that someone may still have to wait for, the mask of those processes. An
entry of the paper that names nobody is only ever its sender's newest, so ``tops`` stands for it,
and nothing has to be purged.

A copy for ``d`` differs from the others only in its *needs*: the keys of the messages that ``d``
itself must have delivered. ``log`` never names ``d``.
"""

from __future__ import annotations

from typing import ClassVar, TypeVar

from antecede.core.entries import Entries
from antecede.core.messages import COMPILED, ID_BYTES, PAIR_BYTES, ControlSize
from antecede.core.roster import UNKNOWN, Roster

S = TypeVar("S", bound="Stamp")


class Stamp:
    """The shared part of a control; neither its tops nor its log change once they are here."""

    __slots__ = ("body", "is_plain", "log", "news", "tops")

    PROTOCOL: ClassVar = ""
    IS_LOG: ClassVar = False
    """Whether a Codec writes tops, log and needs instead of the control."""

    def __init__(self, tops: list[int], log: dict[int, int]) -> None:
        self.tops = tops
        self.log = log
        self.body: tuple[Roster, bytes] | None = None
        """Encoded for a Codec's roster, without needs."""
        self.news: tuple[int, int] | None = None
        """Who left; see :mod:`antecede.core.farewells`."""
        self.is_plain = False
        """Whether it is known that this has no news and names no process that restarted."""

    def control(self, roster: Roster, dest: int, needs: list[int]) -> object:
        """Return the control of one copy as its paper writes it."""
        raise NotImplementedError

    @classmethod
    def of_control(
        cls, control: object, roster: Roster, dest: int
    ) -> tuple[Stamp, list[int]] | None:
        """Return the stamp and the needs of a control, or None if it is malformed.

        What is returned may spell another control, if no endpoint would send this one.
        """
        raise NotImplementedError

    def entries(self, roster: Roster, dest: int, needs: list[int]) -> Entries:
        """Return what one copy carries as sorted entries (sender, clock, destinations)."""
        entries = self.log.copy()
        bit = roster.bits[dest]
        for key in needs:
            entries[key] = entries.get(key, 0) | bit
        shift, low, names = roster.shift, roster.low, roster.names
        for key in self.tops:
            if key > low:
                entries.setdefault(key, 0)
        rows = [
            (names[key & low], key >> shift, roster.sorted_names(mask))
            for key, mask in entries.items()
        ]
        rows.sort()
        return tuple(rows)

    def size(self, roster: Roster, needs: list[int]) -> ControlSize:
        """Return the size of :meth:`entries` by the model of [JPCY97]."""
        log, low = self.log, roster.low
        keys = set(needs)
        keys.update(log)
        keys.update([key for key in self.tops if key > low])
        dests = len(needs) + sum([mask.bit_count() for mask in log.values()])
        return ControlSize(len(keys), dests, PAIR_BYTES * len(keys) + ID_BYTES * dests)


def new_stamp(
    kind: type[S],
    tops: list[int],
    log: dict[int, int],
    is_plain: bool,  # noqa: FBT001 - hot
) -> S:
    """Make a stamp; quicker than calling the class."""
    if COMPILED:
        made = kind(tops, log)
        made.is_plain = is_plain
        return made
    made = object.__new__(kind)
    made.tops = tops
    made.log = log
    made.body = made.news = None
    made.is_plain = is_plain
    return made


def stamp_of(kind: type[S], entries: Entries, roster: Roster, dest: int) -> tuple[S, list[int]]:
    """Return the stamp and the needs of a copy that carries these entries; names are known."""
    numbers, shift, bit = roster.numbers, roster.shift, roster.bits[dest]
    tops = list(range(len(roster)))
    log: dict[int, int] = {}
    needs: list[int] = []
    for sender, clock, dests in entries:
        key = clock << shift | numbers[sender]
        tops[key & roster.low] = key
        mask = roster.mask_of(dests)
        if mask & bit:
            needs.append(key)
        if mask & ~bit:
            log[key] = mask & ~bit
    return kind(tops, log), needs


def are_known(entries: Entries, roster: Roster) -> bool:
    """Tell whether entries name only processes of a roster."""
    names = roster.numbers.keys()
    return all(sender in names and names >= {*dests} for sender, _, dests in entries)


class Translation:
    """Keys and masks of one roster in terms of another.

    Processes that the other does not have are left out; ``missing`` collects their numbers.
    """

    def __init__(self, before: Roster, after: Roster) -> None:
        self.before = before
        self.after = after
        self.missing = 0
        self._table = before.table_to(after)
        count = len(self._table)
        self._is_growth = self._table == list(range(count))

    def key(self, key: int) -> int:
        """Return a key, or UNKNOWN if its sender has no number."""
        before = self.before
        number = self._table[key & before.low]
        if number == UNKNOWN:
            if key > before.low:
                self.missing |= before.bits[key & before.low]
            return UNKNOWN
        return key >> before.shift << self.after.shift | number

    def mask(self, mask: int) -> int:
        """Return a mask."""
        if self._is_growth:
            return mask
        result = 0
        bits, table = self.after.bits, self._table
        for number in self.before.members(mask):
            if table[number] == UNKNOWN:
                self.missing |= self.before.bits[number]
            else:
                result |= bits[table[number]]
        return result

    def tops(self, tops: list[int]) -> list[int]:
        """Return keys by sender; of processes that are new nothing is known."""
        result = list(range(len(self.after)))
        low = self.after.low
        for top in tops:
            key = self.key(top)
            if key != UNKNOWN:
                result[key & low] = key
        return result

    def log(self, log: dict[int, int]) -> dict[int, int]:
        """Return a log."""
        pairs = [(self.key(key), self.mask(mask)) for key, mask in log.items()]
        return {key: mask for key, mask in pairs if key != UNKNOWN and mask}

    def keys(self, keys: list[int]) -> list[int]:
        """Return keys in their order."""
        return [key for key in map(self.key, keys) if key != UNKNOWN]
