"""The members that both sides of a Codec know: names as numbers, and sets of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from antecede.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable


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
