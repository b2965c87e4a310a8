"""Read logs of any known form into the event log: as an Arrow table here, as a frame on Spark.

Parquet is handed to Spark unread. Everything else is text, read here line by line so that each bad
line can be counted, quoted and kept; ``strict`` makes the first one fatal.
"""

from __future__ import annotations

import math
import re
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from antecede import eventlog
from antecede.core.tables import DELIVER, SEND
from antecede.errors import UsageError
from antecede.eventlog import Event, Rejected
from antecede.pipeline import schemas
from antecede.pipeline.audits.windows.columns import is_event
from antecede.pipeline.logs import otlp, shiviz
from antecede.pipeline.logs.jsonlines import read_quickly
from antecede.pipeline.logs.plain_columns import plain_columns, plain_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "jsonl", "csv", "shiviz", "otlp", "edges")
_SUFFIXES = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".json": "otlp",
    ".log": "shiviz",
    ".txt": "edges",
    ".edges": "edges",
}
#: Bad rows of a large log that are kept word for word, and how much of each.
QUOTED, QUOTED_CHARS = 1000, 200
#: How compressed files begin, and what unpacks them.
_COMPRESSED = {
    b"\x1f\x8b": "gunzip",
    b"BZh": "bunzip2",
    b"\xfd7zXZ": "unxz",
    b"\x28\xb5\x2f\xfd": "unzstd",
    b"PK\x03\x04": "unzip",
}
_SUFFIXES_COMPRESSED = {".gz", ".bz2", ".xz", ".zst", ".zip"}


@dataclass(frozen=True)
class Source:
    """A log and how to read it; ``form`` None means by the file's name."""

    path: Path
    form: str | None = None
    pattern: str | None = None
    send: str | None = None
    deliver: str | None = None
    strict: bool = False


@dataclass(frozen=True)
class Log:
    """A log that was read: its events, and the rows that are none."""

    events: pa.Table
    rejected: pa.Table
    """The first of the rows that are no events."""
    form: str
    bad: int = 0
    """How many rows are no events."""
    undecidable: str | None = None
    """Why sends and deliveries cannot be paired, if they cannot."""


def form_of(source: Source) -> str:
    """Return the form of a log: as told, or by its name."""
    if source.form is not None:
        if source.form not in FORMATS:
            msg = f"unknown format {source.form!r}; known: {', '.join(FORMATS)}"
            raise UsageError(msg)
        return source.form
    if source.path.is_dir():
        return "parquet"
    name = source.path
    if name.suffix.lower() in _SUFFIXES_COMPRESSED:
        name = name.with_suffix("")
    form = _SUFFIXES.get(name.suffix.lower())
    if form is None:
        msg = (
            f"{source.path.name!r} does not tell its format; give --format, "
            f"one of {', '.join(FORMATS)}"
        )
        raise UsageError(msg)
    return form


def read(source: Source) -> Log:
    """Read a log into memory."""
    form = form_of(source)
    _require_file(source)
    try:
        log = _read_parquet(source) if form == "parquet" else _read_text(source, form)
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or _line(str(error))
        msg = f"cannot read {str(source.path)!r} as {form}: {reason}"
        raise UsageError(msg) from None
    if source.strict and log.bad:
        told = f"{_first(log.rejected)} ({log.bad:,} such rows; --strict forbids them)"
        msg = f"{source.path.name} {told}"
        raise UsageError(msg)
    if not len(log.events):
        refuse_empty(repr(str(source.path)), log.rejected, log.bad)
    return log


def refuse_empty(name: str, rejected: pa.Table, bad: int) -> NoReturn:
    """Refuse a log without events, saying what is wrong with its first row."""
    rows = "1 row is none" if bad == 1 else f"{bad:,} rows are none"
    told = f"{rows}; {_first(rejected)}" if bad else "it says nothing of sends or deliveries"
    msg = f"{name} has no events: {told}"
    raise UsageError(msg)


def _first(rejected: pa.Table) -> str:
    row = rejected.slice(0, 1).to_pylist()[0]
    where = "a row" if row["line"] is None else f"line {row['line']}"
    return f"{where} is no event: {row['reason']}; got {str(row['text'])[:80]!r}"


def _line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[0][:200]


def _require_file(source: Source) -> None:
    """Refuse what is not there, and what is there in a form that has to be unpacked first."""
    if not source.path.exists():
        msg = f"there is no log {str(source.path)!r}"
        raise UsageError(msg)
    if source.path.is_dir():
        inside = (file for file in source.path.rglob("*") if file.is_file())
        if not any(not file.name.startswith(("_", ".")) for file in inside):
            msg = f"the folder {str(source.path)!r} has no files in it"
            raise UsageError(msg)
        return
    try:
        with source.path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        msg = f"cannot read {str(source.path)!r}: {error.strerror}"
        raise UsageError(msg) from None
    if not start:
        msg = f"{str(source.path)!r} has no events: the file is empty"
        raise UsageError(msg)
    for mark, tool in _COMPRESSED.items():
        if start.startswith(mark):
            msg = f"{str(source.path)!r} is compressed; unpack it first, with {tool}"
            raise UsageError(msg)


