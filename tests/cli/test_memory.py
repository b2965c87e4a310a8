"""Work that does not fit into memory is refused in one line before it starts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from antecede import memory
from antecede.audit.local_windows import LocalWindows
from antecede.audit.windows.rounds import check
from antecede.cli.main import app
from antecede.errors import UsageError
from antecede.events import Event
from antecede.memory import machine_bytes, require_memory
from tests.audit.test_windows import columns

SHOP = Path(__file__).parents[2] / "examples" / "shop.jsonl"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that this machine has a hundred bytes of memory."""
    monkeypatch.setattr(memory, "machine_bytes", lambda: 100.0)


def test_the_line_says_how_much_and_what_to_do(small: None) -> None:
    require_memory(100, "this", "never mind")
    with pytest.raises(UsageError) as caught:
        require_memory(3 * 2**30, "that", "use less")
    assert str(caught.value) == (
        "that would take about 3 GiB of memory, but this machine has 0 GiB; use less"
    )


def test_a_container_has_no_more_than_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(memory, "_LIMITS", (str(limit), str(tmp_path / "none")))
    whole = machine_bytes()
    limit.write_text("max\n")
    assert machine_bytes() == whole
    limit.write_text("4096\n")
    assert machine_bytes() == 4096


def test_an_audit_of_too_many_processes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log itself is small."""
    events = ["a,1,send,m", "b,1,deliver,m", *[f"{process},2,local," for process in "abcdefghij"]]
    log = tmp_path / "log.csv"
    log.write_text("\n".join(["process,seq,kind,message", *events, ""]))
    monkeypatch.setattr(memory, "machine_bytes", lambda: 2000.0)
    with pytest.raises(SystemExit) as ended:
        app(["audit", str(log), "--local", "--out", str(tmp_path / "out")])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert "the vector clocks of 10 processes would take about " in told
    assert not (tmp_path / "out").exists()


def test_windows_that_too_many_messages_cross_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Event("a", 1, "send", "m", ("b",))
    log = [first, Event("a", 2, "local"), Event("b", 1, "local"), Event("b", 2, "deliver", "m")]
    monkeypatch.setattr("antecede.audit.windows.rounds.BYTES_PER_PAIR", 0)
    events, names, _ = columns(log)
    rows = [(event.message, event.dests) for event in log]
    arrangement = LocalWindows(
        events, names, lambda at: [rows[row] for row in at], np.array([[1, 1]])
    )
    monkeypatch.setattr(memory, "machine_bytes", lambda: 1.0)
    with pytest.raises(UsageError, match="1 messages that cross cuts, of 2 processes, would take"):
        check(arrangement)


def test_advice_skips_what_does_not_fit_and_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("antecede.advise.costs.machine_bytes", lambda: 500.0)
    out = tmp_path / "out"
    with pytest.raises(SystemExit):
        app(["advise", str(SHOP), "--local", "--protocol", "central", "--protocol", "optimal",
             "--out", str(out)])  # fmt: skip
    rows = {row["protocol"]: row for row in pq.read_table(out / "advice.parquet").to_pylist()}
    assert rows["optimal"]["status"] == "run"
    assert rows["central"]["status"] == "skipped"
    assert "of 3 processes would take about 0 GiB of memory" in rows["central"]["reason"]
    assert "Skipped: central" in capsys.readouterr().out
