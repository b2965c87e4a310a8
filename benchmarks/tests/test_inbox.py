"""The benchmark of inboxes runs, and the remembered ids are counted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

from benchmarks import _tables
from benchmarks import inbox as bench


def test_the_benchmark_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tables, "ROWS", {})
    monkeypatch.setattr(_tables, "MISSED", [])
    bench.in_memory(30, 1)
    for grouped in (True, False):
        bench.in_sqlite(tmp_path, 30, 1, grouped=grouped)
    bench.remembered(tmp_path, (0, 300), 30)
    assert [row["messages"] for row in _tables.ROWS["inbox"]] == [30, 30, 30]
    assert [row["ids"] for row in _tables.ROWS["inbox_remembered"]] == [0, 300]
