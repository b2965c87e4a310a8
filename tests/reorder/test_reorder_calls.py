"""``antecede reorder`` before and after Spark: what is refused, and what the last line says."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from antecede.cli.main import app
from antecede.cli.reorder import _Job, _named_as_options, _told
from antecede.errors import UsageError
from antecede.reorder.columns import require_columns
from antecede.reorder.progress import Progress
from antecede.reorder.source_and_sink import claimed

#: Holds the folders of its arguments until it is killed.
HOLD = """
import sys, time
from pathlib import Path
from antecede.reorder.source_and_sink import claimed
with claimed(map(Path, sys.argv[1:])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder to read; no test here gets as far as starting Spark."""

    def started(*_: object, **__: object) -> None:
        pytest.fail("Spark was started")

    monkeypatch.setattr("antecede.spark.session.session", started)
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "rows.json").write_text('{"id": "x", "dest": "p"}\n')
    return folder


def refusal(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Return the one line that a call ends with."""
    with pytest.raises(SystemExit) as ended:
        app(["reorder", "--format", "json", "--once", *map(str, words)])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1, told
    return told


def test_a_second_query_into_the_same_folders_is_refused_until_the_first_dies(
    come: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, state = tmp_path / "out", tmp_path / "state"
    words = [sys.executable, "-c", HOLD, str(out), str(out / "checkpoint")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        assert f"another run is writing to {out};" in refusal(capsys, come, out)
        # Another checkpoint would not do: its batches have the same numbers.
        assert "another run is writing" in refusal(capsys, come, out, "--checkpoint", state)
        other = refusal(capsys, come, tmp_path / "other", "--checkpoint", out / "checkpoint")
        assert f"another run is writing to {out / 'checkpoint'};" in other
        first.kill()
    with claimed([out, out / "checkpoint"]):
        pass


def test_one_folder_can_be_both_result_and_checkpoint(tmp_path: Path) -> None:
    for _ in range(2):
        with claimed([tmp_path / "out", tmp_path / "out" / ".." / "out"]):
            pass


def test_the_last_line_tells_of_held_rows_and_how_to_see_them() -> None:
    job = _Job("in", "my out", "json", Path("my out/checkpoint"), None, None)
    totals = Progress(print)
    totals.rows_in, totals.rows_out, totals.rejected = 1_011, 1_005, 5
    assert "held" not in _told(totals, job)
    totals._held.update({0: 1, 3: 0})
    first, second = _told(totals, job).splitlines()
    assert first == (
        "1,011 rows in, 1,005 out, 0 duplicates, 5 rejected, 1 held; ordered rows: my out/ordered"
    )
    assert second.endswith("antecede reorder --waiting 'my out/checkpoint'")


@pytest.mark.parametrize(("option", "value"), [("--buckets", "0"), ("--every", "-1")])
def test_numbers_that_spark_would_refuse_are_refused_at_once(
    option: str, value: str, come: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = refusal(capsys, come, come.parent / "out", option, value)
    assert f"Invalid value for '{option}'" in told


def test_a_place_that_cannot_be_written_is_refused_at_once(
    come: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = come / "rows.json"
    assert f"{file} is not a folder; reorder writes" in refusal(capsys, come, file)
    assert f"cannot write to {file / 'out'} (" in refusal(capsys, come, file / "out")
    # Not even root writes here.
    assert "cannot write to /proc (" in refusal(capsys, come, "/proc")
    told = refusal(capsys, come, come.parent / "out", "--checkpoint", "/proc/none")
    assert "cannot write to /proc/none (" in told


def test_an_empty_path_is_not_the_current_folder(
    come: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(come)
    for words in (("", "out"), (".", ""), (".", "out", "--checkpoint", "")):
        assert "the path is empty" in refusal(capsys, *words)
    assert [path.name for path in come.iterdir()] == ["rows.json"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--on-missing", "guess"), "--on-missing is 'guess'; expected 'wait' or 'release'"),
        (
            ("--on-missing", "release"),
            "--on-missing release needs a timeout in seconds, as in --timeout 60",
        ),
        (("--timeout", "5"), "--on-missing wait has none; use --on-missing release"),
        (("--on-missing", "release", "--timeout", "nan"), "--timeout is nan; expected"),
        (("--horizon", "1e300"), "--horizon is 1e+300; expected"),
        (("--buckets", "999999999"), "--buckets is 999999999; expected"),
        (("--every", "inf"), "--every inf is not possible; give seconds"),
        (("--members", "a,b"), "--members and --readers are for packets"),
        (("--packet", "packet"), "--packet needs --members, the names of all processes"),
        (("--packet", "packet", "--members", "a,b", "--readers", "c"), "reader 'c' is not among"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_spark_starts(
    words: tuple[str, ...], told: str, come: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in refusal(capsys, come, come.parent / "out", *words)
    assert not (come.parent / "out").exists()


def test_results_are_not_written_where_rows_are_read(
    come: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for out in (come, come / "sorted"):
        assert f"{out} lies in {come}, which is read;" in refusal(capsys, come, out)
    assert [path.name for path in come.iterdir()] == ["rows.json"]


def test_a_server_that_is_not_there_is_missed_before_spark_starts(
    come: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antecede.reorder.source_and_sink.ANSWER_SECONDS", 0.6)
    told = refusal(capsys, "nats://ann:secret@127.0.0.1:1/S", come.parent / "out")
    assert "no server answers for nats://...@127.0.0.1:1/S (127.0.0.1:1: Connection ref" in told
    assert not (come.parent / "out").exists()


def test_columns_are_named_as_the_command_line_does() -> None:
    frame = SimpleNamespace(columns=["msg", "causes"])
    wanted = "name the columns with --name, as in --name id=msg, or --packet"
    with pytest.raises(UsageError, match=wanted), _named_as_options():
        require_columns(frame, ("id",))  # type: ignore[arg-type]


def test_commands_are_left_where_the_query_reads_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state"
    (state / "state").mkdir(parents=True)
    words = ["reorder", "--waiting", str(state), "--release", "1", "--drop", "2", "--dest", "d"]
    with pytest.raises(SystemExit) as ended:
        app(words)
    assert ended.value.code == 2
    assert "reads no commands: it was begun without" in capsys.readouterr().err
    (state / "commands").mkdir()
    with pytest.raises(SystemExit) as ended:
        app(words)
    assert not ended.value.code
    assert "release 1, drop 2; it obeys in its next batch" in capsys.readouterr().out
    (file,) = (state / "commands").iterdir()
    assert [json.loads(line) for line in file.read_text().splitlines()] == [
        {"action": "release", "id": "1", "dest": "d"},
        {"action": "drop", "id": "2", "dest": "d"},
    ]
    with pytest.raises(SystemExit):
        app(["reorder", "--release", "1"])
    assert "go together with --waiting CHECKPOINT" in capsys.readouterr().err


def test_waiting_looks_at_a_checkpoint_alone(
    come: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--waiting only looks at a checkpoint" in refusal(capsys, come, "--waiting", "state")
