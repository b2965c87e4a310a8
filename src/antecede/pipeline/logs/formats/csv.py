"""The event log in CSV with a header."""

from __future__ import annotations

from antecede import eventlog
from antecede.eventlog import Rejected
from antecede.pipeline.logs.base import Format, Log, Source, log_of, table_of_rows


def _read(source: Source) -> Log:
    rejected: list[Rejected] = []
    rows = eventlog.read_rows(source.path, rejected=rejected, form="csv")
    return log_of(source, table_of_rows(rows), rejected)


FORMAT = Format("csv", (".csv",), _read)
