"""Read a log of any known format into an Arrow table of events.

Invalid rows are counted and the first of them kept; ``strict`` makes the first one fatal.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import pyarrow as pa

from antecede.errors import LogError, UsageError
from antecede.eventlog import Rejected
from antecede.pipeline.logs.base import Log, Source, sorted_out, table_of
from antecede.pipeline.logs.formats import FORMATS, format_named, format_of_suffix

__all__ = [
    "Log",
    "Source",
    "form_of",
    "named",
    "read",
    "refuse_empty",
    "require_file",
    "sorted_out",
    "table_of",
    "why_unauditable",
]

#: How compressed files begin, and what unpacks them.
_COMPRESSED = {
    b"\x1f\x8b": "gunzip",
    b"BZh": "bunzip2",
    b"\xfd7zXZ": "unxz",
    b"\x28\xb5\x2f\xfd": "unzstd",
    b"PK\x03\x04": "unzip",
}
_SUFFIXES_COMPRESSED = {".gz", ".bz2", ".xz", ".zst", ".zip"}


def form_of(source: Source) -> str:
    """Return the name of a log's format: as given, or by the file's name."""
    if source.form is not None:
        return format_named(source.form).name
    if source.path.is_dir():
        return next(name for name in FORMATS if format_named(name).reads_folders)
    name = source.path
    if name.suffix.lower() in _SUFFIXES_COMPRESSED:
        name = name.with_suffix("")
    form = format_of_suffix(name.suffix.lower())
    if form is None:
        msg = (
            f"the name {source.path.name!r} does not tell the log's format; give --format, "
            f"one of {', '.join(FORMATS)}"
        )
        raise UsageError(msg)
    return form


def read(source: Source) -> Log:
    """Read a log into memory."""
    form = form_of(source)
    require_file(source)
    try:
        log = replace(format_named(form).read(source), form=form)
    except LogError as error:
        raise named(error, source) from None
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or _first_line(str(error))
        raise named(LogError(reason), source) from None
    if source.strict and log.bad:
        first = _first(log.rejected)
        msg = f"{source.path.name} {first} (invalid rows: {log.bad:,}; --strict forbids them)"
        raise LogError(msg, path=source.path, reason=first.reason)
    if not len(log.events):
        refuse_empty(repr(str(source.path)), log.rejected, log.bad)
    return log


def named(error: LogError, source: Source) -> LogError:
    """Return an error about a log with the file's name in it, unless it has one already."""
    if error.path is not None:
        return error
    msg = f"cannot read {str(source.path)!r} as {form_of(source)}: {error.reason}"
    return LogError(msg, path=source.path, reason=error.reason)


def refuse_empty(name: str, rejected: pa.Table, bad: int) -> NoReturn:
    """Refuse a log without events, quoting its first invalid row."""
    if not bad:
        reason = "it records no sends, deliveries or local events"
    else:
        rows = "its only row is not" if bad == 1 else f"none of its {bad:,} rows is"
        first = _first(rejected)
        where = "the first" if first.line is None else f"line {first.line}"
        reason = f"{rows} a valid event; {where}: {first.reason}; got {first.text[:80]!r}"
    msg = f"{name} has no events: {reason}"
    raise LogError(msg, path=name, reason=reason)


def _first(rejected: pa.Table) -> Rejected:
    row = rejected.slice(0, 1).to_pylist()[0]
    return Rejected(row["line"], row["text"], row["reason"])


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason given"])[0][:200]


def require_file(source: Source) -> None:
    """Refuse a log that does not exist, is empty, or has to be unpacked first."""
    name, reason = repr(str(source.path)), ""
    if not source.path.exists():
        reason = f"there is no log {name}"
    elif source.path.is_dir():
        inside = (file for file in source.path.rglob("*") if file.is_file())
        if all(file.name.startswith(("_", ".")) for file in inside):
            reason = f"the folder {name} has no files in it"
    else:
        try:
            with source.path.open("rb") as file:
                reason = _why_unreadable(name, file.read(8))
        except OSError as error:
            reason = f"cannot read {name}: {error.strerror}"
    if reason:
        raise LogError(reason, path=source.path, reason=reason)


def _why_unreadable(name: str, start: bytes) -> str:
    if not start:
        return f"{name} has no events: the file is empty"
    tool = next((tool for mark, tool in _COMPRESSED.items() if start.startswith(mark)), None)
    return f"{name} is compressed; unpack it first, with {tool}" if tool else ""


def why_unauditable(log: Log) -> str | None:
    """Return why a log, though read, says nothing about the order of deliveries."""
    return format_named(log.form).unauditable or log.undecidable
