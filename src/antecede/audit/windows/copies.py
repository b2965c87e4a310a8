"""Settle messages that were sent several times: what their events become in windows.

``antecede.audit.copies`` has the rule: which send counts, and which delivery belongs to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from antecede.arrays import Ints
from antecede.audit.copies import FINDINGS, RETURNED, Message, Row
from antecede.audit.windows.matching import (
    LOCAL,
    NO_PATCH,
    SEND,
    Events,
    Patch,
)


@dataclass(frozen=True)
class Copies:
    """The sends and deliveries of some messages, and the destinations of sends if stated."""

    rows: Events
    dests: list[frozenset[int] | None]


@dataclass
class Settled:
    """The result for the messages that were sent several times."""

    patch: Patch = NO_PATCH
    again: list[tuple[int, int, int]] = field(default_factory=list)
    """Sends of a message that others had sent: process, seq, key."""
    alias: dict[int, int] = field(default_factory=dict)
    """New key -> the key of the message's name."""
    alone: dict[int, str | None] = field(default_factory=dict)
    """Key of deliveries that stand alone -> what to report of them, if anything."""
    rivals: dict[int, dict[int, int]] = field(default_factory=dict)
    """Key -> the processes of its origins, by their new keys, if none is known to be the first."""
    undelivered: list[tuple[int, int]] = field(default_factory=list)
    """(row of the patch, process) where the log lacks a delivery that the send should have."""
    unsettled: list[tuple[int, int]] = field(default_factory=list)
    """Those that would show what another send of the process is."""
    arrived: set[tuple[int, int]] = field(default_factory=set)
    """(new key, process) of rivals, where any of them was delivered: none is missing there."""
    maybe: list[tuple[int, int, int]] = field(default_factory=list)
    """(send, delivery, what), rows of the patch: a returned copy may be of this send."""
    unknown: set[int] = field(default_factory=set)
    """The rows of copies returned from a process outside the log."""


def settle(copies: Copies, earliest: Mapping[int, int]) -> Settled:
    """Settle messages; ``earliest`` has the process of the first origin, if order showed it."""
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
        message = Message(
            [
                Row(k, int(rows.process[k]), rows.kind[k] & 3 == SEND, copies.dests[order[k]])
                for k in part.tolist()
            ],
            earliest.get(name),
        )
        edges += [(c, d, mixed(name, d, 0)) for c, d in message.edges()]
        settled.maybe += message.maybe()
        settled.undelivered += message.undelivered()
        settled.unsettled += message.unsettled()
        _enter(message, name, settled, kind, key, rows)
    links = np.array(sorted(edges), np.int64).reshape(-1, 3)
    settled.patch = Patch(rows, kind, key, *(links[:, column].copy() for column in range(3)))
    return settled


def _enter(
    message: Message,
    name: int,
    settled: Settled,
    kind: Ints,
    key: Ints,
    rows: Events,
) -> None:
    """Record what the rows of a message become."""
    owners = message.owners
    several = len(owners) > 1
    new = {o.number: mixed(name, o.number, 1) if several else name for o in owners}
    if several:
        settled.rivals[name] = {new[o.number]: o.process for o in owners}
        settled.arrived |= {(k, p) for k in new.values() for p in message.deliveries}
    replies = {row.number for row in message.replies.values()}
    new |= {number: mixed(name, number, 1) for number in replies}
    for row in message.rows:
        k = row.number
        if row.is_send:
            key[k] = new.get(k, name)
            if k not in new:
                kind[k] = LOCAL
            if k not in replies and (k not in new or several):
                settled.again.append((row.process, int(rows.seq[k]), name))
            continue
        owner = message.owner_of(row)
        if isinstance(owner, Row):
            key[k] = new[owner.number]
        else:
            key[k] = mixed(name, owner, 2)
            settled.alone[int(key[k])] = FINDINGS.get(owner)
            if owner == RETURNED and not message.causes[row.process]:
                settled.unknown.add(k)
        settled.alias[int(key[k])] = name
    settled.alias |= dict.fromkeys(new.values(), name)


_MASK = 2**64 - 1


def mixed(key: int, number: int, use: int) -> int:
    """Return a new key for the ``number``-th item of some use that belongs to ``key``."""
    value = (key + 0x9E3779B97F4A7C15 * (4 * number + use + 1)) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    value ^= value >> 31
    return value - 2**64 if value >> 63 else value
