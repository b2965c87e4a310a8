"""Assignment of files to workers: one gets the files that need Spark, the others any of the rest.

There is one worker more than cores, because some tests wait more than they work. A second Spark
costs more than it saves: its JVM has to start and warm up, and the first uses both cores.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).resolve().parents[2]


@cache
def needs_spark(path: Path) -> bool:
    """Return whether tests of a file use the Spark session that a worker's tests share."""
    return "spark: SparkSession" in path.read_text(encoding="utf-8")


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Hand whole files to the workers, in order: the tests of a file share clusters and builds."""

    def _assign_work_unit(self, node: Any) -> None:
        """Give a worker the first file that it may have, or end it."""
        with_spark = [scope for scope in self.workqueue if needs_spark(ROOT / scope)]
        if node is self.nodes[0]:
            mine = with_spark or list(self.workqueue)
        else:
            mine = [scope for scope in self.workqueue if scope not in with_spark]
        if not mine:
            node.shutdown()
            return
        self.workqueue.move_to_end(mine[0], last=False)
        super()._assign_work_unit(node)
