"""Saved state, read field by field: what is missing, unknown or impossible is a ValueError."""

from __future__ import annotations

from typing import Final, TypeVar, cast

from antecede.endpoint.messages import COUNT_MAX
from antecede.errors import shown

T = TypeVar("T")
# In the class below, ``list`` is a method.
Numbers = list[int]
Rows = list[list[int]]
Pairs = list[tuple[int, int]]
Sets = list[set[int]]
SAVED_MAX: Final = COUNT_MAX
"""The highest number accepted from a saved state: all that a peer may have told us."""


class Fields:
    """The fields of one record; every one must be read, and :meth:`end` sees to that."""

    def __init__(self, what: str, data: object) -> None:
        if not isinstance(data, dict):
            msg = f"{what} is {shown(data)}; expected fields by name"
            raise ValueError(msg)
        self._what = what
        self._data = dict(data)

    def end(self) -> None:
        """Refuse fields that nobody asked for."""
        if self._data:
            msg = f"{self._what} has unknown fields {', '.join(sorted(map(str, self._data)))}"
            raise ValueError(msg)

    def take(self, name: str) -> object:
        """Return a field of any kind."""
        if name not in self._data:
            msg = f"{self._what} lacks the field {name}"
            raise ValueError(msg)
        return self._data.pop(name)

    def wrong(self, name: str, value: object, expected: str) -> ValueError:
        """Return the error for a field with an impossible value."""
        return ValueError(f"{self._what}: {name} is {shown(value)}; expected {expected}")

    def fields(self, name: str) -> Fields:
        """Return a field that is a record itself."""
        return Fields(f"{self._what}.{name}", self.take(name))

    def value(self, name: str, kind: type[T]) -> T:
        """Return a field of exactly this type."""
        value = self.take(name)
        if type(value) is not kind:
            raise self.wrong(name, value, kind.__name__)
        return value

    def number(self, name: str, least: int = 0, most: int = SAVED_MAX) -> int:
        """Return a field that is a number within bounds."""
        value = self.take(name)
        if type(value) is not int or not least <= value <= most:
            raise self.wrong(name, value, f"a number from {least} to {most}")
        return value

    def list(self, name: str, length: int | None = None) -> list[object]:
        """Return a field that is a list, of this length."""
        value = self.take(name)
        if type(value) is not list or length not in (None, len(value)):
            raise self.wrong(name, value, f"a list of {length}" if length is not None else "a list")
        return value

    def numbers(
        self, name: str, length: int | None = None, *, least: int = 0, most: int = SAVED_MAX
    ) -> Numbers:
        """Return a field that is a list of numbers within bounds."""
        return self._checked(name, self.list(name, length), least, most)

    def rows(
        self, name: str, length: int, width: int | None = None, *, most: int = SAVED_MAX
    ) -> Rows:
        """Return a field that is so many lists of (so many) numbers."""
        rows = self.list(name, length)
        for row in rows:
            if type(row) is not list or width not in (None, len(row)):
                raise self.wrong(name, row, f"a list of {width} numbers")
            self._checked(name, row, 0, most)
        return cast("list[list[int]]", rows)

    def pairs(self, name: str, most: int = SAVED_MAX) -> Pairs:
        """Return a field that is a list of pairs of numbers."""
        found = []
        for pair in self.list(name):
            if type(pair) is not list or len(pair) != 2:
                raise self.wrong(name, pair, "a pair of numbers")
            first, second = self._checked(name, pair, 0, most)
            found.append((first, second))
        return found

    def by_number(self, name: str, most: int) -> dict[int, int]:
        """Return a field of pairs as a dict; the first numbers are distinct, and below ``most``."""
        pairs = self.pairs(name)
        found = dict(pairs)
        if len(found) != len(pairs) or any(key >= most for key in found):
            raise self.wrong(name, pairs, f"pairs with distinct first numbers below {most}")
        return found

    def keys(self, name: str, places: int, shift: int, most: int = SAVED_MAX) -> Numbers:
        """Return a field of one key for each place, in order; ``most`` bounds their numbers."""
        keys = self.numbers(name, places, most=(most + 1 << shift) - 1)
        low = (1 << shift) - 1
        if any(key & low != place for place, key in enumerate(keys)):
            raise self.wrong(name, keys, "a key for each place")
        return keys

    def beyond(self, name: str, firsts: Numbers) -> Sets:
        """Return a field of ascending numbers, beyond the next after each of ``firsts``."""
        rows = self.rows(name, len(firsts))
        for first, row in zip(firsts, rows, strict=True):
            if sorted(set(row)) != row or (row and row[0] <= first + 1):
                raise self.wrong(name, row, f"ascending numbers above {first + 1}")
        return [set(row) for row in rows]

    def mask(self, name: str, n: int) -> int:
        """Return a field that is a set of members, in hexadecimal."""
        return self.as_mask(name, self.take(name), n)

    def as_mask(self, name: str, value: object, n: int) -> int:
        """Return a set of members, in hexadecimal."""
        if type(value) is not str or len(value) > n // 4 + 1 or not _is_hex(value):
            raise self.wrong(name, value, f"a set of {n} members in hexadecimal")
        mask = int(value, 16)
        if mask >> n:
            raise self.wrong(name, value, f"a set of {n} members")
        return mask

    def _checked(self, name: str, values: object, least: int, most: int) -> Numbers:
        numbers = cast("list[int]", values)
        if numbers and (
            set(map(type, numbers)) != {int} or min(numbers) < least or max(numbers) > most
        ):
            raise self.wrong(name, numbers, f"numbers from {least} to {most}")
        return numbers


def _is_hex(text: str) -> bool:
    return bool(text) and set(text) <= set("0123456789abcdef")
