"""Large Parquet files are audited a few row groups at a time, with the same answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.audit import api, files, row_group_windows
from antecede.audit.files import audit_here
from antecede.audit.log_rows import TableRows
from antecede.audit.neighbourhood import neighbourhoods
from antecede.audit.results import AuditedFile
from antecede.audit.row_group_windows import OVERLAP_MAX, RowGroup, read_groups
from antecede.events.sources import Source
from benchmarks.audit import make_log
from tests.audit.campaign import damaged, told


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SLICED_FROM", 1)
    monkeypatch.setattr(api, "SLICE", 400)
    monkeypatch.setattr(api, "OVERLAP_MAX", 9.0)


def both(path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[AuditedFile, AuditedFile]:
    sliced = audit_here([Source(path)], engine="local")[""]
    with monkeypatch.context() as patch:
        patch.setattr(files, "SLICED_FROM", 10**9)
        return sliced, audit_here([Source(path)], engine="local")[""]


def write(path: Path, table: pa.Table, rows: int) -> Path:
    pq.write_table(table.sort_by("time"), path, row_group_size=rows)
    return path


def test_slices_of_a_log_give_the_same_tables_and_diagrams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "log.parquet", make_log(8_000, 6), 200)
    sliced, whole = both(path, monkeypatch)
    assert sliced.audit.summary["arrangement"] == "slices"
    assert sliced.audit.summary["windows"] > 10
    assert told(sliced.audit) == told(whole.audit)
    assert sliced.audit.summary["lateness_seconds"] == whole.audit.summary["lateness_seconds"]
    worst = whole.audit.records["violations"][:12]
    assert len(worst) == 12
    assert neighbourhoods(sliced.rows, worst) == neighbourhoods(whole.rows, worst)
    assert sliced.rows.beginning(30) == whole.rows.beginning(30)
    assert sliced.rows.some_message() == whole.rows.some_message()
    assert len(sliced.rows) == len(whole.rows) == 8_000


@pytest.mark.parametrize("share", [0.5, 0.0])
def test_small_files_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    path = write(tmp_path / "log.parquet", make_log(2_000, 6), 200)
    read = Counter[int]()

    def count(groups: Sequence[RowGroup], columns: Sequence[str]) -> pa.Table:
        read.update(group.number for group in groups)
        return read_groups(groups, columns)

    monkeypatch.setattr(row_group_windows, "read_groups", count)
    monkeypatch.setattr(api, "read_groups", count)
    monkeypatch.setattr(api, "KEPT_SHARE", share)
    found = audit_here([Source(path)], engine="local")[""]
    late = found.audit.records["violations"]
    assert len(neighbourhoods(found.rows, late[:12])) == 12
    assert (set(read.values()) == {1}) is (share > 0)


def test_slices_of_damaged_logs_give_the_same_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files whose windows do not add up, or that have invalid rows, are read whole."""
    monkeypatch.setattr(api, "SLICE", 40)
    sliced = Counter[bool]()
    for seed in range(90):
        table, _ = damaged(seed)
        if "clock" not in table.column_names:
            one, other = both(write(tmp_path / "log.parquet", table, 12), monkeypatch)
            assert told(one.audit) == told(other.audit), f"seed={seed}"
            assert one.rejected == other.rejected
            sliced["arrangement" in one.audit.summary] += 1
    assert min(sliced[True], sliced[False]) > 10


def test_a_file_that_is_not_in_the_order_of_time_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.parquet"
    log = make_log(4_000, 6)
    monkeypatch.setattr(api, "OVERLAP_MAX", OVERLAP_MAX)
    pq.write_table(log.sort_by("message"), path, row_group_size=100)
    sliced, whole = both(path, monkeypatch)
    assert "arrangement" not in sliced.audit.summary
    assert told(sliced.audit) == told(whole.audit)


def test_rows_in_several_tables_are_those_in_one() -> None:
    log = make_log(600, 4)
    parts = TableRows(*(log.slice(k, 50) for k in range(0, 600, 50)))
    places = [(f"process-{p:03d}", seq) for p in range(4) for seq in (1, 40, 41, 90)]
    points = {name: [seq for other, seq in places if other == name] for name, _ in places}
    assert parts.near(points) == TableRows(log).near(points)
    found = parts.deliveries_at(places)
    assert found == TableRows(log).deliveries_at(places)
    assert {(e.process, e.seq) for e in found} <= set(places)
    assert found
