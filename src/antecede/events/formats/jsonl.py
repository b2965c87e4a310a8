"""The event log in JSON lines: read at once by Arrow's parser if safe, else line by line.

Only reading line by line can reject single lines, but it takes most of the time of a quick look.
Arrow's parser is several times as fast, but ignores lines and accepts some invalid rows. So its
result is used only if counting shows that each line is one flat object with each column at most
once, and all rows are events.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from antecede.events import arrow_schemas
from antecede.events.arrow_columns import is_event
from antecede.events.documents import documents, quoted, unwrapped
from antecede.events.lines import json_rows
from antecede.events.log import (
    Format,
    Log,
    Source,
    each,
    first_lines,
    log_of,
    raw_lines,
    read_bytes,
    table_of_records,
)
from antecede.events.rule import Rejected
from antecede.events.tables import EVENT_COLUMNS

_DESTS = re.compile(rb'"dests"\s*:\s*\[')
#: How records that are wrapped in others begin.
_WRAPPED = re.compile(r'"(_source|hits|line)"\s*:|"data"\s*:\s*\{')
#: How much of a file is examined for objects on lines.
_HEAD = 1 << 16
#: A span of a trace may have "process" as a value.
_KEY = re.compile(r'"(process|kind)"\s*:')
_SEQ = re.compile(r'"seq"\s*:')


def _read(source: Source) -> Log:
    rejected: list[Rejected] = []
    data = read_bytes(source)
    table = read_quickly(data)
    if table is None and not _is_on_lines(data[:_HEAD].decode(errors="replace")):
        text = data.decode("utf-8-sig", errors="surrogateescape")
        table = table_of_records(list(_records(text, rejected)), rejected)
    elif table is None:
        table = table_of_records(json_rows(raw_lines(data)), rejected)
    return log_of(source, table, rejected)


def _is_on_lines(head: str) -> bool:
    """Return whether a file has objects on separate lines, and no list or export of them."""
    first = head.lstrip().partition("\n")[0].strip()
    return first.startswith("{") and not _WRAPPED.search(first) and first != "{"


def _records(
    text: str, rejected: list[Rejected]
) -> Iterator[tuple[int, str, dict[str, Any] | str]]:
    """Yield the records of lists, and those exported by Elasticsearch and Loki."""
    for line, document in documents(text, rejected):
        for part in document if isinstance(document, list) else [document]:
            for record in unwrapped(part):
                found = record if isinstance(record, dict) else "not a JSON object"
                yield line, quoted(record), found


def read_quickly(data: bytes) -> pa.Table | None:
    """Return a log's events, or None if it must be read line by line."""
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
    """Return the number of lines if each is one object in braces, flat except for dests; else 0.

    A line that ends in a brace and one that begins with one cannot be parts of one object, so with
    as many rows as lines each line is one row. Escapes could hide a name or half a character,
    nesting could be deep, and an empty name may mean null: such logs are declined.
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
    """Return whether every line gave one event, and has each of its columns once."""
    if len(table) != lines or not is_event(table).all():
        return False
    for name in EVENT_COLUMNS:
        column = table.column(name)
        if data.count(b'"%s"' % name.encode()) != len(column) - column.null_count:
            return False
    return not pc.any(pc.invert(pc.is_finite(table.column("time")))).as_py()


def _sniff(head: str) -> float:
    """Return the share of lines, or 1 for a list, that are objects with a process and a kind."""
    lines = first_lines(head)
    if not _SEQ.search(head):
        return 0.0  # Without numbers they are records.
    if not _is_on_lines(head):
        return float({"process", "kind"} <= {*_KEY.findall(head)})
    fits = [line.startswith("{") and {"process", "kind"} <= {*_KEY.findall(line)} for line in lines]
    return sum(fits) / max(1, len(lines))


FORMAT = Format("jsonl", (".jsonl", ".ndjson"), each("jsonl", _read), _sniff, is_numbered=True)
