"""State as plain data: one line names a field, to write it, or to read and check it.

An object with state lists its fields in one method, ``keep(saved)``, in the order in which they are
written: ``self._last = saved.numbers("last", self._last, most=self.made)``. When state is saved,
this writes a copy and returns the value itself. When state is restored, it returns the value that
was written, or raises ValueError if no process can have it. The value before, of a new process,
then determines how long a list must be. ``require`` checks that fields agree with each other.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar, cast

from antecede.endpoint import kinds
from antecede.endpoint.messages import COUNT_MAX
from antecede.errors import shown

T = TypeVar("T")
Keep = Callable[["Saved"], None]
State = dict[str, object]
"""Plain data by field names: numbers, texts, bytes, lists and dicts of these, and packets."""
SAVED_MAX: Final = COUNT_MAX
"""The highest number accepted from a saved state: the highest that a peer may tell us."""


class Saved:
    """The fields of one record: ``data`` has those written so far, or those not read yet."""

    def __init__(self, what: str, data: object = None, *, is_read: bool = True) -> None:
        if is_read and not isinstance(data, dict):
            raise ValueError(f"{what} is {shown(data)}; expected fields by name")
        self._what = what
        self.is_read = is_read
        self.data: State = dict(data) if isinstance(data, dict) else {}

    @classmethod
    def of(cls, keep: Keep) -> State:
        """Return the record that ``keep`` writes."""
        saved = cls("", is_read=False)
        keep(saved)
        return saved.data

    def read(self, keep: Keep) -> None:
        """Let ``keep`` read the record; refuse fields that it does not read."""
        keep(self)
        if self.data:
            unknown = ", ".join(sorted(map(str, self.data)))
            raise ValueError(f"{self._what} has unknown fields {unknown}")

    def part(self, name: str, keep: Keep) -> None:
        """Write, or read, a record within this one."""
        if self.is_read:
            Saved(f"{self._what}.{name}", self.plain(name)).read(keep)
        else:
            self.data[name] = Saved.of(keep)

    def require(self, is_right: object, name: str, value: object, expected: str) -> None:
        """Refuse a field that was read unless it is right."""
        if self.is_read and not is_right:
            raise ValueError(f"{self._what}: {name} is {shown(value)}; expected {expected}")

    # Fields.

    def plain(self, name: str, value: object = None) -> Any:
        """Write a value as it is; or return the value that was written, unchecked."""
        if not self.is_read:
            self.data[name] = value
            return value
        if name not in self.data:
            raise ValueError(f"{self._what} lacks the field {name}")
        return self.data.pop(name)

    def field(self, name: str, value: T, kind: Any) -> T:
        """Keep a value of a kind (see :mod:`antecede.endpoint.kinds`)."""
        if not self.is_read:
            self.data[name] = kinds.put(kind, value)
            return value
        written = self.plain(name)
        try:
            return cast("T", kinds.get(kind, written))
        except ValueError as error:
            raise ValueError(f"{self._what}: {name} is {error}") from None

    def number(self, name: str, value: int, least: int = 0, most: int = SAVED_MAX) -> int:
        """Keep a number within bounds."""
        return self.field(name, value, range(least, most + 1))

    def numbers(
        self, name: str, values: list[int], *, most: int = SAVED_MAX, is_open: bool = False
    ) -> list[int]:
        """Keep a list of numbers, as long as now unless it is open."""
        if not self.is_read:
            self.data[name] = [*values]
            return values
        return self.field(name, values, [range(most + 1), None if is_open else len(values)])

    def keys(self, name: str, keys: list[int], shift: int) -> list[int]:
        """Keep one key for each place, in order."""
        found = self.numbers(name, keys, most=(SAVED_MAX + 1 << shift) - 1)
        is_right = [key & (1 << shift) - 1 for key in found] == [*range(len(found))]
        self.require(is_right, name, found, "a key for each place")
        return found

    def rows(
        self,
        name: str,
        rows: list[T],
        width: int | None = None,
        *,
        most: int = SAVED_MAX,
        leasts: Iterable[int] = (),
        has_repeats: bool = False,
    ) -> list[T]:
        """Keep a list of lists, tuples or sets of numbers, as long as now.

        With ``leasts`` the numbers of each ascend, and begin at its least or above.
        """
        kind: Any = type(rows[0])
        if not self.is_read:
            self.data[name] = list(map(sorted if kind is set else list, cast("list[Any]", rows)))
            return rows
        found: Any = self.field(name, rows, [[range(most + 1), width], len(rows)])
        for row, least in zip(found, leasts):
            is_sorted = row == sorted(row if has_repeats else set(row))
            is_right = is_sorted and min(row, default=least) >= least
            self.require(is_right, name, row, f"ascending numbers from {least}")
        return list(map(kind, found))
