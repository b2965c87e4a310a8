"""``antecede study`` as users call it: results, wrong calls, interruption, resumption."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

import antecede
from antecede.cli.doctor import doctor
from antecede.cli.study import study
from antecede.errors import UsageError
from antecede.runs import RunFolder
from antecede.study.measuring import unpack
from antecede.study.request import Request
from tests.support.spark import lighten

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typer.testing import Result

# Tests that run in the background may have been told to ignore interrupts, and so would this.
CODE = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from antecede.cli.main import app; app(['study', *sys.argv[1:]])"
)
# One experiment, to draw few figures; a unit for each schedule, so that it can be interrupted.
SMALL = (
    *("--experiment", "special", "--protocol", "serial", "--protocol", "synchronous"),
    *("--seeds", "3"),
)


def _call(*words: str) -> Result:
    app = typer.Typer()
    app.command()(study)
    return CliRunner().invoke(app, list(words), catch_exceptions=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--experiment", "overhed"), "did you mean overhead"),
        (("--protocol", "optimol"), "did you mean optimal"),
        (("--preset", "papr"), "did you mean paper"),
        (("--experiment", "traffic"), "--traffic FILE"),
        (("--traffic", "/nonexistent/edges.txt"), "cannot read --traffic"),
        (("--traffic", __file__, "--experiment", "special"), "only the experiment traffic uses"),
        (("--seed", "-5"), "--seed -5 is out of range"),
        (("--resume",), "--resume needs --out"),
        (("--experiment", "growth", "--protocol", "matrix"), "nothing to run"),
        (("--n", "1"), "--n 1: processes cannot exchange messages"),
        (("--experiment", "overhead", "--n", "90000"), "90,000 processes is too many: 65,536 can"),
        (("--seeds", "0"), "--seeds 0: there is nothing to run"),
        (("--seeds", "99999999999"), "--seeds 99999999999 would never end; use 10,000 or fewer"),
        (("--n", "1000000000"), "--n 1000000000 is too many processes; use 1,000,000 or fewer"),
        (("--delay", "slow"), "delay 'slow' is not understood"),
        (("--delay", "constant:1", "--experiment", "growth"), "varies the delay itself"),
        (("--out", "/dev/null/x"), "choose another folder"),
    ],
)
def test_a_wrong_call_is_one_line(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        _call(*words)
    assert "\n" not in str(caught.value)


def test_sizes_delay_and_seeds_of_ones_own() -> None:
    request = Request(n=(7, 5), delay="constant:0.2", seeds=2)
    rows = request.rows()
    assert {row["seed"] for row in rows} == {1, 2}
    delays = {json.loads(row["arguments"]).get("delay") for row in rows} - {None}
    assert delays == {"constant:0.2"}
    names = {row["experiment"] for row in rows}
    assert {"overhead", "bounded", "special"} <= names
    assert not names & {"growth", "crossover", "buffered", "loads"}
    assert {row["n"] for row in rows if row["experiment"] == "overhead"} == {5, 7}
    assert request.options()["n"] == [7, 5]
    sizes = {row["n"] for row in Request(experiment=["growth"], n=(6, 9)).rows()}
    assert sizes == {6, 9}


def test_traffic_that_is_none_is_told_with_the_name_of_its_file(tmp_path: Path) -> None:
    edges = tmp_path / "edges.txt"
    edges.write_text("1 1 5\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"--traffic .*edges\.txt") as caught:
        _call("--traffic", str(edges))
    assert "\n" not in str(caught.value)


def test_traffic_may_come_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"1 2 5\n2 1 6\n")))
    rows = Request.of({"experiment": ["traffic"], "traffic": "-"}, None, resume=False).rows()
    assert {unpack(row).schedule.messages for row in rows[:2]} == {2}


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "lokal"])
def test_a_study_that_cannot_start_leaves_nothing(tmp_path: Path, master: str) -> None:
    with pytest.raises(UsageError, match=master):
        _call(*SMALL, "--master", master, "--out", str(tmp_path / "new" / "out"))
    assert list(tmp_path.iterdir()) == []


def test_resuming_what_is_no_study_is_one_line(tmp_path: Path) -> None:
    with RunFolder.open(tmp_path / "run", "simulate", options={}) as run:
        run.finish({})
    with pytest.raises(UsageError, match="there is no study in") as caught:
        _call("--resume", "--out", str(tmp_path / "run"))
    assert "\n" not in str(caught.value)


def test_doctor_names_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    doctor(as_json=True)
    found = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert {"Python", "Java", "Spark", "Cores", "Memory", "Chromium"} <= set(found)
    assert found["antecede"]["seen"].startswith(antecede.__version__)
    assert all(row["ok"] or row["mend"] for row in found.values())
    doctor()
    assert "Python" in capsys.readouterr().out


def _start(out: Path, *words: str, first: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"{lighten()}\n{first}\n{CODE}",
            "--out",
            str(out),
            "--master",
            "local[2]",
            *words,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )


def _spark_of(process: subprocess.Popen[str]) -> list[int]:
    """Return the processes that name the scratch folder of this study: its launcher, its JVM."""
    mark, found = f"antecede-spark-{process.pid}-".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (entry / "cmdline").read_bytes() and int(entry.name) != process.pid:
                found.append(int(entry.name))
    return found


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize(
    ("number", "moment", "status"),
    [(signal.SIGINT, 0.0, 130), (signal.SIGINT, 1.5, 130), (signal.SIGTERM, 0.3, 143)],
)
def test_interrupted_while_spark_starts_it_leaves_no_jvm_and_no_folder(
    tmp_path: Path, number: signal.Signals, moment: float, status: int
) -> None:
    process = _start(tmp_path / "out", *SMALL)
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and not _spark_of(process):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.02)
    time.sleep(moment)
    os.killpg(process.pid, number)
    _, said = process.communicate(timeout=600)
    assert _spark_of(process) == []
    assert process.returncode == status, said
    assert "Exception" not in said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_interrupted_it_leaves_a_folder_that_can_be_resumed(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is resumed in the session that is there."""
    out = tmp_path / "out"
    parts = out / ".unfinished" / "parts"
    small_units = "import antecede.study.grid as grid; grid.UNIT_SECONDS = 0.2"
    process = _start(out, *SMALL, first=small_units)
    deadline = time.monotonic() + 1800
    while time.monotonic() < deadline and not list(parts.glob("*.parquet")):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=600)
    assert process.returncode == 130, said
    assert "stopping" in said
    assert "--resume" in said
    assert _spark_of(process) == []
    assert "Traceback" not in said
    kept = sum(pq.read_metadata(part).num_rows for part in parts.glob("*.parquet"))
    assert kept > 0
    monkeypatch.setattr(
        "antecede.study.campaign.session", lambda *_, **__: contextlib.nullcontext(spark)
    )
    again = _call("--resume", "--json", "--out", str(out))
    assert again.exit_code == 0, again.stderr
    summary = json.loads(again.stdout)
    assert summary["options"]["experiment"] == ["special"]
    assert summary["options"]["resume"] is True
    runs = pq.read_table(out / "runs")
    assert runs.num_rows == summary["result"]["runs"] > kept
    assert len(set(runs.column("run_id").to_pylist())) == runs.num_rows
    names = {entry.name for entry in out.iterdir()}
    assert {"summary.json", "index.html", "points.parquet", "points.csv", "figures"} <= names
    assert ".unfinished" not in names
