"""One bucket of destinations: rows in, rows out, and its state to and from a store.

A row's columns stay in Arrow tables. The machine sees only the numbers in the columns that begin
with ``PREFIX``; the rest are the user's.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from antecede.errors import UsageError
from antecede.pipeline.streams.machine import Arrival, Changes, Machine, Message, Out
from antecede.pipeline.streams.memory import Generation, Keys
from antecede.pipeline.streams.runs import Runs
from antecede.pipeline.streams.store import (
    STATE_VERSION,
    Store,
    pack_numbers,
    pack_table,
    unpack_numbers,
    unpack_table,
)

PREFIX = "__antecede_"
DEST, KEY, CHANNEL, SEQ, CAUSES, TIME, REASON, BUCKET = (
    PREFIX + name
    for name in ("dest", "key", "channel", "seq", "causes", "time", "reason", "bucket")
)

#: After so many batches, one entry of the log replaces all before it.
LOG_ENTRIES = 32
#: A chunk of held rows is rewritten when fewer than this share of its rows still wait.
LIVE_SHARE = 0.25
#: Keys of batches within this share of the horizon are stored together.
SLOT_SHARE = 1 / 16


@dataclass(frozen=True)
class Policy:
    """What a bucket is told: times in microseconds, and what may not change over a checkpoint."""

    timeout: int | None
    horizon: int
    fixed: str
    version: int = STATE_VERSION
    keeps_rejected: bool = False


@dataclass(slots=True)
class Chunk:
    """Rows that were held in one batch, and which of them have left since."""

    table: pa.Table
    dead: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.table) - len(self.dead)


class Bucket:
    """The machine of one bucket, with the rows that wait and the state's journal."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.machine = Machine(timeout=policy.timeout)
        self.chunks: dict[int, Chunk] = {}
        self.generation = 0
        self.base: int | None = None
        self.token = ""

    # -- rows

    def offer(self, table: pa.Table, now: int) -> pa.Table:
        """Take the rows of a batch; return the rows that leave, with their new columns."""
        self.generation += 1
        good, bad = self._split(table)
        outs = bad + self.machine.offer(good, self.generation, now)
        result = self._rows(outs, table)
        self._keep_held(table)
        return result

    def expire(self, now: int) -> pa.Table | None:
        """Return the rows whose time is up."""
        self.generation += 1
        outs = self.machine.expire(now)
        result = self._rows(outs, None) if outs else None
        self._bury()
        return result

    def flush(self, now: int) -> pa.Table | None:
        """Return all rows that are held: no more will come."""
        outs = self.machine.flush(now)
        return self._rows(outs, None) if outs else None

    def _split(self, table: pa.Table) -> tuple[Iterator[Arrival], list[Out]]:
        reasons = table.column(REASON)
        bad: list[Out] = []
        if reasons.null_count < len(table):
            is_bad = np.asarray(reasons.is_valid())
            words = reasons.to_pylist()
            bad = [
                Out(self.generation, row, 0, 0, released=False, late=False, rejected=words[row])
                for row in np.flatnonzero(is_bad).tolist()
            ]
            rows = np.flatnonzero(~is_bad)
        else:
            rows = np.arange(len(table))
        return _arrivals(table, rows), bad

    def _rows(self, outs: list[Out], fresh: pa.Table | None) -> pa.Table:
        """Return the columns of the rows that leave, in their order."""
        sources = {number: chunk.table for number, chunk in self.chunks.items()}
        if fresh is not None:
            sources[self.generation] = fresh
        used = sorted({out.chunk for out in outs}) or sorted(sources)[:1]
        starts, start = {}, 0
        for number in used:
            starts[number] = start
            start += len(sources[number])
        whole = pa.concat_tables([sources[number] for number in used])
        names = [name for name in whole.column_names if not name.startswith(PREFIX)]
        at = pa.array([starts[out.chunk] + out.row for out in outs], pa.int64())
        found = whole.select(names).take(at)
        rejected = [out.rejected for out in outs]
        added: dict[str, Any] = {
            "position": pa.array([out.position or None for out in outs], pa.int64()),
            "held_seconds": pa.array([out.held / 1e6 for out in outs], pa.float64()),
            "released": pa.array([out.released for out in outs], pa.bool_()),
            "late": pa.array([out.late for out in outs], pa.bool_()),
        }
        if self.policy.keeps_rejected:
            added["rejected"] = pa.array(rejected, pa.string())
        for name, column in added.items():
            found = found.append_column(name, column)
        if not self.policy.keeps_rejected and any(rejected):
            found = found.filter(pa.array([reason is None for reason in rejected]))
        return found

    def _keep_held(self, table: pa.Table) -> None:
        """Put this batch's held rows into a chunk of their own, with those of thin chunks."""
        self._bury()
        thin = {
            number
            for number, chunk in self.chunks.items()
            if 0 < len(chunk) < LIVE_SHARE * len(chunk.table)
        }
        sources = {number: self.chunks[number].table for number in sorted(thin)}
        sources[self.generation] = table
        moved: dict[int, list[Message]] = {number: [] for number in sources}
        if len(self.machine.held) == sum(len(chunk) for chunk in self.chunks.values()) and not thin:
            return
        for message in self.machine.held.values():
            if message.chunk in moved:
                moved[message.chunk].append(message)
        parts, row = [], 0
        for number, messages in moved.items():
            parts.append(sources[number].take(pa.array([m.row for m in messages], pa.int64())))
            for message in messages:
                message.chunk, message.row = self.generation, row
                row += 1
            if number in thin:
                self.chunks[number].dead = set(range(len(sources[number])))
        if row:
            self.chunks[self.generation] = Chunk(pa.concat_tables(parts).combine_chunks())

    def _bury(self) -> None:
        """Mark rows that left their chunks; one that came in this batch was never in any."""
        changes = self.machine.changes
        changes.left = [ref for ref in changes.left if ref[0] in self.chunks]
        for number, row in changes.left:
            self.chunks[number].dead.add(row)

    # -- state

    def save(self, store: Store, now: int) -> None:
        """Write what this batch changed; afterwards the store equals this bucket."""
        machine, number = self.machine, self.generation
        changes, machine.changes = machine.changes, type(machine.changes)()
        for old in [old for old, chunk in self.chunks.items() if not len(chunk)]:
            del self.chunks[old]
            if old != number:
                store.remove("held", old)
        if number in self.chunks:
            store.put("held", number, pack_table(self.chunks[number].table))
        keys = np.asarray(changes.keys, np.int64)
        if keys.size:
            machine.memory.add(number, now, keys)
            store.put("done", number, _pack_generation(machine.memory.generations[number]))
        if self.base is None or number - self.base >= LOG_ENTRIES:
            self._write_base(store, now)
        else:
            left = [ref for ref in changes.left if ref[0] in self.chunks]
            store.put("log", number, pack_numbers(_delta(machine, changes, left, now)))
        self.token = uuid.uuid4().hex
        store.put_head(self._head())

    def _head(self) -> str:
        policy, machine = self.policy, self.machine
        head = {
            "version": policy.version,
            "fixed": json.loads(policy.fixed),
            "token": self.token,
            "generation": self.generation,
            "base": self.base,
            "held": len(machine.held),
            "oldest": machine.oldest(),
        }
        return json.dumps(head)

    def _write_base(self, store: Store, now: int) -> None:
        machine, number = self.machine, self.generation
        for old in machine.forget(now - self.policy.horizon):
            store.remove("done", old)
        gone, new = machine.memory.merge(int(self.policy.horizon * SLOT_SHARE))
        for old in gone:
            store.remove("done", old)
        for slot, generation in new.items():
            store.put("done", slot, _pack_generation(generation))
        if self.base is not None:
            for old in range(self.base, number):
                store.remove("log", old)
        dead = [(at, row) for at, chunk in self.chunks.items() for row in sorted(chunk.dead)]
        store.put("log", number, pack_numbers(_everything(machine, dead)))
        self.base = number

    @classmethod
    def load(cls, policy: Policy, store: Store) -> Bucket:
        """Return the bucket that was saved; refuse a state that was written otherwise."""
        bucket = cls(policy)
        text = store.head()
        if text is None:
            return bucket
        head = json.loads(text)
        check_head(head, policy)
        machine = bucket.machine
        bucket.generation, bucket.base = head["generation"], head["base"]
        bucket.token = head["token"]
        for number, data in store.items("done"):
            part = unpack_numbers(data)
            machine.memory.add(number, int(part["time"][0]), part["keys"])
        for number, data in store.items("held"):
            bucket.chunks[number] = Chunk(unpack_table(data))
        for _, data in sorted(store.items("log")):
            bucket._replay(unpack_numbers(data))
        machine.restore(bucket._messages())
        return bucket

    def _replay(self, entry: dict[str, Any]) -> None:
        machine = self.machine
        machine.positions.update(
            zip(entry["dest"].tolist(), entry["position"].tolist(), strict=True)
        )
        columns = (entry[name].tolist() for name in ("channel", "low", "high", "grown"))
        for channel, low, high, grown in zip(*columns, strict=True):
            machine.seen.setdefault(channel, Runs()).add_run(low, high, grown)
        for channel, floor in zip(*(entry[n].tolist() for n in ("closed", "floor")), strict=True):
            machine.seen.setdefault(channel, Runs()).floor = floor
        for number, row in zip(*(entry[n].tolist() for n in ("chunk", "row")), strict=True):
            if number in self.chunks:
                self.chunks[number].dead.add(row)
        machine.overdue.update(
            zip(*(entry[n].tolist() for n in ("overdue", "overdue_time")), strict=True)
        )
        for key in entry["settled"].tolist():
            machine.overdue.pop(key, None)
        machine.memory.pinned.update(entry["pinned"].tolist())

    def _messages(self) -> Iterator[Message]:
        for number, chunk in self.chunks.items():
            rows = np.array(sorted(set(range(len(chunk.table))) - chunk.dead), np.int64)
            times = chunk.table.column(TIME).to_pylist()
            for row, dest, key, _, _, causes in _arrivals(chunk.table, rows):
                yield Message(number, row, dest, key, causes, times[row], set())


