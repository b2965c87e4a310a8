"""Messages that were sent several times: which send counts, and whose copy each delivery is.

All sends of one id are one message that was passed on, unless the log shows otherwise. A send is a
*relay* if its process had sent or delivered the message before, else an *origin*. If nobody is an
origin, the first sends of those processes are, to which no other send is addressed: the message
came to them from outside the log.

- If one origin happened before all others (or is the only one), its send counts and owns every
  delivery. The delivery is judged against it, and follows it.
- Otherwise the origins are different messages with the same id. A delivery belongs to the origin
  whose copy it must be; if there are several possibilities, it belongs to none.

A send can have caused a delivery at p if it is addressed to p (or the log does not say to whom), p
did not make it after the delivery, and its process can have got the message without p. If only one
send can, the delivery also follows that one: it came through this relay.

A process that sent the message has it. Copies that come back to it are not judged, unless the send
that counts names it as a destination. None of this depends on the names of processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from antecede.arrays import Ints
from antecede.audit.windows.matching import (
    LOCAL,
    NO_PATCH,
    SEND,
    Events,
    Patch,
)
from antecede.events.tables import DELIVERY_AMBIGUOUS, DELIVERY_WITHOUT_SEND

#: Why a delivery of such a message stands alone; a copy that came back is nothing to report.
_STRAY, _AMBIGUOUS, _RETURNED = 1, 2, 3
FINDINGS = {_STRAY: DELIVERY_WITHOUT_SEND, _AMBIGUOUS: DELIVERY_AMBIGUOUS}


@dataclass(frozen=True)
class Copies:
    """The sends and deliveries of some messages, and the destinations of sends if stated."""

    rows: Events
    dests: list[frozenset[int] | None]


class _Row(NamedTuple):
    """A send or delivery; ``number`` is its place among all rows."""

    number: int
    process: int
    is_send: bool
    dests: frozenset[int] | None

    def is_for(self, process: int) -> bool:
        return self.dests is None or process in self.dests

    def names(self, process: int) -> bool:
        return self.dests is not None and process in self.dests


@dataclass
class Settled:
    """What becomes of the messages that were sent several times."""

    patch: Patch = NO_PATCH
    again: list[tuple[int, int, int]] = field(default_factory=list)
    """Sends of a message that others had sent: process, seq, key."""
    alias: dict[int, int] = field(default_factory=dict)
    """New key -> the key that the message's name has."""
    alone: dict[int, str | None] = field(default_factory=dict)
    """Key of deliveries that stand alone -> what to report of them, if anything."""
    rivals: dict[int, dict[int, int]] = field(default_factory=dict)
    """Key -> the processes of its origins, by their new keys, if none is known to be the first."""
    undelivered: list[tuple[int, int]] = field(default_factory=list)
    """(row of the patch, process): a send names a process that has neither send nor delivery."""
    arrived: set[tuple[int, int]] = field(default_factory=set)
    """(new key, process) of rivals, where any of them was delivered: none is missing there."""


def settle(copies: Copies, earliest: Mapping[int, int]) -> Settled:
    """Settle messages; ``earliest`` has the process of the first origin, where order showed it."""
    rows = copies.rows
    order = np.lexsort((rows.kind, rows.need, rows.key, rows.kind & 3, rows.seq, rows.process))
    rows = rows.take(order)
    kind, key = rows.kind.copy(), rows.key.copy()
    settled = Settled()
    edges: list[tuple[int, int, int]] = []
    by_key = np.argsort(rows.key, kind="stable")
    for part in np.split(by_key, np.flatnonzero(np.diff(rows.key[by_key])) + 1):
        if not part.size:
            continue
        name = int(rows.key[part[0]])
        message = _Message(
            [
                _Row(k, int(rows.process[k]), rows.kind[k] & 3 == SEND, copies.dests[order[k]])
                for k in part.tolist()
            ],
            earliest.get(name),
        )
        edges += [(c, d, mixed(name, d, 0)) for c, d in message.edges()]
        _enter(message, name, settled, kind, key, rows)
    links = np.array(sorted(edges), np.int64).reshape(-1, 3)
    settled.patch = Patch(rows, kind, key, *(links[:, column].copy() for column in range(3)))
    return settled


def _enter(
    message: _Message,
    name: int,
    settled: Settled,
    kind: Ints,
    key: Ints,
    rows: Events,
) -> None:
    """Write down what the rows of a message become."""
    owners = message.owners
    several = len(owners) > 1
    new = {o.number: mixed(name, o.number, 1) if several else name for o in owners}
    if several:
        settled.rivals[name] = {new[o.number]: o.process for o in owners}
        settled.arrived |= {(k, p) for k in new.values() for p in message.deliveries}
    for row in message.rows:
        k = row.number
        if row.is_send:
            absent = (row.dests or frozenset()) - message.by_process.keys()
            settled.undelivered += [(k, p) for p in sorted(absent)]
            key[k] = new.get(k, name)
            if k not in new:
                kind[k] = LOCAL
            if k not in new or several:
                settled.again.append((row.process, int(rows.seq[k]), name))
            continue
        owner = message.owner_of(row)
        if isinstance(owner, _Row):
            key[k] = new[owner.number]
        else:
            key[k] = mixed(name, owner, 2)
            settled.alone[int(key[k])] = FINDINGS.get(owner)
        settled.alias[int(key[k])] = name
    settled.alias |= dict.fromkeys(new.values(), name)


