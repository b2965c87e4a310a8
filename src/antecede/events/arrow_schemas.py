"""The types of the pipeline's tables; their columns are named in ``events.tables``."""

from __future__ import annotations

import pyarrow as pa

from antecede.events.tables import (
    ADVISE_COLUMNS,
    EVENT_SCHEMA,
    FINDING_COLUMNS,
    KIND,
    MISSING_COLUMNS,
    NAME,
    NAMES,
    REJECTED_COLUMNS,
    SECONDS,
    VIOLATION_COLUMNS,
    WHOLE,
)

#: The Arrow type for each kind of content of an event's column.
EVENT_TYPES: dict[str, pa.DataType] = {
    NAME: pa.string(),
    WHOLE: pa.int64(),
    KIND: pa.string(),
    NAMES: pa.list_(pa.string()),
    SECONDS: pa.float64(),
}

#: The Arrow type of the optional column ``clock`` of an event log.
CLOCKS = pa.map_(pa.string(), pa.int64())

_TYPES: dict[str, pa.DataType] = {
    "seq": pa.int64(),
    "overtaker_seq": pa.int64(),
    "lateness": pa.int64(),
    "line": pa.int64(),
    "chain": pa.list_(pa.string()),
}


def _schema(columns: tuple[str, ...]) -> pa.Schema:
    return pa.schema([(name, _TYPES.get(name, pa.string())) for name in columns])


EVENTS = pa.schema([(column.name, EVENT_TYPES[column.holds]) for column in EVENT_SCHEMA])
VIOLATIONS = _schema(VIOLATION_COLUMNS)
MISSING = _schema(MISSING_COLUMNS)
FINDINGS = _schema(FINDING_COLUMNS)
REJECTED = _schema(REJECTED_COLUMNS)
_WORDS = {"protocol", "status", "reason"}
ADVICE = pa.schema([(n, pa.string() if n in _WORDS else pa.float64()) for n in ADVISE_COLUMNS])
