"""Read a log of any known format, in one file or several, into an Arrow table of events.

In order: find the files that the paths name, then the format of each, then its rows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from antecede.errors import LogError, UsageError
from antecede.events.content import is_stream, stream_content
from antecede.events.documents import documents, unwrapped
from antecede.events.fields import names_in
from antecede.events.formats import FORMATS, format_named, format_of_suffix
from antecede.events.log import (
    STDIN,
    Log,
    Source,
    about,
    merged,
    read_bytes,
    reading,
    sorted_out,
    table_of,
)
from antecede.events.patterns import compile_pattern
from antecede.events.rule import Rejected
from antecede.events.tables import CLOCK

#: How the names of files and folders begin that are skipped.
_HIDDEN = ("_", ".")
#: How files begin that must be unpacked first, and the program that does it.
_PACKED = {b"\xfd7zXZ": "unxz", b"PK\x03\x04": "unzip"}


def sources_in(paths: Sequence[Path], like: Source) -> list[Source]:
    """Return the files that paths name: files, folders of them, or ``-`` for standard input.

    ``like`` says how to read them. A folder that is one log, such as a Parquet folder, stays whole.
    """
    if list(paths).count(STDIN) > 1:
        msg = "standard input (-) can be read only once; name it once"
        raise UsageError(msg)
    found = [source for path in paths for source in _sources_at(replace(like, path=path))]
    # A service that logged nothing may leave an empty file next to those of the others.
    full = [source for source in found if not _is_empty(source)]
    return full if len(found) > 1 and full else found


def _sources_at(source: Source) -> list[Source]:
    path = source.path
    if path == STDIN:
        return [replace(source, data=stream_content(path))]
    if path.is_dir():
        inside = files_in(path)
        if not inside or _is_one_log(source, inside):
            return [source]
        return [replace(source, path=file, label=str(file.relative_to(path))) for file in inside]
    if is_stream(path):
        try:
            return [replace(source, data=stream_content(path))]
        except OSError as error:
            msg = f"cannot read {str(path)!r}: {error.strerror}"
            raise LogError(msg, path=path, reason=str(error.strerror)) from None
    return [source]


def files_in(folder: Path) -> list[Path]:
    """Return the files in a folder and its subfolders, except hidden ones.

    A folder that cannot be read is refused: the log would be incomplete without it.
    """
    found = []
    for place, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(_HIDDEN)]
        found += [Path(place, name) for name in names if not name.startswith(_HIDDEN)]
    return sorted(file for file in found if file.is_file())


def _refuse(error: OSError) -> None:
    reason = f"cannot read the folder {str(error.filename)!r}: {error.strerror}"
    raise LogError(reason, path=error.filename, reason=reason)


def _is_one_log(source: Source, inside: Sequence[Path]) -> bool:
    """Return whether a folder of these files is one log of a format that has such folders."""
    for name in FORMATS:
        form = format_named(name)
        if form.reads_folders:
            is_all = all(file.suffix.lower() in form.suffixes for file in inside)
            return source.form == name or (source.form is None and is_all)
    return False


def _is_empty(source: Source) -> bool:
    try:
        return not (source.path.stat().st_size if source.data is None else source.data)
    except OSError:
        return False


def name_of(sources: Sequence[Source]) -> str:
    """Return the name of a log in these files, for results."""
    if len(sources) == 1:
        return sources[0].name
    return f"{sources[0].name} and {len(sources) - 1} more"


def titled(sources: Sequence[Source], execution: str | None) -> str:
    """Return the name of an execution of a log, for results."""
    name = name_of(sources)
    return f"{name}, execution {execution}" if execution else name


def require_file(source: Source) -> None:
    """Refuse a log that does not exist, is empty, or must be unpacked first."""
    name, reason = repr(str(source.path)), ""
    if source.data is not None:
        reason = _why_unreadable(repr(source.name), source.data[:8])
    elif not source.path.exists():
        reason = f"there is no log {name}"
    elif source.path.is_dir():
        if not files_in(source.path):
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
    tool = next((tool for mark, tool in _PACKED.items() if start.startswith(mark)), None)
    return f"{name} is compressed; unpack it first, with {tool}" if tool else ""


def aliases_of(texts: Sequence[str]) -> Mapping[str, str]:
    """Parse aliases NAME=PROCESS."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, process = text.partition("=")
        if not equals or not name or not process:
            msg = f"cannot read --alias {text!r}; use NAME=PROCESS, such as 10.0.0.7=billing"
            raise UsageError(msg)
        if found.setdefault(name, process) != process:
            msg = f"--alias gives {name!r} two names, {found[name]!r} and {process!r}; keep one"
            raise UsageError(msg)
    return found


