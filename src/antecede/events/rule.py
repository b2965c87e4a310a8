"""What an event is, in plain Python: ``parse`` reads a row by ``events.tables.EVENT_SCHEMA``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from antecede.errors import LogError, shown
from antecede.events.tables import (
    DESTS_SEPARATOR,
    EVENT_COLUMNS,
    EVENT_COLUMNS_NEEDED,
    EVENT_KINDS,
    EVENT_SCHEMA,
    KIND,
    NAME,
    NAMES,
    SECONDS,
    WHOLE,
)
from antecede.events.times import seconds_of_date

#: Why a row that repeats another is left out.
SEEN_BEFORE = "the same span was read before"
#: Why lines of a log that are not about events are left out.
NO_LAYOUT = "does not fit the layout"
_WHOLE_END = 2**63
_STRINGS = {str}
_INFINITE = "is not finite"
_SURROGATE = "contains a lone surrogate, which UTF-8 cannot encode"

#: The columns of one event: process, seq, kind, message, dests, time.
Row = tuple[str, int, str, str | None, tuple[str, ...] | None, float | None]


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the log; ``message`` is None for a local event without a name."""

    process: str
    seq: int
    kind: str
    message: str | None = None
    dests: tuple[str, ...] | None = None
    time: float | None = None


#: Why rows that the user's patterns or fields do not choose are left out.
UNMATCHED, NO_KIND = "no pattern matches it", "nothing in it says that it is a send or a delivery"


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that is not a valid event: its line (if known), its text and the reason."""

    line: int | None
    text: str
    reason: str

    def __str__(self) -> str:
        where = "a row" if self.line is None else f"line {self.line}"
        return f"{where} is not a valid event: {self.reason}; got {self.text[:80]!r}"


def left_out(count: int, first: Rejected, name: str = "") -> str:
    """Return a sentence on the invalid rows of a log, quoting the first."""
    rows = f"{count:,} rows of the log are not valid events and were"
    if count == 1:
        rows = "1 row of the log is not a valid event and was"
    places = [f"line {first.line}"] if first.line is not None else []
    where = " of ".join([*places, name] if name else places)
    at = f", {where}" if where else ""
    return f"{rows} left out; the first{at}: {first.reason}; got {first.text[:80]!r}"


def require_columns(present: Iterable[str]) -> None:
    """Refuse a log that lacks a column every event log needs, naming it."""
    have = list(present)
    absent = [name for name in EVENT_COLUMNS_NEEDED if name not in have]
    if absent:
        plural = "s" * (len(absent) > 1)
        found = safe(", ".join(have))[:200] or "none"
        if len(have) == 1 and (mark := next((mark for mark in ";\t|" if mark in have[0]), "")):
            msg = f"the columns are separated by {mark!r}: {found}; separate them by commas"
            raise LogError(msg)
        msg = (
            f"the log lacks the column{plural} {', '.join(absent)}; it has {found}: "
            "map them with --field process=COLUMN (in Python: columns={'process': 'COLUMN'}), "
            "or add what is missing"
        )
        raise LogError(msg)


def parse(row: Mapping[str, object]) -> Event | str:
    """Return the event in ``row``, or the reason why it is not valid."""
    found = values(row)
    return found if isinstance(found, str) else Event(*found)


def values(row: Mapping[str, object]) -> Row | str:
    """Return what ``parse`` does, but the event as a tuple of its columns."""
    get = row.get
    process, seq, kind, message = get("process"), get("seq"), get("kind"), get("message")
    dests, time = get("dests"), get("time")
    if type(time) is int and -_WHOLE_END <= time < _WHOLE_END:
        time = float(time)
    if (  # The common case first, for speed; ``fault`` decides all others.
        type(process) is str
        and type(seq) is int
        and type(message) is str
        and process
        and message
        and process.isascii()
        and message.isascii()
        and -_WHOLE_END <= seq < _WHOLE_END
        and isinstance(kind, str)
        and kind in EVENT_KINDS
        and (time is None or (type(time) is float and time - time == 0.0))
    ):
        if dests is None:
            return process, seq, kind, message, None, time
        if (
            type(dests) is list
            and set(map(type, dests)) <= _STRINGS
            and "".join(dests).isascii()
            and "" not in dests
        ):
            return process, seq, kind, message, tuple(dests), time
    return _any_values(row)


def _any_values(row: Mapping[str, object]) -> Row | str:
    """Return what ``values`` does, for any row."""
    read = {name: row.get(name) for name in EVENT_COLUMNS}
    for name in ("process", "message"):
        read[name] = _text_of_number(read[name])
    dests = read["dests"]
    if isinstance(dests, str):
        dests = dests_of(dests) or None
    elif isinstance(dests, list | tuple):
        dests = tuple(map(_text_of_number, dests))
    read["dests"], read["time"] = dests, seconds_of(read["time"])
    if _seconds_fault(read["time"]) == _INFINITE:
        read["time"] = None
    if reason := fault(read):
        return reason
    seq, time = read["seq"], read["time"]
    assert isinstance(seq, int)
    return (
        str(read["process"]),
        seq,
        str(read["kind"]),
        str(read["message"]) if read["message"] else None,
        dests if isinstance(dests, tuple) else None,
        float(time) if isinstance(time, int | float) else None,
    )


def _text_of_number(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def dests_of(text: str) -> tuple[str, ...]:
    """Return destinations that are written in one text."""
    return tuple(filter(None, map(str.strip, text.split(DESTS_SEPARATOR))))


def seconds_of(value: object) -> object:
    """Return a date or a numeric text in seconds (None for other text); other values unchanged."""
    if isinstance(value, datetime):
        return seconds_of_date(value)
    if not isinstance(value, str):
        return value
    with suppress(ValueError):
        if "_" not in value:  # Only Python reads 1_000 as a number.
            return float(value)
    return seconds_of_date(value)


def fault(row: Mapping[str, object]) -> str:
    """Return why a row is not a valid event, or the empty string if it is."""
    kind = row.get("kind")
    for column in EVENT_SCHEMA:
        value = row.get(column.name)
        if value is None or (value == "" and column.holds == NAME):
            if column.needed_by == EVENT_KINDS:
                return f"{column.name} is missing"
            if kind in column.needed_by:
                return f"a {kind} event needs a {column.name}"
        elif reason := _FAULTS[column.holds](value):
            return f"{column.name} {reason}"
    return ""


def _name_fault(value: object) -> str:
    if not isinstance(value, str):
        return "is not a string"
    return "" if is_text(value) else _SURROGATE


def _whole_fault(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and -_WHOLE_END <= value < _WHOLE_END:
        return ""
    return "is not a 64-bit integer"


def _kind_fault(value: object) -> str:
    if isinstance(value, str) and value in EVENT_KINDS:
        return ""
    return f"is {shown(value)}; expected one of {', '.join(EVENT_KINDS)}"


def _names_fault(value: object) -> str:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) for name in value):
        return "is not a list of strings"
    if "" in value:
        return "contains an empty name"
    return "" if is_text(*value) else _SURROGATE


def _seconds_fault(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "is not a number or a date"
    return "" if abs(value) <= sys.float_info.max else _INFINITE


_FAULTS = {
    NAME: _name_fault,
    WHOLE: _whole_fault,
    KIND: _kind_fault,
    NAMES: _names_fault,
    SECONDS: _seconds_fault,
}


def is_text(*names: str) -> bool:
    """Return whether UTF-8 can encode the names, so that none has a lone surrogate."""
    try:
        return all(name.isascii() or name.encode() for name in names)
    except UnicodeEncodeError:
        return False


def safe(text: str) -> str:
    """Return text that can be written and shown, with bytes that were not UTF-8 escaped."""
    if text.isascii():
        return text
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")
