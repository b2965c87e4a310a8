"""Replay: real traffic as a schedule.

An event log says who sent what to whom, in which order, and after which delivery. A send that
followed a delivery at its process is triggered by the latest delivery, and the gap between them
becomes its time to think, so the application's own causality holds under every protocol. Sends
before any delivery are timed. Copies to the sender itself are left out: they are delivered at once
and cost nothing. Delays are drawn from a model.

In an edge list (``source destination time``), equal source and time make one multicast.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from antecede.errors import LogError, UsageError
from antecede.events.content import content_of, title_of
from antecede.events.edges import multicasts, parse_edges
from antecede.events.lines import ours
from antecede.events.rule import left_out, require_columns
from antecede.sim.workloads.assembly import MEAN_DELAY, assemble, offsets_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from numpy.typing import NDArray

    from antecede.events import Rejected
    from antecede.events.edges import Multicast
    from antecede.sim.delays import Delay
    from antecede.sim.schedule import Schedule


#: The first bytes of compressed files, and Arrow's name of the compression.
_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


@dataclass
class _Sends:
    """Sends in an order in which every trigger precedes what it triggers."""

    message: list[str] = field(default_factory=list)
    sender: list[int] = field(default_factory=list)
    dests: list[list[int]] = field(default_factory=list)
    when: list[float] = field(default_factory=list)  # never decreases; not before its trigger
    trigger: list[int] = field(default_factory=list)
    think: list[float] = field(default_factory=list)


def replay_events(
    events: pa.Table, *, seed: int = 0, delay: Delay | str | float = MEAN_DELAY,
    fifo: bool = False, mean_gap: float = 0.1,
) -> Schedule:  # fmt: skip
    """Make a schedule of the sends in an event log (the columns of `antecede.events`).

    If a process has no times, its events are `mean_gap` seconds apart. A single event without a
    finite time takes the time of the event before it at its process. Rows are in order of time,
    with every trigger before what it triggers, so the schedule's head is the log's beginning.
    """
    return replay_log(events, seed=seed, delay=delay, fifo=fifo, mean_gap=mean_gap)[0]


def replay_log(
    events: pa.Table, *, seed: int = 0, delay: Delay | str | float = MEAN_DELAY,
    fifo: bool = False, mean_gap: float = 0.1,
) -> tuple[Schedule, list[str]]:  # fmt: skip
    """Replay a log; also return the message of the log that each row stands for."""
    require_columns(events.column_names)
    rows = _rows_in_order(events)
    _give_times(rows, mean_gap)
    names = sorted({row["process"] for row in rows} | {d for row in rows for d in row["dests"]})
    sends = _collect(rows, names)
    if not sends.sender:
        msg = "nothing to replay: no send in the event log goes to another process"
        raise UsageError(msg)
    order = np.argsort(np.array(sends.when), kind="stable")
    schedule = _schedule(sends, order, names, seed=seed, delay=delay, fifo=fifo)
    return schedule, [sends.message[row] for row in order]


def _rows_in_order(events: pa.Table) -> list[dict[str, Any]]:
    """Sort by process and seq; a send without destinations gets those that delivered it."""
    columns = [c for c in ("process", "seq", "kind", "message", "dests", "time")
               if c in events.column_names]  # fmt: skip
    rows = events.select(columns).sort_by([("process", "ascending"), ("seq", "ascending")])
    result: list[dict[str, Any]] = rows.to_pylist()
    delivered_at: dict[str, list[str]] = {}
    for row in result:
        if row["kind"] == "deliver":
            delivered_at.setdefault(row["message"], []).append(row["process"])
    for row in result:
        named = row.get("dests") or []
        if row["kind"] == "send" and not named:
            named = delivered_at.get(row["message"], [])
        others = {dest for dest in named if dest not in (None, row["process"])}
        row["dests"] = sorted(others) if row["kind"] == "send" else []
    return result


def _give_times(rows: list[dict[str, Any]], mean_gap: float) -> None:
    """Give every row a finite time; rows must be sorted by process and seq."""
    for row in rows:
        time = row.get("time")
        row["time"] = float(time) if time is not None and math.isfinite(time) else None
    known = [row["time"] for row in rows if row["time"] is not None]
    base = min(known, default=0.0)
    for _, events in itertools.groupby(rows, key=itemgetter("process")):
        mine = list(events)
        last = next((row["time"] for row in mine if row["time"] is not None), None)
        for place, row in enumerate(mine):
            if last is None:
                row["time"] = base + place * mean_gap
            elif row["time"] is None:
                row["time"] = last
            else:
                last = row["time"]


def _collect(rows: list[dict[str, Any]], names: list[str]) -> _Sends:
    """Collect the sends of the log, with every send before its deliveries."""
    position = {name: i for i, name in enumerate(names)}
    by_process: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_process.setdefault(row["process"], []).append(row)
    sent = {row["message"] for row in rows if row["kind"] == "send"}
    cursor = dict.fromkeys(by_process, 0)
    latest: dict[str, tuple[int, float] | None] = dict.fromkeys(by_process)
    placed: dict[str, int] = {}  # message -> row of the schedule; -1 if sent to nobody else
    waiting: dict[str, list[str]] = {}
    sends = _Sends()
    before: dict[str, float] = {}
    ready = list(by_process)
    while ready:
        process = ready.pop()
        queue = by_process[process]
        while cursor[process] < len(queue):
            row = queue[cursor[process]]
            time, message = row["time"], row["message"]
            if row["kind"] == "deliver" and message in sent:
                if message not in placed:
                    waiting.setdefault(message, []).append(process)
                    break
                if placed[message] >= 0 and position[process] in sends.dests[placed[message]]:
                    latest[process] = (placed[message], time)
            elif row["kind"] == "send" and message not in placed:
                earliest = before.get(process, -math.inf)
                placed[message] = _place(sends, row, position, latest[process], earliest)
                if placed[message] >= 0:
                    before[process] = sends.when[-1]
                ready.extend(waiting.pop(message, ()))
            cursor[process] += 1
    if waiting:
        msg = (
            f"message {next(iter(waiting))!r} is delivered before everything that leads to its send"
        )
        raise UsageError(msg)
    return sends


def _place(
    sends: _Sends, row: dict[str, Any], position: dict[str, int],
    cause: tuple[int, float] | None, earliest: float,
) -> int:  # fmt: skip
    if not row["dests"]:
        return -1
    sends.message.append(row["message"])
    sends.sender.append(position[row["process"]])
    sends.dests.append([position[dest] for dest in row["dests"]])
    caused = -math.inf if cause is None else sends.when[cause[0]]
    sends.when.append(max(row["time"], earliest, caused))
    sends.trigger.append(-1 if cause is None else cause[0])
    sends.think.append(0.0 if cause is None else max(0.0, row["time"] - cause[1]))
    return len(sends.sender) - 1


def _schedule(
    sends: _Sends, order: NDArray[np.int64], names: list[str], *, seed: int,
    delay: Delay | str | float, fifo: bool,
) -> Schedule:  # fmt: skip
    """Make a schedule of the sends, in order of time; triggers precede what they trigger."""
    when = np.array(sends.when)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    trigger = np.array(sends.trigger, np.int64)[order]
    dests = [sends.dests[i] for i in order]
    times = np.where(trigger < 0, when[order], np.nan)
    return assemble(
        len(names),
        sender=np.array(sends.sender)[order],
        dests=np.array([d for row in dests for d in row]),
        offsets=offsets_of(np.array([len(row) for row in dests])),
        time=times - np.nanmin(times),
        trigger=np.where(trigger >= 0, place[trigger], -1),
        think=np.array(sends.think)[order],
        rng=np.random.default_rng([seed, len(names), 8]),
        names=tuple(names),
        about={"workload": "replay_events"},
        seed=seed,
        delay=delay,
        fifo=fifo,
    )


def replay_edges(
    source: str | Path | pa.Table, *, seed: int = 0, delay: Delay | str | float = MEAN_DELAY,
    fifo: bool = False, limit: int | None = None, rejected: list[Rejected] | None = None,
) -> Schedule:  # fmt: skip
    """Make a schedule of an edge list: a file of ``source destination time`` lines, or a table.

    The file ``-`` is standard input.
    Lines of equal source and time are one multicast; copies to oneself are left out. All sends
    are timed: an edge list does not say which message answers which. Invalid lines go to
    ``rejected``, and ``about["rejected"]`` counts them.
    """
    bad = [] if rejected is None else rejected
    is_table = isinstance(source, pa.Table)
    found = multicasts(_table_edges(source), bad) if is_table else _read_edges(source, bad)
    sends = [(m, [d for d in m.dests if d != m.source]) for m in found]
    sends = [(message, others) for message, others in sends if others][:limit]
    if not sends:
        where = "the table of edges" if is_table else repr(title_of(source))
        reason = f"no line of {where} is a message between two processes"
        reason += f"; {left_out(len(bad), bad[0])}" if bad else ""
        raise LogError(reason, path=source, reason=reason)
    names = sorted(
        {message.source for message, _ in sends} | {d for _, others in sends for d in others},
        key=lambda name: (not name.isdigit(), int(name) if name.isdigit() else 0, name),
    )
    position = {name: i for i, name in enumerate(names)}
    dests = [sorted(position[name] for name in others) for _, others in sends]
    times = np.array([message.time for message, _ in sends])
    return assemble(
        len(names),
        sender=np.array([position[message.source] for message, _ in sends]),
        dests=np.array([dest for row in dests for dest in row]),
        offsets=offsets_of(np.array([len(row) for row in dests])),
        time=times - times[0], seed=seed, delay=delay, fifo=fifo,
        rng=np.random.default_rng([seed, len(names), 9]), names=tuple(names),
        about={"workload": "replay_edges", "rejected": len(bad)},
    )  # fmt: skip


def _read_edges(path: str | Path, bad: list[Rejected]) -> list[Multicast]:
    """Read an edge list, which may be compressed; refuse a file with mostly invalid lines."""
    with ours("read the edge list", path):
        data = content_of(path)
        packing = next((name for mark, name in _PACKED.items() if data.startswith(mark)), None)
        if packing:
            data = bytes(pa.CompressedInputStream(pa.BufferReader(data), packing).read())
    text = data.decode("utf-8-sig", errors="surrogateescape")
    found = parse_edges(text.replace("\r\n", "\n").replace("\r", "\n"), bad)
    good = sum(message.lines for message in found)
    if found and len(bad) > good:
        reason = (
            f"{title_of(path)!r} is not an edge list: {len(bad):,} of its {len(bad) + good:,} "
            f"lines are not valid; line {bad[0].line}: {bad[0].reason}; got {bad[0].text[:80]!r}"
        )
        raise LogError(reason, path=path, reason=reason)
    return found


def _table_edges(table: pa.Table) -> Iterable[tuple[int, str, str, object]]:
    missing = {"source", "destination", "time"} - set(table.column_names)
    if missing:
        msg = f"the edge list has no column {min(missing)!r}, only {table.column_names}"
        raise UsageError(msg)
    columns = (table.column(name).to_pylist() for name in ("source", "destination", "time"))
    rows = enumerate(zip(*columns, strict=True), start=1)
    return [(line, str(source), str(dest), time) for line, (source, dest, time) in rows]