_SUFFIXES_COMPRESSED = {".gz", ".bz2", ".xz", ".zst", ".zip"}
_HEAD_BYTES = 1 << 16
#: How much a file must look like a format to be read as that format.
LIKELY = 0.5


def form_of(source: Source) -> str:
    """Return the name of a log's format: as given, or by its content and its name."""
    if source.form is not None:
        return format_named(source.form).name
    if source.path.is_dir():
        return next(name for name in FORMATS if format_named(name).reads_folders)
    if source.pattern is not None or source.fields:
        return _form_by_options(source)
    by_name = _form_by_name(source)
    form = _form_by_content(source, by_name)
    if form is not None:
        return form
    if source.send is not None or source.deliver is not None:
        return "text"
    _refuse_foreign(source)
    if by_name is None:
        _require_readable(source)
        msg = (
            f"neither the name nor the content of {source.name!r} tells the log's format; give "
            f"--format, one of {', '.join(FORMATS)}"
        )
        raise UsageError(msg)
    return by_name


def _form_by_options(source: Source) -> str:
    """Return the format to which --pattern or --field belongs."""
    if source.pattern is not None:
        groups = compile_pattern(source.pattern, "--pattern").groupindex
        return "shiviz" if "clock" in groups else "text"
    return "parquet" if fitness(source, ["parquet"]).get("parquet") else "records"


#: Words in formats that lack what an audit needs, and what they lack.
_XRAY = (
    "X-Ray's segments do not say which message one service got from another; collect the spans by "
    "OpenTelemetry, and give its OTLP"
)
_FOREIGN = {
    ("Segments", "Document"): _XRAY,
    ("trace_id", "subsegments"): _XRAY,
    ("trace_id", "id", "name", "start_time"): _XRAY,
    ("specversion", "source", "type"): "CloudEvents say who made an event, but not which process "
    "delivered it when; log sends and deliveries, and name their fields: --field kind=PATH",
    ("op", "ts_ms", "source"): "Debezium's change events say what a database wrote, but not which "
    "process got it when; log sends and deliveries, and name their fields: --field kind=PATH",
}


def _refuse_foreign(source: Source) -> None:
    """Refuse a format known to lack what an audit needs, and unknown records."""
    head = _head(source) or ""
    found = [why for words, why in _FOREIGN.items() if all(f'"{word}"' in head for word in words)]
    if not found and _form_by_name(source) != "jsonl" and (names := _names_in(head)):
        found = [f"its records are neither an event log nor spans{_MAPPING.format(names=names)}"]
    if found:
        msg = f"cannot read {source.name!r}: {found[0]}"
        raise LogError(msg, path=source.path, reason=found[0])


#: The fields of a trace, even one without spans.
_TRACE = re.compile(r'"(resourceSpans|resource_spans|batches|spans)"\s*:|"data"\s*:\s*\[')
#: How to map the fields of records.
_MAPPING = (
    "; if they are events, say where their parts are: --field process=PATH --field kind=PATH "
    "--field message=PATH (the first has {names})"
)


def _names_in(head: str) -> str:
    """Return the paths in the first record of a file, or nothing if it has no records."""
    first = head if head.lstrip().startswith(("[", "{")) and not _TRACE.search(head) else ""
    for _, document in documents(first, []):
        for record in unwrapped(document):
            inside = record[0] if isinstance(record, list) and record else record
            return names_in(inside)
    return ""


def _require_readable(source: Source) -> None:
    """Say why a file's content does not show its format, if the file cannot be read."""
    try:
        read_bytes(source, _HEAD_BYTES)
    except (OSError, pa.ArrowException) as error:
        lines = str(error).strip().splitlines() or ["no reason given"]
        reason = getattr(error, "strerror", None) or lines[0][:200]
        msg = f"cannot read {str(source.path)!r}: {reason}"
        raise LogError(msg, path=source.path, reason=reason) from None


def _form_by_name(source: Source) -> str | None:
    name = source.path
    if name.suffix.lower() in _SUFFIXES_COMPRESSED:
        name = name.with_suffix("")
    return format_of_suffix(name.suffix.lower())


