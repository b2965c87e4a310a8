"""The event log: one row per send, delivery or local event of a process.

Any program can write one with one call per event and no dependency, and ``antecede audit``,
``advise`` and ``report`` read it. Two forms need nothing installed: JSON lines (any name) and
CSV with a header (a name that ends in ``.csv``)::

    with EventLog("shop.jsonl", process="billing") as log:
        log.send("order-17/invoice", ["mail", "stock"])
        log.deliver("order-17/paid")

Guarantee
---------
A line reaches the file in one ``write`` to a descriptor opened for appending, before the call
returns, so several processes may share a file, a killed program loses nothing it has logged,
and no line is ever interleaved with another. A line that a crash of the machine tore is closed
off by the next writer and read as one rejected row.

Assumes
-------
``seq`` is each process's own order and is taken up again where the file left it, so one process
is written by one ``EventLog`` at a time. ``time`` is that process's clock and is never trusted
for order.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import threading
import time as clock
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from antecede.core.tables import (
    DELIVER,
    DESTS_SEPARATOR,
    EVENT_COLUMNS,
    EVENT_COLUMNS_NEEDED,
    EVENT_KINDS,
    LOCAL,
    SEND,
)
from antecede.core.validation import shown
from antecede.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_TAIL_BYTES = 1 << 16
_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_scan_json = json.JSONDecoder().raw_decode
_SEQ_END = 2**63
_STRINGS = {str}


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


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that is no event: where it stands (if lines are known), its text and why it is none."""

    line: int | None
    text: str
    reason: str


class EventLog:
    """Append one process's events to a log that ``antecede audit`` reads.

    Parameters
    ----------
    path
        The file, made if absent; ``.csv`` means CSV, anything else JSON lines.
    process
        The name of the process whose events these are.
    """

    def __init__(self, path: str | os.PathLike[str], process: str) -> None:
        if not isinstance(process, str) or not process:
            msg = f"process is {shown(process)}; give its name as a non-empty string"
            raise UsageError(msg)
        self.path = Path(path)
        self.process = process
        self._csv = self.path.suffix == ".csv"
        _line(Event(process, 0, LOCAL), is_csv=self._csv)  # refuses a name that cannot be written
        self._lock = threading.Lock()
        try:
            self._seq = _last_seq(self.path, process)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        except OSError as error:
            msg = f"cannot write the event log {str(self.path)!r}: {error.strerror}"
            raise UsageError(msg) from None
        self._open = True
        self._begin()

    def send(
        self, message: object, dests: Iterable[str] | None = None, time: float | None = None
    ) -> int:
        """Log that this process sent ``message`` to ``dests``; return the event's seq."""
        if isinstance(dests, str) or not (dests is None or hasattr(dests, "__iter__")):
            msg = f"dests is {shown(dests)}; give a list of process names"
            raise UsageError(msg)
        names = None if dests is None else tuple(dests)
        return self._append(SEND, message_name(message), names, time)

    def deliver(self, message: object, time: float | None = None) -> int:
        """Log that ``message`` was delivered to this process; return the event's seq."""
        return self._append(DELIVER, message_name(message), None, time)

    def local(self, name: object = None, time: float | None = None) -> int:
        """Log that something happened here alone; return the event's seq."""
        return self._append(LOCAL, None if name is None else message_name(name), None, time)

    def close(self) -> None:
        """Close the file; calling again does nothing."""
        with self._lock:
            if self._open:
                self._open = False
                os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _begin(self) -> None:
        """Close off a torn last line and give a new CSV file its header."""
        with _exclusive(self._file):
            size = os.fstat(self._file).st_size
            if size == 0 and self._csv:
                _write(self._file, (",".join(EVENT_COLUMNS) + "\n").encode())
            elif size and os.pread(self._file, 1, size - 1) != b"\n":
                _write(self._file, b"\n")

    def _append(
        self, kind: str, message: str | None, dests: tuple[str, ...] | None, time: float | None
    ) -> int:
        with self._lock:
            if not self._open:
                msg = f"the event log {str(self.path)!r} is closed; open a new EventLog to go on"
                raise UsageError(msg)
            when = clock.time() if time is None else time
            event = Event(self.process, self._seq + 1, kind, message, dests, when)
            _write(self._file, _line(event, is_csv=self._csv))
            self._seq += 1
            return self._seq


