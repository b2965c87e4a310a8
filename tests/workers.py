"""Which worker gets which file: two share the files that need Spark, any gets the others.

There is a worker more than cores, because some tests wait more than they work. Each worker that
needs Spark starts its own, which costs more than it saves on the third.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from xdist.scheduler import LoadFileScheduling

ROOT = Path(__file__).resolve().parents[1]
WITH_SPARK = 2


@cache
def needs_spark(path: Path) -> bool:
    """Tell whether tests of a file use the session that all tests of a worker share."""
    return "spark: SparkSession" in path.read_text(encoding="utf-8")


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Hand whole files to the workers, in order: the tests of a file share clusters and builds."""

    def _assign_work_unit(self, node: Any) -> None:
        """Give a worker the first file that it may have, or nothing more."""
        has_spark = node in self.nodes[:WITH_SPARK]
        for scope in self.workqueue:
            if has_spark or not needs_spark(ROOT / scope):
                self.workqueue.move_to_end(scope, last=False)
                super()._assign_work_unit(node)
                return
        node.shutdown()
