"""Read a log of any known format, in one file or several, into an Arrow table of events.

Invalid rows are counted and the first of them kept; ``strict`` makes the first one fatal. A log of
which most rows are invalid is refused: its format is probably another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from antecede.errors import LogError, UsageError
from antecede.eventlog import Rejected
from antecede.eventlog.tables import CLOCK
from antecede.pipeline.logs.base import (
    Log,
    Source,
    about,
    merged,
    reading,
    sorted_out,
    table_of,
)
from antecede.pipeline.logs.files import name_of, require_file, sources_in, titled
from antecede.pipeline.logs.formats import format_named
from antecede.pipeline.logs.recognition import form_of, looks_like, require_options

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
    """Read a log into memory; ``execution`` names the one to read of several."""
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
    """Read the executions that the files record, each by its label; mostly there is one."""
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
    """Return logs of several formats as one, if they can be one."""
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
    """Return a log that calls processes as the source asks."""
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
    """Refuse a log that --strict forbids, that has no events, or whose rows are mostly invalid."""
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
    """Refuse a log most of whose rows are invalid, and name the format it probably has."""
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
    """Return an error about a log with the file's name in it, unless it has one already."""
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
    """Return why a log, though read, says nothing about the order of deliveries."""
    return format_named(log.form).unauditable or log.undecidable
