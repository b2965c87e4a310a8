"""The Spark jobs of a study: units of work, progress, resumption, aggregation.

Each unit is a small Spark job, and a few are in flight at once. This shows progress without a
``sparkContext``, keeps all cores busy until the end (waves with a barrier would not), and
saves every finished unit, so that an interrupted study can be resumed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from antecede.runs import PARTS, STAGE, RunFolder
from antecede.spark.frames import frame_of
from antecede.spark.session import parallelism
from antecede.study.aggregates import by_metric, differences, overview, points
from antecede.study.api import RUNS, Execute, study
from antecede.study.design import Experiment
from antecede.study.experiments import EXPERIMENTS
from antecede.study.grid import GRID, cost, digest, units
from antecede.study.results import Tables

RUNS_TABLE = "runs"
CANCEL_SECONDS = 5
"""How long to wait for cancelled units; stopping Spark ends any that are left."""


@dataclass(frozen=True, slots=True)
class Done:
    """A study's progress; ``deliveries`` counts the deliveries simulated in this call."""

    runs: int
    total: int
    deliveries: int
    share: float  # of the estimated work, because runs differ in length


Progress = Callable[[Done], None]


class _Tally:
    """Counts finished runs and reports them to ``progress``."""

    def __init__(self, rows: Sequence[dict[str, Any]], progress: Progress | None) -> None:
        self._cost = {row["run_id"]: cost(row) for row in rows}
        self._whole = sum(self._cost.values())
        self._left = self._whole
        self._runs = self._deliveries = 0
        self._progress = progress

    def add(self, runs: pa.Table, *, earlier: bool = False) -> None:
        for run_id, deliveries in zip(
            runs.column("run_id").to_pylist(), runs.column("deliveries").to_pylist(), strict=True
        ):
            if run_id in self._cost:
                self._left -= self._cost[run_id]
                self._runs += 1
                self._deliveries += 0 if earlier else deliveries
        if self._progress is not None:
            share = 1.0 if self._runs == len(self._cost) else 1 - self._left / self._whole
            self._progress(Done(self._runs, len(self._cost), self._deliveries, share))


def finished_runs(folder: Path) -> pa.Table:
    """Return the runs that earlier calls left in ``folder``, whether they finished or not."""
    schema = to_arrow_schema(RUNS)
    found = [
        pq.read_table(path, schema=schema)
        for path in sorted((folder / STAGE / PARTS).glob("*.parquet"))
    ]
    if (folder / RUNS_TABLE).is_dir():
        found.append(pq.read_table(folder / RUNS_TABLE, schema=schema, partitioning="hive"))
    table = pa.concat_tables(found) if found else schema.empty_table()
    seen: dict[str, int] = {}
    for number, run_id in enumerate(table.column("run_id").to_pylist()):
        seen.setdefault(str(run_id), number)
    return table.take(pa.array(sorted(seen.values()), pa.int64()))


def run_grid(
    spark: SparkSession,
    rows: Sequence[dict[str, Any]],
    folder: RunFolder,
    *,
    progress: Progress | None = None,
    run: Execute | None = None,
) -> pa.Table:
    """Run the missing ``rows`` and return the results of all rows, in the grid's order.

    Only a resumed study reuses the runs in its folder, whether the earlier study finished or not.
    """
    earlier = finished_runs(folder.path) if folder.resumed else to_arrow_schema(RUNS).empty_table()
    done = set(earlier.column("run_id").to_pylist())
    todo = [row for row in rows if row["run_id"] not in done]
    tally = _Tally(rows, progress)
    tally.add(earlier, earlier=True)
    fresh = _run_units(spark, units(todo), folder, tally=tally, run=run) if todo else []
    together = pa.concat_tables([earlier, *fresh])
    order = {row["run_id"]: number for number, row in enumerate(rows)}
    ids = [str(value) for value in together.column("run_id").to_pylist()]
    mine = sorted((order[run_id], place) for place, run_id in enumerate(ids) if run_id in order)
    return together.take(pa.array([place for _, place in mine], pa.int64()))


def _run_units(
    spark: SparkSession,
    work: list[list[dict[str, Any]]],
    folder: RunFolder,
    *,
    tally: _Tally,
    run: Execute | None,
) -> list[pa.Table]:
    """Run all units, keeping one more in flight than there are cores."""
    parts = folder.stage / PARTS
    parts.mkdir(parents=True, exist_ok=True)
    results: list[pa.Table] = []
    stopping = threading.Event()

    def one(unit: list[dict[str, Any]]) -> pa.Table:
        if stopping.is_set():
            raise CancelledError
        frame = frame_of(spark, pa.Table.from_pylist(unit, schema=GRID)).coalesce(1)
        table = study(frame, run=run).toArrow()
        name = digest(*(row["run_id"] for row in unit))
        aside = parts / f".{name}"
        pq.write_table(table, aside)
        aside.rename(parts / f"{name}.parquet")
        return table

    pool = ThreadPoolExecutor(parallelism(spark) + 1, thread_name_prefix="study")
    futures: list[Future[pa.Table]] = []
    try:
        futures += [pool.submit(one, unit) for unit in work]
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                results.append(future.result())
                tally.add(results[-1])
            folder.keep_seconds()
    except BaseException:
        stopping.set()
        pool.shutdown(wait=False, cancel_futures=True)
        _cancel(spark, futures)
        raise
    pool.shutdown()
    return results


def _cancel(spark: SparkSession, futures: Sequence[Future[pa.Table]]) -> None:
    """Cancel the jobs in flight, including those that are about to start."""
    deadline = time.monotonic() + CANCEL_SECONDS
    while time.monotonic() < deadline:
        running = [future for future in futures if not future.done()]
        if not running:
            return
        with contextlib.suppress(Exception):
            spark.interruptAll()
        wait(running, timeout=0.3)


def tables(
    spark: SparkSession, runs: pa.Table, experiments: Mapping[str, Experiment] = EXPERIMENTS
) -> Tables:
    """Aggregate a study's runs in Spark and collect the results, which are small."""
    frame = frame_of(spark, runs)
    baselines = spark.createDataFrame(
        [(name, experiment.baseline) for name, experiment in experiments.items()],
        "experiment string, baseline string",
    )
    place = ("experiment", "metric", "facet", "series", "x")
    every = by_metric(frame).persist()
    asked: tuple[tuple[Callable[[], DataFrame], tuple[str, ...]], ...] = (
        (lambda: points(every), place),
        (lambda: differences(every, baselines), place),
        (lambda: overview(frame), ("experiment", "series")),
    )
    with ThreadPoolExecutor(len(asked)) as pool:
        found = list(pool.map(lambda one: _sorted(one[0](), *one[1]), asked))
    every.unpersist()
    return Tables(runs, *found)


def _sorted(frame: DataFrame, *keys: str) -> pa.Table:
    return frame.toArrow().sort_by([(key, "ascending") for key in keys])
