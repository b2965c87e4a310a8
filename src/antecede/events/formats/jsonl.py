"""The event log in JSON lines: in one go by Arrow's parser where that is safe, else line by line.

Only reading line by line can reject single lines, but it takes most of the time of a quick look.
Arrow's parser is several times as fast, but knows no lines, and accepts some rows that are not
valid. So its answer is used only if counting shows that each line is one flat object with each
column at most once, and all of them are events.
"""

from __future__ import annotations

import io
import re

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from antecede.events import arrow_schemas
from antecede.events.arrow_columns import is_event
from antecede.events.lines import json_rows, rows_in
from antecede.events.log import (
    Format,
    Log,
    Source,
    each,
    first_lines,
    log_of,
    raw_lines,
    read_bytes,
    table_of_rows,
)
from antecede.events.rule import Rejected, is_text, safe, values
from antecede.events.tables import CLOCK, EVENT_COLUMNS

_LONG_END = 2**63
_DESTS = re.compile(rb'"dests"\s*:\s*\[')
#: A span of a trace may have "process" as a value.
_KEY = re.compile(r'"(process|kind)"\s*:')


def _read(source: Source) -> Log:
    rejected: list[Rejected] = []
    data = read_bytes(source)
    table = read_quickly(data)
    if table is None and b'"clock"' in data:
        table = _read_clocks(data, rejected)
    elif table is None:
        table = table_of_rows(rows_in(raw_lines(data), "jsonl", rejected))
    return log_of(source, table, rejected)


def _read_clocks(data: bytes, rejected: list[Rejected]) -> pa.Table:
    """Read lines one by one, with their clocks: objects from processes to counts."""
    rows, clocks = [], []
    for line, text, row in json_rows(raw_lines(data)):
        event = row if isinstance(row, str) else values(row)
        clock = None if isinstance(row, str) else row.get(CLOCK)
        if isinstance(event, tuple) and not _is_clock(clock):
            event = "clock is not an object of counts"
        if isinstance(event, str):
            rejected.append(Rejected(line, safe(text), event))
        else:
            rows.append(event)
            clocks.append(list(clock.items()) if isinstance(clock, dict) else None)
    return table_of_rows(rows).append_column(CLOCK, pa.array(clocks, arrow_schemas.CLOCKS))


def _is_clock(value: object) -> bool:
    """Return whether a value is a clock, or null."""
    if not isinstance(value, dict):
        return value is None
    counts = all(type(count) is int and -_LONG_END <= count < _LONG_END for count in value.values())
    return counts and is_text(*value)


def read_quickly(data: bytes) -> pa.Table | None:
    """Return a log's events, or None if it has to be read line by line."""
    lines = _objects(data)
    if not lines:
        return None
    options = pj.ParseOptions(
        explicit_schema=arrow_schemas.EVENTS,
        unexpected_field_behavior="ignore",
        newlines_in_values=False,
    )
    try:
        table = pj.read_json(io.BytesIO(data), parse_options=options)
    except pa.ArrowException:
        return None
    return table.combine_chunks() if _is_whole(table, data, lines) else None


def _objects(data: bytes) -> int:
    """Return the number of lines if each is one object in braces, flat but for dests; else 0.

    A line that ends in a brace and one that begins with one cannot be parts of one object, so
    with as many rows as lines each line is one row. Escapes could hide a name or half a
    character, nesting could be deep, and an empty name may mean null: such logs are declined.
    """
    text = data.rstrip()
    lines = text.count(b"\n") + 1
    separators = text.count(b"}\n{") + text.count(b"}\r\n{")
    is_plain = (
        text.startswith(b"{")
        and text.endswith(b"}")
        and separators == lines - 1
        and text.count(b"{") == lines
        and text.count(b"\r") == text.count(b"\r\n")
        and b"\\u" not in text
        and b'""' not in text
        and len(_DESTS.findall(text)) == text.count(b"[")
    )
    try:
        return lines if is_plain and (text.isascii() or text.decode()) else 0
    except UnicodeDecodeError:
        return 0


def _is_whole(table: pa.Table, data: bytes, lines: int) -> bool:
    """Return whether every line gave one event, and names each of its columns once."""
    if len(table) != lines or not is_event(table).all():
        return False
    for name in EVENT_COLUMNS:
        column = table.column(name)
        if data.count(b'"%s"' % name.encode()) != len(column) - column.null_count:
            return False
    return not pc.any(pc.invert(pc.is_finite(table.column("time")))).as_py()


def _sniff(head: str) -> float:
    """Return the share of lines that are objects which name a process and a kind."""
    lines = first_lines(head)
    fits = [line.startswith("{") and {"process", "kind"} <= {*_KEY.findall(line)} for line in lines]
    return sum(fits) / max(1, len(lines))


FORMAT = Format("jsonl", (".jsonl", ".ndjson"), each("jsonl", _read), _sniff, is_numbered=True)
