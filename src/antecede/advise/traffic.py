"""The traffic of a log as a schedule, on which advice runs the protocols.

Delays are those in the log, corrected where clocks differ, or drawn from a stated model. Packets
that a protocol adds are not in the log: their delays are drawn from a lognormal distribution with
the mean and variance of the observed delays, or from the same model.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from antecede.audit.windows.columns import process_names, to_events
from antecede.audit.windows.cuts import offsets, pairs_of
from antecede.errors import UsageError
from antecede.events.formats import format_named
from antecede.events.sources import Log, sorted_out
from antecede.events.tables import DELIVER, SEND
from antecede.sim import Schedule
from antecede.sim.delays import Delay
from antecede.sim.workloads.replay import replay_edges, replay_log

#: The delays assumed for a log without times.
DELAY_MODEL = "exponential:0.05"
#: The most messages of a log to replay; more take longer without adding insight.
MESSAGES_MAX = 100_000
AS_SEEN = "as seen"
#: Times beyond this, in seconds, overflow calculations; they count as unknown.
TIME_MAX = 1e100


def schedule_of_log(log: Log, name: str, *, delay: str | None = None, seed: int = 0) -> Schedule:
    """Return the schedule of a log that was read from ``name``, in any format."""
    if log.undecidable is not None:
        msg = f"undecidable: {name} cannot be replayed: {log.undecidable}"
        raise UsageError(msg)
    make = schedule_of if format_named(log.form).has_deliveries else schedule_of_edges
    return make(log.events, delay=delay, seed=seed)


def schedule_of(events: pa.Table, *, delay: str | None = None, seed: int = 0) -> Schedule:
    """Return the sends of a log as a schedule, with its own delays unless ``delay`` is given."""
    events = _with_usable_times(sorted_out(events, "").events)
    model = delay or DELAY_MODEL
    schedule, messages = replay_log(events, seed=seed, delay=model)
    seen = _observed(events, schedule, messages) if delay is None else None
    if seen is None:
        return _capped(_described(schedule, model, model))
    added, text = lognormal_like(seen)
    return _capped(_described(replace(schedule, delays=seen, added=added), AS_SEEN, text))


def schedule_of_edges(events: pa.Table, *, delay: str | None = None, seed: int = 0) -> Schedule:
    """Return the sends of an edge list as a schedule: at their times, with delays from a model."""
    sends = [row for row in events.to_pylist() if row["kind"] == "send"]
    edges = [(row["process"], dest, row["time"]) for row in sends for dest in row["dests"]]
    columns = zip(*edges, strict=True) if edges else ((), (), ())
    if far := next((time for *_, time in edges if abs(time) > TIME_MAX), None):
        msg = f"the log has a time of {far:g} seconds; times up to {TIME_MAX:g} can be replayed"
        raise UsageError(msg)
    names = ("source", "destination", "time")
    table = pa.table({name: list(column) for name, column in zip(names, columns, strict=True)})
    model = delay or DELAY_MODEL
    return _capped(_described(replay_edges(table, seed=seed, delay=model), model, model))


def _with_usable_times(events: pa.Table) -> pa.Table:
    """Return events with null in place of times too large to calculate with."""
    if "time" not in events.column_names:
        return events
    time = events.column("time")
    far = pc.greater(pc.abs(time), TIME_MAX)
    usable = pc.if_else(far, pa.scalar(None, time.type), time)
    return events.set_column(events.column_names.index("time"), "time", usable)


def left_out(log: Log) -> dict[str, int]:
    """Return how many events of a log are not replayed: duplicates, and copies to the sender.

    Of several sends of a message, or deliveries of it at a process, the first counts.
    """
    rows = log.events.select(["process", "kind", "message"])
    found = {}
    for name, kind, keys in (
        ("repeated_sends", SEND, ["message"]),
        ("repeated_deliveries", DELIVER, ["process", "message"]),
    ):
        some = rows.filter(pc.equal(rows.column("kind"), kind)).select(keys)
        found[name] = len(some) - len(some.group_by(keys).aggregate([]))
    sends = log.events.filter(pc.equal(log.events.column("kind"), SEND))
    copies = own = 0
    if "dests" in sends.column_names and not pa.types.is_null(sends.schema.field("dests").type):
        dests = sends.column("dests").combine_chunks()
        senders = sends.column("process").combine_chunks().take(pc.list_parent_indices(dests))
        copies, own = len(senders), pc.sum(pc.equal(senders, pc.list_flatten(dests))).as_py() or 0
    if not format_named(log.form).has_deliveries:  # Each line is a copy; its delivery is implied.
        found = {"repeated_lines": max(0, (log.good or 0) - copies)}
    return {**found, "copies_to_sender": own}


def lognormal_like(seen: NDArray[np.float64]) -> tuple[Delay, str]:
    """Return a lognormal model with the mean and variance of the observed delays, and its text."""
    mean = float(seen.mean())
    if mean <= 0:
        return Delay.constant(0.0), "constant:0"
    sigma = float(np.sqrt(np.log1p(seen.var() / mean**2)))
    return Delay.lognormal(mean, sigma), f"lognormal:{mean:.4g}:{sigma:.4g}"


def _described(schedule: Schedule, delays: str, added: str) -> Schedule:
    about = {"delays": delays, "added": added, "log_messages": schedule.messages}
    return replace(schedule, about={**schedule.about, **about})


def _capped(schedule: Schedule) -> Schedule:
    return schedule.head(MESSAGES_MAX) if schedule.messages > MESSAGES_MAX else schedule


def _observed(
    events: pa.Table, schedule: Schedule, messages: list[str]
) -> NDArray[np.float64] | None:
    """Return the delay of each copy in the log, or None if the log shows none.

    A copy whose send or delivery is missing, or has no time, gets the median. ``messages`` are the
    names of the schedule's messages, in its order.
    """
    if "time" not in events.column_names:
        return None
    names = process_names(events)
    columns = to_events(events, names)
    time = events.column("time").to_numpy(zero_copy_only=False).astype(np.float64)
    sends, deliveries = pairs = pairs_of(columns)
    waits = time[deliveries] - time[sends]
    known = np.isfinite(waits)
    if not known.any():
        return None
    if (waits[known] < 0).any():  # Clocks differ: nothing arrives before it was sent.
        true = time - offsets(columns, pairs, time, len(names))[columns.process]
        waits = np.maximum(true[deliveries] - true[sends], 0.0)
    deliveries, waits = deliveries[known], waits[known]
    message = events.column("message").take(pa.array(deliveries)).to_pylist()
    process = [names[p] for p in columns.process[deliveries]]
    seen: dict[tuple[str, str], float] = {}
    for key, wait in zip(zip(message, process, strict=True), waits.tolist(), strict=True):
        seen[key] = min(wait, seen.get(key, wait))  # Of two deliveries, the first counts.
    of_copy = np.repeat(np.arange(schedule.messages), np.diff(schedule.offsets)).tolist()
    usual = float(np.median(waits))
    found = [
        seen.get((messages[row], schedule.names[dest]), usual)
        for row, dest in zip(of_copy, schedule.dests.tolist(), strict=True)
    ]
    return np.array(found)
