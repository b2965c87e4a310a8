"""Processes as numbers: names are looked up once, where they come in.

Inside, a process is its *number* in a roster and a set of processes is a *mask*, an int with one
bit for each. A message is a *key*, ``seq << shift | sender``: keys of one sender compare like their
seqs, and a key with seq 0 stands for "no message of this sender".
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Final

SETS_MAX: Final = 4096
TABLES_MAX: Final = 64
DIGEST_BYTES: Final = 3
UNKNOWN: Final = -1
"""Stands, in a table from one roster to another, for a process that the other does not have."""


class Roster:
    """Names by number; immutable. Get one by :func:`roster_of`, which shares equal ones."""

    __slots__ = (
        "_digests",
        "_ones",
        "_sets",
        "_tables",
        "bits",
        "low",
        "names",
        "numbers",
        "shift",
    )

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names: Final = names
        self.numbers: Final[dict[str, int]] = {name: i for i, name in enumerate(names)}
        self.shift: Final = max((len(names) - 1).bit_length(), 1)
        self.low: Final = (1 << self.shift) - 1
        self.bits: Final[list[int]] = [1 << i for i in range(len(names))]
        self._ones: Final[list[tuple[str, ...]]] = [(name,) for name in names]
        self._sets: dict[int, tuple[str, ...]] = {}
        self._tables: dict[Roster, list[int]] = {}
        self._digests: list[bytes] = []

    def __len__(self) -> int:
        return len(self.names)

    def __reduce__(self) -> tuple[object, ...]:
        return roster_of, (self.names,)

    @property
    def digest(self) -> bytes:
        """A few bytes that differ if the names or their order do."""
        return self.digests[-1]

    @property
    def digests(self) -> list[bytes]:
        """The digest of the first process, of the first two, and so on."""
        if not self._digests:
            whole = b""
            for name in self.names:
                text = name.encode(errors="surrogatepass")
                whole = blake2b(whole + text, digest_size=16).digest()
                self._digests.append(whole[:DIGEST_BYTES])
        return self._digests

    def members(self, mask: int) -> list[int]:
        """Return the numbers in a mask, ascending."""
        result: list[int] = []
        while mask:
            bit = mask & -mask
            result.append(bit.bit_length() - 1)
            mask ^= bit
        return result

    def sorted_names(self, mask: int) -> tuple[str, ...]:
        """Return the names in a mask, sorted; the same sets recur, so some thousands are kept."""
        number = mask.bit_length() - 1
        if number >= 0 and mask == self.bits[number]:
            return self._ones[number]  # powers of two collide as keys of a dict
        names = self._sets.get(mask)
        if names is None:
            if len(self._sets) >= SETS_MAX:
                self._sets.clear()
            names = self._sets[mask] = tuple(sorted([self.names[i] for i in self.members(mask)]))
        return names

    def mask_of(self, names: tuple[str, ...]) -> int:
        """Return names as a mask; all must be known."""
        mask = 0
        for name in names:
            mask |= self.bits[self.numbers[name]]
        return mask

    def table_to(self, other: Roster) -> list[int]:
        """Return, by our numbers, the other roster's number of each process, or UNKNOWN."""
        table = self._tables.get(other)
        if table is None:
            if len(self._tables) >= TABLES_MAX:
                self._tables.clear()
            table = [other.numbers.get(name, UNKNOWN) for name in self.names]
            self._tables[other] = table
        return table


@lru_cache(maxsize=256)
def roster_of(names: tuple[str, ...]) -> Roster:
    """Return the roster of these names; equal names mostly give the same object."""
    return Roster(names)
