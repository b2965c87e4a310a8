"""The members that both sides of a Codec know: names as numbers and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from antecede.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

GRANT: Final = 1 << 20
"""How many names the complements in one packet or snapshot may stand for.

A complement makes many names of a few bits; without a limit a peer could fill our memory by them.
"""


class Roster:
    """Member names by position; a longer roster agrees with a shorter one on its numbers."""

    __slots__ = ("names", "numbers", "ranks")

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.numbers = {name: number for number, name in enumerate(names)}
        ranked = sorted(range(len(names)), key=names.__getitem__)
        self.ranks = {number: rank for rank, number in enumerate(ranked)}

    def __len__(self) -> int:
        return len(self.names)

    def number(self, name: object) -> int:
        """Return a member's number; refuse a stranger."""
        number = self.numbers.get(name) if isinstance(name, str) else None
        if number is None:
            known = ", ".join(self.names[:8]) + (", ..." if len(self.names) > 8 else "")
            msg = f"process {name!r} is not a member of this Codec ({known}); add() it first"
            raise UsageError(msg)
        return number

    def in_order(self, numbers: Iterable[int]) -> tuple[str, ...]:
        """Return the names of ``numbers``, sorted by name as sets of processes travel."""
        return tuple(self.names[number] for number in sorted(numbers, key=self.ranks.__getitem__))


class Scope:
    """What is known while one packet or snapshot is written or read."""

    __slots__ = ("grant", "is_flat", "is_inside", "is_strict", "roster")

    def __init__(self, roster: Roster, *, is_flat: bool = True, is_strict: bool = False) -> None:
        self.roster = roster
        self.grant = GRANT
        self.is_flat = is_flat  # whether only what a control may consist of is allowed
        self.is_inside = False  # whether a column of groups is being read
        self.is_strict = is_strict  # whether a log that names a stranger is refused

    def may_complement(self) -> bool:
        """Tell whether another complement is allowed, and count it if so."""
        if len(self.roster) > self.grant:
            return False
        self.grant -= len(self.roster)
        return True
