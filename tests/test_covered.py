"""The figures of `make coverage`, and when they are too low."""

import json
from pathlib import Path

import pytest

from tools.covered import PARTS, covered, main


def report(**branches: int) -> dict[str, object]:
    """Return a report in which each part has 100 lines, all run, and so many of 100 branches."""
    return {
        "files": {
            f"src/antecede/{part}/one.py": {
                "summary": {
                    "covered_lines": 100,
                    "num_statements": 100,
                    "covered_branches": branches.get(part, 95),
                    "num_branches": 100,
                }
            }
            for part in PARTS
        }
    }


def test_lines_and_branches_are_counted_together_and_branches_alone() -> None:
    found = {one.part: one for one in covered(report(net=90))}
    assert found["net"].combined == (190, 200)
    assert found["net"].branches == (90, 100)
    assert not found["net"].is_enough
    assert found["core"].is_enough


def test_branches_alone_must_be_enough_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "coverage.json"
    path.write_text(json.dumps(report()))
    assert main([str(path)]) == 0
    assert "below" not in capsys.readouterr().out
    path.write_text(json.dumps(report(check=94)))
    assert main([str(path)]) == 1
    (low,) = [line for line in capsys.readouterr().out.splitlines() if "below 95%" in line]
    assert low.split()[:2] == ["check", "97.00%"]


def test_what_was_not_measured_is_not_enough() -> None:
    assert not any(one.is_enough for one in covered({"files": {}}))
