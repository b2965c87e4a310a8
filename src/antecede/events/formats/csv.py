"""The event log in CSV with a header."""

from __future__ import annotations

from antecede.events.lines import ours, rows_in
from antecede.events.log import (
    Format,
    Log,
    Source,
    each,
    log_of,
    raw_lines,
    read_bytes,
    table_of_rows,
)
from antecede.events.rule import Rejected
from antecede.events.tables import EVENT_COLUMNS_NEEDED


def _read(source: Source) -> Log:
    rejected: list[Rejected] = []
    lines = raw_lines(read_bytes(source))
    with ours("read the event log", source.path):
        rows = rows_in(lines, "csv", rejected)
    return log_of(source, table_of_rows(rows), rejected)


def _sniff(head: str) -> float:
    """Return whether the first line has the columns that every event log needs."""
    header = {name.strip(' "') for name in head.split("\n", 1)[0].split(",")}
    return float(header.issuperset(EVENT_COLUMNS_NEEDED))


FORMAT = Format("csv", (".csv",), each("csv", _read), _sniff, is_numbered=True)
