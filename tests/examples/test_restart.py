"""The example of a service that crashes, its failing twin, and the honest way out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from examples import restart

ROOT = Path(__file__).resolve().parents[2]


def test_saving_before_releasing_loses_nothing() -> None:
    bank = restart.careful()
    assert bank.orders == ["pay 5", "pay 999"]
    assert bank.view == 0


def test_the_failing_twin_loses_an_order_in_silence() -> None:
    bank = restart.careless()
    assert bank.orders == ["pay 5"]
    assert bank.view == 0


def test_a_new_view_loses_nothing_in_silence() -> None:
    bank = restart.honest()
    assert bank.orders == ["pay 5", "pay 999"]
    assert bank.view == 1


def test_the_example_runs_as_the_docs_say() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples/restart.py")],
        env={"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    lines = done.stdout.splitlines()
    page = (ROOT / "docs/restart.md").read_text(encoding="utf-8")
    assert len(lines) == 3
    assert all(line in page for line in lines)
