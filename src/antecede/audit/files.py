"""Audit log files, and write a run's folder: tables, page and summary.

To what the audit found it adds how late messages came in seconds, where the log has times, and
which violations count against the limit of the call.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from antecede.audit.api import Audit, audit, audit_log
from antecede.audit.drawings import DRAWN, illustrate
from antecede.audit.neighbourhood import FrameRows, Rows, TableRows
from antecede.audit.tables import percentiles
from antecede.errors import UsageError
from antecede.events import arrow_schemas
from antecede.events.sources import (
    Log,
    Source,
    chosen,
    form_of,
    name_of,
    read_logs,
    require_mostly_valid,
    titled,
    why_unauditable,
)
from antecede.report.audit_page import ROWS_MAX, audit_page, executions_page
from antecede.runs import RunFolder
from antecede.spark.frames import frame_of, plain_frame, read_natively, readable, rejected_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: The column that is added to the violations, last.
SECONDS = "lateness_seconds"


def in_seconds(found: Audit, rows: Rows) -> Audit:
    """Return an audit that also tells lateness in seconds, if the log has times to tell it."""
    late = found.tables["violations"]
    if not len(late):
        return found
    process = late.column("process").to_pylist()
    ends = [
        list(zip(process, late.column(seq).to_pylist(), late.column(name).to_pylist(), strict=True))
        for seq, name in (("seq", "message"), ("overtaker_seq", "overtaker"))
    ]
    places = sorted({(process, seq) for end in ends for process, seq, _ in end})
    times = {
        (event.process, event.seq, event.message): event.time
        for event in rows.deliveries_at(places)
        if event.time is not None
    }
    seconds = [_between(times.get(then), times.get(now)) for now, then in zip(*ends, strict=True)]
    known = [value for value in seconds if value is not None]
    if not known:
        return found
    table = late.append_column(SECONDS, pa.array(seconds, pa.float64()))
    summary = {**found.summary, SECONDS: percentiles(known)}
    return replace(found, tables={**found.tables, "violations": table}, summary=summary)


def _between(then: float | None, now: float | None) -> float | None:
    if then is None or now is None or not 0 <= now - then < math.inf:
        return None
    return now - then


def label(row: Mapping[str, Any]) -> str:
    """Return what ``--ignore`` searches: the channel and the late or missing message."""
    return f"{row['sender']} -> {row['process']}: {row['message']}"


def compiled(patterns: Sequence[str]) -> list[re.Pattern[str]]:
    """Compile the patterns of ``--ignore``, or say which is wrong."""
    text = ""
    try:
        return [re.compile(text := pattern) for pattern in patterns]
    except re.error as error:
        msg = f"--ignore {text!r} is not a regular expression: {error}"
        raise UsageError(msg) from None


def counted(found: Audit, name: str, ignore: Sequence[re.Pattern[str]]) -> list[dict[str, Any]]:
    """Return the rows of a table, violations or missing, that no pattern ignores."""
    rows: list[dict[str, Any]] = found.tables[name].to_pylist()
    return [row for row in rows if not any(one.search(label(row)) for one in ignore)]


def allowance(found: Audit, most: int, ignore: Sequence[re.Pattern[str]]) -> dict[str, Any]:
    """Return for the summary how many violations count, and whether they are allowed.

    The verdict stays as it is. Late and missing messages can be allowed, an undecidable log cannot.
    """
    count = sum(len(counted(found, name, ignore)) for name in ("violations", "missing"))
    ignored = found.summary["violations"] + found.summary["missing"] - count
    allowed = found.verdict == "broken" and count <= most
    return {"ignored": ignored, "counted": count, "allowed": allowed}


#: How many invalid rows the summary quotes.
REJECTED_QUOTED = 3
#: Verdicts, the worst first: one broken execution is bad news whatever the others tell.
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
    rejected: pa.Table
    """The first of the rows that are not events."""
    rows: Rows


def audit_here(
    sources: Sequence[Source], execution: str | None = None, *, assume_complete: bool = False
) -> dict[str, AuditedFile]:
    """Audit a log in this process: each of its executions, by label, or the one named."""
    found = {}
    for label, log in chosen(read_logs(sources), execution).items():
        audited = audit_log(log, assume_complete=assume_complete)
        name = titled(sources, label)
        rows = TableRows(log.events)
        found[label] = AuditedFile(name, in_seconds(audited, rows), log.rejected, rows)
    return found


def audit_on(
    spark: SparkSession,
    sources: Sequence[Source],
    windows: int | None = None,
    execution: str | None = None,
    *,
    assume_complete: bool = False,
) -> dict[str, AuditedFile]:
    """Do the same on Spark; the results need the session until they are written."""
    check = partial(audit, windows=windows, assume_complete=assume_complete)
    frame = read_natively(spark, sources) if execution is None else None
    if frame is not None:
        return {"": _audit_frame(frame, sources, check)}
    found = {}
    for label, log in chosen(read_logs(sources), execution).items():
        events = frame_of(spark, log.events)
        audited = check(events, undecidable=why_unauditable(log))
        audited.summary["rejected"] = log.bad
        rows = FrameRows(plain_frame(events))
        name = titled(sources, label)
        found[label] = AuditedFile(name, in_seconds(audited, rows), log.rejected, rows)
    return found


def _audit_frame(
    events: DataFrame, sources: Sequence[Source], check: Callable[[DataFrame], Audit]
) -> AuditedFile:
    """Audit files that Spark reads itself."""
    name = name_of(sources)
    with readable(sources[0]):
        found = check(events)
        bad, good = found.summary["rejected"], found.summary["events"]
        rejected = rejected_rows(events, name, bad)
    log = Log(
        arrow_schemas.EVENTS.empty_table(), rejected, bad, form=form_of(sources[0]), good=good
    )
    require_mostly_valid(sources, log)
    rows = FrameRows(plain_frame(events))
    return AuditedFile(name, in_seconds(found, rows), rejected, rows)


def write_results(
    folder: RunFolder,
    audited: Mapping[str, AuditedFile],
    more: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> dict[str, Any]:
    """Write tables, pages and summary (with ``more`` in the results); return the summary.

    Each of several executions gets a folder of its own, and the page and summary cover all.
    """
    if len(audited) == 1:
        ((label, one),) = audited.items()
        return folder.finish(_write(folder, one, more.get(label, {})))
    results = []
    for number, (label, one) in enumerate(audited.items(), start=1):
        place = f"{number:02d}-{re.sub(r'[^A-Za-z0-9._-]+', '-', label)[:60]}"
        (folder.stage / place).mkdir()
        result = _write(folder, one, more.get(label, {}), place)
        results.append({"execution": label, "folder": place, **result})
    result = together(results)
    name = next(iter(audited.values())).name.rpartition(", execution ")[0]
    facts = {**folder.options, "started": folder.started}
    folder.write_text("index.html", executions_page(result, log=name, facts=facts))
    return folder.finish(result)


def _write(
    folder: RunFolder, audited: AuditedFile, more: Mapping[str, Any], place: str = "."
) -> dict[str, Any]:
    """Write the tables and the page of one audit; return its result."""
    first_rejected = audited.rejected.slice(0, REJECTED_QUOTED).to_pylist()
    kept = {"rejected_kept": len(audited.rejected), "rejected_first": first_rejected}
    result = {**audited.audit.summary, **kept, **more}
    tables = {**audited.audit.tables, "rejected": audited.rejected}
    for name, table in tables.items():
        folder.write_table(f"{place}/{name}", table)
    late = tables["violations"]
    chains = pc.binary_join(late["chain"], " > ")
    late = late.set_column(late.column_names.index("chain"), "chain", chains)
    csv.write_csv(late, folder.stage / place / "violations.csv")
    first = {name: table.slice(0, ROWS_MAX).to_pylist() for name, table in tables.items()}
    worst = first["violations"][:DRAWN]
    drawn = illustrate(audited.rows, worst, result)
    facts = {**folder.summary({})["provenance"], **folder.options, "started": folder.started}
    page = audit_page(result, first, drawn, log=audited.name, facts=facts)
    folder.write_text(f"{place}/index.html", page)
    return result


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
