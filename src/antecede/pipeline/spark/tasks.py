"""What the audit runs on executors: the functions given to ``mapInArrow``, and nothing else.

The module imports little, because a worker of a cluster finds it in a zip file; each function
settles the package first (see ``ship``) and then imports the compiled parts.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from antecede.pipeline.audits.windows.window import Window

    Batches = Iterator[pa.RecordBatch]

RESULT = pa.schema([pa.field("id", pa.int64()), pa.field("result", pa.binary())])
RESULT_SQL = "id long, result binary"
BLOB = pa.schema([pa.field("id", pa.int64()), pa.field("blob", pa.binary())])
BLOB_SQL = "id long, blob binary"
#: Rows packed at a time: large enough to be few, small enough for any worker.
PACK_ROWS = 1 << 20


def _results(found: list[tuple[int, Any]]) -> pa.RecordBatch:
    data = [pickle.dumps(result, protocol=5) for _, result in found]
    return pa.record_batch(
        [pa.array([number for number, _ in found], pa.int64()), pa.array(data, pa.binary())],
        schema=RESULT,
    )


def on_specs(work: Callable[[Any], Any]) -> Callable[[Batches], Batches]:
    """Return the task that runs ``work`` on each pickled specification it is given."""

    def task(batches: Batches) -> Batches:
        from antecede.pipeline.spark.ship import settle

        settle()
        for batch in batches:
            for number, spec in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield _results([(number, work(pickle.loads(spec)))])  # noqa: S301  (our driver's own)

    return task


def propose_cut(spec: dict[str, Any]) -> object:
    """Read what lies around a proposed cut and lower it; or list the processes of row groups."""
    from antecede.pipeline.audits import slices as audit_slices

    return audit_slices.propose_cut(spec) if "when" in spec else audit_slices.list_processes(spec)


def run_slice(spec: dict[str, Any]) -> Window:
    """Read a window's own row groups and run it."""
    from antecede.pipeline.audits import slices as audit_slices

    return audit_slices.run_slice(spec)


def read_slice(spec: dict[str, Any]) -> object:
    """Read a window's events."""
    from antecede.pipeline.audits import slices as audit_slices

    return audit_slices.read_slice(spec)[0]


def spell_slice(spec: dict[str, Any]) -> object:
    """Read the names of some of a window's messages."""
    from antecede.pipeline.audits import slices as audit_slices

    return audit_slices.spell_slice(spec)


def look_around(points: dict[int, list[int]]) -> Callable[[Batches], Batches]:
    """Return the task that finds what a partition (of process and seq) has around ``points``."""

    def task(batches: Batches) -> Batches:
        from antecede.pipeline.spark.ship import settle

        settle()
        from pyspark import TaskContext

        from antecede.pipeline.audits.neighbourhood import seqs_near, together

        parts = [
            seqs_near(batch.column(0).to_numpy(), batch.column(1).to_numpy(), points)
            for batch in batches
        ]
        context = TaskContext.get()
        if parts and context is not None:
            yield _results([(context.partitionId(), together(parts))])

    return task


def pack(spec: dict[str, Any]) -> Callable[[Batches], Batches]:
    """Return the task that sorts rows (process and kind, seq, key, need) into windows' blobs."""

    def task(batches: Batches) -> Batches:
        from antecede.pipeline.spark.ship import settle

        settle()
        from antecede.pipeline.audits.blobs import pack_rows

        held: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            held.append(batch)
            rows += batch.num_rows
            if rows >= PACK_ROWS:
                yield pack_rows(held, spec)
                held, rows = [], 0
        if held:
            yield pack_rows(held, spec)

    return task


def run_blobs(spec: dict[str, Any]) -> Callable[[Batches], Batches]:
    """Return the task that puts the blobs of each window together and runs it."""

    def task(batches: Batches) -> Batches:
        from antecede.pipeline.spark.ship import settle

        settle()
        from antecede.pipeline.audits.blobs import unpack
        from antecede.pipeline.audits.windows.window import run_window

        blobs: dict[int, list[bytes]] = {}
        for batch in batches:
            for number, blob in zip(batch.column(0).to_numpy(), batch.column(1), strict=True):
                blobs.setdefault(int(number), []).append(blob.as_buffer())
        for number in sorted(blobs):
            events = unpack(blobs.pop(number))
            yield _results([(number, run_window(events, spec["hashes"], spec["requests"][number]))])

    return task
