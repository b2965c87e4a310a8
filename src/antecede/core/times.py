"""The time of a message and vectors for some processes, as packets of [SES89] carry them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from antecede.core.counts import Counts, by_name, by_roster, order_of
from antecede.core.validation import are_keyed, is_counts, is_records

if TYPE_CHECKING:
    from antecede.core.roster import Roster

Vector = tuple[int, ...]
Control = tuple[tuple[tuple[str, int], ...], tuple[tuple[str, Vector], ...]]


class Times(Counts):
    """The time of a message, and the vectors of the processes in ``mask``, by numbers."""

    __slots__ = ()
    PROTOCOL: ClassVar = "vectors"
    FORM: ClassVar = "rows"

    @classmethod
    def read(cls, control: object, roster: Roster) -> Counts | None:
        """Return a control by numbers, if it is well-formed and counts exactly this roster."""
        if not is_stamp(control, roster.names):
            return None
        stamp, table = cast("Control", control)
        names = tuple([name for name, _ in stamp])
        vectors = dict(table)
        if set(names) != roster.numbers.keys() or not roster.numbers.keys() >= vectors.keys():
            return None
        rows = [vectors[name] for name in roster.names if name in vectors]
        time = tuple([count for _, count in stamp])
        return cls(
            [by_roster(row, names, roster) for row in (time, *rows)],
            roster.mask_of(tuple(vectors)),
        )

    def spell(self, roster: Roster) -> object:
        """Return the time and the vectors by names."""
        names, order = roster.names, order_of(roster.names)
        time, *vectors = [by_name(row, order) for row in self.rows]
        sorted_names = names if order is None else tuple([names[number] for number in order])
        table = [(names[k], row) for k, row in zip(roster.members(self.mask), vectors, strict=True)]
        return tuple(zip(sorted_names, time, strict=True)), tuple(sorted(table))


def is_stamp(control: object, expected: tuple[str, ...]) -> bool:
    """Tell whether a control is a time and sorted vectors; ``expected`` are the usual names."""
    if type(control) is not tuple or len(control) != 2 or not is_records(control[0], expected):
        return False
    n, table = len(control[0]), control[1]
    if type(table) is tuple and not table:
        return True
    return are_keyed(table, ()) and all(is_counts(row, n) for _, row in table)
