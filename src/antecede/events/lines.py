"""Reading the event log from JSON lines and CSV."""

from __future__ import annotations

import contextlib
import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from antecede.errors import LogError, UsageError
from antecede.events.rule import Event, Rejected, Row, is_text, require_columns, safe, values
from antecede.events.tables import CLOCK, EVENT_COLUMNS, EVENT_KINDS

#: A line's number, its text, and its row or the reason why it has no row.
Line = tuple[int, str, Mapping[str, object] | str]

#: How many characters of an invalid row are kept.
QUOTED_CHARS = 200
_RECORD_LINES_MAX = 100  # A quoted CSV field with more lines counts as a torn line.
_scan_json = json.JSONDecoder().raw_decode


def read(
    path: str | os.PathLike[str], *, rejected: list[Rejected] | None = None, form: str | None = None
) -> list[Event]:
    """Read a log into memory, in the order of its lines; ``form`` is csv or jsonl.

    Lines that are not valid events go to ``rejected``; without that list the first one raises.
    """
    return [Event(*row) for row in read_rows(path, rejected=rejected, form=form)]


def read_rows(
    path: str | os.PathLike[str], *, rejected: list[Rejected] | None = None, form: str | None = None
) -> list[Row]:
    """Read like ``read``, but each event as a tuple of its columns, in half the time."""
    source = Path(path)
    form = form or ("csv" if source.suffix == ".csv" else "jsonl")
    # Bytes that are not UTF-8 become lone surrogates, which mark their lines.
    with (
        ours("read the event log", source),
        source.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file,
    ):
        return rows_in(file, form, rejected, source.name)


def rows_in(
    lines: Iterable[str], form: str, rejected: list[Rejected] | None, name: str = "log"
) -> list[Row]:
    """Read lines like ``read_rows``; ``name`` is the file's name in errors."""
    found: list[Row] = []
    for line, text, row in csv_rows(lines) if form == "csv" else json_rows(lines):
        event = row if isinstance(row, str) else values(row)
        if isinstance(event, tuple):
            found.append(event)
            continue
        bad = Rejected(line, safe(text), event)
        if rejected is None:
            msg = f"{name} {bad}"
            raise UsageError(msg)
        rejected.append(bad)
    return found


def events_in(
    records: Iterable[Line], rejected: list[Rejected]
) -> tuple[list[Row], list[Mapping[str, int] | None]]:
    """Return the events of records, and their clocks if any has one; others go to ``rejected``."""
    rows: list[Row] = []
    clocks: list[Mapping[str, int] | None] = []
    for line, text, record in records:
        event = record if isinstance(record, str) else values(record)
        clock = None if isinstance(record, str) else record.get(CLOCK)
        if isinstance(event, tuple) and not _is_clock(clock):
            event = "clock is not an object of counts"
        if isinstance(event, str):
            rejected.append(Rejected(line, safe(text)[:QUOTED_CHARS], event))
        else:
            rows.append(event)
            clocks.append(clock if isinstance(clock, Mapping) else None)
    return rows, clocks if any(clock is not None for clock in clocks) else []


def _is_clock(value: object) -> bool:
    """Return whether a value is a clock, or null."""
    if not isinstance(value, Mapping):
        return value is None
    end = 2**63
    counts = all(type(count) is int and -end <= count < end for count in value.values())
    return counts and is_text(*value)


@contextlib.contextmanager
def ours(what: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn a system error into ours, which says what cannot be done with which file."""
    try:
        yield
    except (OSError, LogError) as error:
        if isinstance(error, LogError) and error.path is not None:
            raise
        reason = error.reason if isinstance(error, LogError) else error.strerror or str(error)
        msg = f"cannot {what} {str(path)!r}: {reason}"
        raise LogError(msg, path=path, reason=reason) from None


def json_rows(file: Iterable[str]) -> Iterator[Line]:
    """Yield the rows of JSON lines."""
    for line, raw in enumerate(file, start=1):
        text = raw.strip()
        if not text:
            continue
        try:
            row, end = _scan_json(text)
        except (ValueError, RecursionError):
            row, end = None, 0
        if not (text.isascii() or is_text(text)):
            yield line, text, "not UTF-8"
        elif end != len(text):
            yield line, text, "not JSON"
        else:
            yield line, text, row if isinstance(row, dict) else "not a JSON object"


class _CsvLines:
    """The lines of a CSV file, which its reader takes for one record after the other.

    A record has one line, or more if a quoted field holds line breaks. A torn line looks the same,
    so a record never includes a line that is an event on its own.
    """

    def __init__(self, file: Iterable[str]) -> None:
        self._file = iter(file)
        self.header: list[str] = []
        self._back: list[str] = []
        self.record: list[str] = []
        self.number = 1

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        line = self._back.pop() if self._back else next(self._file)
        if self.record and (len(self.record) == _RECORD_LINES_MAX or self._is_event(line)):
            self._back.append(line)
            raise StopIteration
        self.record.append(line)
        return line

    def end(self, lines: int) -> None:
        """End the record after some of the lines read for it; the next one begins there."""
        self._back += reversed(self.record[lines:])
        self.number += lines
        self.record.clear()

    def _is_event(self, line: str) -> bool:
        if any(kind in line for kind in EVENT_KINDS):
            with contextlib.suppress(csv.Error):
                row = _csv_row(self.header, next(csv.reader([line], strict=True), []))
                return not isinstance(row, str) and isinstance(values(row), tuple)
        return False


def csv_rows(file: Iterable[str]) -> Iterator[Line]:
    """Yield the rows of CSV with a header; a torn line loses only itself."""
    lines = _CsvLines(file)
    reader = csv.reader(lines, strict=True)
    try:
        lines.header = header = next(reader, [])
    except csv.Error as error:
        msg = f"the first line is not a CSV header, such as process,seq,kind,message: {error}"
        raise LogError(msg) from None
    if not lines.record:
        return
    require_columns(header)
    twice = [name for name in EVENT_COLUMNS if header.count(name) > 1]
    if twice:
        msg = f"the CSV header names the column {twice[0]} {header.count(twice[0])} times; keep one"
        raise LogError(msg)
    lines.end(len(lines.record))
    while True:
        fault = ""
        try:
            fields = next(reader, None)
        except csv.Error as error:
            fields, fault = [], f"not CSV: {error}"
        if fields is None:
            return
        text, row = ",".join(fields), fault or _csv_row(header, fields)
        number, taken = lines.number, len(lines.record)
        if fault or (taken > 1 and (isinstance(row, str) or isinstance(values(row), str))):
            text, row, taken = lines.record[0].strip(), fault or "not CSV: a quote is not closed", 1
        lines.end(taken)
        if fields or fault:
            yield number, text, row


def _csv_row(header: Sequence[str], fields: Sequence[str]) -> Mapping[str, object] | str:
    if not is_text(*fields):
        return "not UTF-8"
    if len(fields) != len(header):
        return f"{len(fields)} fields, expected {len(header)}"
    return _typed(dict(zip(header, fields, strict=True)))


def _typed(fields: Mapping[str, str]) -> dict[str, object]:
    """Convert a CSV row's fields to the types of an event; fields that do not fit stay text."""
    row: dict[str, object] = {name: value or None for name, value in fields.items()}
    for name, number in (("seq", int), ("time", float)):
        text = fields.get(name, "")
        if text and "_" not in text:  # Only Python reads 1_000 as a number.
            with contextlib.suppress(ValueError):
                row[name] = number(text)
    return row
