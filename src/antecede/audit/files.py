"""Audit log files, in this process or on Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from antecede.audit.api import asked_of, audit_frame, audit_groups, audit_log, traced
from antecede.audit.found import Audit
from antecede.audit.log_rows import FrameRows, TableRows
from antecede.audit.results import AuditedFile, in_seconds
from antecede.audit.row_group_windows import row_groups
from antecede.audit.verdicts import Asked
from antecede.audit.windows.rounds import IncompleteError
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
)
from antecede.spark.frames import (
    frame_of,
    native_form,
    plain_frame,
    read_natively,
    readable,
    rejected_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Larger logs in Parquet are read a few row groups at a time.
SLICED_FROM = 1_000_000
FORM = "parquet"


def audit_here(
    sources: Sequence[Source],
    execution: str | None = None,
    asked: Asked | None = None,
    *,
    engine: str = "",
) -> dict[str, AuditedFile]:
    """Audit a log in this process: all of its executions by label, or only the one named."""
    sliced = _audit_slices(sources, asked) if execution is None and engine != "plain" else None
    if sliced is not None:
        return {"": sliced}
    found = {}
    for label, log in chosen(read_logs(sources), execution).items():
        audited = audit_log(log, asked, engine=engine)
        name = titled(sources, label)
        rows = TableRows(log.events)
        found[label] = AuditedFile(name, in_seconds(audited, rows), log.rejected.to_pylist(), rows)
    return found


def _audit_slices(sources: Sequence[Source], asked: Asked | None) -> AuditedFile | None:
    """Audit large Parquet files in order of time, a few row groups at a time, or return None.

    Errors in a file are left to the reader of whole files to report.
    """
    if native_form(sources) != FORM or not all(source.path.is_file() for source in sources):
        return None
    log = Log(arrow_schemas.EVENTS.empty_table(), arrow_schemas.REJECTED.empty_table(), form=FORM)
    try:
        groups = row_groups([str(source.path) for source in sources]) or []
        if sum(group.rows for group in groups) < SLICED_FROM:
            return None
        found = audit_groups(groups, asked_of(log, asked))
    except (IncompleteError, OSError, pa.ArrowException, UnicodeDecodeError):
        return None
    if found.summary["rejected"]:
        return None
    assert found.rows is not None
    return AuditedFile(name_of(sources), in_seconds(found, found.rows), [], found.rows)


def audit_on(
    spark: SparkSession,
    sources: Sequence[Source],
    windows: int | None = None,
    execution: str | None = None,
    asked: Asked | None = None,
) -> dict[str, AuditedFile]:
    """Audit on Spark; writing the results needs the session."""
    check = partial(audit_frame, windows=windows)
    frame = read_natively(spark, sources) if execution is None else None
    if frame is not None:
        none = arrow_schemas.REJECTED.empty_table()
        log = Log(arrow_schemas.EVENTS.empty_table(), none, form=form_of(sources[0]))
        return {"": _audit_frame(frame, sources, partial(check, asked=asked_of(log, asked)))}
    found = {}
    for label, log in chosen(read_logs(sources), execution).items():
        events = frame_of(spark, log.events)
        audited = traced(check(events, asked_of(log, asked)), log)
        rows = FrameRows(plain_frame(events))
        name = titled(sources, label)
        found[label] = AuditedFile(name, in_seconds(audited, rows), log.rejected.to_pylist(), rows)
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
    return AuditedFile(name, in_seconds(found, rows), rejected.to_pylist(), rows)
