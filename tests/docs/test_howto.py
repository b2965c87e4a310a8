"""The how-to pages: their programs run and print what the pages show."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PATH = re.compile(r"# (src/\S+)\n")
ADDED = ("protocol", "kernel", "experiment", "format")


def blocks(page: str) -> list[tuple[str, str]]:
    """Return the programs of a page and what they print, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```(python|text)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def program(page: str) -> str:
    """Return what a page has to run, without the modules that it adds to the package."""
    codes = [code for kind, code in blocks(page) if kind == "python" and not PATH.match(code)]
    return "\n".join(codes)


def printed(page: str) -> str:
    return "".join(text for kind, text in blocks(page) if kind == "text")


@pytest.mark.parametrize("page", ["http.md", "kafka.md", "replicas.md"])
def test_a_page_prints_what_it_shows(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    if page == "kafka.md":
        for client in ("confluent_kafka", "aiokafka", "nats", "faststream"):
            pytest.importorskip(client)
    exec(compile(program(page), page, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == printed(page) != ""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with the modules that the pages add, and nothing else changed."""
    root = tmp_path_factory.mktemp("extended")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src", root / "src", ignore=ignored)
    for name in ADDED:
        (code,) = [code for _, code in blocks(f"extend/{name}.md") if PATH.match(code)]
        found = PATH.match(code)
        assert found is not None
        path = root / found[1]
        assert not path.exists()
        assert path.parent.is_dir()
        path.write_text(code)
    return root


@pytest.mark.parametrize("name", ADDED)
def test_what_a_page_adds_works_as_shown(name: str, package: Path) -> None:
    pytest.importorskip("pyarrow")
    environment = os.environ | {"PYTHONPATH": str(package / "src"), "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program(f"extend/{name}.md")],
        cwd=package,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed(f"extend/{name}.md") != ""
