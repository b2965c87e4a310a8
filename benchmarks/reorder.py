"""Reordering a stream on Spark, against the same query without it in the same run.

Rows come from Parquet files, one file a batch, and go to Parquet. Each row names the row before it
at its destination and one of the last ten. With small disorder a row is at most some twenty places
away from where it belongs, with large disorder a fifth of a batch.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from antecede.pipeline import reorder
from antecede.pipeline.spark.session import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCES = 20
DISORDER = {"small": 20, "large": 20_000}
#: The least share of the rate without reorder, at 10 and 100 destinations.
SHARE = {"small": 0.4, "large": 0.3}
RATE = 15_000
#: How much slower the last ten of many batches may be than the ten after the first.
GROWTH = 1.5


def make_rows(rows: int, dests: int, disorder: int, seed: int = 0) -> pa.Table:
    """Return rows of a stream in the order of arrival."""
    rng = np.random.default_rng(seed)
    number = np.arange(rows)
    dest, place = number % dests, number // dests
    source = rng.integers(0, SOURCES, rows)
    other = np.maximum(place - rng.integers(2, 11, rows), 0)
    counts = np.minimum(place, 2)
    offsets = np.concatenate(([0], np.cumsum(counts)))
    both = np.stack((number - dests, other * dests + dest), axis=1)
    named = both[np.stack((counts >= 1, counts >= 2), axis=1)]
    ids = np.char.add("message-", number.astype("U10"))
    # A source's numbers count its rows at one destination.
    channel = dest * SOURCES + source
    by_channel = np.argsort(channel, kind="stable")
    lengths = np.bincount(channel, minlength=dests * SOURCES)
    starts = np.concatenate(([0], np.cumsum(lengths)[:-1]))
    seq = np.empty(rows, np.int64)
    seq[by_channel] = number - np.repeat(starts, lengths) + 1
    causes: Any = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(ids[named]))
    columns = {
        "id": pa.array(ids),
        "dest": pa.array(np.char.add("d", dest.astype("U6"))),
        "source": pa.array(np.char.add("s", source.astype("U6"))),
        "seq": pa.array(seq),
        "causes": causes,
        "payload": pa.array(np.char.add(ids, "-" * 80)),
    }
    order = np.argsort(number + rng.random(rows) * disorder, kind="stable")
    return pa.table(columns).take(pa.array(order))


def write_batches(folder: Path, table: pa.Table, batches: int) -> None:
    folder.mkdir(parents=True)
    size = -(-len(table) // batches)
    for number in range(batches):
        part = table.slice(number * size, size)
        pq.write_table(part, folder / f"{number:04}.parquet", row_group_size=size // 2 + 1)


def run(
    spark: SparkSession, folder: Path, horizon: float | None = None
) -> tuple[list[float], list[int], int]:
    """Run the query, reordering if there is a horizon; return seconds and state, and rows out."""
    given = folder / "in"
    work = Path(tempfile.mkdtemp(dir=folder))
    schema = spark.read.parquet(str(given)).schema
    rows: DataFrame = (
        spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(given))
    )
    if horizon is not None:
        rows = reorder(rows, horizon=horizon)
    query = (
        rows.writeStream.format("parquet")
        .option("path", str(work / "out"))
        .option("checkpointLocation", str(work / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    done = [p for p in query.recentProgress if p.numInputRows]
    seconds = [p.durationMs["triggerExecution"] / 1000 for p in done]
    state = [p.stateOperators[0].memoryUsedBytes if p.stateOperators else 0 for p in done]
    count = pq.read_table(work / "out", columns=["id"]).num_rows
    shutil.rmtree(work)
    return seconds, state, count


def measure(spark: SparkSession, folder: Path, rows: int, batches: int) -> bool:
    """Print a line per case; return whether every bound was met."""
    met = True
    print("destinations  disorder  rows/s without  rows/s with  share  bound")
    for dests in (1, 10, 100):
        for disorder, window in DISORDER.items():
            case = folder / f"{dests}-{disorder}"
            write_batches(case / "in", make_rows(rows, dests, window), batches)
            plain, _, _ = run(spark, case)
            ours, _, count = run(spark, case, horizon=600)
            assert count == rows, (count, rows)
            # The first batch starts the Python workers.
            rates = [rows / batches / float(np.median(times[1:])) for times in (plain, ours)]
            share, bound = rates[1] / rates[0], SHARE[disorder] if dests > 1 else None
            good = bound is None or (share >= bound and rates[1] >= RATE)
            met = met and good
            shown = "-" if bound is None else f"{bound} {'met' if good else 'MISSED'}"
            print(
                f"{dests:12} {disorder:>9} {rates[0]:15,.0f} {rates[1]:12,.0f} {share:6.2f}  "
                f"{shown}",
                flush=True,
            )
            shutil.rmtree(case)
    return met


def stays_flat(spark: SparkSession, folder: Path, batches: int, size: int) -> bool:
    """Run many batches; compare the time and the state of the last with those after the first."""
    case = folder / "flat"
    write_batches(case / "in", make_rows(batches * size, 10, 20), batches)
    seconds, state, count = run(spark, case, horizon=5)
    assert count == batches * size
    edge = max(1, batches // 5)
    early, last = np.median(seconds[1 : 1 + edge]), np.median(seconds[-edge:])
    growth = float(last / early)
    print(
        f"{batches} batches of {size:,} rows: {early:.2f} s a batch early, {last:.2f} s at the "
        f"end, x{growth:.2f} (bound {GROWTH}); state {state[edge] / 2**20:.1f} MiB early, "
        f"{state[-1] / 2**20:.1f} MiB at the end"
    )
    return growth <= GROWTH


def main(*, quick: bool) -> bool:
    rows, batches = (8_000, 4) if quick else (500_000, 5)
    folder = Path(tempfile.mkdtemp(prefix="antecede-bench-"))
    begun = time.perf_counter()
    try:
        with session("local[2]", app="antecede-bench", memory="2g") as spark:
            warm = folder / "warm"
            write_batches(warm / "in", make_rows(4_000, 10, 20), 2)
            run(spark, warm)
            run(spark, warm, horizon=600)
            met = measure(spark, folder, rows, batches)
            flat = stays_flat(spark, folder, 6 if quick else 50, 500 if quick else 10_000)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{time.perf_counter() - begun:.0f} s in all")
    return quick or (met and flat)
