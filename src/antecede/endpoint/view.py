"""A view: who takes part, by number, and under which rules. It never changes.

Inside endpoints a process is its *number* (its position among the members), a set of processes is a
*mask* (an int with one bit for each), and a message is a *key*, ``seq << shift | sender``: the keys
of one sender compare like their numbers.
"""

import json
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final

DIGEST_BYTES: Final = 3
CACHE_MAX: Final = 4096
"""How many entries a cache may have."""


class View:
    """What all members share, and its digest; ``registry.view_of`` checks and makes views."""

    def __init__(
        self, number: int, members: tuple[str, ...], protocol: str, options: dict[str, Any]
    ) -> None:
        self.number: Final = number
        self.members: Final = members
        self.protocol: Final = protocol
        self.options: Final = options
        self.n: Final = len(members)
        self.shift: Final = max(self.n - 1, 1).bit_length()
        self.low: Final = (1 << self.shift) - 1
        self.everyone: Final = (1 << self.n) - 1
        self.numbers: Final = {name: number for number, name in enumerate(members)}
        self.firsts: Final = list(range(self.n))
        """By process, the key of message 0, which stands for none."""
        self.places: Final = [(number,) for number in self.firsts]
        """By process, a tuple of its number alone."""
        self._text = json.dumps([number, members, protocol, options], sort_keys=True)
        self.digest: Final = blake2b(self._text.encode(), digest_size=DIGEST_BYTES).digest()
        self.forms: Any
        """The forms of controls, a ``rules.Wire``, which the registry sets."""
        self.list: Final = lru_cache(CACHE_MAX)(_numbers)
        """Return the numbers in a mask, ascending."""

    def mask(self, names: Iterable[str]) -> int:
        """Return the mask of some members."""
        return sum([1 << number for number in {self.numbers[name] for name in names}])

    def names(self, mask: int) -> tuple[str, ...]:
        """Return the names in a mask, sorted."""
        return tuple(sorted([self.members[number] for number in self.list(mask)]))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, View) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self.digest)

    def id(self, key: int) -> tuple[str, int]:
        """Return a message by its sender's name and its number."""
        return self.members[key & self.low], key >> self.shift

    def __repr__(self) -> str:
        return f"View({self.number}, {self.members}, {self.protocol!r}, {self.options})"


def _numbers(mask: int) -> tuple[int, ...]:
    numbers = []
    while mask:
        numbers.append((mask & -mask).bit_length() - 1)
        mask &= mask - 1
    return tuple(numbers)
