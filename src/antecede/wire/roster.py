"""The members that both sides of a Codec know, and the limits on what they exchange."""

from typing import Final

from antecede.core.roster import Roster, roster_of
from antecede.errors import UsageError
from antecede.wire.stream import put_varint

GRANT: Final = 1 << 20
"""How many names the complements in one packet or snapshot may expand to.

A complement expands a few bits to many names; without a limit a peer could fill our memory.
"""

CELLS_MAX: Final = 1 << 18
"""How many numbers, names, entries and other values one control may contain.

A single bit can expand to a whole row; this limits what a control can grow to, and how long it can
keep a reader busy.
"""


KEPT_MAX: Final = 1024
"""How many starts and sets of destinations of packets are kept for the next ones."""
PAIR_MAX: Final = 16
"""Up to so many members, source and destination share a byte."""


class WireRoster:
    """Member names by position, and what the format makes of them."""

    __slots__ = (
        "_is_sorted",
        "control",
        "identity",
        "is_paired",
        "lengths",
        "listed",
        "names",
        "numbers",
        "ranks",
        "roster",
        "sets",
        "starts",
        "targets",
        "width",
    )

    def __init__(self, names: tuple[str, ...], roster: Roster | None = None) -> None:
        self.names = names
        self.roster = roster or roster_of(names)
        out = bytearray()
        put_varint(out, len(names))
        self.identity = bytes(out) + self.roster.digest
        self.is_paired = len(names) <= PAIR_MAX
        self.numbers = self.roster.numbers
        self.width = max((len(names) - 1).bit_length(), 1)  # the bits that a number takes
        ranked = sorted(range(len(names)), key=names.__getitem__)
        self.ranks = {number: rank for rank, number in enumerate(ranked)}
        self._is_sorted = ranked == list(range(len(names)))
        self.sets: dict[tuple[str, ...], tuple[str, str]] = {}
        """Sets of names that were written before, as bits; see ``sets``."""
        self.starts: dict[tuple[str, int, str, str], bytes] = {}
        """The first bytes of packets that were written before, by protocol, tag and channel."""
        self.targets: dict[tuple[str, ...], tuple[bytes, int]] = {}
        """Destinations that were written before, and what they took of the grant."""
        self.listed: dict[bytes, tuple[str, ...]] = {}
        """The same the other way round: no encoding begins with another one."""
        self.lengths: list[int] = []
        """The lengths of those encodings, ascending."""
        self.control: tuple[object, bytes, tuple[object, ...], tuple[int, int]] | None = None
        """The last control, as bytes, with the limits before and after it: copies share it."""

    def keep_dests(self, dests: tuple[str, ...], encoded: bytes, grant: int) -> None:
        """Remember destinations as they are written."""
        if len(self.targets) >= KEPT_MAX:
            self.targets.clear()
            self.listed.clear()
            self.lengths.clear()
        self.targets[dests] = encoded, grant
        self.listed[encoded] = dests
        if len(encoded) not in self.lengths:
            self.lengths.append(len(encoded))
            self.lengths.sort()

    def __len__(self) -> int:
        return len(self.names)

    def number(self, name: object) -> int:
        """Return a member's number; refuse a process that is not a member."""
        number = self.numbers.get(name) if isinstance(name, str) else None
        if number is None:
            known = ", ".join(self.names[:8]) + (", ..." if len(self.names) > 8 else "")
            msg = f"process {name!r} is not a member of this Codec ({known}); add() it first"
            raise UsageError(msg)
        return number

    def in_order(self, numbers: list[int]) -> tuple[str, ...]:
        """Return the names of ascending ``numbers``, sorted by name as sets of processes travel."""
        if not self._is_sorted:
            numbers = sorted(numbers, key=self.ranks.__getitem__)
        return tuple(self.names[number] for number in numbers)


class Scope:
    """The members and the remaining limits while one packet or snapshot is written or read."""

    __slots__ = ("cells", "grant", "is_flat", "is_inside", "is_strict", "roster")

    def __init__(
        self, roster: WireRoster, *, is_flat: bool = True, is_strict: bool = False
    ) -> None:
        self.roster = roster
        self.grant = GRANT
        self.cells = CELLS_MAX
        self.is_flat = is_flat  # whether only the types that a control may have are allowed
        self.is_inside = False  # whether a column of groups is being read
        self.is_strict = is_strict  # whether a log that names a non-member is refused

    def may_complement(self) -> bool:
        """Tell whether another complement is allowed; if so, count it."""
        if len(self.roster) > self.grant:
            return False
        self.grant -= len(self.roster)
        return True

    def charge(self, cells: int) -> None:
        """Count values; refuse too many. Snapshots have no limit."""
        if self.is_flat:
            self.cells -= cells
        if self.cells < 0:
            msg = f"control has more than {CELLS_MAX} numbers, names, entries and other values"
            raise UsageError(msg)
