"""The study: a grid of runs in, one row of metrics per run out, and what they say together.

``study`` is the whole of it as a function of DataFrames. ``campaign`` drives it in small jobs for
the command line, so that progress shows and an interrupted study can go on.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from antecede.pipeline.spark.ship import use_unpacked
from antecede.pipeline.studies.runner import METRICS, execute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import Column, DataFrame

    Execute = Callable[[Mapping[str, Any]], Mapping[str, Any]]

IDENTITY = ("run_id", "experiment", "protocol", "options", "workload", "cast", "n", "seed")
PLACE = ("schedule", "series", "facet", "x", "arguments")

RUNS = T.StructType(
    [
        *(T.StructField(name, T.StringType()) for name in IDENTITY[:6]),
        T.StructField("n", T.LongType()),
        T.StructField("seed", T.LongType()),
        T.StructField("deliveries", T.LongType()),
        *(T.StructField(name, T.DoubleType()) for name in METRICS[1:]),
        T.StructField("saturated", T.BooleanType()),
        T.StructField("seconds", T.DoubleType()),
        T.StructField("schedule", T.StringType()),
        T.StructField("series", T.StringType()),
        T.StructField("facet", T.StringType()),
        T.StructField("x", T.DoubleType()),
        T.StructField("arguments", T.StringType()),
        T.StructField("extras", T.MapType(T.StringType(), T.DoubleType())),
    ]
)
"""One row per run: DESIGN.md 2.4's columns, then the run's place in its experiment's charts."""

# Quantiles 0.975 of Student's t for 1, 2, ... degrees of freedom; beyond them the normal's.
_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_NORMAL = 1.960


def study(grid: DataFrame, *, run: Execute = execute) -> DataFrame:
    """Run every row of ``grid`` where it lies; one task per partition, one row per run out."""
    return grid.mapInArrow(_worker(run), RUNS)


def _worker(run: Execute) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        use_unpacked()
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(RUNS)
        for batch in batches:
            for row in batch.to_pylist():
                found = result_row(row, _run_named(run, row))
                yield pa.RecordBatch.from_pylist([found], schema=schema)

    return work


