"""What all formats of logs share: where a log is, what was read, and tables of it."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from antecede.errors import LogError
from antecede.events import arrow_schemas
from antecede.events.arrow_columns import is_event, plain_table
from antecede.events.lines import QUOTED_CHARS, events_in
from antecede.events.rule import Event, Rejected, Row, parse, safe
from antecede.events.tables import CLOCK
from antecede.memory import require_memory

#: The most invalid rows of a log to keep.
QUOTED = 1000


#: How many lines of a file are examined to recognise its format.
SNIFFED = 200
#: How compressed files begin, and Arrow's names for their compression.
_COMPRESSED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bz2"}
#: The path that stands for standard input.
STDIN = Path("-")


@dataclass(frozen=True)
class Source:
    """A file of a log and how to read it; without ``form``, its content shows the format."""

    path: Path
    form: str | None = None
    pattern: str | None = None
    send: str | None = None
    deliver: str | None = None
    strict: bool = False
    delimiter: str | None = None
    """What separates several executions in one file."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names of processes, mapped to the names to use."""
    fields: Mapping[str, str] = field(default_factory=dict)
    """Where a record or a table has the parts of an event, unless under their own names."""
    data: bytes | None = field(default=None, repr=False)
    """The content, if it does not come from a file."""

    label: str = ""
    """The name of the file in results, if not its own."""

    @property
    def name(self) -> str:
        """The name of the file in results."""
        return self.label or ("standard input" if self.path == STDIN else self.path.name)

    def called(self, name: str) -> str:
        """Return the name to use for a process."""
        return self.aliases.get(name, name)


@dataclass(frozen=True)
class Log:
    """A log that was read."""

    events: pa.Table
    rejected: pa.Table
    """The first rows that are not valid events."""
    bad: int = 0
    """How many rows are not valid events."""
    undecidable: str | None = None
    """Why sends and deliveries cannot be paired, or None."""
    form: str = ""
    """The name of its format, if it was read from a file."""
    good: int | None = None
    """How many rows were read, if that is not the number of events."""
    is_selection: bool = False
    """Whether a user's pattern chose the rows, so that most other rows may be something else."""
    origins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The ids of trace, span and message for each message, if the log has spans."""


@dataclass(frozen=True)
class Format:
    """A format of logs."""

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Sequence[Source]], dict[str, Log]]
    """Read files as one log: its executions by label, usually a single one without a label."""
    sniff: Callable[[str], float] | None = None
    """How much the beginning of a file looks like this format, from 0 to 1."""
    options: frozenset[str] = frozenset()
    """Those of the options pattern, send, deliver and delimiter that it uses."""
    unauditable: str | None = None
    """Why no log of this format shows the order of deliveries."""
    has_deliveries: bool = True
    """Whether its deliveries were observed; if not, advice draws the delays from a model."""
    reads_folders: bool = False
    """Whether a folder of files is one log of this format."""
    has_spans: bool = False
    """Whether its events were made from the spans of traces."""
    is_numbered: bool = False
    """Whether processes number their events as they write them, so that a lost line shows."""
    is_spark_native: bool = False
    """Whether Spark reads this format itself, under the same name."""


def about(reason: str, source: Source, form: str) -> LogError:
    """Return the error that a file cannot be read as a format, with the reason."""
    msg = f"cannot read {str(source.path)!r} as {form}: {reason}"
    return LogError(msg, path=source.path, reason=reason)


@contextmanager
def reading(source: Source, form: str) -> Iterator[None]:
    """Turn errors with a file into one line that names it."""
    try:
        yield
    except LogError as error:
        raise error if error.path is not None else about(error.reason, source, form) from None
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        lines = str(error).strip().splitlines() or ["no reason given"]
        reason = getattr(error, "strerror", None) or lines[0][:200]
        raise about(reason, source, form) from None


def each(form: str, read: Callable[[Source], Log]) -> Callable[[Sequence[Source]], dict[str, Log]]:
    """Return a reader of several files that reads each separately."""

    def read_all(sources: Sequence[Source]) -> dict[str, Log]:
        parts = []
        for source in sources:
            with reading(source, form):
                parts.append(read(source))
        return {"": merged(parts)}

    return read_all


def merged(logs: Sequence[Log]) -> Log:
    """Return several logs as one."""
    if len(logs) == 1:
        return logs[0]
    goods = [len(log.events) if log.good is None else log.good for log in logs]
    return Log(
        joined([log.events for log in logs], arrow_schemas.EVENTS),
        joined([log.rejected for log in logs], arrow_schemas.REJECTED).slice(0, QUOTED),
        sum(log.bad for log in logs),
        next((log.undecidable for log in logs if log.undecidable), None),
        logs[0].form,
        sum(goods),
        any(log.is_selection for log in logs),
        {name: origin for log in logs for name, origin in log.origins.items()},
    )


def sorted_out(table: pa.Table, name: str) -> Log:
    """Return the valid rows of a table in plain form, and the invalid ones."""
    plain = plain_table(table)
    good = is_event(plain, plain=True)
    bad = (~good).nonzero()[0]
    if not bad.size:
        return Log(plain, rejected_table(name, []))
    first = bad[:QUOTED]
    # Arrow cannot take rows of every type, such as string_view.
    quoted = pa.concat_tables([table.slice(row, 1) for row in first])
    rows = rejected_rows(quoted, (first + 1).tolist())
    return Log(plain.filter(pa.array(good)), rejected_table(name, rows), bad.size)


def log_of(
    source: Source,
    events: pa.Table | Sequence[Event],
    rejected: list[Rejected],
    undecidable: str | None = None,
    good: int | None = None,
) -> Log:
    """Return the log read from a source, with rejected lines in order."""
    table = events if isinstance(events, pa.Table) else table_of(events)
    kept = rejected_in([(source.name, rejected)])
    return Log(table, kept, len(rejected), undecidable, good=good)


def table_of(events: Sequence[Event]) -> pa.Table:
    """Return events as a table of the event log."""
    return table_of_rows([(e.process, e.seq, e.kind, e.message, e.dests, e.time) for e in events])


def table_of_rows(rows: Sequence[Row]) -> pa.Table:
    """Return the rows of events as a table of the event log."""
    columns = zip(*rows, strict=True) if rows else ((),) * len(arrow_schemas.EVENTS)
    arrays = [
        pa.array(column, field.type)
        for column, field in zip(columns, arrow_schemas.EVENTS, strict=True)
    ]
    return pa.table(arrays, schema=arrow_schemas.EVENTS)


def table_of_records(
    records: Iterable[tuple[int, str, Mapping[str, object] | str]], rejected: list[Rejected]
) -> pa.Table:
    """Return records, or the reasons why they are not records, as a table of events.

    It has a column ``clock`` if a record has one: an object from processes to counts.
    """
    rows, clocks = events_in(records, rejected)
    table = table_of_rows(rows)
    if not clocks:
        return table
    entries = [None if clock is None else list(clock.items()) for clock in clocks]
    return table.append_column(CLOCK, pa.array(entries, arrow_schemas.CLOCKS))


def rejected_table(source: str, rows: Sequence[Rejected]) -> pa.Table:
    """Return the first rows that are not valid events as a table."""
    rows = rows[:QUOTED]
    columns = {
        "source": [source] * len(rows),
        "line": [row.line for row in rows],
        "text": [row.text.encode(errors="backslashreplace").decode() for row in rows],
        "reason": [row.reason for row in rows],
    }
    return pa.table(columns, schema=arrow_schemas.REJECTED)


def rejected_in(files: Iterable[tuple[str, Sequence[Rejected]]]) -> pa.Table:
    """Return the first invalid rows of several files as a table, each file's in order."""
    tables = [
        rejected_table(name, sorted(rows, key=lambda row: row.line or 0)) for name, rows in files
    ]
    return joined(tables, arrow_schemas.REJECTED).slice(0, QUOTED)


