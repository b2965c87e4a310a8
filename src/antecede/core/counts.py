"""What packets carry that count by numbers: rows with a count for each process of a roster.

While nobody is departing, endpoints that count (:mod:`antecede.core.counted`) send such packets.
Whoever has the same roster takes the rows as they are; for others the packet spells out names.
"""

from __future__ import annotations

from functools import lru_cache
from operator import ge, le
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from antecede.core.stamps import Stamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from antecede.core.roster import Roster

Row = tuple[int, ...]
NO_NEEDS: Final[list[int]] = []
_NO_TOPS: Final[list[int]] = []
_NO_LOG: Final[dict[int, int]] = {}


class Counts(Stamp):
    """Rows of counts by the numbers of a roster; they do not change once they are here.

    ``mask`` says whose rows follow the first one, where that differs from message to message.
    """

    __slots__ = ("mask", "rows", "spelt")

    FORM: ClassVar[Literal["row", "rows", "square"]]
    """One row; one and some that are nowhere above it; or one for each, with 0 for itself."""

    def __init__(self, rows: Sequence[Row], mask: int = 0) -> None:
        super().__init__(_NO_TOPS, _NO_LOG)
        self.rows = rows
        self.mask = mask
        self.spelt: object = None

    @classmethod
    def read(cls, control: object, roster: Roster) -> Counts | None:
        """Return a control by numbers, if it is well-formed and counts exactly this roster."""
        raise NotImplementedError

    def spell(self, roster: Roster) -> object:
        """Return the control as its protocol writes it, by names."""
        raise NotImplementedError

    def control(self, roster: Roster, dest: int, needs: list[int]) -> object:
        """Return the control by names; copies share it."""
        del dest, needs
        if self.spelt is None:
            self.spelt = self.spell(roster)
        return self.spelt

    def moved(self, before: Roster, after: Roster) -> Counts | None:
        """Return the same by another roster, if that has exactly the same processes."""
        table = before.table_to(after)
        if sorted(table) != list(range(len(after))):
            return None
        order = after.table_to(before)
        rows = [tuple([row[number] for number in order]) for row in self.rows]
        if self.FORM == "square":
            rows = [rows[number] for number in order]
        mask = 0
        if self.FORM == "rows":
            owners = sorted(
                zip([table[k] for k in before.members(self.mask)], rows[1:], strict=True)
            )
            rows[1:] = [row for _, row in owners]
            mask = sum([after.bits[owner] for owner, _ in owners])
        return type(self)(rows, mask)


@lru_cache(maxsize=256)
def order_of(names: tuple[str, ...]) -> list[int] | None:
    """Return the places of names in their order, or None if that is the order they are in."""
    order = sorted(range(len(names)), key=names.__getitem__)
    return None if order == list(range(len(names))) else order


def by_name(row: Row, order: list[int] | None) -> Row:
    """Return a row in the order of names."""
    return row if order is None else tuple([row[number] for number in order])


def by_roster(row: Row, names: tuple[str, ...], roster: Roster) -> Row:
    """Return a row by ``names``, which are those of the roster, by its numbers."""
    if names == roster.names:
        return row
    known = dict(zip(names, row, strict=True))
    return tuple([known[name] for name in roster.names])


def larger(mine: Sequence[int], theirs: Row) -> Row:
    """Return the larger of both counts of each process; often one row has all of them."""
    if all(map(le, mine, theirs)):
        return theirs
    return tuple(mine if all(map(ge, mine, theirs)) else map(max, mine, theirs))
