"""What all members of a group must agree on, and this process's name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

DIGEST_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Setup:
    """What all members must agree on, and this process's name."""

    process: str
    members: tuple[str, ...]
    protocol: str
    options: Mapping[str, Any]

    @property
    def digest(self) -> bytes:
        """A short digest of what all members must agree on."""
        return _digest((self.protocol, _plain(self.options), self.members))

    @property
    def rules(self) -> bytes:
        """A short digest of the protocol and its options alone."""
        return _digest((self.protocol, _plain(self.options)))

    @property
    def sentence(self) -> str:
        """The setup as an error message names it."""
        options = "".join(f", {key}={value!r}" for key, value in self.options.items())
        return f"{self.process} of {', '.join(self.members)} ({self.protocol}{options})"


def _digest(value: object) -> bytes:
    text = repr(value).encode(errors="surrogatepass")
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES).digest()


def _plain(value: object) -> object:
    """Return options in one form, however they were written: as lists, tuples or sets."""
    if isinstance(value, Mapping):
        return tuple(sorted((str(key), _plain(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(_plain(item) for item in value)
    if isinstance(value, (set, frozenset)):
        return tuple(sorted(map(str, value)))
    return value
