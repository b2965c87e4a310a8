"""Convert an Arrow table of events to the columns used by windows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from antecede.arrays import Ints
from antecede.audit.windows.matching import KNOWN, Events, joined
from antecede.audit.windows.vector_clocks import clock_edges
from antecede.events.arrow_columns import KIND_CODES, codes_of, strings_of
from antecede.events.hashing import hash_column, hash_lists
from antecede.events.tables import CLOCK

#: Row of the log -> (name of its message, its destinations)
Lookup = Callable[[Ints], list[tuple[str | None, tuple[str, ...] | None]]]


def process_names(table: pa.Table) -> list[str]:
    """Return the names of all processes that have events, sorted."""
    return sorted(pc.unique(strings_of(table.column("process"))).to_pylist())


def to_events(table: pa.Table, names: list[str], salt: int = 0) -> Events:
    """Return the columns of ``table``, whose rows are all events of ``names``."""
    process = codes_of(table.column("process"), {name: p for p, name in enumerate(names)})
    kind = codes_of(table.column("kind"), KIND_CODES).astype(np.int8)
    need = np.zeros(len(table), np.int64)
    if "dests" in table.column_names and not pa.types.is_null(table.column("dests").type):
        dests = table.column("dests")
        need = hash_lists(dests)
        if dests.null_count < len(dests):
            known = np.asarray(dests.is_valid().combine_chunks())
            kind[known & (kind == 0)] += KNOWN
    seq = np.asarray(table.column("seq").cast(pa.int64()).combine_chunks())
    key = hash_column(strings_of(table.column("message")), salt)
    return Events(process.astype(np.int32), np.array(seq), kind, key, need)


def with_clocks(
    table: pa.Table, events: Events, names: list[str]
) -> tuple[Events, list[tuple[int, int, int]]]:
    """Return all events of a log with the edges of its clocks, and the clocks ahead of the log."""
    if CLOCK not in table.column_names:
        return events, []
    ends, ahead = clock_edges(events, table.column(CLOCK), names)
    return joined([events, ends]), ahead


def lookup_in(table: pa.Table) -> Lookup:
    """Return a function that reads messages' names and destinations from rows of ``table``."""
    message = strings_of(table.column("message"))
    dests = table.column("dests") if "dests" in table.column_names else None

    def lookup(rows: Ints) -> list[tuple[str | None, tuple[str, ...] | None]]:
        names = message.take(rows).to_pylist()
        if dests is None:
            return [(name, None) for name in names]
        stated = dests.take(rows).to_pylist()
        return [
            (name, None if d is None else tuple(d)) for name, d in zip(names, stated, strict=True)
        ]

    return lookup
