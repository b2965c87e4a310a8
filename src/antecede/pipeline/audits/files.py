"""Audit a log file, and write a run's folder: tables, page and summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from antecede.pipeline.audits.drawings import illustrate
from antecede.pipeline.audits.entry import Audit, audit, audit_table
from antecede.pipeline.audits.neighbourhood import FrameRows, Rows, TableRows
from antecede.pipeline.logs.sources import Source, read, why_unauditable
from antecede.pipeline.runs import RunFolder
from antecede.pipeline.spark.events import plain_frame
from antecede.pipeline.spark.frames import read_frame, readable, rejected_rows
from antecede.report.audit_page import ROWS_MAX, audit_page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
#: How many violations the page draws.
DRAWN = 12


@dataclass(frozen=True)
class AuditedFile:
    """An audit of a log file, with what its page shows of the log."""

    name: str
    audit: Audit
    rejected: pa.Table
    """The first of the rows that are not events."""
    rows: Rows


def audit_here(source: Source, *, assume_complete: bool = False) -> AuditedFile:
    """Audit a log file in this process."""
    log = read(source)
    why = why_unauditable(log)
    found = audit_table(log.events, undecidable=why, assume_complete=assume_complete)
    found.summary["rejected"] = log.bad
    return AuditedFile(source.path.name, found, log.rejected, TableRows(log.events))


def audit_on(
    spark: SparkSession,
    source: Source,
    windows: int | None = None,
    *,
    assume_complete: bool = False,
) -> AuditedFile:
    """Audit a log file on Spark; the result needs the session until it is written."""
    name = source.path.name
    events, log = read_frame(spark, source)
    with readable(source):
        why = why_unauditable(log) if log else None
        found = audit(events, windows=windows, undecidable=why, assume_complete=assume_complete)
        if log:
            found.summary["rejected"] = log.bad
            rejected = log.rejected
        else:
            rejected = rejected_rows(events, name, found.summary["rejected"])
    return AuditedFile(name, found, rejected, FrameRows(plain_frame(events)))


def write_results(
    folder: RunFolder, audited: AuditedFile, more: Mapping[str, Any] = MappingProxyType({})
) -> dict[str, Any]:
    """Write tables, page and summary (with ``more`` in its result); return the summary."""
    result = {**audited.audit.summary, "rejected_kept": len(audited.rejected), **more}
    tables = {**audited.audit.tables, "rejected": audited.rejected}
    for name, table in tables.items():
        folder.write_table(name, table)
    late = tables["violations"]
    chains = pc.binary_join(late["chain"], " > ")
    late = late.set_column(late.column_names.index("chain"), "chain", chains)
    csv.write_csv(late, folder.stage / "violations.csv")
    first = {name: table.slice(0, ROWS_MAX).to_pylist() for name, table in tables.items()}
    worst = first["violations"][:DRAWN]
    drawn = illustrate(audited.rows, worst, beyond_messages=result["beyond_messages"])
    facts = {**folder.summary({})["provenance"], **folder.options, "started": folder.started}
    page = audit_page(result, first, drawn, log=audited.name, facts=facts)
    folder.write_text("index.html", page)
    return folder.finish(result)
