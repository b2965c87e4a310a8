"""House rules that a machine can check."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import antecede
from antecede.core.registry import protocol_class
from antecede.report.protocol_page import HEADINGS

ROOT = Path(__file__).resolve().parents[1]
LINES_MAX = 500


def tracked(*patterns: str) -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return [path for pattern in patterns for path in ROOT.glob("src/**/" + pattern)]
    return [ROOT / line for line in done.stdout.splitlines() if (ROOT / line).exists()]


@pytest.mark.parametrize("name", list(antecede.PROTOCOLS))
def test_a_protocol_says_everything_in_the_same_order(name: str) -> None:
    doc = sys.modules[protocol_class(name).__module__].__doc__ or ""
    found = re.findall(r"^(.+)\n-{3,}$", doc, flags=re.MULTILINE)
    assert tuple(found) == HEADINGS
    assert re.search(r"^\.\. \[\w+\] .+\d{4}", doc, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", list(antecede.PROTOCOLS))
def test_a_protocol_has_its_own_tests(name: str) -> None:
    assert list((ROOT / "tests" / "protocols").glob(f"test_{name}*.py"))


def test_files_stay_small_enough_to_read() -> None:
    long = {
        path.relative_to(ROOT): count
        for path in tracked("*.py")
        if (count := len(path.read_text().splitlines())) > LINES_MAX
    }
    assert not long


def test_modules_have_docstrings() -> None:
    bare = [
        path.relative_to(ROOT)
        for path in tracked("*.py")
        if ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    assert not bare


def test_no_address_of_a_package_index_is_kept() -> None:
    pattern = re.compile(r"index-url|https?://", re.IGNORECASE)
    for path in tracked("requirements/*"):
        assert not pattern.search(path.read_text()), path


def test_the_generated_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
