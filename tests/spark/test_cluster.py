"""A real standalone cluster whose Python has never heard of the package.

The driver is a process of its own: one process can hold only one Spark. It holds its session for
all tests of this file, and runs the code that they send it.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import antecede
from antecede.audit.api import audit_table
from antecede.events.sources import table_of
from tests.audit.test_spark import hard_log, write_in_time
from tests.support.spark import lend_kernels_to, light_jvm, lighten
from tests.support.streams import audited, check_order, rows_table, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.spark import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

DRIVER = """
    import json, sys
    sys.path.insert(0, {source!r})
    {lighten}
    from antecede.spark.session import session

    def say(value):
        print(json.dumps(value), flush=True)

    with session({master!r}, light=True, wait=600, config={config!r}) as spark:
        for line in sys.stdin:
            exec(json.loads(line), {{"__name__": "__main__", "spark": spark, "say": say}})
            say("done")
"""


@dataclass
class Driver:
    """A process with a session on the cluster; its answers are lines of JSON."""

    process: subprocess.Popen[str]
    errors: Path

    def begin(self, code: str) -> None:
        """Make the driver run ``code``, in which ``spark`` is the session and ``say`` answers."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(textwrap.dedent(code)) + "\n")
        self.process.stdin.flush()

    def hear(self) -> Any:
        """Return the next answer."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.errors.read_text(encoding="utf-8")[-3000:]
        return json.loads(line)

    def rest(self) -> list[Any]:
        """Return the answers up to the end of the code."""
        return list(iter(self.hear, "done"))


@pytest.fixture(scope="module")
def driver(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    source = str(Path(antecede.__path__[0]).parent)
    config = {
        "spark.executor.extraJavaOptions": light_jvm(),
        "spark.sql.shuffle.partitions": "2",
    }
    code = textwrap.dedent(DRIVER).format(
        source=source, lighten=lighten(), master=cluster.master, config=config
    )
    errors = tmp_path_factory.mktemp("driver") / "errors"
    with (
        errors.open("w", encoding="utf-8") as stream,
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stream,
            text=True,
            env=cluster.environment(),
        ) as process,
    ):
        yield Driver(process, errors)
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.wait(timeout=600)


@pytest.fixture(scope="module")
def probed(cluster: Cluster, driver: Driver) -> Any:
    """Return the number of cores, and the tasks' reports on their Python and their files."""
    driver.begin(
        f"""
        import pyarrow as pa
        from antecede.spark.session import parallelism

        def probe(batches):
            import os, sys
            from antecede.spark.ship import use_unpacked
            use_unpacked()
            import antecede.spark.java
            for _ in batches:
                seen = os.listdir({str(cluster.hidden)!r})
                path = antecede.spark.java.__file__
                row = {{"path": [path], "python": [sys.executable], "seen": [len(seen)]}}
                yield pa.RecordBatch.from_pydict(row)

        open({str(cluster.hidden / "drivers")!r}, "w").close()
        rows = spark.range(2).mapInArrow(probe, "path string, python string, seen long")
        say([parallelism(spark), rows.toArrow().to_pylist()])
        """
    )
    (answer,) = driver.rest()
    return answer


@pytest.fixture
def lend_kernels(probed: Any) -> Callable[[], None]:
    """Return a function that copies this machine's compiled kernels to the executors' copy."""
    return lambda: lend_kernels_to(Path(probed[1][0]["path"]).parents[1])


def test_the_package_travels_and_is_used_unpacked(cluster: Cluster, probed: Any) -> None:
    cores, rows = probed
    assert cores == 2
    for row in rows:
        path = Path(row["path"])
        assert path.is_file()
        assert not path.is_relative_to(Path(__file__).parents[2])
        assert Path(row["python"]) == cluster.python
        assert row["seen"] == (0 if cluster.hides else 1)


