"""Rules of CONTRIBUTING that a machine can check."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import antecede
from antecede.endpoint.registry import rules_of
from antecede.report.protocol_page import HEADINGS

ROOT = Path(__file__).resolve().parents[1]
LEVELS_MAX = 2
FUNCTION_LINES_MAX = 80
COLUMNS_MAX = 100
NOQA_MAX = 30
TYPE_IGNORE_MAX = 15

#: A suppression, with the required reason after it on the same line.
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
    doc = sys.modules[rules_of(name).__module__].__doc__ or ""
    found = re.findall(r"^(.+)\n-{3,}$", doc, flags=re.MULTILINE)
    assert found == [heading for heading in HEADINGS if heading in found]
    assert {"Differences from the paper", "References"} <= set(found), "the record has the others"
    assert re.search(r"^\.\. \[\w+\] .+\d{4}", doc, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", list(antecede.PROTOCOLS))
def test_a_protocol_has_its_own_tests(name: str) -> None:
    assert list((ROOT / "tests" / "protocols").glob(f"test_{name}*.py"))


class Sources:
    """The modules of the package as trees: their classes, and the meaning of imported names."""

    def __init__(self, files: dict[str, str]) -> None:
        self.trees = {module: ast.parse(text) for module, text in files.items()}
        self.imports = {
            module: {
                alias.asname or alias.name: f"{node.module}.{alias.name}"
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
            }
            for module, tree in self.trees.items()
        }
        self.classes = {
            f"{module}.{node.name}": (module, node)
            for module, tree in self.trees.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
        }

    def levels(self, name: str) -> int:
        """Return how many levels of our own base classes a class has."""
        module, node = self.classes[name]
        bases = [self._class_of(module, base) for base in node.bases]
        return max((1 + self.levels(base) for base in bases if base in self.classes), default=0)

    def _class_of(self, module: str, base: ast.expr) -> str:
        """Return the full name of a base class, from its module's imports."""
        dotted = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
        head, dot, rest = dotted.partition(".")
        found = self.imports[module].get(head, head if dot else f"{module}.{head}")
        return f"{found}{dot}{rest}"

    def foreign(self) -> Iterator[str]:
        """Yield each place where a module uses a private attribute of another module of ours."""
        defined = {module: set(_defined(tree)) for module, tree in self.trees.items()}
        everything = set().union(*defined.values())
        for module, tree in self.trees.items():
            others = everything - defined[module] - PUBLIC
            for node in ast.walk(tree):
                if (
                    isinstance(node, ast.Attribute)
                    and node.attr in others
                    and node.attr[0] == "_" != node.attr[1]
                    and ast.unparse(node.value) not in ("self", "cls", "super()")
                ):
                    yield f"{module}:{node.lineno} {ast.unparse(node)}"


@cache
def package() -> Sources:
    """Read ``src/antecede``."""
    return Sources(
        {
            ".".join(path.relative_to(ROOT / "src").with_suffix("").parts): path.read_text()
            for path in tracked("src/*.py")
        }
    )


PUBLIC = {"_asdict", "_fields", "_make", "_replace"}
"""Of named tuples; the underscore only keeps them apart from the fields."""


def _defined(tree: ast.Module) -> Iterator[str]:
    """Yield the names of functions, classes, variables and attributes that a module defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
        ):
            yield node.attr


def test_few_classes_are_above_a_class() -> None:
    sources = package()
    deep = {name: sources.levels(name) for name in sources.classes}
    assert deep["antecede.protocols.optimal.Optimal"] == 2
    assert not {name: count for name, count in deep.items() if count > LEVELS_MAX}


def test_no_module_touches_what_is_private_to_another() -> None:
    assert not list(package().foreign())


def test_long_chains_and_foreign_private_attributes_are_noticed() -> None:
    sources = Sources(
        {
            "a.base": "class One:\n    def __init__(self): self._x = 1\nclass Two(One): ...",
            "a.more": (
                "from a.base import One, Two as Second\nimport a.base\n"
                "class Three(Second[int]): ...\n"
                "class Four(Three): ...\n"
                "class Other(a.base.One):\n    def f(self, one): return self._x + one._x\n"
                "one._asdict()"
            ),
        }
    )
    assert sources.levels("a.more.Four") == 3
    assert sources.levels("a.more.Other") == 1
    assert list(sources.foreign()) == ["a.more:6 one._x"]


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
        for path, number, line in lines_of("src/*", "docs/*.md", "tools/*.py", "*.md")
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


def test_the_generated_pages_that_are_kept_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.pages", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
