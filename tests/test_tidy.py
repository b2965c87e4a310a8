"""Rules of CONTRIBUTING that a machine can check."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import antecede
from antecede.core.registry import protocol_class
from antecede.report.protocol_page import HEADINGS

ROOT = Path(__file__).resolve().parents[1]
FUNCTION_LINES_MAX = 80
COLUMNS_MAX = 100
NOQA_MAX = 30
TYPE_IGNORE_MAX = 15

#: A suppression, with the reason that has to follow it on the same line.
NOQA = re.compile(r"#\s*noqa\b(?::\s*[A-Z]+\d+(?:,\s*[A-Z]+\d+)*)?(?P<reason>.*)")
TYPE_IGNORE = re.compile(r"#\s*type:\s*ignore(?:\[[^\]]*\])?(?P<reason>.*)")
#: Working papers of the maintainers, which a reader of the package cannot open.
UNPUBLISHED = re.compile(r"papers/\d|\bDESIGN\b|\b(?:ALGORITHMS|AUDIT|CLAIMS|LIVE|STYLE)\.md")


def tracked(*patterns: str) -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return [path for pattern in patterns for path in ROOT.glob("src/**/" + pattern)]
    return [ROOT / line for line in done.stdout.splitlines() if (ROOT / line).exists()]


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def lines_of(*patterns: str) -> Iterator[tuple[Path, int, str]]:
    for path in tracked(*patterns):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            yield path, number, line


@pytest.mark.parametrize("name", list(antecede.PROTOCOLS))
def test_a_protocol_says_everything_in_the_same_order(name: str) -> None:
    doc = sys.modules[protocol_class(name).__module__].__doc__ or ""
    found = re.findall(r"^(.+)\n-{3,}$", doc, flags=re.MULTILINE)
    assert tuple(found) == HEADINGS
    assert re.search(r"^\.\. \[\w+\] .+\d{4}", doc, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", list(antecede.PROTOCOLS))
def test_a_protocol_has_its_own_tests(name: str) -> None:
    assert list((ROOT / "tests" / "protocols").glob(f"test_{name}*.py"))


def test_functions_are_short() -> None:
    long = {}
    for path in tracked("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                count = (node.end_lineno or node.lineno) - node.lineno + 1
                if count > FUNCTION_LINES_MAX:
                    long[f"{place(path, node.lineno)} {node.name}"] = count
    assert not long


def test_lines_are_short() -> None:
    """Rows of Markdown tables, and words that cannot be broken such as links, may be longer."""
    long = [
        place(path, number)
        for path, number, line in lines_of("*.py", "*.md")
        if len(line) > COLUMNS_MAX
        and not (path.suffix == ".md" and (line.startswith("|") or len(line.split()) == 1))
    ]
    assert not long


def test_modules_have_docstrings() -> None:
    bare = [
        path.relative_to(ROOT)
        for path in tracked("*.py")
        if ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    assert not bare


@pytest.mark.parametrize(
    ("pattern", "limit"), [(NOQA, NOQA_MAX), (TYPE_IGNORE, TYPE_IGNORE_MAX)], ids=["noqa", "types"]
)
def test_suppressions_are_few_and_each_has_its_reason(pattern: re.Pattern[str], limit: int) -> None:
    found = {
        place(path, number): match["reason"]
        for path, number, line in lines_of("src/*.py")
        if (match := pattern.search(line))
    }
    assert not [where for where, reason in found.items() if not re.search(r"[a-z]{2}", reason)]
    assert len(found) <= limit


def test_sources_and_docs_cite_what_a_reader_can_open() -> None:
    """Published papers by their tags, never the names of files that are not in the package."""
    cited = [
        place(path, number)
        for path, number, line in lines_of("src/*", "docs/*.md", "docs/*.py", "*.md")
        if UNPUBLISHED.search(line)
    ]
    assert not cited


def test_a_page_has_one_title() -> None:
    for path in [*tracked("docs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]:
        prose = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
        assert len(re.findall(r"^# ", prose, flags=re.MULTILINE)) == 1, path


def test_no_address_of_a_package_index_is_kept() -> None:
    pattern = re.compile(r"index-url|https?://", re.IGNORECASE)
    for path in tracked("requirements/*"):
        assert not pattern.search(path.read_text()), path


def test_the_generated_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "docs.generate", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
