"""All four verbs on a real Spark Connect server, which runs on this machine.

A process that has a session of its own cannot connect to a server. So each test is a process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.spark import connect_server

pytestmark = pytest.mark.spark
pytest.importorskip("grpc", reason="needs pyspark[connect]")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with connect_server() as address:
        yield address


def run(code: str, *words: object) -> Any:
    """Run code that prints JSON last, in a process of its own; return what it printed."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


PIPELINE = """
import json, random, sys
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq
from antecede.pipeline import advise, audit, reorder, session, study
from antecede.reorder.files import read_files, run_files
from antecede.reorder.waiting import waiting
from tests.support.streams import Sent, audited, check_order, rows_table, stream
from antecede.study.grid import GRID, Case, grid_rows

master, folder = sys.argv[1], Path(sys.argv[2])
said = {}
with session(master) as spark:
    said["is_connect"] = type(spark).__module__.startswith("pyspark.sql.connect")
    events = [("a", 1, "send", "m", ["b"]), ("b", 1, "deliver", "m", None)]
    frame = spark.createDataFrame(
        events, "process string, seq long, kind string, message string, dests array<string>")
    for engine in ("spark", "local"):
        found = audit(frame, engine=engine)
        said[f"audit {engine}"] = [found.verdict, found.violations.count(), found.missing.count()]
    said["advise"] = advise(frame, protocols=["optimal"]).select("protocol", "status").collect()
    rows = spark.createDataFrame([("2", "1"), ("1", None)], "id string, causes string")
    said["reorder"] = [row.id for row in reorder(rows).orderBy("position").collect()]
    copies, batches, history = stream(random.Random(3), messages=60, spread=30)
    come = folder / "in"
    come.mkdir()
    for number, batch in enumerate(batches):
        pq.write_table(rows_table(batch), come / f"{number:03}.parquet")
    late = [Sent("x", "p0", "p1", 999, ("never",))]
    pq.write_table(rows_table(late), come / "999.parquet")
    figures = []
    totals = run_files(
        read_files(spark, come, "parquet", files=4), folder / "out",
        checkpoint=folder / "checkpoint", options={"buckets": 2}, every=None, show=figures.append)
    ordered = pq.read_table(folder / "out" / "ordered").to_pylist()
    check_order(ordered, copies)
    assert audited(history, ordered).verdict == "ordered"
    said["stream"] = [len(ordered) == len(copies), totals.rows_out == len(copies), totals.held]
    said["figures"] = sum(batch.rows_in for batch in figures)
    said["came"] = sum(map(len, batches)) + 1
    held = waiting(spark, str(folder / "checkpoint")).collect()
    said["waiting"] = [list(row.lacks) for row in held]
    small = {"n": 5, "received": 200}
    cases = [Case(name, "paper", small, 1, name, 5) for name in ("matrix", "optimal")]
    grid = pa.Table.from_pylist(grid_rows("test", cases, seed=0), schema=GRID)
    said["study"] = sorted(row.protocol for row in study(spark.createDataFrame(grid)).collect())
print(json.dumps(said))
"""


def test_all_four_verbs(server: str, tmp_path: Path) -> None:
    said = run(PIPELINE, server, tmp_path)
    assert said["is_connect"]
    assert said["audit spark"] == said["audit local"] == ["ordered", 0, 0]
    assert said["advise"] == [["optimal", "run"]]
    assert said["reorder"] == ["1", "2"]
    assert said["stream"] == [True, True, 1]
    assert said["figures"] == said["came"]
    assert said["waiting"] == [["never"]]
    assert said["study"] == ["matrix", "optimal"]
