"""``antecede reorder``: files to files, restarts, kill -9, and what is held."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from antecede.cli.main import command_line
from antecede.cli.reorder import _show_waiting
from antecede.errors import UsageError
from tests.support.spark import family, lighten
from tests.support.streams import Sent, audited, check_order, rows_table, stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: More kills for a soak: the environment sets the number.
KILLS = int(os.environ.get("ANTECEDE_KILLS", "1"))
# The JVM starts some seconds sooner if it compiles less. Tests that run in the background may have
# been told to ignore interrupts, and so would this.
CALL = """
import functools, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from antecede.cli.main import app
from antecede.spark import session as module
module.session = functools.partial(module.session, light=True)
app(sys.argv[1:])
"""


def call(*words: object) -> list[str]:
    return [sys.executable, "-c", f"{lighten()}\n{CALL}", "reorder", *map(str, words)]


def end_all(query: subprocess.Popen[str], rng: random.Random) -> None:
    """Kill any one process of a query, and then all of them."""
    everyone = family(query.pid)
    rng.shuffle(everyone)
    for number, pid in enumerate(everyone):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if not number:
            time.sleep(rng.choice([0, 0.3]))
    query.wait(timeout=600)


def latest(folder: Path) -> int:
    return max((int(path.name) for path in folder.glob("[0-9]*")), default=-1)


def rows(out: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(out / "ordered").to_pylist()
    return found


def test_killed_at_random_it_loses_nothing_and_then_says_what_it_holds(
    tmp_path: Path,
    spark: SparkSession,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Driver, JVM or a Python worker dies first, in the middle of a batch; then all do."""
    rng = random.Random(11)
    copies, batches, history = stream(rng, messages=max(160, 40 * KILLS), spread=80)
    come, out, torn = tmp_path / "in", tmp_path / "out", 0
    come.mkdir()
    # A batch for each start, another one for the time until the kill, and some for the last run.
    size = -(-len(batches) // (2 * KILLS + 2))
    for number, batch in enumerate(batches):
        pq.write_table(rows_table(batch), come / f"{number:04}.parquet")
    small = ("--memory", "1g", "--master", "local[2]", "--buckets", 2)
    words = (come, out, "--once", "--files", size, *small)
    for _ in range(KILLS):
        with subprocess.Popen(call(*words), stderr=subprocess.PIPE, text=True) as query:
            assert query.stderr is not None
            assert query.stderr.readline().startswith(
                "antecede: starting Spark at local[2] to read "
            )
            line = query.stderr.readline()
            assert line.startswith("antecede: batch "), line + query.stderr.read()
            time.sleep(rng.random())
            end_all(query, rng)
        torn += latest(out / "checkpoint" / "offsets") > latest(out / "checkpoint" / "commits")
    print(f"{KILLS} kills, {torn} in the middle of a batch")
    assert len(rows(out)) > 0
    # One row waits for ever, one is not a message.
    lone = rows_table([Sent("x", "p0", "p1", 9999, ("never", "m0")), Sent("", "p0", "p1", 1, ())])
    pq.write_table(lone, come / "more.parquet")
    # The last run uses the session that is there.
    monkeypatch.setattr(
        "antecede.spark.session.session", lambda *_, **__: contextlib.nullcontext(spark)
    )
    arguments = ["reorder", *map(str, words), "--json"]
    done = CliRunner().invoke(command_line("reorder"), arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    begun, *lines = done.stderr.splitlines()
    assert begun == (f"antecede: starting Spark at local[2] to read {come}; this takes a while")
    assert all(line.startswith("antecede: batch ") for line in lines)
    found = rows(out)
    assert len(found) == len(copies)
    check_order(found, copies)
    assert audited(history, found).verdict == "ordered"
    figures = json.loads(done.stdout)["result"]
    assert (figures["held"], figures["rejected"]) == (1, 1)
    (bad,) = pq.read_table(out / "rejected").to_pylist()
    assert bad["rejected"] == "id is missing"

    capsys.readouterr()
    _show_waiting(spark, out / "checkpoint", as_json=False)
    first, held = capsys.readouterr().out.splitlines()
    assert first == "1 row is held."
    assert held.startswith("  p0: x has waited ")
    assert held.endswith(" s for never")


def test_interrupted_while_spark_starts_it_is_one_line(tmp_path: Path) -> None:
    come = tmp_path / "in"
    come.mkdir()
    pq.write_table(rows_table([Sent("x", "p0", "p1", 1, ())]), come / "rows.parquet")
    words = call(come, tmp_path / "out", "--once")
    with subprocess.Popen(
        words, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as query:
        while len(family(query.pid)) == 1:
            assert query.poll() is None
            time.sleep(0.02)
        os.killpg(query.pid, signal.SIGINT)
        _, said = query.communicate(timeout=600)
    assert said.splitlines()[1:] == ["antecede: stopped"]
    assert query.returncode == 130


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("nowhere", "out"), "nowhere is not a folder"),
        ((), "needs two folders"),
        (("--waiting", "nowhere"), "is not the checkpoint of a query with state"),
    ],
)
def test_a_wrong_call_is_one_line(
    words: tuple[str, ...], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These are noticed before Spark starts."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(command_line("reorder"), ["reorder", *words])
    assert isinstance(done.exception, UsageError)
    assert reason in str(done.exception)
