"""``antecede inbox``: show, repair, export; errors are one line."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from antecede.cli.main import app
from antecede.inbox import Inbox


def call(*words: object) -> object:
    with pytest.raises(SystemExit) as ended:
        app(["inbox", *map(str, words)])
    return ended.value.code


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """An inbox with one message in each state."""
    path = tmp_path / "shop.db"
    with Inbox(path, topics={"a", "b"}, name="shop") as inbox:
        for message in inbox.offer("done", topic="a"):
            with message as transaction:
                transaction.send("out", "x")
        inbox.offer("waits", causes=["a/\u2603", "a/self"], topic="b")
        inbox.offer("self", causes=["self"], topic="a")
        inbox.offer("ready", topic="a")
    return path


def test_it_shows_who_waits_for_what(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(place) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "Inbox shop of a, b: 1 waiting, 1 ready, 1 parked, 1 done." in said
    assert "To be published: 1." in said
    assert "a/self (parked)" in said
    assert "a/\u2603 (not here)" in said
    assert "it names itself as a cause" in said


def test_it_prints_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(place, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["waiting"], found["parked"], found["outbox"]) == (1, 1, 1)
    assert found["waiting_messages"][0]["lacks"] == {"a/self": "parked", "a/\u2603": "not here"}


def test_it_alarms_when_something_waits_for_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "late.db"
    now = time.time()
    with Inbox(path, topics={"a"}, clock=lambda: now - 100) as inbox:
        inbox.offer("effect", causes=["cause"], topic="a")
    assert call(path, "--json") == 0
    assert 100 <= json.loads(capsys.readouterr().out)["oldest_seconds"] < 4000
    assert call(path, "--alarm", 50) == 1
    assert call(path, "--alarm", 1_000_000) == 0
    assert call(path, "--release", "effect", "--alarm", 50) == 0


def test_it_repairs(place: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert call(place, "--release", "self", "--park", "waits") == 1
    assert "Released self." in capsys.readouterr().out
    assert call(place, "--retry-all", "--release", "b/waits") == 0
    with Inbox(place) as inbox:
        for message in inbox.ready():
            with message:
                pass
        assert inbox.report().done == 4
    log = tmp_path / "log.jsonl"
    assert call(place, "--events", log) == 0
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert len([one for one in events if one["process"] == "shop"]) == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no.db"], "there is no inbox 'no.db'"),
        (["--release", "nothing"], "nothing that waits or is parked is called nothing"),
        (["--release", "self", "--retry", "ready"], "a/ready is ready; only what waits"),
        (["--retry", "self", "--retry-all"], "leave --retry or --retry-all out"),
        (["--events", "no/such/folder/x"], "cannot write the event log"),
    ],
)
def test_errors_are_one_line(
    place: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*([] if words == ["no.db"] else [place]), *words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_file_that_is_something_else_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import sqlite3

    path = tmp_path / "other.db"
    link = sqlite3.connect(path)
    link.execute("CREATE TABLE mine(x)")
    link.close()
    assert call(path) == 2
    assert "there is no inbox in" in capsys.readouterr().err
    link = sqlite3.connect(path)
    assert link.execute("SELECT name FROM sqlite_master").fetchall() == [("mine",)]
    link.close()
