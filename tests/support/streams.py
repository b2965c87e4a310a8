"""Random streams with declared causes, and a sequential oracle of what batches must deliver."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from antecede.audit.api import Audit, audit_table
from antecede.reorder.columns import CAUSES, CHANNEL, DEST, KEY, REASON, SEQ
from antecede.reorder.packets import number_of


@dataclass(frozen=True)
class Sent:
    """A copy of a message for one destination, with its causes for the same destination."""

    id: str
    dest: str
    source: str
    seq: int
    causes: tuple[str, ...]


class Stream(NamedTuple):
    """All copies, the batches in which they arrive, and the event log of the processes."""

    copies: list[Sent]
    batches: list[list[Sent]]
    history: list[dict[str, Any]]


def stream(
    rng: random.Random,
    *,
    messages: int,
    processes: int = 4,
    lost: float = 0.0,
    twice: float = 0.1,
    spread: float | None = None,
) -> Stream:
    """Return a random stream whose copies arrive shuffled, some twice, some never.

    A process sends to some of the others; a message follows all that its sender sent or was sent.
    """
    names = [f"p{number}" for number in range(processes)]
    past: dict[str, dict[str, list[str]]] = {name: {to: [] for to in names} for name in names}
    copies: list[Sent] = []
    history: list[dict[str, Any]] = []
    sent = dict.fromkeys(names, 0)
    before: dict[tuple[str, str], set[str]] = {}
    for number in range(messages):
        source = rng.choice(names)
        dests = rng.sample([name for name in names if name != source], rng.randint(1, 2))
        name, mine = f"m{number}", past[source]
        sent[source] += 1
        for to in dests:
            # Only the latest causes: earlier ones are their causes at the same destination.
            covered = {old for known in mine[to] for old in before[to, known]}
            causes = tuple(known for known in mine[to] if known not in covered)
            before[to, name] = {*causes, *(old for known in causes for old in before[to, known])}
            copies.append(Sent(name, to, source, sent[source], causes))
        for to in dests:
            mine[to] = [*mine[to], name]
        heard = [to for to in dests if rng.random() < 0.7]
        readers = [*heard, *(f"reader of {to}" for to in dests)]
        history.append(_event(len(history), source, "send", name, readers))
        for to in heard:  # The receiver learns what the sender knew.
            history.append(_event(len(history), to, "deliver", name))
            past[to] = {key: _joined(past[to][key], mine[key]) for key in names}
    return Stream(copies, _batches(rng, copies, (lost, twice, spread)), history)


def _batches(
    rng: random.Random, copies: Sequence[Sent], disorder: tuple[float, float, float | None]
) -> list[list[Sent]]:
    lost, twice, spread = disorder
    arriving = [copy for copy in copies if rng.random() >= lost]
    arriving += [copy for copy in arriving if rng.random() < twice]
    spread = spread or rng.choice([2, 10, 1000])
    arriving.sort(key=lambda copy: int(copy.id[1:]) + rng.random() * spread)
    batches: list[list[Sent]] = []
    while arriving:
        size = rng.randint(1, 40)
        batches.append(arriving[:size])
        arriving = arriving[size:]
    return batches


def _event(
    seq: int, process: str, kind: str, message: str, dests: list[str] | None = None
) -> dict[str, Any]:
    return {"process": process, "seq": seq, "kind": kind, "message": message, "dests": dests}


def audited(history: Sequence[dict[str, Any]], rows: Iterable[dict[str, Any]]) -> Audit:
    """Audit the history together with one reader per destination that reads the output."""
    read = [
        _event(row["position"], f"reader of {row['dest']}", "deliver", row["id"]) for row in rows
    ]
    return audit_table(pa.Table.from_pylist([*history, *read]))


def _joined(one: list[str], other: list[str]) -> list[str]:
    return sorted({*one, *other}, key=lambda name: int(name[1:]))


@dataclass
class Oracle:
    """The copies that each batch must deliver: those that came with all their causes."""

    came: dict[tuple[str, str], Sent] = field(default_factory=dict)
    out: set[tuple[str, str]] = field(default_factory=set)

    def take(self, batch: Iterable[Sent]) -> set[tuple[str, str]]:
        """Return the copies that this batch must deliver, no fewer and no more."""
        for copy in batch:
            self.came.setdefault((copy.dest, copy.id), copy)
        before, grows = set(self.out), True
        while grows:
            ready = {
                at
                for at, copy in self.came.items()
                if at not in self.out and all((copy.dest, c) in self.out for c in copy.causes)
            }
            self.out |= ready
            grows = bool(ready)
        return self.out - before


def table_of(rows: Sequence[Sent], reasons: Sequence[str | None] = ()) -> pa.Table:
    """Return rows in the form that a bucket takes."""
    columns: dict[str, Any] = {
        "id": [row.id for row in rows],
        "dest": [row.dest for row in rows],
        DEST: [number_of(row.dest) for row in rows],
        KEY: [number_of(row.dest, row.id) for row in rows],
        CHANNEL: [number_of(row.dest, row.source) for row in rows],
        SEQ: [row.seq for row in rows],
    }
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    causes = [[number_of(row.dest, cause) for cause in row.causes] for row in rows]
    table = table.append_column(CAUSES, pa.array(causes, pa.list_(pa.int64())))
    words = list(reasons) or [None] * len(rows)
    return table.append_column(REASON, pa.array(words, pa.string()))


def check_order(rows: Sequence[dict[str, Any]], copies: Iterable[Sent]) -> None:
    """Assert that each row comes once, after its causes, at positions without gaps."""
    causes = {(copy.dest, copy.id): copy.causes for copy in copies}
    by_dest: dict[str, dict[str, int]] = {}
    for row in rows:
        places = by_dest.setdefault(row["dest"], {})
        assert row["id"] not in places, row
        places[row["id"]] = row["position"]
    for dest, places in by_dest.items():
        assert sorted(places.values()) == list(range(1, len(places) + 1))
        for name, position in places.items():
            for cause in causes[dest, name]:
                assert places.get(cause, np.inf) < position, (dest, name, cause)


def rows_table(rows: Sequence[Sent]) -> pa.Table:
    """Return rows in a user's form, with columns that pass through."""
    return pa.table(
        {
            "id": [row.id for row in rows],
            "dest": [row.dest for row in rows],
            "source": [row.source for row in rows],
            "seq": [row.seq for row in rows],
            "causes": pa.array([list(row.causes) for row in rows], pa.list_(pa.string())),
            "payload": pa.array([{"text": row.id * 2, "size": row.seq} for row in rows]),
        }
    )