STUDY = """
    from antecede.study.jobs import run_grid
    from antecede.study.design import Case
    from antecede.study.grid import grid_rows
    from antecede.runs import RunFolder

    fixed = {{"cast": "multicast", "received": 40, "warm_up": 5}}
    cases = [
        Case(name, "paper", {{"n": 4 + seed, **fixed}}, seed, name, seed)
        for seed in range(8)
        for name in ("matrix", "vectors")
    ]
    rows = grid_rows("cluster", cases, seed=0)
    with RunFolder.open({out!r}, "study", options={{}}, resumable=True) as folder:
        found = run_grid(spark, rows, folder, progress=lambda done: say(done.runs))
        folder.write_table("runs", found)
        folder.finish({{}})
    rows = found.to_pylist()
    say([{{k: v for k, v in row.items() if k != "seconds"}} for row in rows])
"""


def test_a_cluster_measures_what_one_machine_does_and_a_lost_worker_changes_nothing(
    cluster: Cluster,
    driver: Driver,
    lend_kernels: Callable[[], None],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """The workers cannot see the folder; one of them is killed once results come in."""
    said = list[Any]()
    code = textwrap.dedent(STUDY.format(out=str(tmp_path / "alone")))
    exec(code, {"spark": spark, "say": said.append})
    alone = json.loads(json.dumps(said[-1]))
    lend_kernels()
    driver.begin(STUDY.format(out=str(cluster.hidden / "together")))
    while not driver.hear():
        pass
    cluster.kill_worker()
    together = driver.rest()[-1]
    assert together == alone
    assert len(together) == 16
    assert (cluster.hidden / "together" / "summary.json").is_file()


def test_an_audit_gives_the_same_answer_also_after_a_lost_worker(
    cluster: Cluster, driver: Driver, lend_kernels: Callable[[], None], tmp_path: Path
) -> None:
    cluster.complete()
    table = table_of(hard_log())
    expected = json.loads(json.dumps(audit_table(table).tables["violations"].to_pylist()))
    lend_kernels()
    path = write_in_time(table, tmp_path / "log.parquet", 100)
    driver.begin(
        f"""
        from antecede.audit.api import audit
        frame = spark.read.parquet({path!r})
        for one in (frame, frame.filter("seq > 0")):
            found = audit(one, windows=4)
            say([found.summary["arrangement"], found.tables["violations"].to_pylist()])
        """
    )
    first = driver.hear()
    cluster.kill_worker()
    answers = [first, *driver.rest()]
    assert [kind for kind, _ in answers] == ["slices", "blobs"]
    assert all(rows == expected for _, rows in answers)


def test_a_stream_outlives_a_worker(
    cluster: Cluster, driver: Driver, lend_kernels: Callable[[], None], tmp_path: Path
) -> None:
    """Rows come out once each and in order, although the state moves to another machine."""
    cluster.complete()
    lend_kernels()
    copies, batches, history = stream(random.Random(3), messages=80, spread=40)
    come, out, count = tmp_path / "in", tmp_path / "out", 3
    come.mkdir()
    for number in range(count):
        part = [row for batch in batches[number::count] for row in batch]
        pq.write_table(rows_table(part), come / f"{number}.parquet")
    driver.begin(
        f"""
        from pathlib import Path
        from antecede.reorder.files import read_files, run_files
        run_files(
            read_files(spark, Path({str(come)!r}), "parquet", files=1),
            Path({str(out)!r}),
            checkpoint=Path({str(tmp_path / "checkpoint")!r}),
            options={{"buckets": 2}},
            every=None,
            show=lambda figures: say([figures.batch, figures.held]),
        )
        """
    )
    first, held = driver.hear()
    cluster.kill_worker()
    assert (first, held > 0) == (0, True)
    assert [number for number, _ in driver.rest()] == list(range(1, count))
    found = pq.read_table(out / "ordered").to_pylist()
    assert len(found) == len(copies)
    check_order(found, copies)
    assert audited(history, found).verdict == "ordered"
