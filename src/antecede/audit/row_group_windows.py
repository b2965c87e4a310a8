"""The arrangement for Parquet files in order of time: each task reads its own row groups.

Tasks run on Spark, or in threads of this process. Only small results leave them, so this is the
fastest arrangement, and a log need not fit into memory. The driver reads only the files' footers.
Cuts lie between row groups; a window also reads neighbouring row groups if skewed clocks or a
lowered cut make it share them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from antecede.arrays import Flags, Ints
from antecede.audit.local_windows import copies_of, name_rows, rows_of
from antecede.audit.windows.columns import lookup_in, process_names, to_events
from antecede.audit.windows.copies import Copies
from antecede.audit.windows.cuts import NO_SEQ, lower, offsets, pairs_of, propose, rising
from antecede.audit.windows.matching import Events, joined
from antecede.audit.windows.rounds import Arrangement, Group, IncompleteError
from antecede.audit.windows.window import Request, Window, run_window
from antecede.events.arrow_columns import is_event
from antecede.events.hashing import hash_names
from antecede.events.tables import CLOCK, EVENT_COLUMNS, EVENT_COLUMNS_NEEDED

#: A function that runs another on each specification, and returns the results in order.
Runner = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]
#: The most windows to run at once in this process: each takes memory.
THREADS_MAX = 4
#: If all windows together would read the log more often than this, use shuffled windows.
OVERLAP_MAX = 1.7
#: In this process, row groups are read once and kept if they take no more of its memory.
KEPT_SHARE, BYTES_PER_EVENT = 1 / 8, 100


@dataclass(frozen=True)
class RowGroup:
    """A row group, as the file's footer describes it."""

    path: str
    number: int
    rows: int
    early: float
    late: float


def in_threads(work: Callable[[Any], Any], specs: Sequence[Any]) -> list[Any]:
    """Run ``work`` on each specification in a few threads; return the results in order.

    Arrow, NumPy and compiled code let other threads run.
    """
    with ThreadPoolExecutor(min(THREADS_MAX, os.cpu_count() or 1)) as pool:
        return list(pool.map(work, specs))


def row_groups(paths: Sequence[str]) -> list[RowGroup] | None:
    """Return the row groups in order of time, or None if the footers do not show that order."""
    found = []
    for path in paths:
        with pq.ParquetFile(path) as file:
            if not _is_plain(file.schema_arrow):
                return None
            column = next(
                c for c in range(len(file.schema)) if file.schema.column(c).path == "time"
            )
            for number in range(file.metadata.num_row_groups):
                group = file.metadata.row_group(number)
                statistics = group.column(column).statistics
                if not group.num_rows:
                    continue
                if statistics is None or not statistics.has_min_max or statistics.null_count:
                    return None
                if not isinstance(statistics.min, int | float):
                    return None
                ends = float(statistics.min), float(statistics.max)
                found.append(RowGroup(path, number, group.num_rows, *ends))
    return sorted(found, key=lambda g: (g.early, g.late, g.path, g.number))


def _is_plain(schema: pa.Schema) -> bool:
    """Return whether a file has times, no clocks, and plain strings as names."""
    if any(name not in schema.names for name in (*EVENT_COLUMNS_NEEDED, "time")):
        return False
    seq = schema.field("seq").type
    if CLOCK in schema.names or not pa.types.is_integer(seq) or pa.types.is_uint64(seq):
        return False
    kinds = [schema.field(name).type for name in ("process", "kind", "message")]
    if "dests" in schema.names:
        dests = schema.field("dests").type
        if not (pa.types.is_list(dests) or pa.types.is_large_list(dests)):
            return False
        kinds.append(dests.value_type)
    return all(pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in kinds)


def read_groups(groups: Sequence[RowGroup], columns: Sequence[str]) -> pa.Table:
    """Read the columns of row groups, names as dictionaries, only on this thread."""
    by_path: dict[str, list[int]] = {}
    for group in groups:
        by_path.setdefault(group.path, []).append(group.number)
    tables = []
    for path, numbers in by_path.items():
        with pq.ParquetFile(path, read_dictionary=["process", "kind"], pre_buffer=False) as file:
            present = [c for c in columns if c in file.schema_arrow.names]
            tables.append(file.read_row_groups(numbers, columns=present, use_threads=False))
    return pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()


class Kept:
    """Reads row groups like ``read_groups``, but each only once, and keeps them in memory."""

    def __init__(self, groups: Sequence[RowGroup]) -> None:
        self._tables: dict[RowGroup, pa.Table] = {}
        self._locks = {group: Lock() for group in groups}

    def __call__(self, groups: Sequence[RowGroup], columns: Sequence[str]) -> pa.Table:
        """Return the columns of row groups."""
        tables = []
        for group in groups:
            with self._locks[group]:
                if group not in self._tables:
                    self._tables[group] = read_groups([group], EVENT_COLUMNS)
            table = self._tables[group]
            tables.append(table.select([c for c in columns if c in table.column_names]))
        return pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()


