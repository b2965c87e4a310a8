"""Cuts for any DataFrame: propose them by time, then lower them by the events around them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add, or_
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from antecede.arrays import Ints
from antecede.events.hashing import hash_names
from antecede.pipeline.audits.packing import ProcessCodes, events_in, packed_columns
from antecede.pipeline.audits.windows.cuts import NO_SEQ, lower, offsets, propose, rising
from antecede.pipeline.audits.windows.matching import Events, joined
from antecede.pipeline.spark.events import validity

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: How many times are sampled to cut the log into equal parts.
SAMPLE_ROWS = 100_000
#: The width of the band collected around each cut, as a fraction of the distance between cuts.
BAND = 0.01
#: Spark optimises a disjunction of this many places at once; one of 64 took minutes.
DISJUNCTION_MAX = 12
#: How often the band is widened if clocks turn out to be further apart.
WIDENINGS = 3


@dataclass
class Stats:
    """What the survey of a log found; ``low`` and ``high`` are each process's ends."""

    names: list[str]
    events: int
    rejected: int
    low: Ints
    high: Ints
    timed: bool
    early: float
    late: float


def survey(frame: DataFrame) -> Stats:
    """Count the events and list the processes with their seqs and times."""
    from pyspark.sql import functions as F

    good = validity(frame)
    has_time = "time" in frame.columns
    when = F.col("time").cast("double") if has_time else F.lit(None).cast("double")
    rows = (
        frame.select(F.when(good, F.col("process")).alias("process"), "seq", when.alias("time"))
        .groupBy("process")
        .agg(
            F.count(F.lit(1)).alias("rows"),
            F.min("seq").alias("low"),
            F.max("seq").alias("high"),
            F.count("time").alias("timed"),
            F.min("time").alias("early"),
            F.max("time").alias("late"),
        )
        .collect()
    )
    known = sorted((row for row in rows if row["process"] is not None), key=lambda r: r["process"])
    rejected = sum(row["rows"] for row in rows if row["process"] is None)
    timed = has_time and all(
        row["timed"] == row["rows"] and np.isfinite([row["early"], row["late"]]).all()
        for row in known
    )
    return Stats(
        [row["process"] for row in known],
        sum(row["rows"] for row in known),
        rejected,
        np.array([row["low"] for row in known], np.int64),
        np.array([row["high"] for row in known], np.int64),
        timed,
        min((row["early"] for row in known), default=0.0) if timed else 0.0,
        max((row["late"] for row in known), default=0.0) if timed else 1.0,
    )


def with_hint(frame: DataFrame, stats: Stats) -> DataFrame:
    """Add ``hint``: the time, or what fraction of its own events the process has behind it."""
    from pyspark.sql import functions as F

    if stats.timed:
        return frame.withColumn("hint", F.col("time").cast("double"))
    import pyarrow as pa

    span = np.maximum(stats.high - stats.low, 1).astype(float)
    table = pa.table({"process": stats.names, "low": stats.low, "span": span})
    ends = frame.sparkSession.createDataFrame(table)
    joined = frame.join(F.broadcast(ends), "process", how="inner")
    return joined.withColumn("hint", (F.col("seq") - F.col("low")) / F.col("span"))


def find_cuts(
    frame: DataFrame, stats: Stats, windows: int, salt: int, edges: Events | None = None
) -> Ints:
    """Return cuts, one row of seqs each, as consistent as the events around them and edges show."""
    n = len(stats.names)
    hinted = with_hint(frame, stats)
    places = _places(hinted, stats, windows)
    if not places.size:
        return np.empty((0, n), np.int64)
    gap = float(np.min(np.diff(np.append(places, 2 * places[-1] - places[0])), initial=np.inf))
    width = BAND * (gap if np.isfinite(gap) and gap > 0 else 1.0)
    events, hint = _band(hinted, stats, places, width, salt)
    ahead = offsets(events, hint, n) if stats.timed else np.zeros(n)
    for _ in range(WIDENINGS):
        most = float(np.abs(ahead).max(initial=0.0))
        if most < width / 2:
            break
        width = max(4 * most, 4 * width)
        events, hint = _band(hinted, stats, places, width, salt)
        ahead = offsets(events, hint, n)
    found = []
    for place in places:
        near = np.flatnonzero(np.abs(hint - place) <= width)
        around = events.take(near)
        proposed = propose(around, hint[near], place + ahead)
        found.append(lower(proposed, joined([around, edges]) if edges is not None else around))
    return np.array(rising(_with_silent(hinted, stats, found, places, ahead)))


def _places(hinted: DataFrame, stats: Stats, windows: int) -> NDArray[np.float64]:
    """Return the hints that cut the log into equal parts."""
    parts = np.arange(1, windows) / windows
    if not stats.timed:
        return parts
    fraction = min(1.0, SAMPLE_ROWS / stats.events)
    rows = hinted.select("hint")
    sampled = rows.sample(fraction=fraction, seed=0) if fraction < 1.0 else rows
    times = np.asarray(sampled.toArrow().column("hint").combine_chunks())
    return np.unique(np.quantile(times, parts)) if times.size else np.empty(0)


def _around(places: NDArray[np.float64], width: float) -> Column:
    """Return whether a hint is near one of ``places``.

    With a disjunction, Spark can skip files by their statistics, but its optimiser multiplies it
    out, so with many places a sum is quicker.
    """
    from pyspark.sql import functions as F

    near = [F.col("hint").between(place - width, place + width) for place in places.tolist()]
    if len(near) <= DISJUNCTION_MAX:
        return reduce(or_, near)
    return reduce(add, [inside.cast("int") for inside in near]) > 0


def _band(
    hinted: DataFrame, stats: Stats, places: NDArray[np.float64], width: float, salt: int
) -> tuple[Events, NDArray[np.float64]]:
    """Collect the events around all places."""
    near = hinted.filter(_around(places, width))
    table = near.select(*packed_columns(hinted, salt), "hint").toArrow().combine_chunks()
    events = events_in(table, ProcessCodes(hash_names(stats.names)))
    return events, np.array(table.column("hint"))


def _with_silent(
    hinted: DataFrame,
    stats: Stats,
    cuts: list[Ints],
    places: NDArray[np.float64],
    ahead: NDArray[np.float64],
) -> list[Ints]:
    """Fill in the seqs of processes that have no event near a cut."""
    from pyspark.sql import functions as F

    silent = sorted({int(p) for cut in cuts for p in np.flatnonzero(cut == NO_SEQ)})
    if not silent:
        return cuts
    offset = F.create_map(*[F.lit(x) for p in silent for x in (stats.names[p], float(ahead[p]))])
    own = F.col("hint") - offset[F.col("process")]
    last = [
        F.max(F.when(own <= F.lit(place), F.col("seq"))).alias(f"cut{k}")
        for k, place in enumerate(places.tolist())
    ]
    names = [stats.names[p] for p in silent]
    rows = hinted.filter(F.col("process").isin(names)).groupBy("process").agg(*last).collect()
    found = {row["process"]: row for row in rows}
    for k, cut in enumerate(cuts):
        for p in np.flatnonzero(cut == NO_SEQ):
            value = found[stats.names[p]][f"cut{k}"]
            cut[p] = stats.low[p] - 1 if value is None else value
    return cuts
