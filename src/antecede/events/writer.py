"""Writing the event log, one call per event.

Guarantee
---------
Each call appends its line to the file in one ``write`` before it returns. So several processes may
share a file without mixing lines, and a killed program loses nothing that it has logged. A crash or
a full disk may leave half a line; the next call of any writer ends it, and readers reject that row.

Assumes
-------
``seq`` is each process's own order and continues from what the file holds, so only one ``EventLog``
at a time writes for a process. ``time`` is that process's clock and is never trusted for order.
"""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import threading
import time as clock
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Self

from antecede.errors import LogError, UsageError, shown
from antecede.events.lines import csv_rows, json_rows, ours
from antecede.events.rule import Event, fault, parse
from antecede.events.tables import DELIVER, DESTS_SEPARATOR, EVENT_COLUMNS, LOCAL, SEND

_TAIL_BYTES = 1 << 16
_to_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_CSV_CHARS_MAX = 3 * len(EVENT_COLUMNS) * csv.field_size_limit()  # Every row is shorter.
_ID_BITS_MAX = 1024  # Python does not print much longer integers
_CSV_HEADER = ",".join(EVENT_COLUMNS) + "\n"


class EventLog:
    """Append one process's events to a log that ``antecede audit`` reads.

    Parameters
    ----------
    path
        The file, created if absent; ``.csv`` means CSV, anything else JSON lines.
    process
        The name of the process whose events these are.
    """

    def __init__(self, path: str | os.PathLike[str], process: str) -> None:
        if not isinstance(process, str) or not process:
            msg = f"process is {shown(process)}; give its name as a non-empty string"
            raise UsageError(msg)
        self.path = _as_path(path)
        self.process = process
        self._csv = self.path.suffix == ".csv"
        _line(Event(process, 0, LOCAL), is_csv=self._csv)  # refuses a name that cannot be written
        self._lock = threading.Lock()
        with ours("write the event log", self.path):
            self._seq = _last_seq(self.path, process)
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        self._open = True
        try:
            with _exclusive(self._file):
                self._put(b"")
        except LogError:
            self.close()
            raise

    @property
    def last_seq(self) -> int:
        """The seq of the last event of this process in the log; 0 before the first."""
        return self._seq

    def send(
        self,
        message: object,
        dests: Iterable[str] | None = None,
        time: float | None = None,
        *,
        seq: int | None = None,
    ) -> int:
        """Log that this process sent ``message`` to ``dests``; return the event's seq.

        ``seq`` is by default the next number. A program that numbers its own events can give a
        greater one; after a crash, ``last_seq`` shows what it has logged.
        """
        if isinstance(dests, str) or not (dests is None or hasattr(dests, "__iter__")):
            msg = f"dests is {shown(dests)}; give a list of process names"
            raise UsageError(msg)
        names = None if dests is None else tuple(dests)
        return self._append(SEND, message_name(message), names, time, seq)

    def deliver(self, message: object, time: float | None = None, *, seq: int | None = None) -> int:
        """Log that ``message`` was delivered to this process; return the event's seq."""
        return self._append(DELIVER, message_name(message), None, time, seq)

    def local(self, name: object = None, time: float | None = None) -> int:
        """Log an event that concerns only this process; return the event's seq."""
        return self._append(LOCAL, None if name is None else message_name(name), None, time)

    def close(self) -> None:
        """Close the file; calling again does nothing."""
        with self._lock:
            if self._open:
                self._open = False
                with ours("write the event log", self.path):
                    os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _put(self, line: bytes) -> None:
        """Write ``line`` in one call, after a new CSV's header or the end of a torn last line."""
        with ours("write the event log", self.path):
            data, size = line, os.fstat(self._file).st_size
            header = _CSV_HEADER.encode()
            if self._csv and size < len(header) and _is_torn(os.pread(self._file, size, 0)):
                data = header[size:] + line
            elif size and os.pread(self._file, 1, size - 1) != b"\n":
                data = b"\n" + line
            missing = len(data) - os.write(self._file, data) if data else 0
            if missing > 1:  # If only the line break is missing, the next call adds it.
                raise OSError(errno.ENOSPC, f"{missing} of {len(data)} bytes found no room")

    def _append(
        self,
        kind: str,
        message: str | None,
        dests: tuple[str, ...] | None,
        time: float | None,
        seq: int | None = None,
    ) -> int:
        with self._lock:
            if not self._open:
                msg = f"the event log {str(self.path)!r} is closed; open a new EventLog to continue"
                raise UsageError(msg)
            when = clock.time() if time is None else time
            place = self._seq + 1 if seq is None else seq
            if not isinstance(place, int) or place <= self._seq:
                msg = f"seq={shown(place)} does not follow the last event, {self._seq}; omit seq"
                raise UsageError(msg)
            event = Event(self.process, place, kind, message, dests, when)
            line = _line(event, is_csv=self._csv)
            self._seq = place  # Even if the write fails, its remains may be read as an event.
            with _exclusive(self._file):
                self._put(line)
            return self._seq


