"""How late messages came in seconds, where the log has times.

The late delivery and that of its overtaker happened at one process, so its own clock measures the
time between them. A clock that went back in between measures nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace

import pyarrow as pa

from antecede.pipeline.audits.entry import Audit
from antecede.pipeline.audits.neighbourhood import Rows
from antecede.pipeline.audits.tables import percentiles

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
