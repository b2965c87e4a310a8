"""One bucket of destinations: it takes and returns rows, and saves its state to a store.

The state is a log: each batch adds its changes, and now and then one entry replaces all others.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from antecede.arrays import Ints
from antecede.errors import UsageError
from antecede.reorder.columns import (
    CAUSES,
    CHANNEL,
    DEST,
    KEY,
    PREFIX,
    REASON,
    RELEASE,
    SEQ,
    TIME,
    with_columns,
)  # fmt: skip
from antecede.reorder.compiled_rows import Rows, by_content
from antecede.reorder.delivered_keys import Generation
from antecede.reorder.machine import Changes, Message, Out, Ready, RowMachine, Runs
from antecede.reorder.packets import PacketMachine, Plan
from antecede.reorder.store import (
    STATE_VERSION,
    Store,
    pack_numbers,
    pack_table,
    read_head,
    unpack_numbers,
    unpack_table,
    write_head,
)
from antecede.spark.tasks import no_collection

#: The place of a row: its chunk, and its index there.
Pair: TypeAlias = tuple[int, int]


def pack_generation(generation: Generation) -> bytes:
    """Return the keys delivered in one generation as bytes."""
    return pack_numbers({"time": [generation.time], "keys": generation.keys})


#: The columns of an entry of the log, in groups of equal length.
DESTS = ("dest", "position", "since", "last")
RUNS = ("channel", "low", "high", "grown", "to")
FLOORS = ("closed", "floor")
LEFT = ("chunk", "row")
OVERDUE = ("overdue", "overdue_time")
DROPPED = ("dropped", "dropped_time")


def delta(machine: RowMachine, changes: Changes, left: Iterable[Pair], now: int) -> dict[str, Any]:
    """Return what a batch changed; ``left`` locates the held rows that it delivered or dropped."""
    return {
        **_of_dests(machine, sorted(changes.dests)),
        **_columns(RUNS, [(*run[:3], now, run[3]) for run in changes.runs]),
        **_columns(FLOORS, ()),
        **_columns(LEFT, left),
        **_columns(OVERDUE, [(key, now) for key in changes.overdue]),
        **_columns(DROPPED, [(key, now) for key in changes.dropped]),
        "settled": changes.settled,
        "pinned": [],
    }


def everything(machine: RowMachine, dead: Iterable[Pair]) -> dict[str, Any]:
    """Return all counters and runs; ``dead`` locates rows in chunks that are no longer held."""
    seen = machine.seen.items()
    return {
        **_of_dests(machine, machine.positions),
        **_columns(RUNS, [(channel, *run, found.dest) for channel, found in seen for run in found]),
        **_columns(FLOORS, [(c, found.floor) for c, found in seen if found.floor is not None]),
        **_columns(LEFT, dead),
        **_columns(OVERDUE, machine.overdue.items()),
        **_columns(DROPPED, machine.dropped.items()),
        "settled": [],
        "pinned": sorted(machine.memory.pinned),
    }


def _of_dests(machine: RowMachine, dests: Iterable[int]) -> dict[str, list[int]]:
    places, since, last = machine.positions, machine.since, machine.last
    return _columns(DESTS, [(dest, places[dest], since[dest], last[dest]) for dest in dests])


def _columns(names: Sequence[str], rows: Iterable[Sequence[int]]) -> dict[str, list[int]]:
    rows = list(rows)
    return {name: [row[at] for row in rows] for at, name in enumerate(names)}


#: After this many batches, one entry of the log replaces all before it.
LOG_ENTRIES = 32
#: A chunk of held rows is rewritten when fewer than this share of its rows still wait.
LIVE_SHARE = 0.25
#: Chunks up to this size are merged with later ones, so that there are few.
CHUNK_BYTES = 16 << 20
#: How many bytes of rows a bucket may hold by default.
HELD_BYTES_MAX = 256 << 20
#: How many batches a copy of the state may lag behind and still be brought up to date.
TRAIL = 8
#: Keys of batches within this share of the horizon are stored together.
SLOT_SHARE = 1 / 16
#: Defaults for what the state of 0.2.0 lacks. A destination in such a state is kept for ever.
UNKNOWN = {"since": 0, "last": 1 << 62, "to": 0, "dropped": 0, "dropped_time": 0}


@dataclass(frozen=True)
class Policy:
    """The options of a bucket: times in microseconds, and what a checkpoint fixes."""

    timeout: int | None
    horizon: int
    fixed: str
    version: int = STATE_VERSION
    keeps_rejected: bool = False
    plan: Plan | None = None
    columns: str = "{}"
    numbered: bool = True
    held_bytes_max: int = HELD_BYTES_MAX


@dataclass(slots=True)
class Chunk:
    """Rows that were held in one batch, and which of them are no longer held."""

    table: pa.Table
    dead: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.table) - len(self.dead)

    def live(self) -> Iterator[tuple[int, int]]:
        """Yield the rows that are still held, with their keys."""
        keys = self.table.column(KEY).to_pylist()
        return ((row, key) for row, key in enumerate(keys) if row not in self.dead)


class Bucket:
    """The machine of one bucket, with the rows that it holds and the journal of its state."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.machine = (
            RowMachine(timeout=policy.timeout, numbered=policy.numbered)
            if policy.plan is None
            else PacketMachine(policy.plan)
        )
        self.chunks: dict[int, Chunk] = {}
        self.generation = 0
        self.base: int | None = None
        #: The time of the last batch. Later batches have later times, whatever the clock says.
        self.time = -1
        self.rejected = 0
        self._is_saved = True
        #: A token for each of the last generations, the current one last.
        self.trail: list[str] = []

    # -- rows

    def offer(self, table: pa.Table, now: int) -> pa.Table:
        """Take the rows of a batch; return those delivered or rejected, with the new columns."""
        self._begin()
        self.time = now = max(now, self.time + 1)
        table = table.append_column(TIME, pa.array(np.full(len(table), now, np.int64)))
        machine, number = self.machine, self.generation
        rows, outs = self._split(table)
        ready = None
        if isinstance(machine, PacketMachine):
            packets = table.column(machine.plan.column)
            outs += machine.offer_packets(rows, packets, number, now)
        else:
            with no_collection():
                ready, more = machine.offer(rows, number, now)
                outs += more
        result = self._rows(outs, table, ready)
        self._keep_held(table)
        return result

    def expire(self, now: int) -> pa.Table | None:
        """Return the rows whose timeout has passed."""
        self._begin()
        self.time = max(now, self.time)
        return self._leave(self.machine.expire(self.time))

    def obey(self, commands: Iterable[tuple[str, int]], now: int) -> pa.Table | None:
        """Release or drop messages, named by their keys; return the rows that leave."""
        self._begin()
        self.time = now = max(now, self.time)
        outs: list[Out] = []
        for action, key in sorted(commands):
            do = self.machine.release if action == RELEASE else self.machine.drop
            outs += do(key, now)
        return self._leave(outs)

    def _begin(self) -> None:
        """Begin a generation, unless the changes of the last one are still to be saved."""
        if self._is_saved:
            self.generation += 1
            self._is_saved = False

    def _leave(self, outs: list[Out]) -> pa.Table | None:
        result = self._rows(outs) if outs else None
        self._bury()
        return result

    def flush(self, now: int) -> pa.Table | None:
        """Release and return all held rows: no more will arrive."""
        outs = self.machine.flush(now)
        return self._rows(outs) if outs else None

    def _split(self, table: pa.Table) -> tuple[Rows, list[Out]]:
        reasons = table.column(REASON)
        bad: list[Out] = []
        if reasons.null_count < len(table):
            is_bad = np.asarray(reasons.is_valid())
            words = reasons.to_pylist()
            found = np.flatnonzero(is_bad).tolist()
            bad = [Out.refused(self.generation, row, words[row]) for row in found]
            rows = np.flatnonzero(~is_bad)
        else:
            rows = np.arange(len(table))
        return _ordered_rows(table, rows), bad

    def _rows(
        self, outs: list[Out], fresh: pa.Table | None = None, ready: Ready | None = None
    ) -> pa.Table:
        """Return the rows that leave as a table: those of ``ready``, then those of ``outs``."""
        sources = {number: chunk.table for number, chunk in self.chunks.items()}
        if fresh is not None:
            sources[self.generation] = fresh
        chunks, rows, places, waits = (
            np.array([out[at] for out in outs], np.int64) for at in range(4)
        )
        if ready is not None:
            chunks, rows = np.append(ready.chunk, chunks), np.append(ready.row, rows)
            places, waits = np.append(ready.position, places), np.append(ready.held, waits)
        used = np.unique(chunks) if chunks.size else np.array(sorted(sources)[:1])
        sizes = [len(sources[number]) for number in used.tolist()]
        starts = np.concatenate(([0], np.cumsum(sizes)))
        at = starts[np.searchsorted(used, chunks)] + rows
        # By name: the state may have been saved with its columns in another order.
        parts = [sources[number] for number in used.tolist()]
        whole = pa.concat_tables(parts, promote_options="default")
        names = [name for name in whole.column_names if not name.startswith(PREFIX)]
        found = whole.select(names).take(pa.array(at))
        released, late = np.zeros((2, len(at)), np.bool_)
        rejected = np.full(len(at), None, object)
        before = len(at) - len(outs)
        released[before:] = [out.released for out in outs]
        late[before:] = [out.late for out in outs]
        rejected[before:] = [out.rejected for out in outs]
        added: dict[str, Any] = {
            "position": pa.array(places, mask=places == 0),
            "held_seconds": pa.array(waits / 1e6, pa.float64()),
            "released": pa.array(released),
            "late": pa.array(late),
        }
        if self.policy.keeps_rejected:
            added["rejected"] = pa.array(rejected, pa.string())
        found = with_columns(found, added)
        rejects = sum(out.rejected is not None for out in outs)
        self.rejected += rejects
        if rejects and not self.policy.keeps_rejected:
            found = found.filter(pa.array(rejected, pa.string()).is_null())
        return found

    def _keep_held(self, table: pa.Table) -> None:
        """Put the rows that this batch held into a new chunk, merged with some older ones."""
        self._bury()
        held, parts, row = self.machine.held, [], 0
        fresh = [message for message in self.machine.changes.held if message.key in held]
        moved = {number: self._live(number) for number in self._to_merge(len(fresh))}
        if not fresh and not moved:
            return
        for number, messages in (*sorted(moved.items()), (self.generation, fresh)):
            source = table if number == self.generation else self.chunks[number].table
            parts.append(source.take(pa.array([m.row for m in messages], pa.int64())))
            for message in messages:
                message.chunk, message.row = self.generation, row
                row += 1
            if number in moved:
                self.chunks[number].dead = set(range(len(source)))
        if row:
            self.chunks[self.generation] = Chunk(
                pa.concat_tables(parts, promote_options="default").combine_chunks()
            )

    def _to_merge(self, fresh: int) -> list[int]:
        """Return the chunks to merge with ``fresh`` new rows: thin ones, and small neighbours."""
        size, found = fresh, []
        for number in sorted(self.chunks, reverse=True):
            live, whole = len(self.chunks[number]), self.chunks[number].table
            is_thin = live < LIVE_SHARE * len(whole)
            if live and (is_thin or (live <= 2 * size and whole.nbytes <= CHUNK_BYTES)):
                found.append(number)
                size += live
        return found

    def _live(self, number: int) -> list[Message]:
        """Return the held messages whose rows are in a chunk."""
        return [self.machine.held[key] for _, key in self.chunks[number].live()]

    def _bury(self) -> None:
        """Mark the rows that left their chunks; a row of this batch is in none yet."""
        changes = self.machine.changes
        changes.left = [ref for ref in changes.left if ref[0] in self.chunks]
        for number, row in changes.left:
            self.chunks[number].dead.add(row)

    # -- state

    def save(self, store: Store) -> None:
        """Write what this batch changed, so that the store holds this bucket's whole state."""
        self._check_room()
        machine, number, now = self.machine, self.generation, self.time
        changes, machine.changes = machine.changes, type(machine.changes)()
        for old in [old for old, chunk in self.chunks.items() if not len(chunk)]:
            del self.chunks[old]
            if old != number:
                store.remove("held", old)
        if number in self.chunks:
            store.put("held", number, pack_table(self.chunks[number].table))
        keys = np.concatenate((changes.fresh, np.asarray(changes.keys, np.int64)))
        if keys.size:
            machine.memory.add(number, now, keys)
            store.put("done", number, pack_generation(machine.memory.generations[number]))
        if isinstance(machine, PacketMachine):
            for dest, name, snapshot in machine.take_snapshots():
                table = pa.table({"dest": [name], "snapshot": pa.array([snapshot], pa.binary())})
                store.put("ends", dest, pack_table(table))
        if self.base is None or number - self.base >= LOG_ENTRIES:
            self._write_base(store, now)
        else:
            left = [ref for ref in changes.left if ref[0] in self.chunks]
            store.put("log", number, pack_numbers(delta(machine, changes, left, now)))
        self.trail = [*self.trail[1 - TRAIL :], uuid.uuid4().hex]
        write_head(store, self.head())
        self._is_saved = True

    def held_bytes(self) -> int:
        """Return how many bytes the held rows take."""
        return sum(chunk.table.nbytes for chunk in self.chunks.values())

    def _check_room(self) -> None:
        """Refuse to hold more bytes than allowed, before anything is saved."""
        size, most = self.held_bytes(), self.policy.held_bytes_max
        if size > most:
            raise UsageError(
                f"a bucket would hold {len(self.machine.held):,} rows of {size:,} bytes that wait "
                f"for their causes, but held_bytes_max is {most:,}; raise it, or release or drop "
                "what is held (antecede reorder --waiting tells what that is)"
            )

    def head(self) -> dict[str, Any]:
        """Return the head of the state: how to read the rest, and which batches it includes."""
        policy, machine = self.policy, self.machine
        return {
            "version": policy.version,
            "fixed": json.loads(policy.fixed),
            "columns": json.loads(policy.columns),
            "trail": self.trail,
            "generation": self.generation,
            "time": self.time,
            "base": self.base,
            "chunks": sorted(self.chunks),
            "held": len(machine.held),
            "oldest": machine.oldest(),
        }

    def _write_base(self, store: Store, now: int) -> None:
        machine, number = self.machine, self.generation
        # Packets may arrive late at any time; there are few members, and so few gaps.
        if not isinstance(machine, PacketMachine):
            for old in machine.forget(now, self.policy.horizon):
                store.remove("done", old)
        gone, new = machine.memory.merge(int(self.policy.horizon * SLOT_SHARE))
        for old in gone:
            store.remove("done", old)
        for slot, generation in new.items():
            store.put("done", slot, pack_generation(generation))
        if self.base is not None:
            for old in range(self.base, number):
                store.remove("log", old)
        dead = [(at, row) for at, chunk in self.chunks.items() for row in sorted(chunk.dead)]
        store.put("log", number, pack_numbers(everything(machine, dead)))
        self.base = number

    @classmethod
    def load(cls, policy: Policy, store: Store) -> Bucket:
        """Return the bucket that was saved; refuse the state of another layout or query."""
        bucket = cls(policy)
        head = read_head(store)
        if not head:
            return bucket
        check_head(head, policy)
        machine = bucket.machine
        bucket.generation, bucket.base = head["generation"], head["base"]
        bucket.trail, bucket.time = head.get("trail", []), head.get("time", -1)
        parts = store.parts()
        for number, data in parts["done"].items():
            bucket._remember(number, data)
        for number, data in parts["held"].items():
            bucket.chunks[number] = Chunk(unpack_table(data))
        if isinstance(machine, PacketMachine):
            for dest, data in parts["ends"].items():
                (row,) = unpack_table(data).to_pylist()
                machine.snapshots[dest] = (row["dest"], row["snapshot"])
        for data in parts["log"].values():
            bucket._replay(unpack_numbers(data))
        machine.restore(bucket._messages(bucket.chunks))
        if isinstance(machine, PacketMachine):
            for message in machine.held.values():
                column = bucket.chunks[message.chunk].table.column(machine.plan.column)
                machine.name(message, column[message.row].as_py())
        return bucket

    def catch_up(self, store: Store, head: dict[str, Any]) -> bool:
        """Bring this copy of the state up to date if it is only a few batches behind ``head``.

        Spark's workers take turns with a bucket, so a worker's copy often lacks the last batch.
        Return False if the whole state has to be loaded instead.
        """
        if self.trail[-1:] == head["trail"][-1:]:
            return True
        if isinstance(self.machine, PacketMachine) or self.base != head["base"]:
            return False
        keys, new = list[int](), dict[int, Chunk]()
        left = [(at, row, key) for at, chunk in self.chunks.items() if at not in head["chunks"]
                for row, key in chunk.live()]  # fmt: skip
        for number in range(self.generation + 1, head["generation"] + 1):
            done, held, entry = (store.get(part, number) for part in ("done", "held", "log"))
            assert entry is not None
            if done is not None:
                keys += self._remember(number, done)
            if held is not None:
                self.chunks[number] = new[number] = Chunk(unpack_table(held))
            left += self._replay(unpack_numbers(entry))
        self.chunks = {number: self.chunks[number] for number in head["chunks"]}
        self.generation, self.trail = head["generation"], head["trail"]
        self.time = head["time"]
        self.machine.follow(keys, self._messages(new), left)
        return True

    def _remember(self, number: int, data: bytes) -> list[int]:
        part = unpack_numbers(data)
        self.machine.memory.add(number, int(part["time"][0]), part["keys"])
        found: list[int] = part["keys"].tolist()
        return found

    def _replay(self, entry: dict[str, Any]) -> list[tuple[int, int, int]]:
        """Repeat a batch's changes; return chunk, row and key of the rows that left."""
        machine, left = self.machine, list[tuple[int, int, int]]()

        def columns(names: Sequence[str]) -> Iterator[tuple[int, ...]]:
            size = len(entry.get(names[0], ()))
            lists = (entry[n].tolist() if n in entry else [UNKNOWN[n]] * size for n in names)
            return zip(*lists, strict=True)

        for dest, position, since, last in columns(DESTS):
            machine.positions[dest] = position
            machine.since[dest], machine.last[dest] = since, last
        for channel, low, high, grown, dest in columns(RUNS):
            machine.seen.setdefault(channel, Runs(dest)).add_run(low, high, grown)
        for channel, floor in columns(FLOORS):
            machine.seen.setdefault(channel, Runs()).floor = floor
        for number, row in columns(LEFT):
            if number in self.chunks:
                chunk = self.chunks[number]
                chunk.dead.add(row)
                left.append((number, row, chunk.table.column(KEY)[row].as_py()))
        for key, time in columns(OVERDUE):
            machine.overdue[key] = time
        for key, time in columns(DROPPED):
            machine.dropped[key] = time
        for key in entry["settled"].tolist():
            machine.overdue.pop(key, None)
        machine.memory.pinned.update(entry["pinned"].tolist())
        return left

    def _messages(self, chunks: dict[int, Chunk]) -> Iterator[Message]:
        for number, chunk in chunks.items():
            rows = np.array(sorted(set(range(len(chunk.table))) - chunk.dead), np.int64)
            times = chunk.table.column(TIME).to_pylist()
            for row, dest, key, _, _, causes in _ordered_rows(chunk.table, rows).arrivals():
                yield Message(number, row, dest, key, causes, times[row], set())