#: A function that reads row groups: ``read_groups`` or one that keeps them.
Reader = Callable[[Sequence[RowGroup], Sequence[str]], pa.Table]


def list_processes(spec: dict[str, Any]) -> list[str]:
    """Return the processes with rows in row groups or, with ``events``, with valid events."""
    table = spec["read"](spec["groups"], EVENT_COLUMNS if spec.get("events") else ["process"])
    if spec.get("events"):
        table = table.filter(pa.array(is_event(table)))
    names: set[str | None] = set()
    for chunk in table.column("process").chunks:
        names.update(chunk.unique().to_pylist())
    return sorted(name for name in names if name)


def survey_groups(spec: dict[str, Any]) -> object:
    """Lower a cut by the row groups around it; without a cut, list the processes of row groups."""
    return propose_cut(spec) if "when" in spec else list_processes(spec)


def propose_cut(spec: dict[str, Any]) -> tuple[list[str], Ints, NDArray[np.float64]]:
    """Return (processes, cut, when): a cut, lowered by the events around it.

    ``when`` is the time of the cut by each process's own clock, estimated from the delays around
    the cut.
    """
    table = spec["read"](spec["groups"], EVENT_COLUMNS)
    table = table.filter(pa.array(is_event(table)))
    names = process_names(table)
    events = to_events(table, names, spec["salt"])
    time = np.asarray(table.column("time").cast(pa.float64()).combine_chunks())
    pairs = pairs_of(events)
    when = spec["when"] + offsets(events, pairs, time, len(names))
    return names, lower(propose(events, time, when), events, pairs), when


def _after(
    cut: tuple[Ints, NDArray[np.float64]], events: Events, time: NDArray[np.float64]
) -> Flags:
    """Return which events lie after a cut: by its seq for their process, or else by time."""
    seqs, when = cut
    mine = seqs[events.process]
    by_time = time > when[events.process]
    return np.where(mine == NO_SEQ, by_time, events.seq > mine)


def read_slice(spec: dict[str, Any]) -> tuple[Events, Callable[[Ints], Any], int]:
    """Return a window's events, the lookup of their names, and how many rows are not events."""
    columns = [c for c in EVENT_COLUMNS if c != "dests" or spec["dests"]]
    table = spec["read"](spec["groups"], columns)
    good = is_event(table)
    rejected = 0
    if not good.all():
        owned = spec["read"](spec["owned"], columns)
        rejected = int((~is_event(owned)).sum())
        table = table.filter(pa.array(good))
    events = to_events(table, spec["names"], spec["salt"])
    time = np.asarray(table.column("time").cast(pa.float64()).combine_chunks())
    inside = np.ones(len(events), np.bool_)
    if spec["lower"] is not None:
        inside &= _after(spec["lower"], events, time)
    if spec["upper"] is not None:
        inside &= ~_after(spec["upper"], events, time)
    rows = np.flatnonzero(inside)
    whole = lookup_in(table)
    return events.take(rows), lambda at: whole(rows[at]), rejected


def slice_events(spec: dict[str, Any]) -> Events:
    """Return a window's events."""
    return read_slice(spec)[0]


def run_slice(spec: dict[str, Any]) -> Window:
    """Read a window's row groups and run it."""
    events, lookup, rejected = read_slice(spec)
    window = run_window(events, spec["hashes"], spec["request"])
    name_rows(window, window.rows, lookup)
    window.rejected = rejected
    return window


def slice_names(spec: dict[str, Any]) -> dict[int, str]:
    """Return the names of the wanted keys that have events in a window."""
    events, lookup, _ = read_slice(spec)
    rows = np.flatnonzero(np.isin(events.key, spec["wanted"]))
    named = zip(events.key[rows].tolist(), lookup(rows), strict=True)
    return {key: name for key, (name, _) in named if name}


def slice_copies(spec: dict[str, Any]) -> tuple[Events, list[tuple[str, ...] | None]]:
    """Return the sends and deliveries of the wanted keys, and the destinations of each."""
    events, lookup, _ = read_slice(spec)
    rows = rows_of(events, spec["wanted"])
    return events.take(rows), [dests for _, dests in lookup(rows)]


