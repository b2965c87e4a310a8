"""The rule of declared causes as definitions over what has happened, without indexes.

Slow and obvious: the machine, every store and ``reorder`` are compared with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from antecede.inbox.causes import topic_of


@dataclass
class Specification:
    """The rule by definitions over past steps, with which every implementation is compared."""

    topics: Collection[str]
    causes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    parked: set[str] = field(default_factory=set)
    #: Causes that a message need not wait for, although they are not finished.
    waived: dict[str, set[str]] = field(default_factory=dict)
    unmet: dict[str, set[str]] = field(default_factory=dict)
    missed: set[str] = field(default_factory=set)
    late: set[str] = field(default_factory=set)

    def here(self) -> set[str]:
        """Return the messages that were offered and are not finished."""
        return set(self.causes) - self.done

    def lacks(self, key: str) -> set[str]:
        """Return the causes that a message still has to wait for."""
        wanted = {cause for cause in self.causes[key] if topic_of(cause) in self.topics}
        return wanted - self.done - self.waived.get(key, set())

    def ready(self) -> set[str]:
        """Return the messages that may be handed over now."""
        return {key for key in self.here() - self.parked if not self.lacks(key)}

    def waiting(self) -> set[str]:
        """Return the messages that have to wait."""
        return {key for key in self.here() - self.parked if self.lacks(key)}

    def ancestry(self, key: str, among: set[str]) -> set[str]:
        """Return the messages ``among`` which a message waits, directly or through others."""
        found: set[str] = set()
        edge = self.lacks(key) & among
        while edge:
            found |= edge
            edge = {cause for each in edge for cause in self.lacks(each) & among} - found
        return found

    def offer(self, key: str, causes: Iterable[str]) -> None:
        """Accept a message; a second one with its key is a duplicate."""
        if key in self.causes:
            return
        self.causes[key] = tuple(causes)
        if key in self.missed:
            self.late.add(key)
        self._park_cycle(key)

    def finish(self, key: str) -> None:
        """Note that a ready message has been handled."""
        assert key in self.ready(), f"{key} is not ready"
        self.done.add(key)

    def release(self, key: str) -> None:
        """Let a message wait only for the causes that are here, not for missing ones."""
        self.parked.discard(key)
        for each in {key} | self.ancestry(key, self.waiting()):
            gone = {c for c in self.lacks(each) if c not in self.causes or c in self.parked}
            gone |= self.lacks(each) & {each}
            self.waived.setdefault(each, set()).update(gone)
            self.unmet.setdefault(each, set()).update(gone)
            self.missed |= gone - {each}
            self.late |= gone & self.parked

    def outdate(self, key: str) -> None:
        """Count the missing causes of a message as finished, because they are too old."""
        gone = {cause for cause in self.lacks(key) if cause not in self.causes}
        self.waived.setdefault(key, set()).update(gone)

    def park(self, key: str) -> None:
        """Keep a message for a person."""
        self.parked.add(key)

    def retry(self, key: str) -> None:
        """Treat a parked message as if it had just arrived."""
        self.parked.discard(key)
        self._park_cycle(key)

    def _park_cycle(self, key: str) -> None:
        here = self.here()
        ancestry = self.ancestry(key, here)
        if key in ancestry:
            cycle = {each for each in ancestry if key in self.ancestry(each, here)}
            self.parked |= cycle