def check_head(head: dict[str, Any], policy: Policy) -> None:
    """Refuse a state of another layout or another query, in one line."""
    if head["version"] != policy.version:
        msg = (
            f"the checkpoint's state has version {head['version']}, this antecede reads version "
            f"{policy.version}; go on with the antecede that wrote it, or begin a new checkpoint"
        )
        raise UsageError(msg)
    fixed = json.loads(policy.fixed)
    changed = [name for name in fixed if head["fixed"].get(name) != fixed[name]]
    if changed:
        name = changed[0]
        msg = (
            f"the checkpoint was written with {name}={head['fixed'].get(name)!r}, the query has "
            f"{name}={fixed[name]!r}; use the former, or begin a new checkpoint"
        )
        raise UsageError(msg)


def _arrivals(table: pa.Table, rows: Keys) -> Iterator[Arrival]:
    """Return rows as numbers, in an order that their contents alone decide."""
    columns = [np.asarray(table.column(n).combine_chunks()) for n in (DEST, KEY, CHANNEL, SEQ)]
    _, key, channel, seq = (column[rows] for column in columns)
    rows = rows[np.lexsort((key, channel, seq))]
    lists = table.column(CAUSES).combine_chunks()
    offsets, values = np.asarray(lists.offsets).tolist(), np.asarray(lists.values).tolist()
    dests, keys, channels, seqs = (column[rows].tolist() for column in columns)
    for row, dest, key_, channel_, seq_ in zip(
        rows.tolist(), dests, keys, channels, seqs, strict=True
    ):
        causes = values[offsets[row] : offsets[row + 1]]
        yield Arrival(row, dest, key_, channel_, seq_, causes)


