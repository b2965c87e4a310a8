"""State as plain data: one line names a field, to write it, or to read and check it.

An object with state lists its fields in one method, ``keep(saved)``, in the order in which they are
written: ``self._last = saved.numbers("last", self._last, most=self.made)``. When state is saved,
this writes a copy and returns the value itself. When state is restored, it returns the value that
was written, or raises ValueError if no process can have it. The value before, of a new process,
then determines how long a list must be. ``require`` checks that fields agree with each other.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from antecede.endpoint.messages import COUNT_MAX
from antecede.errors import shown

T = TypeVar("T")
Keep = Callable[["Saved"], None]
Put = Callable[[Any], object]
Get = Callable[[Any], T]
State = dict[str, object]
"""Plain data by field names: numbers, texts, bytes, lists and dicts of these, and packets."""
SAVED_MAX: Final = COUNT_MAX
"""The highest number accepted from a saved state: the highest that a peer may tell us."""
HEX: Final = frozenset("0123456789abcdef")


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

    # Kinds of fields.

    def plain(self, name: str, value: object = None) -> Any:
        """Write a value as it is; or return the value that was written, unchecked."""
        if not self.is_read:
            self.data[name] = value
            return value
        if name not in self.data:
            raise ValueError(f"{self._what} lacks the field {name}")
        return self.data.pop(name)

    def value(self, name: str, value: T) -> T:
        """Keep a value of exactly this type."""
        found: T = self.plain(name, value)
        self.require(type(found) is type(value), name, found, type(value).__name__)
        return found

    def number(self, name: str, value: int, least: int = 0, most: int = SAVED_MAX) -> int:
        """Keep a number within bounds."""
        found: int = self.plain(name, value)
        is_right = type(found) is int and least <= found <= most
        self.require(is_right, name, found, f"a number from {least} to {most}")
        return found

    def each(
        self, name: str, values: list[T], put: Put, get: Get[T], *, is_open: bool = False
    ) -> list[T]:
        """Keep a list, as long as now unless open; ``put`` writes a value, ``get`` reads it."""
        found = self.plain(name, None if self.is_read else list(map(put, values)))
        length = None if is_open else len(values)
        return list(map(get, self.as_list(name, found, length))) if self.is_read else values

    def numbers(
        self, name: str, values: list[int], *, most: int = SAVED_MAX, is_open: bool = False
    ) -> list[int]:
        """Keep a list of numbers, as long as now unless it is open."""
        found = self.plain(name, [*values])
        length = None if is_open else len(values)
        return self.as_numbers(name, found, length, most) if self.is_read else values

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
        leasts: Iterable[int] | None = None,
        has_repeats: bool = False,
    ) -> list[T]:
        """Keep a list of lists, tuples or sets of numbers, as long as now.

        With ``leasts`` the numbers of each ascend, and begin at its least or above.
        """
        kind: Any = type(rows[0])
        left = None if leasts is None else iter(leasts)

        def get(row: object) -> T:
            numbers = self.as_numbers(name, row, width, most)
            if left is not None:
                least, ascending = next(left), sorted(numbers if has_repeats else set(numbers))
                is_right = numbers == ascending and (not numbers or numbers[0] >= least)
                self.require(is_right, name, row, f"ascending numbers from {least}")
            found: T = kind(numbers)
            return found

        return self.each(name, rows, sorted if kind is set else list, get)

    def tuples(self, name: str, values: list[Any], width: int) -> list[Any]:
        """Keep any number of tuples of ``width`` numbers."""
        return self.each(
            name, values, list, lambda one: (*self.as_numbers(name, one, width),), is_open=True
        )

    def by_number(self, name: str, numbers: dict[int, int], below: int) -> dict[int, int]:
        """Keep a dict of numbers, whose keys are below ``below``."""
        found = self.plain(name, in_pairs(numbers))
        return self.as_by_number(name, found, below) if self.is_read else numbers

    def mask(self, name: str, mask: int, n: int) -> int:
        """Keep a set of ``n`` members, which is written in hexadecimal."""
        found = self.plain(name, format(mask, "x"))
        return self.as_mask(name, found, n) if self.is_read else mask

    # Checks of values that were read, by kind.

    def as_list(self, name: str, value: Any, length: int | None = None) -> list[Any]:
        """Return a list, of this length if one is given."""
        is_right = type(value) is list and length in (None, len(value))
        self.require(is_right, name, value, "a list" if length is None else f"a list of {length}")
        return value

    def as_numbers(
        self, name: str, value: Any, length: int | None = None, most: int = SAVED_MAX
    ) -> list[int]:
        """Return a list (of this length, if one is given) of numbers from 0 to ``most``."""
        numbers: list[int] = self.as_list(name, value, length)
        is_right = set(map(type, numbers)) <= {int}
        is_right = is_right and (not numbers or 0 <= min(numbers) <= max(numbers) <= most)
        self.require(is_right, name, numbers, f"numbers from 0 to {most}")
        return numbers

    def as_by_number(
        self, name: str, value: Any, below: int, most: int = SAVED_MAX
    ) -> dict[int, int]:
        """Return a dict of numbers, whose keys are distinct and below ``below``."""
        pairs: Any = [self.as_numbers(name, pair, 2, most) for pair in self.as_list(name, value)]
        found: dict[int, int] = dict(pairs)
        is_right = len(found) == len(pairs) and max(found, default=-1) < below
        self.require(is_right, name, pairs, f"pairs with distinct first numbers below {below}")
        return found

    def as_mask(self, name: str, value: Any, n: int) -> int:
        """Return a set of ``n`` members, as a mask."""
        is_hex = type(value) is str and len(value) <= n // 4 + 1 and bool(value)
        is_right = is_hex and set(value) <= HEX and int(value, 16) >> n == 0
        self.require(is_right, name, value, f"a set of {n} members in hexadecimal")
        return int(value, 16)


def in_pairs(numbers: dict[int, int]) -> list[list[int]]:
    """Return a dict of numbers in the form that a snapshot has: sorted pairs."""
    return sorted(map(list, numbers.items()))
