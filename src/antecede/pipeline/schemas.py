"""The types of the pipeline's tables; their columns are named in ``core.tables``."""

from __future__ import annotations

import pyarrow as pa

from antecede.core.tables import (
    ADVISE_COLUMNS,
    EVENT_COLUMNS,
    FINDING_COLUMNS,
    MISSING_COLUMNS,
    REJECTED_COLUMNS,
    VIOLATION_COLUMNS,
)

_TYPES: dict[str, pa.DataType] = {
    "seq": pa.int64(),
    "overtaker_seq": pa.int64(),
    "lateness": pa.int64(),
    "line": pa.int64(),
    "time": pa.float64(),
    "dests": pa.list_(pa.string()),
    "chain": pa.list_(pa.string()),
}


def _schema(columns: tuple[str, ...], other: pa.DataType | None = None) -> pa.Schema:
    return pa.schema([(name, _TYPES.get(name, other or pa.string())) for name in columns])


EVENTS = _schema(EVENT_COLUMNS)
VIOLATIONS = _schema(VIOLATION_COLUMNS)
MISSING = _schema(MISSING_COLUMNS)
FINDINGS = _schema(FINDING_COLUMNS)
REJECTED = _schema(REJECTED_COLUMNS)
_ADVICE: dict[str, pa.DataType] = {
    name: pa.string() if name in {"protocol", "status", "reason"} else pa.float64()
    for name in ADVISE_COLUMNS
}
ADVICE = pa.schema(_ADVICE)
