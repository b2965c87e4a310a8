"""A real standalone cluster whose Python has never heard of the package.

The driver is a process of its own: one process can hold only one Spark.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.pipeline.conftest import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.cluster]


def drive(cluster: Cluster, code: str, *, timeout: float = 240) -> Any:
    """Run ``code`` as a driver of ``cluster``; it prints one JSON document as its last line."""
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        env=cluster.environment(),
        timeout=timeout,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-3000:]
    return json.loads(answer.stdout.splitlines()[-1])


def test_the_package_travels_and_settles(cluster: Cluster) -> None:
    found = drive(
        cluster,
        f"""
        import json
        import pyarrow as pa
        from antecede.pipeline.session import parallelism, session

        def probe(batches):
            import os, sys
            from antecede.pipeline.ship import settle
            settle()
            import antecede.pipeline.java
            for _ in batches:
                seen = os.listdir({str(cluster.hidden)!r})
                row = {{"path": [antecede.pipeline.java.__file__], "python": [sys.executable], "seen": [len(seen)]}}
                yield pa.RecordBatch.from_pydict(row)

        open({str(cluster.hidden / "drivers")!r}, "w").close()
        with session({cluster.master!r}) as spark:
            rows = spark.range(2).mapInArrow(probe, "path string, python string, seen long")
            print(json.dumps([parallelism(spark), rows.toArrow().to_pylist()]))
        """,
    )
    cores, rows = found
    assert cores == 2
    for row in rows:
        path = Path(row["path"])
        assert path.is_file()
        assert not path.is_relative_to(Path(__file__).parents[2])
        assert Path(row["python"]) == cluster.python
        assert row["seen"] == (0 if cluster.hides else 1)
