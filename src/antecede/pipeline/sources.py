"""Read logs of any known form into the event log: as an Arrow table here, as a frame on Spark.

Parquet is handed to Spark unread. Everything else is text, read here line by line so that each bad
line can be counted, quoted and kept; ``strict`` makes the first one fatal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from antecede import eventlog
from antecede.core.tables import DELIVER, SEND
from antecede.errors import UsageError
from antecede.eventlog import Event, Rejected
from antecede.pipeline import otlp, schemas, shiviz
from antecede.pipeline.windows.columns import is_event, require_columns, require_types

if TYPE_CHECKING:
    from collections.abc import Sequence
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
#: Bad rows of a large log that are kept word for word.
QUOTED = 1000


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
    form: str
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
    form = _SUFFIXES.get(source.path.suffix.lower())
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
    if not source.path.exists():
        msg = f"there is no log {str(source.path)!r}"
        raise UsageError(msg)
    try:
        log = _read_parquet(source) if form == "parquet" else _read_text(source, form)
    except (OSError, pa.ArrowException) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        msg = f"cannot read {str(source.path)!r} as {form}: {reason}"
        raise UsageError(msg) from None
    if source.strict and len(log.rejected):
        first = log.rejected.slice(0, 1).to_pylist()[0]
        msg = (
            f"{source.path.name} line {first['line']} is no event: {first['reason']}; "
            f"got {str(first['text'])[:80]!r} ({len(log.rejected)} such rows; --strict forbids them)"
        )
        raise UsageError(msg)
    if not len(log.events):
        msg = f"{str(source.path)!r} has no events ({len(log.rejected)} rows are none)"
        raise UsageError(msg)
    return log


def frame(spark: SparkSession, source: Source) -> tuple[DataFrame, Log | None]:
    """Return a log as a Spark frame; Parquet stays in its files (then there is no Log)."""
    if form_of(source) == "parquet" and not source.strict:
        if not source.path.exists():
            msg = f"there is no log {str(source.path)!r}"
            raise UsageError(msg)
        try:
            found = spark.read.parquet(str(source.path.resolve()))
        except Exception as error:  # noqa: BLE001  (whatever Spark says, in one line)
            reason = str(error).strip().splitlines()[0][:200]
            msg = f"cannot read {str(source.path)!r} as parquet: {reason}"
            raise UsageError(msg) from None
        require_columns(found.columns)
        return found, None
    log = read(source)
    return spark.createDataFrame(log.events), log


def rejected_rows(events: DataFrame, name: str, count: int) -> pa.Table:
    """Return the first rows of a frame that are no events; a frame's rows have no numbers."""
    if not count:
        return rejected_table(name, [])
    from antecede.pipeline.audit_cuts import validity

    bad = events.filter(~validity(events)).limit(QUOTED).toArrow().to_pylist()
    rows = [Rejected(0, _quoted(row), "not an event") for row in bad]
    return rejected_table(name, rows)


def _quoted(row: dict[str, object]) -> str:
    return str({name: value for name, value in row.items() if value is not None})[:200]


def table_of(events: Sequence[Event]) -> pa.Table:
    """Return events as a table of the event log."""
    columns = {
        "process": [e.process for e in events],
        "seq": [e.seq for e in events],
        "kind": [e.kind for e in events],
        "message": [e.message for e in events],
        "dests": [e.dests for e in events],
        "time": [e.time for e in events],
    }
    return pa.table(columns, schema=schemas.EVENTS)


def rejected_table(source: str, rows: Sequence[Rejected]) -> pa.Table:
    """Return the lines that are no events as a table."""
    columns = {
        "source": [source] * len(rows),
        "line": [row.line for row in rows],
        "text": [row.text for row in rows],
        "reason": [row.reason for row in rows],
    }
    return pa.table(columns, schema=schemas.REJECTED)


def _read_parquet(source: Source) -> Log:
    # A folder needs Arrow's datasets, which import pandas and so take a moment; a file does not.
    is_folder = source.path.is_dir()
    table = pq.read_table(source.path) if is_folder else pq.ParquetFile(source.path).read()
    require_columns(table.column_names)
    require_types(table)
    good = is_event(table)
    bad = table.filter(pa.array(~good))
    rows = [
        Rejected(line, _quoted(row), "not an event")
        for line, row in zip((~good).nonzero()[0].tolist(), bad.to_pylist(), strict=True)
    ]
    events = table if not rows else table.filter(pa.array(good))
    return Log(events, rejected_table(source.path.name, rows), "parquet")


def _read_text(source: Source, form: str) -> Log:
    rejected: list[Rejected] = []
    undecidable = None
    if form in {"jsonl", "csv"}:
        events = eventlog.read(source.path, rejected=rejected, form=form)
    else:
        text = source.path.read_text(encoding="utf-8", errors="replace")
        if form == "otlp":
            events = otlp.read_spans(text, rejected)
        elif form == "edges":
            events = read_edges(text, rejected)
        else:
            parsed = shiviz.parse_log(text, source.pattern)
            rejected += parsed.rejected
            events = shiviz.to_events(parsed, source.send, source.deliver)
            undecidable = why_undecidable(events, source)
    return Log(table_of(events), rejected_table(source.path.name, rejected), form, undecidable)


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
            multicasts.setdefault(key, (line, {}))[1][words[1]] = None
        except (IndexError, ValueError):
            if line > 1 or len(words) < 3:
                reason = "expected: source destination time"
                rejected.append(Rejected(line, raw[:200], reason))
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
