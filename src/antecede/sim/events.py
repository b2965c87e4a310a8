"""A run's event log, made from its trace."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from antecede.sim.schedule import Schedule
from antecede.sim.trace import Trace

SCHEMA = pa.schema(
    [
        pa.field("process", pa.string(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("message", pa.string()),
        pa.field("dests", pa.list_(pa.string())),
        pa.field("time", pa.float64()),
    ]
)


def event_table(schedule: Schedule, trace: Trace) -> pa.Table:
    """Return one row per send and delivery, in the order in which they happened.

    A message's id is its sender's name and its number there, such as ``p3:17``.
    """
    order = trace.order[trace.order >= 0]
    messages = schedule.messages
    is_send = order < messages
    copy = np.where(is_send, 0, order - messages)
    message = np.where(is_send, order, schedule.message[copy])
    process = np.where(is_send, schedule.sender[message], schedule.dests[copy])
    time = np.where(is_send, trace.sent[message], trace.delivered[copy])
    # The k-th event of a process gets the number k, from 1.
    by_process = np.argsort(process, kind="stable")
    starts = np.searchsorted(process[by_process], np.arange(schedule.n))
    seq = np.empty(len(order), np.int64)
    seq[by_process] = np.arange(len(order)) - starts[process[by_process]] + 1
    names = pa.array(schedule.names, pa.string())
    ids = pa.array(
        [f"{schedule.names[s]}:{k}" for s, k in zip(schedule.sender, trace.number, strict=True)],
        pa.string(),
    )
    widths = np.diff(schedule.offsets)[message] * is_send
    ends = np.cumsum(widths)
    inner = np.arange(int(ends[-1]) if len(ends) else 0)
    starts_of = np.repeat(schedule.offsets[message] - (ends - widths), widths)
    dests = names.take(pa.array(schedule.dests[inner + starts_of]))
    offsets = pa.array(np.concatenate([[0], ends]).astype(np.int32), mask=None)
    lists = pa.ListArray.from_arrays(offsets, dests, mask=pa.array(~is_send))
    kinds = pa.DictionaryArray.from_arrays(
        pa.array((~is_send).astype(np.int8)), pa.array(["send", "deliver"])
    ).cast(pa.string())
    columns = [names.take(pa.array(process)), pa.array(seq), kinds, ids.take(pa.array(message)),
               lists, pa.array(time)]  # fmt: skip
    return pa.Table.from_arrays(columns, schema=SCHEMA)
