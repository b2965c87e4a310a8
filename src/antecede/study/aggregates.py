"""Aggregates of a study's runs: means with intervals, paired differences, totals."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, GroupedData, Window
from pyspark.sql import functions as F

from antecede.endpoint.messages import CLOCK_BYTES
from antecede.sim.schedule import HEADER_BYTES
from antecede.study.api import METRICS
from antecede.study.points import quantile

_TOTAL = (
    "(model_bytes_per_message + greatest(extra_bytes_per_message,"
    f" {CLOCK_BYTES} * extra_packets_per_message))"
)
"""The control of all packets. An added packet has at least a number: the message it is about."""
VECTORS = "vectors"
"""The protocol whose entries are whole vectors, with a number for each process."""
DERIVED: Mapping[str, str] = {
    "total_bytes_per_message": _TOTAL,
    "bytes_with_headers_per_message": (
        f"{_TOTAL} + {HEADER_BYTES} * (extras['data_packets_per_message']"
        " + extra_packets_per_message)"
    ),
    "dependents_per_copy": f"entries_per_copy * if(protocol = '{VECTORS}', n, 1)",
    "bytes_per_entry": "model_bytes_per_copy / nullif(entries_per_copy, 0)",
    "entries_share": "entries_per_copy / nullif(n * n, 0)",
    "microseconds_per_delivery": "1e6 * seconds / nullif(extras['timed_deliveries'], 0)",
    "rst_share": "model_bytes_per_copy / nullif(4 * n * n, 0)",
    "throughput": "deliveries / nullif(extras['simulated_seconds'], 0)",
    "latency_in_delays": "latency_mean / nullif(extras['network_delay_mean'], 0)",
}
"""Metrics that are computed from others, as Spark SQL."""


def by_metric(runs: DataFrame) -> DataFrame:
    """Return one row per run and metric, including the experiments' own metrics.

    Runs whose queues grew without bound have no meaningful mean, and a mean over the other seeds
    would count only the lucky ones. So a point with such a run has only the metric ``saturated``,
    1 for such a run and 0 for the others, which shows why the rest is missing.
    """
    # One expression: calling the JVM for each of fifty columns would take seconds.
    sources = {name: name for name in METRICS} | {**DERIVED, "saturated": "saturated"}
    own = ", ".join(f"'{name}', double({text})" for name, text in sources.items())
    every = runs.withColumn("every", F.expr(f"map_concat(map({own}), extras)"))
    keys = ("experiment", "facet", "x", "series", "seed", "schedule")
    point = Window.partitionBy("experiment", "facet", "x", "series")
    every = every.withColumn("spoilt", F.max("saturated").over(point))
    return (
        every.select(*keys, "spoilt", F.explode("every").alias("metric", "value"))
        .where("value is not null and (not spoilt or metric = 'saturated')")
        .drop("spoilt")
    )


def points(every: DataFrame) -> DataFrame:
    """Return the chart points: mean and 95% confidence interval over the seeds.

    ``every`` comes from :func:`by_metric`.
    """
    keys = ("experiment", "facet", "x", "series", "metric")
    return _interval(every.groupBy(*keys), F.col("value"))


def differences(every: DataFrame, baselines: DataFrame) -> DataFrame:
    """Return how each series differs from its experiment's baseline on the same schedules.

    ``baselines`` has the columns ``experiment`` and ``baseline`` (a series). ``ratio`` is the
    mean of the series divided by the mean of the baseline. A baseline that does not depend on x
    runs once per schedule and is compared with every point on that schedule.
    """
    every = every.join(baselines, on="experiment", how="inner")
    base = every.where(F.col("series") == F.col("baseline")).select(
        "experiment", "facet", "schedule", "metric", F.col("value").alias("base")
    )
    others = every.where(F.col("series") != F.col("baseline"))
    paired = others.join(base, on=["experiment", "facet", "schedule", "metric"], how="inner")
    keys = ("experiment", "facet", "x", "series", "baseline", "metric")
    grouped = paired.withColumn("difference", F.col("value") - F.col("base")).groupBy(*keys)
    ratio = (F.sum("value") / F.nullif(F.sum("base"), F.lit(0.0))).alias("ratio")
    return _interval(grouped, F.col("difference"), ratio)


def _interval(grouped: GroupedData, value: Column, *more: Column) -> DataFrame:
    known = [f"{quantile(freedom)!r}D" for freedom in range(1, 32)]
    at = f"int(least(greatest(runs - 1, 1), {len(known)}))"
    student = f"element_at(array({', '.join(known)}), {at})"
    half = F.expr(f"if(runs > 1, {student} * deviation / sqrt(runs), null)")
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

    ``timed`` includes the deliveries of the warm-up, as ``seconds`` does; ``unsized`` counts the
    runs in which no message was sent after the warm-up, so that no size was measured.
    """
    return runs.groupBy("experiment", "series", "protocol").agg(
        F.count("*").alias("runs"),
        F.sum("deliveries").alias("deliveries"),
        F.sum("seconds").alias("seconds"),
        F.sum(F.expr("extras['timed_deliveries']")).cast("long").alias("timed"),
        F.sum(F.col("entries_per_copy").isNull().cast("int")).alias("unsized"),
        F.sum(F.col("saturated").cast("int")).alias("saturated"),
    )