def frame(spark: SparkSession, source: Source) -> tuple[DataFrame, Log | None]:
    """Return a log as a Spark frame; Parquet stays in its files (then there is no Log)."""
    if form_of(source) == "parquet" and not source.strict:
        _require_file(source)
        with readable(source):
            return spark.read.parquet(str(source.path.resolve())), None
    log = read(source)
    return spark.createDataFrame(log.events), log


@contextmanager
def readable(source: Source) -> Iterator[None]:
    """Turn what Spark says of a file it cannot read into one line; all else passes."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:
        said = str(error)
        if not any(word in said for word in _UNREADABLE):
            raise
        msg = f"cannot read {str(source.path)!r} as parquet: {cause(said)}"
        raise UsageError(msg) from None


#: What Spark, Java or Arrow say, one of them, when a file is not what it should be.
_UNREADABLE = ("parquet", "Parquet", "FAILED_READ_FILE", "CANNOT_READ", "UNABLE_TO_INFER_SCHEMA")


def cause(said: str) -> str:
    """Return the first useful line of a Java error: the innermost cause, without class names."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    errors = [line for line in lines if re.match(r"(: )?[\w.$]+(Exception|Error)\b", line)]
    chosen = (causes[-1:] or errors[:1] or lines[:1] or ["no reason given"])[0]
    chosen = chosen.removeprefix("Caused by: ").removeprefix(": ")
    return re.sub(r"^([\w$]+\.)+(?=[\w$]+(Exception|Error))", "", chosen)[:200]


def rejected_rows(events: DataFrame, name: str, count: int) -> pa.Table:
    """Return the first rows of a frame that are no events; a frame's rows have no numbers."""
    if not count:
        return rejected_table(name, [])
    from pyspark.sql import functions as F

    from antecede.pipeline.audits.frame_cuts import validity

    plain = plain_columns(events)
    marked = events.select(
        F.struct("*").alias("whole row"),
        *[F.col(n) if c is None else c.alias(n) for n, c in plain.items()],
    )
    bad = marked.filter(~validity(marked)).limit(QUOTED).select("whole row.*").toArrow()
    return rejected_table(name, [_rejected(None, row) for row in bad.to_pylist()])


def _rejected(line: int | None, row: dict[str, object]) -> Rejected:
    """Return a bad row of a table, with the reason as the event log has it."""
    told = {
        name: int(value) if isinstance(value, Decimal) else value
        for name, value in row.items()
        if value is not None
    }
    quoted = str(told)[:QUOTED_CHARS]
    for name, value in told.items():
        try:
            told[name] = value.decode() if isinstance(value, bytes) else value
        except UnicodeDecodeError:
            return Rejected(line, quoted, f"{name} is not UTF-8")
    why = eventlog.parse(told)
    return Rejected(line, quoted, why if isinstance(why, str) else "dests is not UTF-8")


def table_of(events: Sequence[Event]) -> pa.Table:
    """Return events as a table of the event log."""
    rows = [(e.process, e.seq, e.kind, e.message, e.dests, e.time) for e in events]
    return _table_of_rows(rows)