def _pack_generation(generation: Generation) -> bytes:
    return pack_numbers({"time": [generation.time], "keys": generation.keys})


def _delta(
    machine: Machine, changes: Changes, left: list[tuple[int, int]], now: int
) -> dict[str, Any]:
    dests = sorted(changes.dests)
    return {
        "dest": dests,
        "position": [machine.positions[dest] for dest in dests],
        "channel": [run[0] for run in changes.runs],
        "low": [run[1] for run in changes.runs],
        "high": [run[2] for run in changes.runs],
        "grown": [now] * len(changes.runs),
        "closed": [],
        "floor": [],
        "chunk": [ref[0] for ref in left],
        "row": [ref[1] for ref in left],
        "overdue": changes.overdue,
        "overdue_time": [now] * len(changes.overdue),
        "settled": changes.settled,
        "pinned": [],
    }


def _everything(machine: Machine, dead: Iterable[tuple[int, int]]) -> dict[str, Any]:
    dead = list(dead)
    runs = [(channel, *run) for channel, found in machine.seen.items() for run in found]
    floors = [(c, found.floor) for c, found in machine.seen.items() if found.floor is not None]
    return {
        "dest": list(machine.positions),
        "position": list(machine.positions.values()),
        "channel": [run[0] for run in runs],
        "low": [run[1] for run in runs],
        "high": [run[2] for run in runs],
        "grown": [run[3] for run in runs],
        "closed": [floor[0] for floor in floors],
        "floor": [floor[1] for floor in floors],
        "chunk": [ref[0] for ref in dead],
        "row": [ref[1] for ref in dead],
        "overdue": list(machine.overdue),
        "overdue_time": list(machine.overdue.values()),
        "settled": [],
        "pinned": sorted(machine.memory.pinned),
    }