def _form_by_content(source: Source, by_name: str | None) -> str | None:
    """Return the format that a file's beginning resembles most, or None."""
    if by_name is not None and fitness(source, [by_name]).get(by_name) == 1.0:
        return by_name  # Nothing fits better, so other formats need not be loaded.
    fits = fitness(source)
    best = max(fits.values(), default=0.0)
    if best < LIKELY:
        return None
    likely = [name for name, fit in fits.items() if fit == best]
    return by_name if by_name in likely else likely[0]


def fitness(source: Source, forms: Sequence[str] = FORMATS) -> dict[str, float]:
    """Return how much the beginning of a file looks like each format, from 0 to 1."""
    head = _head(source)
    if head is None:
        return {}
    sniffs = {name: format_named(name).sniff for name in forms}
    return {name: sniff(head) for name, sniff in sniffs.items() if sniff is not None}


def _head(source: Source) -> str | None:
    """Return the first lines of a file, or None if it cannot be read."""
    try:
        data = read_bytes(source, _HEAD_BYTES)
    except (OSError, pa.ArrowException):
        return None
    head = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
    if len(data) == _HEAD_BYTES and "\n" in head:
        head = head[: head.rindex("\n")]
    return head


def looks_like(sources: Sequence[Source], form: str) -> str:
    """Return a hint at the format that a log probably has, if it is another one."""
    if sources[0].path.is_dir() or (form == "text" and sources[0].form is None):
        return ""
    fits = fitness(sources[0])
    fits.pop(form, None)
    best = max(fits, key=lambda name: fits[name], default="")
    if best and fits[best] >= LIKELY:
        return f"; it looks like {best}: give --format {best}"
    if names := _names_in(_head(sources[0]) or ""):
        return _MAPPING.format(names=names)
    return "; if it is another text format, describe its events with --pattern"


def require_options(source: Source, forms: Sequence[str]) -> None:
    """Refuse options for reading that none of the formats uses."""
    used = {option for form in forms for option in format_named(form).options}
    for option in ("pattern", "send", "deliver", "delimiter", "fields"):
        if getattr(source, option) and option not in used:
            users = [name for name in FORMATS if option in format_named(name).options]
            msg = (
                f"--{option.removesuffix('s')} has no effect on the format "
                f"{' and '.join(forms)}; leave it out, or give --format {' or '.join(users)}"
            )
            raise UsageError(msg)


__all__ = [
    "Log",
    "Source",
    "chosen",
    "form_of",
    "name_of",
    "named",
    "read",
    "read_logs",
    "refuse_empty",
    "require_file",
    "require_mostly_valid",
    "require_options",
    "sorted_out",
    "sources_in",
    "table_of",
    "titled",
    "why_unauditable",
]


def read(sources: Source | Sequence[Source], execution: str | None = None) -> Log:
    """Read a log into memory; ``execution`` selects one of several."""
    sources = [sources] if isinstance(sources, Source) else sources
    logs = chosen(read_logs(sources), execution)
    if len(logs) > 1:
        shown = ", ".join(map(repr, list(logs)[:5]))
        more = ", ..." if len(logs) > 5 else ""
        reason = (
            f"{name_of(sources)} has {len(logs)} executions ({shown}{more}); choose one with "
            "--execution"
        )
        raise LogError(reason, path=sources[0].path, reason=reason)
    return next(iter(logs.values()))


def chosen(logs: Mapping[str, Log], execution: str | None) -> dict[str, Log]:
    """Return the execution of that name, or all of them."""
    if execution is None:
        return dict(logs)
    if execution not in logs:
        known = ", ".join(repr(label) for label in logs if label) or "none, it is one log"
        msg = f"there is no execution {execution!r}; the log has: {known}"
        raise UsageError(msg)
    return {execution: logs[execution]}


def read_logs(sources: Sequence[Source]) -> dict[str, Log]:
    """Read the executions recorded in the files, by label; usually there is one."""
    groups: dict[str, list[Source]] = {}
    for source in sources:
        groups.setdefault(form_of(source), []).append(source)
        require_file(source)
    require_options(sources[0], list(groups))
    parts = {form: _read_form(form, group) for form, group in groups.items()}
    logs = {"": _mixed(parts)} if len(parts) > 1 else next(iter(parts.values()))
    for log in logs.values():
        _require_sense(sources, log)
    return logs


def _read_form(form: str, sources: Sequence[Source]) -> dict[str, Log]:
    """Read the files of one format."""
    known = format_named(form)
    with reading(sources[0], form):
        logs = known.read(sources)
    if sources[0].aliases and "send" not in known.options:
        logs = {label: _renamed(log, sources[0]) for label, log in logs.items()}
    return {label: replace(log, form=form) for label, log in logs.items()}


