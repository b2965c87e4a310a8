"""What every format of logs shares: where a log is, what was read, and tables of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from antecede.eventlog import Event, Rejected, Row, parse
from antecede.eventlog.rule import safe
from antecede.pipeline import schemas
from antecede.pipeline.logs.columns import is_event, plain_table

#: How many invalid rows of a log are kept, and how many characters of each.
QUOTED, QUOTED_CHARS = 1000, 200


@dataclass(frozen=True)
class Source:
    """A log and how to read it; without ``form``, the file's name tells its format."""

    path: Path
    form: str | None = None
    pattern: str | None = None
    send: str | None = None
    deliver: str | None = None
    strict: bool = False


@dataclass(frozen=True)
class Log:
    """A log that was read."""

    events: pa.Table
    rejected: pa.Table
    """The first rows that are not valid events."""
    bad: int = 0
    """How many rows are not valid events."""
    undecidable: str | None = None
    """Why sends and deliveries cannot be paired, if they cannot."""
    form: str = ""
    """The name of its format, once it was read from a file."""


@dataclass(frozen=True)
class Format:
    """A format of logs."""

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Source], Log]
    unauditable: str | None = None
    """Why no log of this format says anything about the order of deliveries."""
    has_deliveries: bool = True
    """Whether its deliveries were observed; if not, advice draws the delays from a model."""
    reads_folders: bool = False
    """Whether a folder of files is one log of this format."""
    is_spark_native: bool = False
    """Whether Spark reads this format itself, under the same name."""


def sorted_out(table: pa.Table, name: str) -> Log:
    """Return the valid rows of a table in their plain form, and the invalid ones."""
    plain = plain_table(table)
    good = is_event(plain, plain=True)
    bad = (~good).nonzero()[0]
    if not bad.size:
        return Log(plain, rejected_table(name, []))
    first = bad[:QUOTED]
    rows = rejected_rows(table.take(pa.array(first)), (first + 1).tolist())
    return Log(plain.filter(pa.array(good)), rejected_table(name, rows), bad.size)


def log_of(
    source: Source,
    events: pa.Table | Sequence[Event],
    rejected: list[Rejected],
    undecidable: str | None = None,
) -> Log:
    """Return what was read from a source, rejected lines in order."""
    table = events if isinstance(events, pa.Table) else table_of(events)
    rejected.sort(key=lambda row: row.line or 0)
    kept = rejected_table(source.path.name, rejected)
    return Log(table, kept, len(rejected), undecidable)


def table_of(events: Sequence[Event]) -> pa.Table:
    """Return events as a table of the event log."""
    return table_of_rows([(e.process, e.seq, e.kind, e.message, e.dests, e.time) for e in events])


def table_of_rows(rows: Sequence[Row]) -> pa.Table:
    """Return the rows of events as a table of the event log."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(schemas.EVENTS)
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, schemas.EVENTS, strict=True)
    ]
    return pa.table(arrays, schema=schemas.EVENTS)


def rejected_table(source: str, rows: Sequence[Rejected]) -> pa.Table:
    """Return the first rows that are not valid events as a table."""
    rows = rows[:QUOTED]
    columns = {
        "source": [source] * len(rows),
        "line": [row.line for row in rows],
        "text": [row.text.encode(errors="backslashreplace").decode() for row in rows],
        "reason": [row.reason for row in rows],
    }
    return pa.table(columns, schema=schemas.REJECTED)


def rejected_rows(table: pa.Table, lines: Sequence[int | None]) -> list[Rejected]:
    """Return the rows of a table that are not valid events, each with its reason."""
    return [_rejected(line, row) for line, row in zip(lines, _values(table), strict=True)]


def _values(table: pa.Table) -> list[dict[str, object]]:
    """Return rows as they are, strings that are not UTF-8 as bytes."""
    try:
        return list(table.to_pylist())
    except UnicodeDecodeError:
        schema = pa.schema([(field.name, _as_bytes(field.type)) for field in table.schema])
        return list(table.cast(schema).to_pylist())


def _as_bytes(kind: pa.DataType) -> pa.DataType:
    """Return a type with bytes in place of strings."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_as_bytes(kind.value_type))
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    strings = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return pa.binary() if any(test(kind) for test in strings) else kind


def _rejected(line: int | None, row: dict[str, object]) -> Rejected:
    """Return an invalid row of a table, with the reason that ``parse`` gives."""
    values = {
        name: int(value) if isinstance(value, Decimal) else value
        for name, value in row.items()
        if value is not None
    }
    quoted = str(values)[:QUOTED_CHARS]
    for name, value in values.items():
        try:
            if isinstance(value, bytes):
                values[name] = value.decode()
            elif isinstance(value, list):
                values[name] = [v.decode() if isinstance(v, bytes) else v for v in value]
        except UnicodeDecodeError:
            return Rejected(line, quoted, f"{name} is not UTF-8")
    reason = parse(values)
    return Rejected(line, quoted, reason if isinstance(reason, str) else "a name is not UTF-8")


def read_text(source: Source) -> str:
    """Return a log's text; bytes that are not UTF-8 become lone surrogates."""
    return source.path.read_text(encoding="utf-8-sig", errors="surrogateescape")


def read_utf8(source: Source, rejected: list[Rejected]) -> str:
    """Return a log's text with empty lines for those that are not UTF-8, which are rejected."""
    text = read_text(source)
    if text.isascii():
        return text
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if (shown := safe(line)) != line:
            rejected.append(Rejected(number + 1, shown[:QUOTED_CHARS], "not UTF-8"))
            lines[number] = ""
    return "\n".join(lines)
