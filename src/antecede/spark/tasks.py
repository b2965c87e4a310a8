"""Run functions on Spark's executors and collect what they return."""

from __future__ import annotations

import contextlib
import gc
import pickle
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from antecede.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: The number of calls after which a worker has loaded what it needs.
CALLS = 3

_calls = iter(range(CALLS))


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Turn off Python's search for cycles: a batch makes very many objects, and no cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def spare_what_is_loaded() -> None:
    """Exclude the libraries that a Python worker has loaded from garbage collection.

    Call it after some work. Spark's workers search for cycles after every task; with PyArrow and
    Numba loaded, that took longer than the task of a small batch.
    """
    if next(_calls, None) is not None:
        gc.collect()
        gc.freeze()


Batches = Iterator[pa.RecordBatch]
Task = Callable[[Batches], Batches]

RESULT = pa.schema([pa.field("id", pa.int64()), pa.field("result", pa.binary())])
RESULT_SQL = "id long, result binary"


def on_batches(work: Callable[[Batches, Any], Batches], argument: object) -> Task:
    """Return a task that runs ``work(batches, argument)`` on a partition."""
    module, name = work.__module__, work.__name__
    packed = _packed(argument)

    def task(batches: Batches) -> Batches:
        from antecede.spark.ship import use_unpacked
        from antecede.spark.tasks import spare_what_is_loaded

        use_unpacked()
        yield from getattr(import_module(module), name)(batches, _unpacked(packed))
        spare_what_is_loaded()

    return task


def run_each(batches: Batches, work: Callable[[Any], Any]) -> Batches:
    """Run ``work`` on each pickled specification of a partition."""
    for batch in batches:
        for number, spec in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            yield result(number, work(_unpacked(spec)))


def run_specs(
    spark: SparkSession, work: Callable[[Any], Any], specs: Sequence[object]
) -> list[Any]:
    """Run ``work`` on each specification, in a task of its own; return the results in order."""
    if not specs:
        return []
    numbers = pa.array(range(len(specs)), pa.int64())
    data = pa.array([_packed(spec) for spec in specs], pa.binary())
    frame = spark.createDataFrame(pa.table({"id": numbers, "spec": data}))
    task = on_batches(run_each, work)
    found = results_of(by_number(frame, len(specs)).mapInArrow(task, RESULT_SQL))
    return [found[number] for number in range(len(specs))]


def by_number(frame: DataFrame, count: int) -> DataFrame:
    """Spread rows over ``count`` partitions by ``id``, one id in each where Spark supports that."""
    from pyspark.sql import functions as F

    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(count, F.col("id").cast("int"))
    return frame.repartition(count, "id")


def result(number: int, value: object) -> pa.RecordBatch:
    """Return the row in which a task returns a value."""
    arrays = [pa.array([number], pa.int64()), pa.array([_packed(value)], pa.binary())]
    return pa.record_batch(arrays, schema=RESULT)


def results_of(frame: DataFrame) -> dict[int, Any]:
    """Run the tasks and return their results by number."""
    with explained():
        table = frame.toArrow()
    numbers = np.asarray(table.column("id").combine_chunks()).tolist()
    data = (value.as_buffer() for value in table.column("result"))
    return {number: _unpacked(value) for number, value in zip(numbers, data, strict=True)}


_ABSENT = re.compile(r"(?:ModuleNotFoundError|ImportError): No module named '([\w.]+)'")


@contextlib.contextmanager
def explained() -> Iterator[None]:
    """Say in one line which package the Python of Spark's workers lacks, and what to set."""
    try:
        yield
    except Exception as error:
        absent = _ABSENT.findall(str(error))
        if not absent:
            raise
        name = absent[-1].partition(".")[0]
        msg = (
            f"the Python of Spark's workers lacks {name}; before the session starts, set "
            f"PYSPARK_PYTHON to one that has it, as {sys.executable} does, or install "
            "'antecede[spark]' there; sessions of antecede.pipeline.session bring the package along"
        )
        raise UsageError(msg) from None


def _packed(value: object) -> bytes:
    return pickle.dumps(value, protocol=5)


def _unpacked(data: bytes | pa.Buffer) -> Any:  # noqa: ANN401  (whatever was packed)
    return pickle.loads(data)  # noqa: S301  (driver and tasks are both ours)
