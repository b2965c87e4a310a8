"""The benchmark of nodes runs on tiny inputs, so that it keeps working."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import node

if TYPE_CHECKING:
    import pytest


def test_the_benchmark_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert node.main(quick=True)
    told = capsys.readouterr().out
    assert "of streams" in told
    assert "SQLite alone commits" in told
    assert "of the echoes without any" in told
    assert told.count("round trip at 1,000 messages/s") == 2