class RowGroupWindows(Arrangement):
    """A log in Parquet files, cut between row groups."""

    def __init__(
        self,
        run: Runner,
        groups: list[RowGroup],
        windows: int,
        salt: int,
        *,
        dests: bool,
        engine: str = "spark",
        read: Reader = read_groups,
    ) -> None:
        self.facts = {"engine": engine, "arrangement": "slices"}
        self._run = run
        self._read = read
        self._groups = groups
        self._salt = salt
        self._has_dests = dests
        self._named: dict[int, str] = {}
        self._first = _boundaries(groups, windows)
        self._around = [self._near(groups[k].early, groups[k].early, k) for k in self._first]
        self.names: list[str] = []
        self._survey()
        self.hashes = hash_names(self.names)
        self.windows = len(self._cuts) + 1

    def _near(self, low: float, high: float, at: int) -> list[RowGroup]:
        """Return the row groups next to row group ``at``, and those that overlap a time span."""
        beside = set(self._groups[max(0, at - 1) : at + 1])
        return [g for g in self._groups if g in beside or (g.early <= high and g.late >= low)]

    def _survey(self) -> None:
        """List the processes and lower the cuts, in one job."""
        common = {"read": self._read, "salt": self._salt}
        specs: list[dict[str, Any]] = [
            {**common, "groups": around, "when": self._groups[k].early}
            for k, around in zip(self._first, self._around, strict=True)
        ]
        specs += [{**common, "groups": part} for part in self._parts()]
        found = self._run(survey_groups, specs)
        cuts = found[: len(self._first)]
        names: set[str] = set().union(*found[len(self._first) :])
        self.names = sorted(names)
        number = {name: p for p, name in enumerate(self.names)}
        seqs, whens = [], []
        for (present, cut, when), k in zip(cuts, self._first, strict=True):
            wide = np.full(len(self.names), NO_SEQ, np.int64)
            times = np.full(len(self.names), self._groups[k].early)
            at = [number[name] for name in present]
            wide[at], times[at] = cut, when
            seqs.append(wide)
            whens.append(times)
        self._cuts = list(zip(rising(seqs), whens, strict=True))

    def _parts(self) -> list[list[RowGroup]]:
        """Return the row groups in a few parts, one per task of a survey."""
        parts = np.array_split(np.arange(len(self._groups)), max(1, min(8, len(self._groups))))
        return [[self._groups[g] for g in part] for part in parts]

    def _has_idle(self) -> bool:
        """Return whether some name has rows but no valid event, and so is not a process."""
        specs = [{"read": self._read, "groups": part, "events": True} for part in self._parts()]
        found = self._run(list_processes, specs)
        return len(set().union(*found)) < len(self.names)

    def _spec(self, group: Group, request: Request) -> dict[str, Any]:
        first, last = group
        lower_cut = self._cuts[first - 1] if first else None
        upper_cut = self._cuts[last] if last < len(self._cuts) else None
        starts = [0, *self._first, len(self._groups)]
        own = self._groups[starts[first] : starts[last + 1]]
        low = min(own[0].early, float(lower_cut[1].min())) if lower_cut else -np.inf
        high = float(upper_cut[1].max()) if upper_cut else np.inf
        needed = {g for g in self._groups if g.early <= high and g.late >= low} | set(own)
        if lower_cut:
            needed |= set(self._around[first - 1])
        if upper_cut:
            needed |= set(self._around[last])
        return {
            "read": self._read,
            "groups": [g for g in self._groups if g in needed],
            "owned": own,
            "names": self.names,
            "hashes": self.hashes,
            "salt": self._salt,
            "lower": lower_cut,
            "upper": upper_cut,
            "request": request,
            "dests": self._has_dests,
        }

    def overlap(self) -> float:
        """Return how many times the windows together read the log."""
        read = sum(
            g.rows for k in range(self.windows) for g in self._spec((k, k), Request())["groups"]
        )
        return float(read / sum(g.rows for g in self._groups))

    def run(self, work: Sequence[tuple[Group, Request]]) -> list[Window]:
        """Run each group of windows as one window."""
        specs = [self._spec(group, request) for group, request in work]
        return self._run(run_slice, specs)

    def confirm(self, windows: Sequence[Window]) -> None:
        """Check that every row is in one window or invalid, and that every process has events."""
        events, bad = (sum(w.events for w in windows), sum(w.rejected for w in windows))
        rows = sum(g.rows for g in self._groups)
        if events + bad != rows or not events or (bad and self._has_idle()):
            raise IncompleteError

    def names_of(self, keys: Sequence[int]) -> Mapping[int, str]:
        """Return the names of messages that no window has named, by key."""
        wanted = np.sort(np.array(keys, np.int64))
        specs = [self._spec((k, k), Request()) | {"wanted": wanted} for k in range(self.windows)]
        found: dict[int, str] = {}
        for part in self._run(slice_names, specs):
            found.update(part)
        return found

    def copies(self, keys: Ints) -> Copies:
        """Return all sends and deliveries of some messages."""
        specs = [self._spec((k, k), Request()) | {"wanted": keys} for k in range(self.windows)]
        parts = self._run(slice_copies, specs)
        dests = [one for _, some in parts for one in some]
        return copies_of(joined([events for events, _ in parts]), dests, self.names)

    def events_of(self, group: Group) -> Events:
        """Return the events of a group of windows."""
        specs = [self._spec((k, k), Request()) for k in range(group[0], group[1] + 1)]
        return joined(self._run(slice_events, specs))


def _boundaries(groups: list[RowGroup], windows: int) -> list[int]:
    """Return the row groups that begin a new window, so that windows are of similar size."""
    rows = np.cumsum([group.rows for group in groups])
    wanted = rows[-1] * np.arange(1, windows) / windows
    found = np.unique(np.searchsorted(rows, wanted, side="left") + 1)
    return [int(k) for k in found if 0 < k < len(groups)]
