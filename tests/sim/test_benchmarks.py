"""Benchmarks run, on tiny inputs, so that they do not rot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *words],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )


@pytest.mark.parametrize("name", ["speed", "growth", "wire_sizes"])
def test_a_benchmark_runs(name: str) -> None:
    done = bench(name, "--quick")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "optimal" in done.stdout


def test_an_unknown_benchmark_is_one_line() -> None:
    done = bench("sped")
    assert done.returncode == 2
    assert "'sped' is not one of" in done.stderr
