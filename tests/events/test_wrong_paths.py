"""Wrong paths and ids are refused by our own errors, and a torn header is completed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import antecede
from antecede import EventLog, LogError, UsageError
from antecede.events import read


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b", None, 3, b"x"])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(UsageError, match="give the name of a file"):
        EventLog(path, "p")


@pytest.mark.parametrize("message", [10**5000, True, False], ids=["long", "yes", "no"])
def test_what_is_no_id_is_refused(message: object, tmp_path: Path) -> None:
    with EventLog(tmp_path / "log.jsonl", "p") as log, pytest.raises(UsageError, match="its id"):
        log.send(message)
    assert read(tmp_path / "log.jsonl") == []


@pytest.mark.parametrize("room", range(1, 36))
def test_a_torn_header_is_completed(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, write = tmp_path / "log.csv", os.write
    with monkeypatch.context() as full:
        full.setattr(os, "write", lambda file, data: write(file, data[:room]))
        try:
            EventLog(path, "p").close()
        except LogError:
            assert room < path.stat().st_size + 2
    with EventLog(path, "p") as log:
        log.send("m", time=1.0)
    rejected: list[Any] = []
    assert [event.message for event in read(path, rejected=rejected)] == ["m"]
    assert rejected == []


def test_the_error_of_logs_is_public() -> None:
    assert antecede.LogError is LogError
