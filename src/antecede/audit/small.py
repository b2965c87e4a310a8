"""Audit small event logs in JSON lines and CSV with only the standard library."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from antecede.audit.found import audit_events
from antecede.audit.neighbourhood import EventRows
from antecede.audit.plain import Clock
from antecede.audit.results import AuditedFile, has_arrow, in_seconds
from antecede.audit.verdicts import Asked
from antecede.errors import LogError
from antecede.events.lines import QUOTED_CHARS, csv_rows, events_in, json_rows, ours
from antecede.events.rule import Event, Rejected, left_out, require_columns
from antecede.events.tables import EVENT_COLUMNS_NEEDED
from antecede.report.diagrams import ClockedEvent

#: Larger files have more events than suit plain Python.
BYTES_MAX = 30 << 20
_FORMS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv"}
_KEY = re.compile(r'"(process|kind)"\s*:')
#: Records wrapped in others are read as exports.
_WRAPPED = re.compile(r'"(_source|hits|line)"\s*:|"data"\s*:\s*\{')


def form_of_small(paths: Sequence[Path], form: str | None) -> str | None:
    """Return the format of files that are small event logs, or None if they may be something else.

    A file that does not exist is refused.
    """
    forms = set()
    for path in paths:
        if str(path) != "-" and not path.exists():
            reason = f"there is no log {str(path)!r}"
            raise LogError(reason, path=path, reason=reason)
        if not path.is_file():
            return None
        forms.add(form or _FORMS.get(path.suffix.lower()))
    (first, *more) = forms
    if more or first not in {"jsonl", "csv"} or not all(_looks_like(p, first) for p in paths):
        return None
    return first if sum(path.stat().st_size for path in paths) <= BYTES_MAX else None


def _looks_like(path: Path, form: str) -> bool:
    """Return whether a file begins like an event log with one event per line."""
    with ours("read", path), path.open(encoding="utf-8-sig", errors="replace") as file:
        first = next((line for line in file if line.strip()), "").strip()
    if form == "csv":
        names = [name.strip(' "') for name in first.split(",")]
        if not has_arrow():
            require_columns(names)  # no other reader could say more
        return set(EVENT_COLUMNS_NEEDED) <= {*names}
    if not has_arrow() and not _is_record(first):
        return True  # an empty or a torn line: no other reader could say more
    is_event = {"process", "kind"} <= {*_KEY.findall(first)}
    return first.startswith("{") and first != "{" and is_event and not _WRAPPED.search(first)


def _is_record(line: str) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return line == "{"  # a record of several lines


def audit_small(paths: Sequence[Path], form: str, asked: Asked) -> dict[str, AuditedFile] | None:
    """Audit event logs in JSON lines or CSV as one; None if other readers have to judge them."""
    events: list[Event] = []
    clocks: list[Clock | None] = []
    quoted, bad = [], []
    for path in paths:
        rejected: list[Rejected] = []
        with (
            ours("read the event log", path),
            path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file,
        ):
            rows, stated = events_in(csv_rows(file) if form == "csv" else json_rows(file), rejected)
        clocks += stated or [None] * len(rows)
        events += [Event(*row) for row in rows]
        bad += rejected
        quoted += [
            {"source": path.name, "line": r.line, "text": _shown(r), "reason": r.reason}
            for r in rejected
        ]
    if len(bad) > len(events) or not events:
        if has_arrow():
            return None
        reason = left_out(len(bad), bad[0], paths[0].name) if bad else "the log has no events"
        raise LogError(reason, path=paths[0], reason=reason)
    has_clocks = any(clock is not None for clock in clocks)
    asked = replace(asked, rejected=bad, left_out=len(bad))
    found = audit_events(events, clocks if has_clocks else (), asked, len(bad))
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    if has_clocks:
        events = [_clocked(e, clock) for e, clock in zip(events, clocks, strict=True)]
    rows_of = EventRows(events)
    found = replace(found, rows=rows_of)
    name = f"{paths[0].name}{more}"
    return {"": AuditedFile(name, in_seconds(found, rows_of), quoted[:1000], rows_of)}


def _shown(row: Rejected) -> str:
    return row.text[:QUOTED_CHARS].encode(errors="backslashreplace").decode()


def _clocked(event: Event, clock: Clock | None) -> ClockedEvent:
    values = event.process, event.seq, event.kind, event.message, event.dests, event.time
    return ClockedEvent(*values, tuple((clock or {}).items()))
