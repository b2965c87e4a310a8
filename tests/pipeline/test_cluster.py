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


def drive(cluster: Cluster, code: str, *, timeout: float = 1800) -> Any:
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


def test_the_package_travels_and_is_used_unpacked(cluster: Cluster) -> None:
    found = drive(
        cluster,
        f"""
        import json
        import pyarrow as pa
        from antecede.pipeline.spark.session import parallelism, session

        def probe(batches):
            import os, sys
            from antecede.pipeline.spark.ship import use_unpacked
            use_unpacked()
            import antecede.pipeline.spark.java
            for _ in batches:
                seen = os.listdir({str(cluster.hidden)!r})
                path = antecede.pipeline.spark.java.__file__
                row = {{"path": [path], "python": [sys.executable], "seen": [len(seen)]}}
                yield pa.RecordBatch.from_pydict(row)

        open({str(cluster.hidden / "drivers")!r}, "w").close()
        with session({cluster.master!r}, wait=600) as spark:
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


STUDY = """
    import json, sys
    from antecede.pipeline.studies.jobs import run_grid
    from antecede.pipeline.studies.design import Case
    from antecede.pipeline.studies.grid import grid_rows
    from antecede.pipeline.runs import RunFolder
    from antecede.pipeline.spark.session import session

    fixed = {{"cast": "multicast", "received": 40, "warm_up": 5}}
    cases = [
        Case(name, "paper", {{"n": 4 + seed, **fixed}}, seed, name, seed)
        for seed in range({seeds})
        for name in ("matrix", "vectors")
    ]
    rows = grid_rows("cluster", cases, seed=0)

    def progress(done):
        print("done", done.runs, file=sys.stderr, flush=True)

    with session({master!r}, light=True, wait=600) as spark:
        with RunFolder.open({out!r}, "study", options={{}}, resumable=True) as folder:
            found = run_grid(spark, rows, folder, progress=progress)
            folder.write_table("runs", found)
            folder.finish({{}})
    timed = ("seconds",)
    rows = found.to_pylist()
    print(json.dumps([{{k: v for k, v in row.items() if k not in timed}} for row in rows]))
"""


def test_a_cluster_measures_what_one_machine_does_and_a_lost_worker_changes_nothing(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The workers cannot see the folder; one of them is killed once results come in."""
    alone = drive(
        cluster,
        STUDY.format(seeds=8, master="local[2]", out=str(tmp_path / "alone")),
    )
    code = STUDY.format(seeds=8, master=cluster.master, out=str(cluster.hidden / "together"))
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=cluster.environment(),
    ) as driver:
        assert driver.stderr is not None
        heard = []
        for line in driver.stderr:
            heard.append(line)
            if line.startswith("done ") and line != "done 0\n":
                break
        cluster.kill_worker()
        answer, said = driver.communicate(timeout=1800)
    assert driver.returncode == 0, ("".join(heard) + said)[-3000:]
    together = json.loads(answer.splitlines()[-1])
    assert together == alone
    assert len(together) == 16
    assert (cluster.hidden / "together" / "summary.json").is_file()