def _mixed(parts: Mapping[str, dict[str, Log]]) -> Log:
    """Return logs of several formats as one, if they can be combined."""
    alone = [form for form in parts if not format_named(form).has_deliveries]
    several = [form for form, logs in parts.items() if len(logs) > 1]
    if alone or several:
        form, why = (alone[0], "its messages") if alone else (several[0], "several executions")
        others = ", ".join(other for other in parts if other != form)
        msg = f"cannot read {form} ({why}) together with {others}; read them one by one"
        raise LogError(msg, path="the log", reason=msg)
    logs = [next(iter(found.values())) for found in parts.values()]
    if any(CLOCK in log.events.column_names for log in logs):
        seen: dict[str, str] = {}
        for form, log in zip(parts, logs, strict=True):
            for process in pc.unique(log.events.column("process")).to_pylist():
                if seen.setdefault(process, form) != form:
                    msg = (
                        f"the process {process!r} has events in {seen[process]} and in {form}; "
                        "clocks cannot count events of two formats: read them one by one"
                    )
                    raise LogError(msg, path="the log", reason=msg)
    return merged(logs)


def _renamed(log: Log, source: Source) -> Log:
    """Return a log with the source's names for processes."""
    events = log.events
    called = source.called
    for name in ("process", "dests", CLOCK):
        if name in events.column_names and not pa.types.is_null(events.schema.field(name).type):
            column = events.column(name)
            values: list[Any] = column.to_pylist()
            if name == "process":
                values = [called(value) for value in values]
            elif name == "dests":
                values = [value and [called(dest) for dest in value] for value in values]
            else:
                values = [value and [(called(k), v) for k, v in value] for value in values]
            place = events.column_names.index(name)
            events = events.set_column(place, name, pa.array(values, column.type))
    return replace(log, events=events)


def _require_sense(sources: Sequence[Source], log: Log) -> None:
    """Refuse a log without events, with mostly invalid rows, or that --strict forbids."""
    source, name = sources[0], name_of(sources)
    if source.strict and log.bad:
        first = _first(log.rejected)
        msg = f"{name} {first} (invalid rows: {log.bad:,}; --strict forbids them)"
        raise LogError(msg, path=source.path, reason=first.reason)
    if not len(log.events):
        where = repr(str(source.path)) if len(sources) == 1 else name
        hint = looks_like(sources, log.form) if log.bad else ""
        refuse_empty(where, log.rejected, log.bad, hint)
    require_mostly_valid(sources, log)


def require_mostly_valid(sources: Sequence[Source], log: Log) -> None:
    """Refuse a log with mostly invalid rows, and name the format that it probably has."""
    good = len(log.events) if log.good is None else log.good
    if log.bad <= good or log.is_selection:
        return
    first = _first(log.rejected)
    at = "the first" if first.line is None else f"line {first.line}"
    reason = (
        f"{log.bad:,} of its {log.bad + good:,} rows are not valid; {at}: {first.reason}; "
        f"got {first.text[:80]!r}{looks_like(sources, log.form)}"
    )
    where = repr(str(sources[0].path)) if len(sources) == 1 else name_of(sources)
    msg = f"cannot read {where} as {log.form}: {reason}"
    raise LogError(msg, path=sources[0].path, reason=reason)


def named(error: LogError, source: Source) -> LogError:
    """Return an error about a log that includes the file's name."""
    return error if error.path is not None else about(error.reason, source, form_of(source))


def refuse_empty(name: str, rejected: pa.Table, bad: int, hint: str = "") -> NoReturn:
    """Refuse a log without events, quoting its first invalid row."""
    if not bad:
        reason = "it records no sends, deliveries or local events"
    else:
        rows = "its only row is not" if bad == 1 else f"none of its {bad:,} rows is"
        first = _first(rejected)
        where = "the first" if first.line is None else f"line {first.line}"
        reason = f"{rows} a valid event; {where}: {first.reason}; got {first.text[:80]!r}{hint}"
    msg = f"{name} has no events: {reason}"
    raise LogError(msg, path=name, reason=reason)


def _first(rejected: pa.Table) -> Rejected:
    row = rejected.slice(0, 1).to_pylist()[0]
    return Rejected(row["line"], row["text"], row["reason"])


def why_unauditable(log: Log) -> str | None:
    """Return why a log, though read, shows nothing about the order of deliveries, or None."""
    return (format_named(log.form).unauditable if log.form else None) or log.undecidable
