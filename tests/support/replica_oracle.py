"""Causal memory by explicit sets, without any clock: what may be applied, returned and kept.

The causal order of writes follows from each process's operations in their order, and from the
write that each read returned. Nothing here shares an idea with the store that it judges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from antecede.endpoint.messages import MessageId

Copies = set[tuple[MessageId, str]]


@dataclass
class Past:
    """Writes, and which of their copies are known to be applied."""

    writes: set[MessageId] = field(default_factory=set)
    applied: Copies = field(default_factory=set)

    def grow(self, other: Past) -> None:
        """Add another past."""
        self.writes |= other.writes
        self.applied |= other.applied

    def copy(self) -> Past:
        """Return an independent copy."""
        return Past(set(self.writes), set(self.applied))


class NotCausalError(AssertionError):
    """A store broke causal memory; the text says where."""


class CausalMemory:
    """The events of a store, judged step by step."""

    def __init__(self, members: Iterable[str]) -> None:
        self.keys: dict[MessageId, str] = {}
        self.replicas: dict[MessageId, frozenset[str]] = {}
        self.pasts: dict[MessageId, Past] = {}
        """The past that each write depends on."""
        self.here = {member: Past() for member in members}
        """The writes that each process has written or read, with the past of each."""
        self.applied: dict[str, set[MessageId]] = {member: set() for member in self.here}

    def write(self, process: str, write: MessageId, key: str, replicas: Iterable[str]) -> None:
        """Note a write; if it is applied at its own process, that is noted separately."""
        past = self.here[process]
        self.keys[write] = key
        self.replicas[write] = frozenset(replicas)
        self.pasts[write] = past.copy()
        past.writes.add(write)

    def apply(self, process: str, write: MessageId) -> None:
        """Check that a process may apply a write, and note it."""
        if process not in self.replicas[write] or write in self.applied[process]:
            msg = f"{process} applies {write}, which is not for it, or was applied before"
            raise NotCausalError(msg)
        if missing := self.missing(process, write):
            msg = f"{process} applies {write} before {min(missing)}, on which it depends"
            raise NotCausalError(msg)
        self.applied[process].add(write)

    def missing(self, process: str, write: MessageId) -> set[MessageId]:
        """Return the writes that must be applied at a process before this one."""
        return self._due(process, self.pasts[write].writes)

    def _due(self, process: str, writes: set[MessageId]) -> set[MessageId]:
        due = {other for other in writes if process in self.replicas[other]}
        return due - self.applied[process]

    def read(self, process: str, key: str, write: MessageId | None, source: str) -> None:
        """Check that a process may read this write of a key, from its own copy or ``source``'s."""
        past = self.here[process]
        if write is not None:
            if self.keys[write] != key or write not in self.applied[source]:
                msg = f"{process} reads {write} for {key!r}, which {source} does not have"
                raise NotCausalError(msg)
            past.grow(self.pasts[write])
            past.writes.add(write)
        if lost := self._due(process, past.writes):
            msg = f"{process} reads {write} before it has {min(lost)}, on which that depends"
            raise NotCausalError(msg)
        for other in past.writes:
            if self.keys[other] == key and (write is None or write in self.pasts[other].writes):
                msg = f"{process} reads {write} for {key!r}, which {other} had overwritten"
                raise NotCausalError(msg)
        known = set() if write is None else {write, *self.pasts[write].writes}
        past.applied |= {(w, source) for w in known if source in self.replicas[w]}
        past.applied |= {(w, process) for w in past.writes if process in self.replicas[w]}

    def required(self, process: str) -> Mapping[MessageId, frozenset[str]]:
        """Return what must be kept: the processes that may lack a write and hear of it no later.

        The Propagation Constraints of [KS98] 3.4: a write and a process that keeps its key, unless
        the past shows that it is applied there or that a later write goes there.
        """
        past, kept = self.here[process], {}
        for write in sorted(past.writes):
            later = [w for w in past.writes if write in self.pasts[w].writes]
            names = frozenset(
                name
                for name in self.replicas[write] - {write.sender}
                if (write, name) not in past.applied
                and not any(name in self.replicas[w] for w in later)
            )
            if names:
                kept[write] = names
        return kept

    def unapplied(self) -> Copies:
        """Return the copies of writes that were not applied."""
        every = {(write, name) for write, names in self.replicas.items() for name in names}
        return every - {(write, name) for name, writes in self.applied.items() for write in writes}
