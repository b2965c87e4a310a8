"""Benchmarks run on tiny inputs, so that they keep working."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from antecede import sim
from antecede.sim.workloads import paper, replay_edges
from benchmarks import speed
from benchmarks._traffic import write_edges

pytestmark = pytest.mark.timeout(3600)  # kernels may have to be compiled first
ROOT = Path(__file__).resolve().parents[2]


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *words],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=3000,
    )


@pytest.mark.parametrize("name", ["speed", "growth", "wire_sizes", "endpoints"])
def test_a_benchmark_runs(name: str) -> None:
    done = bench(name, "--quick")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "optimal" in done.stdout


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs a C compiler")
def test_the_yardstick_agrees_with_the_kernel(tmp_path: Path) -> None:
    program = speed.compile_yardstick(str(tmp_path))
    assert program is not None
    for cast in ("unicast", "multicast"):
        c = speed.run_yardstick(program, 8, cast, 4000, 200)
        schedule = paper(n=8, cast=cast, received=4000, warm_up=200, delay=speed.DELAY)
        metrics = sim.run("optimal", schedule, warm_up=200).metrics
        assert metrics["entries_per_copy"] == pytest.approx(c.entries, rel=0.02)
        assert metrics["model_bytes_per_copy"] == pytest.approx(c.bytes, rel=0.02)


def test_synthetic_traffic_is_reproducible(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_edges(tmp_path / name, people=20, messages=300)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    schedule = replay_edges(tmp_path / "a")
    assert 10 < schedule.n <= 20
    assert schedule.messages > 250


def test_an_unknown_benchmark_is_one_line() -> None:
    done = bench("sped")
    assert done.returncode == 2
    assert "'sped' is not one of" in done.stderr