def _table_of_rows(rows: Sequence[eventlog.Row]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ((),) * len(schemas.EVENTS)
    arrays = [
        pa.array(column, field.type) for column, field in zip(columns, schemas.EVENTS, strict=True)
    ]
    return pa.table(arrays, schema=schemas.EVENTS)


def rejected_table(source: str, rows: Sequence[Rejected]) -> pa.Table:
    """Return the lines that are no events as a table."""
    rows = rows[:QUOTED]
    columns = {
        "source": [source] * len(rows),
        "line": [row.line for row in rows],
        "text": [row.text.encode(errors="backslashreplace").decode() for row in rows],
        "reason": [row.reason for row in rows],
    }
    return pa.table(columns, schema=schemas.REJECTED)


def _read_parquet(source: Source) -> Log:
    # A folder needs Arrow's datasets, which import pandas and so take a moment; a file does not.
    is_folder = source.path.is_dir()
    table = pq.read_table(source.path) if is_folder else pq.ParquetFile(source.path).read()
    return sorted_out(table, source.path.name)


def sorted_out(table: pa.Table, name: str) -> Log:
    """Return the rows of a table that are events, in their plain form, and those that are none."""
    plain = plain_table(table)
    good = is_event(plain)
    lines = (~good).nonzero()[0]
    if not lines.size:
        return Log(plain, rejected_table(name, []), "parquet")
    bad = _values(table.take(pa.array(lines[:QUOTED])))
    rows = [_rejected(line + 1, row) for line, row in zip(lines.tolist(), bad, strict=False)]
    return Log(plain.filter(pa.array(good)), rejected_table(name, rows), "parquet", len(lines))


def _values(table: pa.Table) -> list[dict[str, object]]:
    """Return rows as they are, strings that are not UTF-8 as bytes."""
    try:
        return list(table.to_pylist())
    except UnicodeDecodeError:
        kinds = [
            pa.field(f.name, pa.binary() if pa.types.is_string(f.type) else f.type)
            for f in table.schema
        ]
        return list(table.cast(pa.schema(kinds)).to_pylist())


def _read_text(source: Source, form: str) -> Log:
    rejected: list[Rejected] = []
    undecidable = None
    quick = read_quickly(source.path) if form == "jsonl" else None
    if quick is not None:
        table = quick
    elif form in {"jsonl", "csv"}:
        table = _table_of_rows(eventlog.read_rows(source.path, rejected=rejected, form=form))
    else:
        text = source.path.read_text(encoding="utf-8-sig", errors="surrogateescape")
        if form == "otlp":
            events = otlp.read_spans(text, rejected)
        elif form == "edges":
            events = read_edges(_decodable(text, rejected), rejected)
        else:
            parsed = shiviz.parse_log(_decodable(text, rejected), source.pattern)
            rejected += parsed.rejected
            events = shiviz.to_events(parsed, source.send, source.deliver)
            undecidable = why_undecidable(events, source)
        rejected.sort(key=lambda row: row.line or 0)
        table = table_of(events)
    kept = rejected_table(source.path.name, rejected)
    return Log(table, kept, form, len(rejected), undecidable)


def _decodable(text: str, rejected: list[Rejected]) -> str:
    """Return a text with the lines that are not UTF-8 left empty, so that all keep their numbers."""
    if text.isascii():
        return text
    lines = text.split("\n")
    for number, line in enumerate(lines):
        raw = line.encode(errors="surrogateescape")
        shown = raw.decode(errors="backslashreplace")
        if shown != line:
            rejected.append(Rejected(number + 1, shown[:QUOTED_CHARS], "not UTF-8"))
            lines[number] = ""
    return "\n".join(lines)


def why_undecidable(events: Sequence[Event], source: Source) -> str | None:
    """Return why a log's sends and deliveries cannot be paired, or None if they can."""
    if source.send is None or source.deliver is None:
        return (
            "its clocks do not tell which delivery belongs to which send, and an overtaken message "
            "leaves no trace in them; give --send and --deliver, patterns with a group (?<message>...)"
        )
    sent = {e.message for e in events if e.kind == SEND}
    delivered = {e.message for e in events if e.kind == DELIVER}
    if not sent & delivered:
        return (
            f"--send found {len(sent)} messages and --deliver {len(delivered)}, none of them the "
            "same; make both patterns name messages alike (groups message, and to / from)"
        )
    return None


def why_unauditable(log: Log) -> str | None:
    """Return why a log, though read, says nothing of the order of deliveries."""
    if log.form == "edges":
        return (
            "an edge list says who sent to whom and when, and nothing of deliveries; "
            "antecede advise tells what keeping order would cost on its traffic"
        )
    return log.undecidable


def read_edges(text: str, rejected: list[Rejected]) -> list[Event]:
    """Read ``source destination time`` lines; equal source and time is one multicast.

    An edge list says nothing of delays: messages are delivered when sent. What it is good for is
    the traffic itself.
    """
    multicasts: dict[tuple[float, str], tuple[int, dict[str, None]]] = {}
    for line, raw in enumerate(text.splitlines(), start=1):
        words = raw.replace(",", " ").split()
        if not words or raw.lstrip().startswith(("#", "%")):
            continue
        try:
            key = float(words[2]), words[0]
            if not math.isfinite(key[0]):
                rejected.append(Rejected(line, raw[:QUOTED_CHARS], "time is not finite"))
                continue
            multicasts.setdefault(key, (line, {}))[1][words[1]] = None
        except (IndexError, ValueError):
            if line > 1 or len(words) < 3:
                reason = "expected: source destination time"
                rejected.append(Rejected(line, raw[:QUOTED_CHARS], reason))
    counts: dict[str, int] = {}
    events: list[Event] = []

    ordered = sorted(multicasts.items(), key=lambda item: (item[0][0], item[1][0]))
    for (time, source), (line, targets) in ordered:
        message = f"e{line}"
        counts[source] = counts.get(source, 0) + 1
        events.append(Event(source, counts[source], SEND, message, tuple(targets), time))
        for target in targets:
            counts[target] = counts.get(target, 0) + 1
            events.append(Event(target, counts[target], DELIVER, message, None, time))
    return events
