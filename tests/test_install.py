"""The wheel and the sdist, built and installed into an empty environment without the network.

What an extra would download is linked from the environment that runs the tests, and nothing else
is there: an import that no extra declares fails here.
"""

from __future__ import annotations

import json
import posixpath
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
LOG = """\
{"process": "a", "seq": 1, "kind": "send", "message": "q", "dests": ["b", "c"]}
{"process": "b", "seq": 1, "kind": "deliver", "message": "q"}
{"process": "b", "seq": 2, "kind": "send", "message": "r", "dests": ["c"]}
{"process": "c", "seq": 1, "kind": "deliver", "message": "r"}
{"process": "c", "seq": 2, "kind": "deliver", "message": "q"}
"""


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the wheel in it."""

    folder: Path

    @property
    def packages(self) -> Path:
        return next((self.folder / "lib").glob("python*")) / "site-packages"

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        program = [str(self.folder / "bin" / "antecede"), *words]
        return subprocess.run(
            program,
            capture_output=True,
            text=True,
            check=False,
            timeout=1800,
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "NUMBA_DISABLE_JIT": "1"},
        )

    def add(self, requirements: list[str]) -> None:
        """Link the packages that these requirements need, directly or indirectly."""
        todo, done = [(Requirement(text), "") for text in requirements], set[tuple[str, str]]()
        while todo:
            wanted, _ = todo.pop()
            for extra in (*sorted(wanted.extras), ""):
                if (wanted.name, extra) in done:
                    continue
                done.add((wanted.name, extra))
                found = distribution(wanted.name)
                self._link(found)
                for text in found.requires or ():
                    need = Requirement(text)
                    if need.marker is None or need.marker.evaluate({"extra": extra}):
                        todo.append((need, extra))

    def _link(self, found: Distribution) -> None:
        for top in {Path(str(file)).parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            there = Path(str(found.locate_file(top)))
            if not (self.packages / top).exists():
                (self.packages / top).symlink_to(there)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    words = ["uv", "build", "--no-build-isolation", "--offline", "--quiet", "--out-dir", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", *words, str(ROOT)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture
def empty(built: Path, tmp_path: Path) -> Environment:
    """Return an environment with the wheel and what the core needs."""
    made = Environment(tmp_path / "env")
    venv.create(made.folder, with_pip=False, symlinks=True)
    (wheel,) = built.glob("*.whl")
    words = ["uv", "pip", "install", "--offline", "--no-deps", "--quiet"]
    words += ["--python", str(made.folder / "bin" / "python"), str(wheel)]
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    made.add(needs(wheel, ""))
    return made


def needs(wheel: Path, extra: str) -> list[str]:
    """Return the requirements that the wheel states for itself or one of its extras."""
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        lines = opened.read(name).decode().splitlines()
    found = [
        Requirement(line.partition(": ")[2]) for line in lines if line.startswith("Requires-D")
    ]
    chosen = [one for one in found if one.marker is None or one.marker.evaluate({"extra": extra})]
    result = [f"{one.name}{one.specifier}" for one in chosen if one.name != "antecede"]
    for one in chosen:
        if one.name == "antecede":
            result += [text for inner in sorted(one.extras) for text in needs(wheel, inner)]
    return result


def test_the_core_alone_works_and_says_what_else_to_install(empty: Environment) -> None:
    done = empty.run("protocols")
    assert done.returncode == 0, done.stderr
    assert "optimal" in done.stdout
    done = empty.run("study")
    assert done.returncode == 2
    assert "pip install 'antecede[spark]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    done = empty.run("play", "--no-open")
    assert done.returncode == 0, done.stderr
    (empty.folder / "log.jsonl").write_text(LOG)
    done = empty.run("audit", "log.jsonl", "--json")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["result"]["verdict"] == "broken"


def test_with_the_logs_extra_a_local_audit_works(empty: Environment, built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    empty.add(needs(wheel, "logs"))
    (empty.folder / "log.jsonl").write_text(LOG)
    done = empty.run("audit", "log.jsonl", "--local", "--json")
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["result"]["verdict"] == "broken"
    done = empty.run("study")
    assert done.returncode == 2
    assert "pip install 'antecede[spark]'" in done.stderr


def test_the_sdist_has_what_the_wheel_is_built_from(built: Path) -> None:
    (sdist,), (wheel,) = built.glob("*.tar.gz"), built.glob("*.whl")
    with tarfile.open(sdist) as opened:
        files = {name.partition("/src/")[2] for name in opened.getnames() if "/src/" in name}
    with zipfile.ZipFile(wheel) as opened:
        inside = {
            name for name in opened.namelist() if ".dist-info/" not in name and name[-1] != "/"
        }
    assert inside
    assert "antecede/py.typed" in inside
    assert "antecede/report/templates/playground.html" in inside
    assert inside <= files


def test_the_links_of_the_pages_in_the_sdist_lead_to_files_in_it(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as opened:
        names = set(opened.getnames())
        pages = {
            name: opened.extractfile(name).read().decode()  # type: ignore[union-attr]
            for name in names
            if name.endswith(".md")
        }
    names |= {posixpath.dirname(name) for name in names}
    missing = set()
    for page, text in pages.items():
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", prose):
            if posixpath.normpath(f"{posixpath.dirname(page)}/{target}") not in names:
                missing.add(target)
    assert not missing
