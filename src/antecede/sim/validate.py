"""What is wrong with a schedule, in one line that names the row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from antecede.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from antecede.sim.schedule import Schedule

PROCESSES_MAX = 65_536


def check_schedule(schedule: Schedule) -> None:
    """Raise a one-line error if the schedule cannot be run."""
    if not 2 <= schedule.n <= PROCESSES_MAX:
        _refuse(f"n={schedule.n} processes", f"a schedule needs 2 to {PROCESSES_MAX}")
    if len(schedule.names) != schedule.n or len(set(schedule.names)) != schedule.n:
        _refuse(f"{len(set(schedule.names))} process names", f"need {schedule.n} different ones")
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
        _refuse(f"columns of lengths {sorted(rows)}", "every message needs a value in each")
    widths = np.diff(schedule.offsets)
    if len(schedule.offsets) == 0 or schedule.offsets[0] != 0:
        _refuse("offsets do not start at 0", "copies are in compressed rows")
    if schedule.offsets[-1] != len(schedule.dests):
        _refuse(f"offsets end at {schedule.offsets[-1]}", f"there are {len(schedule.dests)} copies")
    _first(widths < 1, widths, "number of destinations", "every message needs one at least")


def _check_copies(schedule: Schedule) -> None:
    n = schedule.n
    known = f"processes are numbered 0 to {n - 1}"
    sender, dests = schedule.sender, schedule.dests
    _first((sender < 0) | (sender >= n), sender, "unknown sender", known)
    _first((dests < 0) | (dests >= n), dests, "unknown destination", known + " (row of the copy)")
    message = np.repeat(np.arange(schedule.messages, dtype=np.int64), np.diff(schedule.offsets))
    own = sender[message] == dests
    _first(own, message, "message to its own sender, message", "leave that copy out")
    place = message * n + dests
    if (np.diff(place) <= 0).any() and len(np.unique(place)) != len(place):
        _, first = np.unique(place, return_index=True)
        row = int(np.setdiff1d(np.arange(len(place)), first)[0])
        _refuse(f"destination {dests[row]} named twice by message {message[row]}", "once is enough")
    delays = schedule.delays
    bad = ~np.isfinite(delays) | (delays < 0)
    _first(bad, delays, "delay", "delays are finite and not negative")


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
    _first(bad, think, "think", "thinking takes a finite time, not negative")


def _check_triggers(schedule: Schedule) -> None:
    trigger = schedule.trigger
    rows = np.flatnonzero(trigger >= 0)
    if len(rows) == 0:
        return
    late = trigger >= np.arange(schedule.messages)
    _first(late, trigger, "trigger", "a trigger is an earlier row")
    message = np.repeat(np.arange(schedule.messages, dtype=np.int64), np.diff(schedule.offsets))
    place = np.sort(message * schedule.n + schedule.dests)
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