def message_name(message: object) -> str:
    """Return the id of ``message`` as the log writes it: ``sender:seq`` of a MessageId.

    The id must be the same text at the sender and at every destination.
    """
    if isinstance(message, str):
        name = message
    elif isinstance(message, int):
        name = str(message)
    else:
        sender, seq = getattr(message, "sender", None), getattr(message, "seq", None)
        name = "" if sender is None or seq is None else f"{sender}:{seq}"
    if not name:
        msg = f"message is {message!r}; give its id as a non-empty string or a MessageId"
        raise UsageError(msg)
    return name


def write(path: str | os.PathLike[str], events: Iterable[Event]) -> None:
    """Write ``events`` of any processes as a new log, whole or not at all."""
    target = Path(path)
    is_csv = target.suffix == ".csv"
    part = target.with_name(target.name + ".part")
    try:
        with part.open("wb") as file:
            file.write((",".join(EVENT_COLUMNS) + "\n").encode() if is_csv else b"")
            file.writelines(_line(event, is_csv=is_csv) for event in events)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def read(
    path: str | os.PathLike[str], *, rejected: list[Rejected] | None = None, form: str | None = None
) -> list[Event]:
    """Read a log into memory, in the order of its lines; ``form`` is csv or jsonl.

    Lines that are no events go to ``rejected``; without that list the first one raises.
    """
    return [Event(*row) for row in read_rows(path, rejected=rejected, form=form)]


def read_rows(
    path: str | os.PathLike[str], *, rejected: list[Rejected] | None = None, form: str | None = None
) -> list[Row]:
    """Read as ``read`` does, each event as the tuple of its columns, which takes half the time."""
    source = Path(path)
    is_csv = source.suffix == ".csv" if form is None else form == "csv"
    found: list[Row] = []
    try:
        # Bytes that are not UTF-8 come as lone surrogates, by which their lines are known.
        with source.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            for line, text, row in _csv_rows(file) if is_csv else _json_rows(file):
                told = row if isinstance(row, str) else _values(row)
                if isinstance(told, tuple):
                    found.append(told)
                elif rejected is None:
                    msg = f"{source.name} line {line} is no event: {told}; got {_safe(text)[:80]!r}"
                    raise UsageError(msg)
                else:
                    rejected.append(Rejected(line, _safe(text), told))
    except OSError as error:
        msg = f"cannot read the event log {str(source)!r}: {error.strerror}"
        raise UsageError(msg) from None
    return found


def parse(row: Mapping[str, object]) -> Event | str:
    """Return the event that ``row`` says, or the reason why it says none."""
    found = _values(row)
    return found if isinstance(found, str) else Event(*found)


def _values(row: Mapping[str, object]) -> Row | str:
    """Return the columns of the event that ``row`` says, or the reason why it says none."""
    get = row.get
    process, seq, kind, message = get("process"), get("seq"), get("kind"), get("message")
    dests, when = get("dests"), get("time")
    if type(when) is int and -_SEQ_END <= when < _SEQ_END:
        when = float(when)
    if (  # What nearly every row is like is tested first, and quickly.
        type(process) is str
        and type(seq) is int
        and type(message) is str
        and process
        and message
        and process.isascii()
        and message.isascii()
        and -_SEQ_END <= seq < _SEQ_END
        and isinstance(kind, str)
        and kind in EVENT_KINDS
        and (when is None or (type(when) is float and when - when == 0.0))
    ):
        if dests is None:
            return process, seq, kind, message, None, when
        if type(dests) is list and set(map(type, dests)) <= _STRINGS and "".join(dests).isascii():
            return process, seq, kind, message, tuple(dests), when
    return _looked_at(row)