def _run_named(run: Execute, row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Run one row; if it fails, say which it was."""
    try:
        return run(row)
    except Exception as error:
        which = f"{row['experiment']}: {row['protocol']} {row['options']} {row['arguments']}"
        msg = f"run {row['run_id']} ({which}, seed {row['seed']}) failed: {error}"
        raise RuntimeError(msg) from error


def result_row(row: Mapping[str, Any], measured: Mapping[str, Any]) -> dict[str, Any]:
    """Join a run's identity with what was measured; what has no column goes to ``extras``."""
    named = {name: row[name] for name in (*IDENTITY, *PLACE)}
    known = {*METRICS, "saturated", "seconds"}
    values = {name: _number(measured.get(name)) for name in METRICS}
    values["deliveries"] = int(measured["deliveries"])
    extras = {
        name: float(value)
        for name, value in measured.items()
        if name not in known and isinstance(value, int | float) and math.isfinite(value)
    }
    return {
        **named,
        **values,
        "saturated": bool(measured.get("saturated")),
        "seconds": float(measured["seconds"]),
        "extras": extras,
    }


def _number(value: object) -> float | None:
    if not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def pending(grid: DataFrame, done: DataFrame) -> DataFrame:
    """Return the rows of ``grid`` that are not yet ``done``."""
    return grid.join(done.select("run_id"), on="run_id", how="left_anti")


DERIVED: Mapping[str, str] = {
    "total_bytes_per_message": (
        "model_bytes_per_message + extra_bytes_per_message"
        " + coalesce(extras['acknowledgement_bytes_per_message'], 0)"
    ),
    "bytes_per_entry": "model_bytes_per_copy / nullif(entries_per_copy, 0)",
    "entries_share": "entries_per_copy / nullif(n * n, 0)",
    "microseconds_per_delivery": "1e6 * seconds / nullif(extras['timed_deliveries'], 0)",
    "rst_share": "model_bytes_per_copy / nullif(4 * n * n, 0)",
    "throughput": "deliveries / nullif(extras['simulated_seconds'], 0)",
    "latency_in_delays": "latency_mean / nullif(extras['network_delay_mean'], 0)",
}
"""Metrics that follow from others, as Spark SQL."""


def measures(runs: DataFrame) -> DataFrame:
    """Return one row per run and metric, the experiments' own metrics among them.

    Runs whose queues grew without bound have no mean worth the name: of them only ``saturated``
    is left, 1 for such a run and 0 for the others, so that nobody misses them unawares.
    """
    names = (*METRICS, *DERIVED, "saturated")
    values = [F.col(name).cast("double") for name in METRICS]
    values += [F.expr(text).cast("double") for text in DERIVED.values()]
    values.append(F.col("saturated").cast("double"))
    own = F.map_from_arrays(F.array(*(F.lit(name) for name in names)), F.array(*values))
    every = runs.withColumn("every", F.map_concat(own, "extras"))
    keys = ("experiment", "facet", "x", "series", "seed", "schedule")
    return (
        every.select(*keys, "saturated", F.explode("every").alias("metric", "value"))
        .where("value is not null and (not saturated or metric = 'saturated')")
        .drop("saturated")
    )


def points(runs: DataFrame) -> DataFrame:
    """Return each chart point: mean and 95% confidence interval over the seeds."""
    keys = ("experiment", "facet", "x", "series", "metric")
    return _interval(measures(runs).groupBy(*keys), F.col("value"))


def differences(runs: DataFrame, baselines: DataFrame) -> DataFrame:
    """Return how each series differs from its experiment's baseline on the very same schedules.

    ``baselines`` has the columns ``experiment`` and ``baseline`` (a series). ``ratio`` is the
    mean of the series divided by the mean of the baseline. A baseline that does not depend on x
    is run once per schedule and compared with every point on it.
    """
    every = measures(runs).join(baselines, on="experiment", how="inner")
    base = every.where(F.col("series") == F.col("baseline")).select(
        "experiment", "facet", "schedule", "metric", F.col("value").alias("base")
    )
    others = every.where(F.col("series") != F.col("baseline"))
    paired = others.join(base, on=["experiment", "facet", "schedule", "metric"], how="inner")
    keys = ("experiment", "facet", "x", "series", "baseline", "metric")
    grouped = paired.withColumn("difference", F.col("value") - F.col("base")).groupBy(*keys)
    ratio = (F.sum("value") / F.nullif(F.sum("base"), F.lit(0.0))).alias("ratio")
    return _interval(grouped, F.col("difference"), ratio)


def _interval(grouped: Any, value: Column, *more: Column) -> DataFrame:  # noqa: ANN401 - GroupedData of either Spark
    quantile = F.element_at(
        F.array(*(F.lit(q) for q in _T), F.lit(_NORMAL)),
        F.least(F.greatest(F.col("runs") - 1, F.lit(1)), F.lit(len(_T) + 1)).cast("int"),
    )
    half = F.when(F.col("runs") > 1, quantile * F.col("deviation") / F.sqrt("runs"))
    frame: DataFrame = grouped.agg(
        F.mean(value).alias("mean"),
        F.stddev_samp(value).alias("deviation"),
        F.count(value).alias("runs"),
        *more,
    )
    return (
        frame.withColumn("half", half)
        .withColumn("low", F.col("mean") - F.col("half"))
        .withColumn("high", F.col("mean") + F.col("half"))
        .drop("half")
    )


def overview(runs: DataFrame) -> DataFrame:
    """Return, per experiment and series, how much was run and how fast.

    ``timed`` counts the warm-up's deliveries too, as ``seconds`` does; ``unsized`` are the runs in
    which nothing was sent after the warm-up, so that no size was measured.
    """
    return runs.groupBy("experiment", "series", "protocol").agg(
        F.count("*").alias("runs"),
        F.sum("deliveries").alias("deliveries"),
        F.sum("seconds").alias("seconds"),
        F.sum(F.expr("extras['timed_deliveries']")).cast("long").alias("timed"),
        F.sum(F.col("entries_per_copy").isNull().cast("int")).alias("unsized"),
        F.sum(F.col("saturated").cast("int")).alias("saturated"),
    )