class _Message:
    """The sends and deliveries of one id, in the order of their processes."""

    def __init__(self, rows: list[_Row], earliest: int | None) -> None:
        self.rows = rows
        self.by_process: dict[int, list[_Row]] = {}
        for row in rows:
            self.by_process.setdefault(row.process, []).append(row)
        self.sends = [row for row in rows if row.is_send]
        first = [mine[0] for mine in self.by_process.values()]
        self.origins = [row for row in first if row.is_send] or self._from_outside()
        if not self.origins and len(self.sends) == 1:
            self.origins = self.sends
        self.owners = [o for o in self.origins if earliest is None or o.process == earliest]
        self.deliveries = {
            p: next(row for row in mine if not row.is_send)
            for p, mine in self.by_process.items()
            if not all(row.is_send for row in mine)
        }
        self._possible = {p: self._causes(d) for p, d in self.deliveries.items()}
        self._owner = self._found_owners()

    def _from_outside(self) -> list[_Row]:
        """Return the first send of each process to which no send is addressed."""
        found = []
        for p, mine in self.by_process.items():
            sends = [row for row in mine if row.is_send]
            others = (c for c in self.sends if c.process != p)
            if (
                sends
                and not any(c.names(p) for c in sends)
                and not any(c.is_for(p) for c in others)
            ):
                found.append(sends[0])
        return found

    def _causes(self, delivery: _Row) -> list[_Row]:
        """Return the sends that can have caused the first delivery at a process."""
        p = delivery.process
        at = delivery.number
        could = [c for c in self.sends if c.is_for(p) and (c.process != p or c.number < at)]
        if not self.origins or all(c in self.origins for c in could):
            return could
        reached = self._reached_without(p)
        return [c for c in could if c.process == p or c.process in reached]

    def _reached_without(self, process: int) -> set[int]:
        """Return the processes that can have got the message without ``process``."""
        reached = {o.process for o in self.origins} - {process}
        todo = list(reached)
        while todo:
            sends = [c for c in self.by_process[todo.pop()] if c.is_send]
            fresh = {q for q in self.deliveries if any(c.is_for(q) for c in sends)}
            fresh -= {*reached, process}
            reached |= fresh
            todo += fresh
        return reached

    def _found_owners(self) -> dict[int, _Row | int]:
        """Return, by process, the send that owns the first delivery there, or why none does."""
        found: dict[int, _Row | int] = {}
        senders = {o.process: o for o in self.owners}
        if len(self.owners) == 1:
            owner = self.owners[0]
            for p, delivery in self.deliveries.items():
                found[p] = self._single_owner(owner, delivery)
            return found
        moved = True
        while moved:
            moved = False
            for p, causes in self._possible.items():
                if p in found or len(causes) != 1:
                    continue
                owner_of = senders.get(causes[0].process) or found.get(causes[0].process)
                if isinstance(owner_of, _Row):
                    found[p] = owner_of
                    moved = True
        return {p: found.get(p, self._why_alone(p)) for p in self.deliveries}

    def _single_owner(self, owner: _Row, delivery: _Row) -> _Row | int:
        p, at = delivery.process, delivery.number
        if p != owner.process:
            sent = any(c.number < at for c in self.by_process[p] if c.is_send)
            return _RETURNED if sent and not owner.names(p) else owner
        if owner.names(p) or (len(self.sends) == 1 and at > owner.number):
            return owner
        return _STRAY if at < owner.number else _RETURNED

    def _why_alone(self, process: int) -> int:
        return _AMBIGUOUS if self._possible[process] else _STRAY

    def owner_of(self, delivery: _Row) -> _Row | int:
        """Return the send that owns a delivery, or why none does."""
        return self._owner[delivery.process]

    def edges(self) -> Iterable[tuple[int, int]]:
        """Return (send, delivery) where a delivery must have come through a relay."""
        for p, causes in self._possible.items():
            if len(causes) == 1 and causes[0] != self._owner[p]:
                yield causes[0].number, self.deliveries[p].number


_MASK = 2**64 - 1


def mixed(key: int, number: int, use: int) -> int:
    """Return a new key for the ``number``-th thing of some use that belongs to ``key``."""
    value = (key + 0x9E3779B97F4A7C15 * (4 * number + use + 1)) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    value ^= value >> 31
    return value - 2**64 if value >> 63 else value
