"""``antecede audit`` in continuous integration: the worst ten, all of them, and what is allowed."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path

import pytest
import yaml

from antecede.cli.main import app

ROOT = Path(__file__).resolve().parents[2]


def log_of(path: Path, names: list[str]) -> Path:
    """Write a log in which b delivers all messages of a in reverse: all but one are late."""
    sends = [
        {"process": "a", "seq": k, "kind": "send", "message": name, "dests": ["b"]}
        for k, name in enumerate(names)
    ]
    late = [
        {"process": "b", "seq": k, "kind": "deliver", "message": name}
        for k, name in enumerate(reversed(names))
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in sends + late))
    return path


def audit(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        app(["audit", *map(str, words)])
    return int(str(ended.value.code))


def call(path: Path, *words: object) -> int:
    return audit(path, "--local", "--out", path.parent / "out", *words)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return log_of(tmp_path / "log.jsonl", [f"m{k:02}" for k in range(15)])


def test_the_terminal_lists_the_worst_ten(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(log) == 1
    told = capsys.readouterr().out
    assert "Worst first (violations.csv has all):" in told
    assert "  14x a -> b: m# overtaken by m#; for example: b delivered m14 " in told


def test_the_worst_ten_kinds_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log_of(tmp_path / "log.jsonl", [f"kind-{letter}" for letter in "abcdefghijklmn"])
    assert call(tmp_path / "log.jsonl") == 1
    told = capsys.readouterr().out
    assert "The worst 10 of 13 kinds (violations.csv has all):" in told
    assert len(re.findall(r"^  a -> b: kind-", told, flags=re.MULTILINE)) == 10


def test_json_and_csv_have_all(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(log, "--json") == 1
    said = json.loads(capsys.readouterr().out)
    assert said["result"]["violations"] == len(said["violations"]) == 14
    with (log.parent / "out" / "violations.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["message"] for row in rows] == [row["message"] for row in said["violations"]]
    assert list(rows[0]) == list(said["violations"][0])
    assert rows[0]["chain"] == "m00 > m14"


@pytest.mark.parametrize(
    ("words", "status", "counted"),
    [
        (["--max-violations", 13], 1, 14),
        (["--max-violations", 14], 0, 14),
        (["--ignore", ": m0"], 1, 4),
        (["--ignore", ": m0", "--max-violations", 4], 0, 4),
        (["--ignore", ": m0", "--ignore", "^a -> b: m1"], 0, 0),
        (["--ignore", "^b -> a"], 1, 14),
    ],
)
def test_violations_can_be_allowed_and_ignored(
    log: Path, words: list[object], status: int, counted: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(log, *words) == status
    told = capsys.readouterr().out
    assert "Causal order was broken. 14 of 15 deliveries" in told
    if counted < 14:
        assert f"Ignored: {14 - counted}." in told
    assert ("exit status 0" in told) == (status == 0)
    result = json.loads((log.parent / "out" / "summary.json").read_text())["result"]
    assert (result["verdict"], result["violations"]) == ("broken", 14)
    assert (result["counted"], result["ignored"]) == (counted, 14 - counted)


def test_a_missing_message_counts_and_can_be_ignored(tmp_path: Path) -> None:
    path = log_of(tmp_path / "log.jsonl", ["m1", "m2"])
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    assert call(path) == 1
    assert call(path, "--ignore", "a -> b: m1") == 0


def test_nothing_else_is_allowed(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"process": "b", "seq": 1, "kind": "deliver", "message": "m1"}\n')
    assert call(path, "--max-violations", 99, "--ignore", "") == 2
    rows = [
        {"process": "b", "seq": 1, "kind": "deliver", "message": "m1"},
        {"process": "b", "seq": 2, "kind": "send", "message": "m1", "dests": ["b"]},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert call(path, "--max-violations", 99, "--ignore", "") != 0


def test_a_wrong_pattern_is_one_line(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(log, "--ignore", "(") == 2
    told = capsys.readouterr().err
    assert told.startswith("antecede: --ignore '(' is not a regular expression: ")
    assert told.count("\n") == 1
    assert not (log.parent / "out").exists()


def test_the_workflow_in_the_docs_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "ci.md").read_text()
    text = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)[0]
    (job,) = yaml.safe_load(text)["jobs"].values()
    runs = [step["run"] for step in job["steps"] if "run" in step]
    assert "pip install antecede" in runs
    (command,) = [shlex.split(run) for run in runs if run.startswith("antecede ")]
    upload = job["steps"][-1]
    assert upload["with"]["path"] == command[command.index("--out") + 1]
    monkeypatch.chdir(tmp_path)
    log_of(tmp_path / command[2], ["heartbeat-1", "heartbeat-2", "order-1"])
    assert audit(*command[2:]) == 0
    log_of(tmp_path / command[2], ["order-1", "order-2"])
    assert audit(*command[2:]) == 1
