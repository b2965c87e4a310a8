"""The page of benchmarks is made from tables, which name what was missed or not measured."""

from __future__ import annotations

import json
from pathlib import Path

import antecede
from benchmarks import _tables, control_bytes
from tools.benchmarks_page import MEASURED, benchmarks_page


def test_a_benchmark_that_runs_again_replaces_its_own_tables(tmp_path: Path) -> None:
    for name, table in (("one", "old"), ("two", "other"), ("one", "new")):
        _tables.record(table, n=1, share=1 / 3)
        _tables.write(tmp_path, name, quick=True, is_met=True, seconds=1.0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.csv", "other.csv", "runs.json"]
    assert (tmp_path / "new.csv").read_text() == "n,share\n1,0.33333\n"


def test_the_page_names_the_bounds_that_were_missed(tmp_path: Path) -> None:
    assert not _tables.judge("slices", is_met=False)
    assert _tables.judge("blobs", is_met=True)
    _tables.write(tmp_path, "audit", quick=False, is_met=False, seconds=1.0)
    assert "| missed: slices |" in benchmarks_page(tmp_path)


def test_the_page_says_which_tables_are_of_another_version(tmp_path: Path) -> None:
    _tables.write(tmp_path, "node", quick=False, is_met=True, seconds=1.0)
    assert "**Not measured on" not in benchmarks_page(tmp_path)
    runs = json.loads((tmp_path / "runs.json").read_text())
    runs["node"] |= {"version": "0.1.0", "commit": "c0ffee"}
    (tmp_path / "runs.json").write_text(json.dumps(runs))
    page = benchmarks_page(tmp_path)
    assert f"**Not measured on {antecede.__version__}: node.**" in page
    assert "| node | 0.1.0 | c0ffee |" in page


def test_a_run_without_a_message_to_measure_shows_no_figure(tmp_path: Path) -> None:
    none = dict.fromkeys(control_bytes.COLUMNS)
    _tables.record("control_bytes", protocol="serial", n=4, cast="unicast", load=0.5, **none)
    sampled = none | {"wire_bytes_per_copy": 3.0}
    _tables.record("control_bytes", protocol="serial", n=30, cast="unicast", load=0.5, **sampled)
    whole = dict.fromkeys(control_bytes.COLUMNS, 6.0)
    for n in (4, 30):
        _tables.record("control_bytes", protocol="matrix", n=n, cast="unicast", load=0.5, **whole)
    _tables.write(tmp_path, "control_bytes", quick=False, is_met=True, seconds=1.0)
    page = benchmarks_page(tmp_path)
    assert "| serial | - | - | - |" in page
    assert "| matrix | 6.0 | 6.0 | 6.00 |" in page


def test_the_tables_behind_the_page_are_there() -> None:
    runs = json.loads((MEASURED / "runs.json").read_text())
    named = {f"{table}.csv" for run in runs.values() for table in run["tables"]}
    assert named == {path.name for path in MEASURED.glob("*.csv")}
