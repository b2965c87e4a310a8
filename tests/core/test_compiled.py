"""The compiled form does what the sources do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools import compiled

ROOT = Path(__file__).resolve().parents[2]


def outcome(source: Path) -> dict[str, Any]:
    """Return what ``form`` prints with this antecede."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.core.form"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}", "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert not done.returncode, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(not compiled.has_tools(), reason="needs a C compiler, mypy and setuptools")
def test_the_compiled_form_does_what_the_sources_do() -> None:
    plain = outcome(ROOT / "src")
    fast = outcome(compiled.cached("0"))
    assert (plain["compiled"], fast["compiled"]) == (False, True)
    assert plain["result"] == fast["result"]


def test_what_mypyc_is_told_is_all_that_changes() -> None:
    text = (compiled.SOURCE / "antecede" / "protocols" / "optimal.py").read_text(encoding="utf-8")
    made = compiled.prepared(text)
    assert made.endswith("\n\nregister(Optimal)\n")
    assert f"{compiled.MARK}\nclass Optimal(Numbered):" in made
    added = set(made.splitlines()) - set(text.splitlines())
    doc = [line for line in added if line.startswith("__doc__ = ")]
    assert len(doc) == 1
    assert added - {compiled.MARK, "register(Optimal)", *doc} == {
        "import typing",
        "if typing.TYPE_CHECKING:",
        "    from mypy_extensions import mypyc_attr",
    }


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"contains notes\.txt; choose another folder"):
        compiled.build(tmp_path)
    assert (tmp_path / "notes.txt").exists()
