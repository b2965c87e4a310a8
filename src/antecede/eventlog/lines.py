"""Reading the event log from JSON lines and CSV."""

from __future__ import annotations

import contextlib
import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from antecede.core.tables import DESTS_SEPARATOR, EVENT_COLUMNS
from antecede.errors import UsageError
from antecede.eventlog.rule import Event, Rejected, Row, is_text, require_columns, safe, values

#: A line's number, its text, and its row or the reason why it has none.
Line = tuple[int, str, Mapping[str, object] | str]

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
    """Read as ``read`` does, each event as a tuple of its columns; this takes half the time."""
    source = Path(path)
    is_csv = source.suffix == ".csv" if form is None else form == "csv"
    found: list[Row] = []
    try:
        # Bytes that are not UTF-8 become lone surrogates, so their lines can be told.
        with source.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            for line, text, row in csv_rows(file) if is_csv else json_rows(file):
                event = row if isinstance(row, str) else values(row)
                if isinstance(event, tuple):
                    found.append(event)
                    continue
                bad = Rejected(line, safe(text), event)
                if rejected is None:
                    msg = f"{source.name} {bad}"
                    raise UsageError(msg)
                rejected.append(bad)
    except OSError as error:
        msg = f"cannot read the event log {str(source)!r}: {error.strerror}"
        raise UsageError(msg) from None
    return found


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


def csv_rows(file: Iterable[str]) -> Iterator[Line]:
    """Yield the rows of CSV with a header."""
    reader = csv.reader(file, strict=True)
    try:
        header = next(reader, None)
    except csv.Error as error:
        msg = f"the first line is not a CSV header: {error}"
        raise UsageError(msg) from None
    if header is None:
        return
    require_columns(header)
    twice = [name for name in EVENT_COLUMNS if header.count(name) > 1]
    if twice:
        msg = f"the CSV header names the column {twice[0]} {header.count(twice[0])} times"
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
            row = _typed(dict(zip(header, fields, strict=False))) if full else None
            read = row or f"{len(fields)} fields, expected {len(header)}"
            yield reader.line_num, text, read if is_text(text) else "not UTF-8"


def _typed(fields: Mapping[str, str]) -> dict[str, object]:
    """Give a CSV row's fields the types of an event; what does not fit stays text."""
    row: dict[str, object] = {name: value or None for name, value in fields.items()}
    for name, number in (("seq", int), ("time", float)):
        text = fields.get(name, "")
        if text and "_" not in text:  # Python alone reads 1_000 as a number.
            with contextlib.suppress(ValueError):
                row[name] = number(text)
    if fields.get("dests"):
        parts = (dest.strip() for dest in fields["dests"].split(DESTS_SEPARATOR))
        row["dests"] = tuple(filter(None, parts))
    return row