def _looked_at(row: Mapping[str, object]) -> Row | str:
    """Return what ``_values`` does, of any row: whole numbers are names too, as their text."""
    told = dict(row)
    for name in ("process", "message"):
        told[name] = _name(told.get(name))
    if isinstance(told.get("dests"), list | tuple):
        told["dests"] = tuple(_name(dest) for dest in told["dests"])  # type: ignore[attr-defined]
    fault = _identity_fault(told) or _detail_fault(told)
    if fault:
        return fault
    process, seq, kind, message, dests, when = (told.get(name) for name in EVENT_COLUMNS)
    assert isinstance(seq, int)
    return (
        str(process),
        seq,
        str(kind),
        str(message) if message else None,
        tuple(dests) if isinstance(dests, list | tuple) else None,
        float(when) if isinstance(when, int | float) else None,
    )


def _name(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _identity_fault(row: Mapping[str, object]) -> str:
    """Say what is wrong with where, in which place and as what the event happened."""
    process, seq, kind = row.get("process"), row.get("seq"), row.get("kind")
    fault = ""
    if not isinstance(process, str) or not process:
        fault = "process is missing" if process in (None, "") else "process is not a string"
    elif isinstance(seq, bool) or not isinstance(seq, int) or not -_SEQ_END <= seq < _SEQ_END:
        fault = "seq is missing" if seq is None else "seq is not a whole number of 64 bits"
    elif not isinstance(kind, str) or kind not in EVENT_KINDS:
        fault = f"kind is {shown(kind)}, expected one of {', '.join(EVENT_KINDS)}"
    return fault


def _detail_fault(row: Mapping[str, object]) -> str:
    """Say what is wrong with the message, the destinations or the time."""
    message, dests, when = row.get("message"), row.get("dests"), row.get("time")
    fault = ""
    if message is not None and not isinstance(message, str):
        fault = "message is not a string"
    elif row["kind"] != LOCAL and not message:
        fault = f"a {row['kind']} needs a message"
    elif dests is not None and not (
        isinstance(dests, list | tuple) and all(isinstance(dest, str) for dest in dests)
    ):
        fault = "dests is not a list of strings"
    elif when is not None and (isinstance(when, bool) or not isinstance(when, int | float)):
        fault = "time is not a number"
    elif isinstance(when, int | float) and not abs(when) <= sys.float_info.max:
        fault = "time is not finite"
    elif not _is_text((str(row["process"]), message or "", *(dests or ()))):
        fault = "a name has a lone surrogate, which is no character"
    return fault


def _is_text(names: Iterable[str]) -> bool:
    """Return whether names have none of the lone surrogates that no file can hold."""
    try:
        return all(name.isascii() or name.encode() for name in names)
    except UnicodeEncodeError:
        return False


def _safe(text: str) -> str:
    """Return text that can be written and shown, with bytes that were not UTF-8 in hexadecimal."""
    if text.isascii():
        return text
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


def _line(event: Event, *, is_csv: bool) -> bytes:
    """Return the line that reads back as ``event``; refuse an event that has none."""
    row = {name: v for name in EVENT_COLUMNS if (v := getattr(event, name)) is not None}
    fault = _identity_fault(row) or _detail_fault(row)
    fault = fault or ("dests has an empty name" if "" in (event.dests or ()) else "")
    try:
        if not fault:
            return (_csv_text(event) if is_csv else _to_json(row) + "\n").encode()
    except csv.Error as error:
        fault = str(error)
    got = ", ".join(f"{name}={shown(value)}" for name, value in row.items())
    msg = f"cannot log this event: {fault}; got {got}"
    raise UsageError(msg)


def _csv_text(event: Event) -> str:
    dests, time = event.dests or (), "" if event.time is None else repr(float(event.time))
    names = (event.process, event.seq, event.kind, event.message or "", DESTS_SEPARATOR.join(dests))
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow((*names, time))
    text = out.getvalue()
    is_one_line = "\r" not in text and text.count("\n") == 1
    odd = [dest for dest in dests if DESTS_SEPARATOR in dest or dest != dest.strip()]
    if not is_one_line or odd or len(text) > csv.field_size_limit():
        msg = (
            f"CSV takes no line break, no {DESTS_SEPARATOR!r} in dests nor spaces around them, "
            "and no line so long"
        )
        raise csv.Error(msg + "; log to .jsonl instead")
    return text


def _json_rows(file: Iterable[str]) -> Iterator[tuple[int, str, Mapping[str, object] | str]]:
    for line, raw in enumerate(file, start=1):
        text = raw.strip()
        if not text:
            continue
        try:
            row, end = _scan_json(text)
        except (ValueError, RecursionError):
            row, end = None, 0
        if not (text.isascii() or _is_text((text,))):
            yield line, text, "not UTF-8"
        elif end != len(text):
            yield line, text, "not JSON"
        else:
            yield line, text, row if isinstance(row, dict) else "not a JSON object"


def _csv_rows(file: Iterable[str]) -> Iterator[tuple[int, str, Mapping[str, object] | str]]:
    reader = csv.reader(file, strict=True)
    try:
        header = next(reader, None)
    except csv.Error as error:
        msg = f"the first line is no CSV header: {error}"
        raise UsageError(msg) from None
    if header is None:
        return
    absent = [name for name in EVENT_COLUMNS_NEEDED if name not in header]
    if absent:
        msg = f"the CSV header lacks {', '.join(absent)}; it has {_safe(', '.join(header))[:200]}"
        raise UsageError(msg)
    twice = [name for name in EVENT_COLUMNS if header.count(name) > 1]
    if twice:
        msg = f"the CSV header has the column {twice[0]} {header.count(twice[0])} times"
        raise UsageError(msg)
    while True:
        try:
            fields = next(reader, None)
        except csv.Error as error:
            yield reader.line_num, "", f"not CSV: {error}"
            continue
        if fields is None:
            return
        if fields:
            text = ",".join(fields)
            full = len(fields) == len(header)
            row = csv_values(dict(zip(header, fields, strict=False))) if full else None
            told = row or f"{len(fields)} fields, expected {len(header)}"
            yield reader.line_num, text, told if _is_text((text,)) else "not UTF-8"


def csv_values(fields: Mapping[str, str]) -> dict[str, object]:
    """Give a CSV row's fields the types an event has; leave as text what has not that form."""
    row: dict[str, object] = {name: value or None for name, value in fields.items()}
    for name, kind in (("seq", int), ("time", float)):
        try:
            row[name] = kind(fields[name]) if fields.get(name) else None
        except ValueError:
            row[name] = fields[name]
    if fields.get("dests"):
        parts = (dest.strip() for dest in fields["dests"].split(DESTS_SEPARATOR))
        row["dests"] = tuple(filter(None, parts))
    return row


def _last_seq(path: Path, process: str) -> int:
    """Return the last seq the file has for ``process``, looking from its end backwards."""
    if not path.exists():
        return 0
    with path.open("rb") as file:
        header = (
            file.readline().decode("utf-8-sig", "replace").strip() if path.suffix == ".csv" else ""
        )
        end = file.seek(0, os.SEEK_END)
        rest = b""
        while end > 0:
            start = max(0, end - _TAIL_BYTES)
            file.seek(start)
            lines = (file.read(end - start) + rest).split(b"\n")
            rest = lines[0] if start else b""
            for raw in reversed(lines[1:] if start else lines):
                seq = _seq_of(raw.decode("utf-8-sig", "replace"), header, process)
                if seq is not None:
                    return seq
            end = start
    return 0


def _seq_of(text: str, header: str, process: str) -> int | None:
    """Return the seq of one line if it is an event of ``process``."""
    if process not in text and "\\" not in text and '""' not in text:  # or it may be escaped
        return None
    rows = _csv_rows([header + "\n", text]) if header else _json_rows([text])
    found = [parse(row) for _, _, row in rows if not isinstance(row, str)]
    return next((e.seq for e in found if isinstance(e, Event) and e.process == process), None)


def _write(file: int, data: bytes) -> None:
    """Write all of ``data`` to an appending descriptor; one call unless the disk is full."""
    while data:
        data = data[os.write(file, data) :]


@contextmanager
def _exclusive(file: int) -> Iterator[None]:
    """Hold other openers of the file off, where the system can (Windows cannot)."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