def joined(tables: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    """Return the rows of tables whose common columns have the same types."""
    return pa.concat_tables([schema.empty_table(), *tables], promote_options="default")


def rejected_rows(table: pa.Table, lines: Sequence[int | None]) -> list[Rejected]:
    """Return the rows of a table that are not valid events, each with its reason."""
    return [_rejected(line, row) for line, row in zip(lines, _values(table), strict=True)]


def _values(table: pa.Table) -> list[dict[str, object]]:
    """Return rows unchanged, except that strings that are not UTF-8 become bytes."""
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
    found = {
        name: int(value) if isinstance(value, Decimal) else value
        for name, value in row.items()
        if value is not None
    }
    quoted = str(found)[:QUOTED_CHARS]
    for name, value in found.items():
        try:
            if isinstance(value, bytes):
                found[name] = value.decode()
            elif isinstance(value, list):
                found[name] = [v.decode() if isinstance(v, bytes) else v for v in value]
        except UnicodeDecodeError:
            return Rejected(line, quoted, f"{name} is not UTF-8")
    reason = parse(found)
    return Rejected(line, quoted, reason if isinstance(reason, str) else "a name is not UTF-8")


def packing_of(start: bytes) -> str | None:
    """Return the compression of content with this beginning, or None."""
    return next((name for mark, name in _COMPRESSED.items() if start.startswith(mark)), None)


def is_plain_file(source: Source) -> bool:
    """Return whether other readers can read the file or folder as it is."""
    if source.data is not None or source.path.is_dir():
        return source.data is None
    with source.path.open("rb") as file:
        return packing_of(file.read(8)) is None


def read_bytes(source: Source, most: int | None = None) -> bytes:
    """Return a log's content, or its first bytes, decompressed if necessary."""
    data = source.data
    if data is None and most is None:
        size = source.path.stat().st_size
        require_memory(size, f"the content of {str(source.path)!r}", "read a part of it at a time")
    with pa.OSFile(os.fsencode(source.path)) if data is None else pa.BufferReader(data) as raw:
        packing = packing_of(raw.read(8))
        raw.seek(0)
        if packing is None:
            return bytes(raw.read(most))
        with pa.CompressedInputStream(raw, packing) as unpacked:
            return bytes(unpacked.read(most))


def raw_lines(data: bytes) -> io.StringIO:
    """Return a log's content as lines with their original ends; see ``read_text``."""
    return io.StringIO(data.decode("utf-8-sig", errors="surrogateescape"), newline="")


def read_text(source: Source) -> str:
    """Return a log's text with line feeds; bytes that are not UTF-8 become lone surrogates."""
    text = read_bytes(source).decode("utf-8-sig", errors="surrogateescape")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def first_lines(head: str) -> list[str]:
    """Return the first lines of a file that are not blank, to recognise its format."""
    return [line.strip() for line in head.split("\n") if line.strip()][:SNIFFED]


def read_utf8(source: Source, rejected: list[Rejected]) -> str:
    """Return a log's text, in which rejected lines, which are not UTF-8, are empty."""
    text = read_text(source)
    if text.isascii():
        return text
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if (shown := safe(line)) != line:
            rejected.append(Rejected(number + 1, shown[:QUOTED_CHARS], "not UTF-8"))
            lines[number] = ""
    return "\n".join(lines)
