"""The event log in CSV with a header."""

from __future__ import annotations

from antecede import eventlog
from antecede.eventlog import Rejected
from antecede.eventlog.lines import ours
from antecede.eventlog.tables import EVENT_COLUMNS_NEEDED
from antecede.pipeline.logs.base import (
    Format,
    Log,
    Source,
    each,
    log_of,
    raw_lines,
    read_bytes,
    table_of_rows,
)


def _read(source: Source) -> Log:
    rejected: list[Rejected] = []
    lines = raw_lines(read_bytes(source))
    with ours("read the event log", source.path):
        rows = eventlog.rows_in(lines, "csv", rejected)
    return log_of(source, table_of_rows(rows), rejected)


def _sniff(head: str) -> float:
    """Look for the columns that every event log needs in the first line."""
    header = {name.strip(' "') for name in head.split("\n", 1)[0].split(",")}
    return float(header.issuperset(EVENT_COLUMNS_NEEDED))


FORMAT = Format("csv", (".csv",), each("csv", _read), _sniff)
