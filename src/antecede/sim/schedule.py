"""Schedules: what is sent when, independent of the protocol that will carry it.

Every protocol runs the same schedule, so comparisons are paired. A message is sent at a fixed
`time`, or `think` seconds after another message, its `trigger`, is delivered at its sender: a
reply never precedes what it answers, however long a protocol delays that. Every copy has its own
delay. Packets that a protocol adds (acknowledgements, extra messages) take their delays from the
model stored here, by a hash of (seed, channel, number).

With `fifo`, channels are FIFO: a copy that would overtake another on its channel arrives just
after it instead.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from antecede.errors import UsageError
from antecede.sim.delays import Delay
from antecede.sim.plan import NO_SIZES, Plan, Sizes

EVERYTHING, NOTHING_AT_ALL = -1, 0
FORMAT = 1
PROCESSES_MAX = 1_000_000
#: Slower links or larger messages would take too many seconds to add up.
BANDWIDTH_MIN, PAYLOAD_MAX = 1e-6, 1 << 40
#: The bytes of every packet on a link of limited bandwidth besides its control and payload.
HEADER_BYTES = 40
_KEY = b"antecede.schedule"
SCHEMA = pa.schema(
    [
        pa.field("sender", pa.int32(), nullable=False),
        pa.field("time", pa.float64()),
        pa.field("trigger", pa.int64()),
        pa.field("think", pa.float64(), nullable=False),
        pa.field("rank", pa.int32(), nullable=False),
        pa.field("dests", pa.list_(pa.field("item", pa.int32(), nullable=False)), nullable=False),
        pa.field(
            "delays", pa.list_(pa.field("item", pa.float64(), nullable=False)), nullable=False
        ),
    ]
)


@dataclass(frozen=True, eq=False)
class Schedule:
    """Messages in rows, their copies in compressed rows (`offsets`, `dests`, `delays`).

    Attributes
    ----------
    n, names
        The number of processes, and their names.
    sender, time, trigger, think, rank
        One per message. A triggered message has `time` NaN and a row as its `trigger`, any other
        has `trigger` -1. `rank` says on which local events of the sender it depends semantically:
        1 = up to the latest, 2 = up to the one before, ..., 0 = none, -1 = all so far.
    offsets, dests, delays
        Copies of message `m` are rows ``offsets[m]`` to ``offsets[m + 1]`` of the other two.
    added
        Delay model of the packets that a protocol adds.
    bandwidth, payload
        Bytes per second of each link (0 = unlimited), and bytes of a message's own contents. With
        a limit, the packets of a link leave one after the other: sending each one's header,
        control and payload takes time before its delay begins.
    """

    n: int
    sender: NDArray[np.int32]
    offsets: NDArray[np.int64]
    dests: NDArray[np.int32]
    delays: NDArray[np.float64]
    time: NDArray[np.float64]
    trigger: NDArray[np.int64]
    think: NDArray[np.float64]
    rank: NDArray[np.int32]
    seed: int = 0
    added: Delay = field(default_factory=lambda: Delay.constant(0.0))
    fifo: bool = False
    bandwidth: float = 0.0
    payload: int = 0
    names: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.names:
            object.__setattr__(self, "names", tuple(f"p{i}" for i in range(self.n)))

    @property
    def messages(self) -> int:
        """The number of messages."""
        return len(self.sender)

    @property
    def copies(self) -> int:
        """The number of copies: one per message and destination."""
        return len(self.dests)

    @cached_property
    def message(self) -> NDArray[np.int32]:
        """The message of each copy."""
        return np.repeat(np.arange(self.messages, dtype=np.int32), np.diff(self.offsets))

    @property
    def cast(self) -> str:
        """The kind of cast: unicast, broadcast, or else multicast."""
        widths = np.diff(self.offsets)
        if (widths == 1).all():
            return "unicast"
        return "broadcast" if (widths == self.n - 1).all() else "multicast"

    @property
    def casts(self) -> frozenset[str]:
        """Every kind of cast that fits this schedule (for n = 2, unicast is also broadcast)."""
        widths = np.diff(self.offsets)
        kinds = {"multicast"}
        kinds |= {"unicast"} if (widths == 1).all() else set()
        kinds |= {"broadcast"} if (widths == self.n - 1).all() else set()
        return frozenset(kinds)

    def validate(self) -> Schedule:
        """Return the schedule itself; raise an error that names the first bad row."""
        check_schedule(self)
        return self

    def head(self, messages: int) -> Schedule:
        """Return the first rows as a schedule of their own."""
        rows = slice(0, min(messages, self.messages))
        copies = slice(0, int(self.offsets[rows.stop]))
        return replace(
            self, sender=self.sender[rows], offsets=self.offsets[: rows.stop + 1],
            dests=self.dests[copies], delays=self.delays[copies], time=self.time[rows],
            trigger=self.trigger[rows], think=self.think[rows], rank=self.rank[rows],
        )  # fmt: skip

    def to_arrow(self) -> pa.Table:
        """Return the messages as a table, with the rest of the schedule in its metadata."""
        factors = self.added.factors
        facts = {
            "format": FORMAT, "n": self.n, "names": list(self.names), "seed": self.seed,
            "fifo": self.fifo, "about": dict(self.about), "bandwidth": self.bandwidth,
            "payload": self.payload,
            "added": [self.added.kind, self.added.first, self.added.second,
                      None if factors is None else factors.tolist()],
        }  # fmt: skip
        offsets = pa.array(self.offsets, pa.int64()).cast(pa.int32())
        columns = [
            pa.array(self.sender),
            pa.array(self.time, mask=np.isnan(self.time)),
            pa.array(self.trigger, mask=self.trigger < 0),
            pa.array(self.think),
            pa.array(self.rank),
            pa.ListArray.from_arrays(offsets, pa.array(self.dests)),
            pa.ListArray.from_arrays(offsets, pa.array(self.delays)),
        ]
        columns[5] = columns[5].cast(SCHEMA.field("dests").type)
        columns[6] = columns[6].cast(SCHEMA.field("delays").type)
        text = json.dumps(facts, sort_keys=True).encode()
        return pa.Table.from_arrays(columns, schema=SCHEMA.with_metadata({_KEY: text}))

    @classmethod
    def from_arrow(cls, table: pa.Table) -> Schedule:
        """Read a table made by :meth:`to_arrow`; refuse any other."""
        missing = [name for name in SCHEMA.names if name not in table.column_names]
        text = (table.schema.metadata or {}).get(_KEY)
        if missing or text is None:
            what = f"has no column {missing[0]!r}" if missing else "has no metadata"
            msg = f"this table is not a schedule: it {what}; write one with Schedule.write"
            raise UsageError(msg)
        facts = json.loads(text)
        if facts["format"] != FORMAT:
            msg = f"this schedule has format {facts['format']}; this version reads format {FORMAT}"
            raise UsageError(msg)
        table = table.combine_chunks()
        rows = {name: _chunk(table, name) for name in SCHEMA.names}
        kind, first, second, factors = facts["added"]
        dests, delays = rows["dests"], rows["delays"]
        offsets = dests.offsets.to_numpy().astype(np.int64)
        return cls(
            n=facts["n"],
            sender=rows["sender"].to_numpy(zero_copy_only=False).astype(np.int32),
            offsets=offsets - offsets[0],
            dests=dests.flatten().to_numpy(zero_copy_only=False).astype(np.int32),
            delays=delays.flatten().to_numpy(zero_copy_only=False).astype(np.float64),
            time=rows["time"].to_numpy(zero_copy_only=False).astype(np.float64),
            trigger=rows["trigger"].fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64),
            think=rows["think"].to_numpy(zero_copy_only=False).astype(np.float64),
            rank=rows["rank"].to_numpy(zero_copy_only=False).astype(np.int32),
            seed=facts["seed"],
            added=Delay(kind, first, second, None if factors is None else np.array(factors)),
            fifo=facts["fifo"],
            bandwidth=facts.get("bandwidth", 0.0),
            payload=facts.get("payload", 0),
            names=tuple(facts["names"]),
            about=facts["about"],
        ).validate()

    def write(self, path: str | Path) -> None:
        """Write the schedule as Parquet; the same schedule gives the same bytes."""
        pq.write_table(self.to_arrow(), path, compression="zstd")

    @classmethod
    def read(cls, path: str | Path) -> Schedule:
        """Read a schedule written by :meth:`write`."""
        if not Path(path).is_file():
            what = "it is not a file" if Path(path).exists() else "there is no such file"
            msg = f"cannot read schedule {str(path)!r}: {what}; give the Parquet file of a schedule"
            raise UsageError(msg)
        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowInvalid) as error:
            msg = f"cannot read schedule {path}: {str(error).splitlines()[0]}"
            raise UsageError(msg) from None
        return cls.from_arrow(table)

    @cached_property
    def fixed_events(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The sends (by row) and arrivals of copies (messages + row), in order, and their times.

        Only without triggers, FIFO channels and limited links: then all times are known.
        """
        times = np.concatenate([self.time, self.time[self.message] + self.delays])
        order = np.argsort(times)
        when = times[order]
        if (when[1:] == when[:-1]).any():  # equal times go by number
            order = np.argsort(times, kind="stable")
            when = times[order]
        return order, when

    def plan(self, sizes: Sizes = NO_SIZES, *, posts_at_once: bool = False) -> Plan:
        """Return the schedule in the form that the engines read.

        If links have a limited bandwidth, kernels need the sizes of a control's parts. If copies
        are posted as soon as they are sent, their arrival times are mostly known.
        """
        trigger_offsets, triggered = self._triggers()
        factors = self.added.factors
        arrivals = posts_at_once and not (len(triggered) or self.fifo or self.bandwidth > 0)
        if arrivals:
            fixed, when = self.fixed_events
        else:
            fixed = np.flatnonzero(~np.isnan(self.time)).astype(np.int64)
            when = self.time[fixed]
        return Plan(
            fixed=fixed,
            when=when,
            arrivals=int(arrivals),
            time=np.ascontiguousarray(self.time),
            sender=np.ascontiguousarray(self.sender),
            offsets=np.ascontiguousarray(self.offsets),
            dests=np.ascontiguousarray(self.dests),
            delays=np.ascontiguousarray(self.delays),
            message=self.message,
            trigger_offsets=trigger_offsets,
            triggered=triggered,
            think=np.ascontiguousarray(self.think),
            rank=np.ascontiguousarray(self.rank),
            fifo=np.full(self.n * self.n if self.fifo else 0, -np.inf),
            links=np.zeros(0) if factors is None else np.ascontiguousarray(factors).ravel(),
            link=np.array(
                [self.bandwidth, HEADER_BYTES, self.payload, *sizes] if self.bandwidth > 0 else [],
                np.float64,
            ),
            free=np.zeros(self.n * self.n if self.bandwidth > 0 else 0),
            model=self.added.model(),
            seed=np.array([self.seed % 2**64], np.uint64),
        )

    def _triggers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return, for each copy, the messages that its delivery triggers, in compressed rows."""
        rows = np.flatnonzero(self.trigger >= 0)
        if len(rows) == 0:
            return np.zeros(1, np.int64), np.zeros(0, np.int64)
        # Find the copy of the trigger that went to the sender, by (message, destination).
        place = self.message.astype(np.int64) * self.n + self.dests
        order = np.argsort(place, kind="stable")
        wanted = self.trigger[rows] * self.n + self.sender[rows]
        copy = order[np.searchsorted(place[order], wanted)]
        by_copy = np.argsort(copy, kind="stable")
        offsets = np.zeros(self.copies + 1, np.int64)
        np.cumsum(np.bincount(copy, minlength=self.copies), out=offsets[1:])
        return offsets, rows[by_copy].astype(np.int64)


def _chunk(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name).cast(SCHEMA.field(name).type)
    return column.chunk(0) if column.num_chunks else pa.array([], SCHEMA.field(name).type)


def check_schedule(schedule: Schedule) -> None:
    """Raise a one-line error if the schedule cannot be run."""
    if not 2 <= schedule.n <= PROCESSES_MAX:
        _refuse(f"n={schedule.n} processes", f"a schedule needs 2 to {PROCESSES_MAX}")
    if len(schedule.names) != schedule.n or len(set(schedule.names)) != schedule.n:
        _refuse(f"{len(set(schedule.names))} process names", f"need {schedule.n} different ones")
    is_slow = not (schedule.bandwidth == 0 or BANDWIDTH_MIN <= schedule.bandwidth < np.inf)
    if is_slow or not 0 <= schedule.payload <= PAYLOAD_MAX:
        _refuse(
            f"bandwidth={schedule.bandwidth:g}, payload={schedule.payload}",
            f"use {BANDWIDTH_MIN:g} bytes per second or more (or 0, which is unlimited), and "
            f"0 to {PAYLOAD_MAX:,} bytes",
        )
    _check_shape(schedule)
    _check_copies(schedule)
    _check_times(schedule)
    _check_triggers(schedule)
    _first(schedule.rank < -1, schedule.rank, "rank", "use -1 (everything), 0 (nothing) or more")


def _refuse(got: str, wanted: str) -> None:
    msg = f"bad schedule: {got}; {wanted}"
    raise UsageError(msg)


def _first(bad: NDArray[np.bool_], values: NDArray[Any], what: str, wanted: str) -> None:
    """Raise for the first bad row of a column."""
    if bad.any():
        row = int(np.argmax(bad))
        _refuse(f"{what} {values[row]:g} in row {row}", wanted)


def _check_shape(schedule: Schedule) -> None:
    rows = {
        len(column)
        for column in (schedule.sender, schedule.time, schedule.trigger, schedule.think,
                       schedule.rank, schedule.offsets[1:])
    }  # fmt: skip
    if len(rows) != 1 or len(schedule.delays) != len(schedule.dests):
        _refuse(f"columns of lengths {sorted(rows)}", "every message needs a value in each column")
    widths = np.diff(schedule.offsets)
    if len(schedule.offsets) == 0 or schedule.offsets[0] != 0:
        _refuse("offsets do not start at 0", "copies are in compressed rows")
    if schedule.offsets[-1] != len(schedule.dests):
        _refuse(f"offsets end at {schedule.offsets[-1]}", f"there are {len(schedule.dests)} copies")
    _first(widths < 1, widths, "number of destinations", "every message needs at least one")


def _check_copies(schedule: Schedule) -> None:
    n = schedule.n
    known = f"processes are numbered 0 to {n - 1}"
    sender, dests = schedule.sender, schedule.dests
    _first((sender < 0) | (sender >= n), sender, "unknown sender", known)
    _first((dests < 0) | (dests >= n), dests, "unknown destination", known + " (row of the copy)")
    message = schedule.message.astype(np.int64)
    own = sender[message] == dests
    _first(own, message, "message to its own sender, message", "leave that copy out")
    place = message * n + dests
    if (np.diff(place) <= 0).any() and len(np.unique(place)) != len(place):
        _, first = np.unique(place, return_index=True)
        row = int(np.setdiff1d(np.arange(len(place)), first)[0])
        _refuse(f"destination {dests[row]} named twice by message {message[row]}", "once is enough")
    delays = schedule.delays
    bad = ~np.isfinite(delays) | (delays < 0)
    _first(bad, delays, "delay", "delays are finite and at least 0")


def _check_times(schedule: Schedule) -> None:
    time, think = schedule.time, schedule.think
    timed = schedule.trigger < 0
    _first(timed != ~np.isnan(time), time, "time", "a message has either a time or a trigger")
    _first(timed & ~np.isfinite(time), time, "time", "times are finite")
    rows = np.flatnonzero(timed)
    back = np.diff(time[rows]) < 0
    if back.any():
        row = int(rows[1 + int(np.argmax(back))])
        _refuse(f"time {time[row]:g} in row {row} goes backwards", "sort the rows by time")
    bad = ~np.isfinite(think) | (think < 0)
    _first(bad, think, "think", "think times are finite and at least 0")


def _check_triggers(schedule: Schedule) -> None:
    trigger = schedule.trigger
    rows = np.flatnonzero(trigger >= 0)
    if len(rows) == 0:
        return
    late = trigger >= np.arange(schedule.messages)
    _first(late, trigger, "trigger", "a trigger is an earlier row")
    place = np.sort(schedule.message.astype(np.int64) * schedule.n + schedule.dests)
    wanted = trigger[rows] * schedule.n + schedule.sender[rows]
    found = np.searchsorted(place, wanted)
    missing = np.ones(len(rows), bool)
    inside = found < len(place)
    missing[inside] = place[found[inside]] != wanted[inside]
    if missing.any():
        row = int(rows[int(np.argmax(missing))])
        _refuse(
            f"message {row} is triggered by message {trigger[row]}",
            f"which does not go to its sender {schedule.sender[row]}",
        )