def message_name(message: object) -> str:
    """Return the id of ``message`` as the log writes it; ``sender:seq`` for a MessageId.

    The id must be the same text at the sender and at every destination.
    """
    if isinstance(message, str):
        name = message
    elif isinstance(message, int):
        is_id = not isinstance(message, bool) and message.bit_length() <= _ID_BITS_MAX
        name = str(message) if is_id else ""
    else:
        sender, seq = getattr(message, "sender", None), getattr(message, "seq", None)
        name = "" if sender is None or seq is None else f"{sender}:{seq}"
    if not name:
        msg = f"message is {shown(message)}; give its id as a non-empty string or a MessageId"
        raise UsageError(msg)
    return name


def _as_path(path: object) -> Path:
    """Return a path; refuse one that no system accepts as a file."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    try:
        if isinstance(text, str) and b"\0" not in os.fsencode(text):
            return Path(text)
    except UnicodeEncodeError:
        pass
    msg = f"path is {shown(path)}; give the name of a file as text, without NUL or surrogates"
    raise UsageError(msg)


def write(path: str | os.PathLike[str], events: Iterable[Event]) -> None:
    """Write ``events`` of any processes as a new log, completely or not at all."""
    target = _as_path(path)
    is_csv = target.suffix == ".csv"
    part = Path(f"{target}.part")
    with ours("write the event log", target):
        try:
            with part.open("wb") as file:
                file.write(_CSV_HEADER.encode() if is_csv else b"")
                file.writelines(_line(event, is_csv=is_csv) for event in events)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)


def _line(event: Event, *, is_csv: bool) -> bytes:
    """Return the line that reads back as ``event``; refuse an event that cannot be read back."""
    row = {name: v for name in EVENT_COLUMNS if (v := getattr(event, name)) is not None}
    reason = fault(row)
    try:
        if not reason:
            return (_csv_text(event) if is_csv else _to_json(row) + "\n").encode()
    except csv.Error as error:
        reason = str(error)
    got = ", ".join(f"{name}={shown(value)}" for name, value in row.items())
    msg = f"cannot log this event: {reason}; got {got}"
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
            f"CSV cannot hold line breaks, very long lines, or dests with {DESTS_SEPARATOR!r} or "
            "outer spaces; log to .jsonl instead"
        )
        raise csv.Error(msg)
    return text


def _last_seq(path: Path, process: str) -> int:
    """Return the last seq of ``process`` in the file, searching backwards from its end."""
    if not path.exists():
        return 0
    is_csv = path.suffix == ".csv"
    with path.open("rb") as file:
        if is_csv:
            _check_header(path, file.readline(_TAIL_BYTES).decode("utf-8-sig", "replace"))
        found = (_seq_of(raw, process, is_csv=is_csv) for raw in _lines_backwards(file))
        return next((seq for seq in found if seq is not None), 0)


def _check_header(path: Path, line: str) -> None:
    """Refuse a CSV file with other columns than ours: readers would mix them up."""
    if not _is_torn(line.encode()) and next(csv.reader([line]), []) != list(EVENT_COLUMNS):
        reason = f"its columns are {shown(line.strip())}, not {', '.join(EVENT_COLUMNS)}"
        msg = f"cannot append to the event log {str(path)!r}: {reason}; log to a new file"
        raise LogError(msg, path=path, reason=reason)


def _is_torn(start: bytes) -> bool:
    """Return whether a file holds only the beginning of our header, because the disk was full."""
    return _CSV_HEADER.encode().startswith(start)


def _lines_backwards(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file from the last to the first, in linear time."""
    end = file.seek(0, os.SEEK_END)
    tail: list[bytes] = []
    while end > 0:
        start = max(0, end - _TAIL_BYTES)
        file.seek(start)
        first, *lines = file.read(end - start).split(b"\n")
        if lines:
            lines[-1] += b"".join(reversed(tail))
            tail = []
            yield from reversed(lines)
        tail.append(first)
        end = start
    yield b"".join(reversed(tail))


def _seq_of(raw: bytes, process: str, *, is_csv: bool) -> int | None:
    """Return the seq of one line if it is an event of ``process``."""
    text = raw.decode("utf-8-sig", "replace")
    may_be_its = process in text or "\\" in text or '""' in text  # may be escapes
    if not may_be_its or (is_csv and len(text) > _CSV_CHARS_MAX):
        return None
    rows = csv_rows([_CSV_HEADER, text]) if is_csv else json_rows([text])
    found = [parse(row) for _, _, row in rows if not isinstance(row, str)]
    return next((e.seq for e in found if isinstance(e, Event) and e.process == process), None)


@contextmanager
def _exclusive(file: int) -> Iterator[None]:
    """Lock out other writers, where the system supports it (Windows does not).

    Otherwise a line that another process is still writing looks torn, and would be ended.
    """
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)
    except (ImportError, OSError):
        yield
        return
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