def check_head(head: dict[str, Any], policy: Policy) -> None:
    """Refuse, in one line, a state of another layout or of another query."""
    if head["version"] != policy.version:
        raise UsageError(other_version(head["version"], policy.version))
    fixed = json.loads(policy.fixed)
    changed = [name for name in fixed if head["fixed"].get(name) != fixed[name]]
    if changed:
        name = changed[0]
        raise UsageError(
            f"the checkpoint was written with {name}={head['fixed'].get(name)!r}, the query has "
            f"{name}={fixed[name]!r}; use the former, or begin a new checkpoint"
        )


def other_version(found: int, wanted: int) -> str:
    """Return the error message for a state of another layout."""
    return (
        f"the checkpoint's state has version {found}, this antecede reads version {wanted}; "
        "go on with the antecede that wrote it, or begin a new checkpoint"
    )


def _ordered_rows(table: pa.Table, rows: Ints) -> Rows:
    """Return the rows as numbers, in an order that depends on their contents alone."""
    names = (DEST, KEY, CHANNEL, SEQ)
    dest, key, channel, seq = (np.asarray(table.column(name).combine_chunks()) for name in names)
    lists = table.column(CAUSES).combine_chunks()
    offsets = np.asarray(lists.offsets).astype(np.int64)
    values = np.asarray(lists.values).astype(np.int64)
    everything = Rows(np.arange(len(table)), dest, key, channel, seq, offsets, values)
    return everything.part(rows[by_content(seq[rows], key[rows], channel[rows])])
