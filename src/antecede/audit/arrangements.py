"""Choose the arrangement for a log on Spark: by row groups if its files allow it, else shuffled."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from antecede.audit.row_group_windows import OVERLAP_MAX, RowGroupWindows, row_groups
from antecede.audit.shuffled_windows import (
    ProcessCodes,
    ShuffledWindows,
    Stats,
    events_in,
    find_cuts,
    packed_columns,
    survey,
)
from antecede.audit.windows.matching import Events
from antecede.audit.windows.rounds import Arrangement, HashCollisionError
from antecede.audit.windows.vector_clocks import clock_edges
from antecede.events.hashing import hash_names
from antecede.events.sources import refuse_empty
from antecede.events.tables import CLOCK
from antecede.spark.frames import plan_of, rejected_rows, validity
from antecede.spark.session import parallelism
from antecede.spark.tasks import run_specs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Windows per core: enough to balance the load, few enough to keep crossing messages rare.
WINDOWS_PER_CORE = 3
#: With fewer events than this a window is not worth a task; with more it is too large for one.
EVENTS_MIN, EVENTS_MAX = 50_000, 8_000_000


def window_count(events: int, cores: int) -> int:
    """Return how many windows suit a log of this size."""
    most = max(1, events // EVENTS_MIN)
    least = -(-events // EVENTS_MAX)
    return max(least, min(most, WINDOWS_PER_CORE * cores))


def arrange_shuffled(frame: DataFrame, windows: int | None, salt: int) -> Arrangement:
    """Arrange any DataFrame as shuffled windows."""
    stats = survey(frame)
    if not stats.events:
        refuse_empty("the log", rejected_rows(frame, "", stats.rejected), stats.rejected)
    good = frame.filter(validity(frame)) if stats.rejected else frame
    count = windows or window_count(stats.events, parallelism(frame.sparkSession))
    edges, ahead = edges_in(good, stats, salt)
    return ShuffledWindows(
        good, stats, find_cuts(good, stats, count, salt, edges), salt, edges, ahead
    )


def edges_in(
    frame: DataFrame, stats: Stats, salt: int
) -> tuple[Events | None, list[tuple[int, int, int]]]:
    """Return the ends of the edges that clocks state, and the clocks ahead of the log.

    The clocks are read here, on the driver: an entry counts events of a process, whose order is
    known only from all of them.
    """
    from pyspark.sql import functions as F

    if CLOCK not in frame.columns:
        return None, []
    clock = F.col(CLOCK).cast("map<string,bigint>").alias(CLOCK)
    table = frame.select(*packed_columns(frame, salt), clock).toArrow().combine_chunks()
    processes = ProcessCodes(hash_names(stats.names))
    if processes.collide:
        raise HashCollisionError
    return clock_edges(events_in(table, processes), table.column(CLOCK), stats.names)


def plain_files(frame: DataFrame) -> list[str] | None:
    """Return the files of a frame that consists only of Parquet files on this file system.

    A frame that was changed after reading differs from its files, so its plan must be the bare
    relation. Without a plan the answer is None.
    """
    text = plan_of(frame)
    if (
        text is None
        or "\n" in text
        or not text.startswith("Relation [")
        or not text.endswith("] parquet")
    ):
        return None
    files = frame.inputFiles()
    if not files or not all(file.startswith("file:") for file in files):
        return None
    return sorted(unquote(urlparse(file).path) for file in files)


def arrange(frame: DataFrame, windows: int | None, salt: int) -> Arrangement:
    """Arrange Parquet files by row groups if those are in order, anything else by shuffling."""
    files = plain_files(frame)
    groups = row_groups(files) if files else None
    if groups:
        spark = frame.sparkSession
        count = windows or window_count(sum(group.rows for group in groups), parallelism(spark))
        run = partial(run_specs, spark)
        found = RowGroupWindows(run, groups, count, salt, dests="dests" in frame.columns)
        if found.windows == 1 or found.overlap() <= OVERLAP_MAX:
            return found
    return arrange_shuffled(frame, windows, salt)
