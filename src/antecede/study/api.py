"""``study``: a grid of runs in, one row of metrics per run out.

``jobs`` calls it in small Spark jobs, to show progress and to resume an interrupted study.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from antecede.events.tables import STUDY_COLUMNS
from antecede.spark.ship import use_unpacked

Execute = Callable[[Mapping[str, Any]], Mapping[str, Any]]

METRICS: tuple[str, ...] = STUDY_COLUMNS[
    STUDY_COLUMNS.index("deliveries") : STUDY_COLUMNS.index("saturated")
]
"""The measured columns of the ``study`` table, in its order."""
IDENTITY = ("run_id", "experiment", "protocol", "options", "workload", "cast", "n", "seed")
PLACE = ("schedule", "series", "facet", "x", "arguments")
_TYPES: dict[str, T.DataType] = {
    **dict.fromkeys((*IDENTITY, *PLACE), T.StringType()),
    **dict.fromkeys(("n", "seed", "deliveries"), T.LongType()),
    "x": T.DoubleType(),
    "saturated": T.BooleanType(),
    "extras": T.MapType(T.StringType(), T.DoubleType()),
}
RUNS = T.StructType(
    [
        T.StructField(name, _TYPES.get(name, T.DoubleType()))
        for name in (*IDENTITY, *METRICS, "saturated", "seconds", *PLACE, "extras")
    ]
)
"""One row per run: the columns of ``study``, then the run's point in its experiment's charts."""


def study(grid: DataFrame, *, run: Execute | None = None) -> DataFrame:
    """Run every row of ``grid`` on the executors and return one row per run.

    There is one task per partition. Each row is measured by its experiment; rows of an experiment
    that is not one of ours are plain runs of their protocol. ``run`` replaces this measurement.
    """
    return grid.mapInArrow(_worker(run), RUNS)


def _worker(run: Execute | None) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_unpacked()
        from pyspark.sql.pandas.types import to_arrow_schema

        # From the unpacked copy:
        from antecede.spark.tasks import spare_what_is_loaded
        from antecede.study.experiments import execute

        chosen = execute if run is None else run
        schema = to_arrow_schema(RUNS)
        for batch in batches:
            for row in batch.to_pylist():
                found = result_row(row, _run_named(chosen, row))
                yield pa.RecordBatch.from_pylist([found], schema=schema)
        spare_what_is_loaded()

    return work


def _run_named(run: Execute, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Run one row; errors name the row."""
    try:
        return run(row)
    except Exception as error:
        which = f"{row['experiment']}: {row['protocol']} {row['options']} {row['arguments']}"
        msg = f"run {row['run_id']} ({which}, seed {row['seed']}) failed: {error}"
        raise RuntimeError(msg) from error


def result_row(row: Mapping[str, Any], measured: Mapping[str, Any]) -> dict[str, Any]:
    """Join a run's identity with its metrics; metrics without a column go to ``extras``."""
    known = {*METRICS, "saturated", "seconds"}
    numbers = {
        name: float(value)
        for name, value in measured.items()
        if isinstance(value, int | float) and math.isfinite(value)
    }
    return {
        **{name: row[name] for name in (*IDENTITY, *PLACE)},
        **{name: numbers.get(name) for name in METRICS},
        "deliveries": int(measured["deliveries"]),
        "saturated": bool(measured.get("saturated")),
        "seconds": float(measured["seconds"]),
        "extras": {name: value for name, value in numbers.items() if name not in known},
    }
