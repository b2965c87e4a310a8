"""Figures of a query for each batch, which a listener takes from its progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener

#: The name under which a query's observed metrics appear in its progress.
METRICS = "reorder"


@dataclass(frozen=True)
class Figures:
    """One batch: rows in and out, and what is held after it."""

    batch: int
    rows_in: int
    rows_out: int
    duplicates: int
    rejected: int
    held: int
    oldest_seconds: float
    state_rows: int
    seconds: float


class Progress(StreamingQueryListener):
    """Follows one query: passes the figures of each batch to ``show`` and adds them up.

    Give it to ``spark.streams.addListener`` before the query starts. A batch reports what is held
    only for the buckets that had something to do; here all buckets are added up.
    """

    def __init__(self, show: Callable[[Figures], object]) -> None:
        self.show = show
        self.rows_in = self.rows_out = self.duplicates = self.rejected = self.batches = 0
        self._held: dict[int, int] = {}
        self._since: dict[int, int | None] = {}
        self._ended = threading.Event()

    @property
    def held(self) -> int:
        """How many rows are held."""
        return sum(self._held.values())

    def begin(self) -> None:
        """Prepare for a query that is about to start."""
        self._ended.clear()

    def wait(self, seconds: float = 30.0) -> bool:
        """Wait until Spark has reported everything about the query; return whether it has."""
        return self._ended.wait(seconds)

    def onQueryStarted(self, event: Any) -> None:
        """Begin."""

    def onQueryProgress(self, event: Any) -> None:
        """Take the figures of a batch."""
        self.add(event.progress)

    def onQueryIdle(self, event: Any) -> None:
        """Ignore that nothing has arrived."""

    def onQueryTerminated(self, event: Any) -> None:
        """Note the end: all figures have been reported."""
        self._ended.set()

    def add(self, progress: Any) -> None:
        """Take the progress of one batch."""
        row = progress.observedMetrics.get(METRICS)
        found = None if row is None else _plain(row)
        if found is None or found["rows_in"] is None:
            return
        for bucket in map(_plain, found["buckets"]):
            self._held[bucket["bucket"]] = bucket["held"]
            self._since[bucket["bucket"]] = bucket["oldest"]
        self.rows_in += found["rows_in"]
        self.rows_out += found["rows_out"]
        self.duplicates += found["duplicates"]
        self.rejected += found["rejected"]
        self.batches += 1
        states = progress.stateOperators
        oldest = min((since for since in self._since.values() if since is not None), default=None)
        self.show(
            Figures(
                progress.batchId,
                found["rows_in"],
                found["rows_out"],
                found["duplicates"],
                found["rejected"],
                self.held,
                0.0 if oldest is None else max(0.0, time.time() - oldest / 1e6),
                states[0].numRowsTotal if states else 0,
                progress.durationMs.get("triggerExecution", 0) / 1000,
            )
        )


def _plain(row: Any) -> Mapping[str, Any]:
    """Return a row of metrics by name: Spark Connect has dictionaries inside rows."""
    found: Mapping[str, Any] = row if isinstance(row, dict) else row.asDict()
    return found
