"""The results for an audited file: lateness in seconds, what counts, and a run's folder."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from antecede.audit.found import SECONDS, Audit, Table, tables_of
from antecede.audit.neighbourhood import DRAWN, Rows, illustrate
from antecede.audit.rows import percentiles
from antecede.errors import UsageError
from antecede.events.tables import (
    FINDING_COLUMNS,
    MISSING_COLUMNS,
    REJECTED_COLUMNS,
    VIOLATION_COLUMNS,
)
from antecede.report.audit_page import ROWS_MAX, audit_page, executions_page
from antecede.runs import RunFolder

#: More windows than this are a typing error.
WINDOWS_MAX = 1_000_000
COLUMNS = {
    "violations": VIOLATION_COLUMNS,
    "missing": MISSING_COLUMNS,
    "findings": FINDING_COLUMNS,
    "rejected": REJECTED_COLUMNS,
}


def require_windows(windows: int | None) -> None:
    """Refuse a number of windows into which a log cannot be cut."""
    if windows is not None and not 1 <= windows <= WINDOWS_MAX:
        most = f", up to {WINDOWS_MAX:,}" if windows > 1 else ""
        msg = f"windows is {windows}; give 1 or more{most}, or leave it out"
        raise UsageError(msg)


def in_seconds(found: Audit, rows: Rows) -> Audit:
    """Return an audit with lateness in seconds, if the log has times for it."""
    late = found.records["violations"]
    places = sorted(
        {(row["process"], row[seq]) for row in late for seq in ("seq", "overtaker_seq")}
    )
    times = {
        (event.process, event.seq, event.message): event.time
        for event in (rows.deliveries_at(places) if late else ())
        if event.time is not None
    }
    seconds = [
        _between(
            times.get((row["process"], row["overtaker_seq"], row["overtaker"])),
            times.get((row["process"], row["seq"], row["message"])),
        )
        for row in late
    ]
    known = [value for value in seconds if value is not None]
    if not known:
        return found
    told = [{**row, SECONDS: value} for row, value in zip(late, seconds, strict=True)]
    summary = {**found.summary, SECONDS: percentiles(known)}
    return replace(found, records={**found.records, "violations": told}, summary=summary)


def _between(then: float | None, now: float | None) -> float | None:
    if then is None or now is None or not 0 <= now - then < math.inf:
        return None
    return now - then


def label(row: Mapping[str, Any]) -> str:
    """Return the text that ``--ignore`` searches: the channel and the late or missing message."""
    return f"{row['sender']} -> {row['process']}: {row['message']}"


def compiled(patterns: Sequence[str]) -> list[re.Pattern[str]]:
    """Compile the patterns of ``--ignore``; refuse an invalid one."""
    text = ""
    try:
        return [re.compile(text := pattern) for pattern in patterns]
    except re.error as error:
        msg = f"--ignore {text!r} is not a regular expression: {error}"
        raise UsageError(msg) from None


def not_ignored(found: Audit, name: str, ignore: Sequence[re.Pattern[str]]) -> list[dict[str, Any]]:
    """Return the rows of a table, violations or missing, that match no pattern to ignore."""
    rows = found.records[name]
    return [row for row in rows if not any(one.search(label(row)) for one in ignore)]


def allowance(found: Audit, most: int, ignore: Sequence[re.Pattern[str]]) -> dict[str, Any]:
    """Return for the summary how many violations count, and whether they are allowed.

    The verdict stays. Late and missing messages can be allowed, an undecidable log cannot.
    """
    count = sum(len(not_ignored(found, name, ignore)) for name in ("violations", "missing"))
    ignored = found.summary["violations"] + found.summary["missing"] - count
    allowed = found.verdict == "broken" and count <= most
    return {"ignored": ignored, "counted": count, "allowed": allowed}


#: The most invalid rows to quote in the summary.
REJECTED_QUOTED = 3
#: Verdicts, the worst first: one broken execution outweighs all others.
WORST_FIRST = ("broken", "undecidable", "ordered")
_SUMMED = (
    "events", "messages", "deliveries", "violations", "fifo_violations", "causal_violations",
    "missing", "findings", "rejected",
)  # fmt: skip


@dataclass(frozen=True)
class AuditedFile:
    """An audit of a log file, with what its page shows of the log."""

    name: str
    audit: Audit
    rejected: Table
    """The first of the rows that are not events."""
    rows: Rows


def write_results(
    folder: RunFolder,
    audited: Mapping[str, AuditedFile],
    more: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    *,
    has_page: bool = True,
) -> dict[str, Any]:
    """Write tables, pages and summary (with ``more`` in the results); return the summary.

    Each of several executions gets its own folder; the page and summary cover all.
    """
    if len(audited) == 1:
        ((label, one),) = audited.items()
        return folder.finish(_write(folder, one, more.get(label, {}), has_page=has_page))
    results = []
    for number, (label, one) in enumerate(audited.items(), start=1):
        place = f"{number:02d}-{re.sub(r'[^A-Za-z0-9._-]+', '-', label)[:60]}"
        (folder.stage / place).mkdir()
        result = _write(folder, one, more.get(label, {}), place, has_page=has_page)
        results.append({"execution": label, "folder": place, **result})
    result = together(results)
    name = next(iter(audited.values())).name.rpartition(", execution ")[0]
    if has_page:
        facts = {**folder.options, "started": folder.started}
        folder.write_text("index.html", executions_page(result, log=name, facts=facts))
    return folder.finish(result)


def _write(
    folder: RunFolder,
    audited: AuditedFile,
    more: Mapping[str, Any],
    place: str = ".",
    *,
    has_page: bool = True,
) -> dict[str, Any]:
    """Write the tables and the page of one audit; return its result."""
    first_rejected = audited.rejected[:REJECTED_QUOTED]
    kept = {"rejected_kept": len(audited.rejected), "rejected_first": first_rejected}
    result = {**audited.audit.summary, **kept, **more}
    tables = {**audited.audit.records, "rejected": audited.rejected}
    _write_tables(folder, place, tables)
    first = {name: some[:ROWS_MAX] for name, some in tables.items()}
    if not has_page:
        return result
    worst = first["violations"][:DRAWN]
    drawn = illustrate(audited.rows, worst, result)
    facts = {**folder.summary({})["provenance"], **folder.options, "started": folder.started}
    page = audit_page(result, first, drawn, log=audited.name, facts=facts)
    folder.write_text(f"{place}/index.html", page)
    return result


def _write_tables(folder: RunFolder, place: str, tables: Mapping[str, Table]) -> None:
    """Write tables as Parquet if Arrow is installed, and those that people read also as CSV."""
    is_plain = not has_arrow()
    for name, some in tables.items():
        if is_plain or name in {"violations", "missing"}:
            folder.write_text(f"{place}/{name}.csv", _csv_of(some, COLUMNS[name]))
    if not is_plain:
        for name, table in tables_of(tables).items():
            folder.write_table(f"{place}/{name}", table)


def has_arrow() -> bool:
    """Return whether Arrow is installed; small logs are audited without it."""
    try:
        return find_spec("pyarrow") is not None
    except ModuleNotFoundError:
        return False


def _csv_of(rows: Table, columns: Sequence[str]) -> str:
    """Return rows as CSV with a header."""
    names = list(rows[0]) if rows else list(columns)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        cells = (row[name] for name in names)
        writer.writerow([" > ".join(c) if isinstance(c, list) else c for c in cells])
    return text.getvalue()


def together(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the result of several executions: sums, and the worst verdict with its reason."""
    worst = min(results, key=lambda result: WORST_FIRST.index(result["verdict"]))
    counts = {verdict: sum(r["verdict"] == verdict for r in results) for verdict in WORST_FIRST}
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    reason = f"{len(results)} executions: {said}. {worst['execution']}: {worst['reason']}"
    return {
        **{name: sum(result[name] for result in results) for name in _SUMMED},
        "processes": max(result["processes"] for result in results),
        "verdict": worst["verdict"],
        "reason": reason,
        "causally_ordered": worst["causally_ordered"],
        "executions": list(results),
    }
