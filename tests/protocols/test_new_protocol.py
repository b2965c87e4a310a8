"""A new protocol is one module: everything that iterates over protocols includes it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

IGNORED = shutil.ignore_patterns("__pycache__")
ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "antecede"
REFERENCE = '.. [Doe26] J. Doe. "On order". Journal of Order 1(2):3-4, 2026.\n"""'

USE = """
import antecede
from antecede.check import explore
from antecede.check.cases import cases
from antecede.report.protocol_page import protocol_page

info = antecede.PROTOCOLS["newcomer"]
assert list(antecede.PROTOCOLS) == sorted(antecede.PROTOCOLS)
a, b = (antecede.endpoint("newcomer", process=p, members=("a", "b")) for p in "ab")
(packet,) = a.send(["b"], b"hello").packets
codec = antecede.Codec(a)
data = codec.encode(packet)
assert codec.decode(data) == packet
assert antecede.size(packet) == (4, 0, 16)
assert codec.restore(codec.snapshot(a), resumed=True).state() == a.state()
assert [d.payload for d in b.receive(packet).deliveries] == [b"hello"]
assert [str(case) for case in cases("newcomer", ("a", "b"))][0] == "newcomer-unicast"
assert explore("newcomer", processes=2, messages=2).is_clean
assert "Doe 2026" in protocol_page(info)
print(antecede.__file__)
"""

SIMULATE = """
from antecede import sim
from antecede.sim.workloads import paper
metrics = sim.run("newcomer", paper(n=3, received=5)).metrics
assert metrics["model_bytes_per_copy"] == 36 and metrics["entries_per_copy"] == 9
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with one module added, and nothing else changed."""
    root = tmp_path_factory.mktemp("copy")
    shutil.copytree(SOURCE, root / "antecede", ignore=IGNORED)
    text = (SOURCE / "protocols" / "matrix.py").read_text(encoding="utf-8")
    assert text.count("class Matrix(") == 1
    text = text.replace("class Matrix(", "class Newcomer(")
    text = re.sub(r'\.\. \[RST91\].*?"""', REFERENCE, text, count=1, flags=re.DOTALL)
    text = text.replace("[RST91]_", "[Doe26]_")
    (root / "antecede" / "protocols" / "newcomer.py").write_text(text, encoding="utf-8")
    return root


def run(place: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
        env={**os.environ, "PYTHONPATH": str(place)},
        cwd=place.parent,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_one_module_is_enough(package: Path) -> None:
    assert run(package, "-c", USE).startswith(str(package))


def test_the_plain_engine_runs_it(package: Path) -> None:
    run(package, "-c", SIMULATE)


def test_the_tests_cover_it_once_the_docs_are_written(package: Path, tmp_path: Path) -> None:
    """Neither the property tests nor the tests of records need an edit."""
    for folder in ("docs", "tests", "tools"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=IGNORED)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(package / "antecede", tmp_path / "src" / "antecede", ignore=IGNORED)
    source = tmp_path / "src"
    run(source, "-m", "tools.pages")
    files = ("protocols/test_properties.py", "protocols/test_records.py")
    tests = [f"tests/{file}" for file in files]
    wanted = "newcomer"
    said = run(source, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", wanted, *tests)
    assert re.search(r"^\d\d passed", said, flags=re.MULTILINE), said


def test_a_zip_is_searched_as_well(package: Path, tmp_path: Path) -> None:
    archive = tmp_path / "antecede.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for path in sorted((package / "antecede").rglob("*.py")):
            target.write(path, str(path.relative_to(package)))
    assert run(archive, "-c", USE).startswith(str(archive))
