"""Build antecede with the modules of the live path compiled to C by mypyc.

    python -m tools.compiled FOLDER

This writes FOLDER/dist/antecede-*.whl, a wheel for this Python and platform, and unpacks it in
FOLDER, so that PYTHONPATH=FOLDER imports it. It needs a C compiler, mypy and setuptools.

The sources are the same, but for what mypyc has to be told: which classes may have subclasses and
may be pickled, and that a class is registered by a call, because mypyc leaves decorated classes
alone.
"""

from __future__ import annotations

import argparse
import ast
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
PACKAGES = ("antecede", "antecede_command", "pyspark_antecede")
MODULES = (
    "core/casts",
    "core/channels",
    "core/endpoint",
    "core/hold",
    "core/hooks",
    "core/logs",
    "core/membership",
    "core/messages",
    "core/numbered",
    "core/numbered_restarts",
    "core/numbered_state",
    "core/restarts",
    "core/retiring",
    "core/roster",
    "core/stamps",
    "core/tally",
    "net/bursts",
    "net/changing",
    "net/channels",
    "net/copies",
    "net/deliveries",
    "net/engine",
    "net/fields",
    "net/frames",
    "net/heads",
    "net/lobby",
    "net/machine",
    "net/members",
    "net/node",
    "net/outcomes",
    "net/outgoing",
    "net/peers",
    "net/records",
    "net/runs",
    "net/saving",
    "net/sending",
    "net/tcp",
    "net/wires",
    "protocols/optimal",
    "wire/codec",
    "wire/lanes",
    "wire/quick",
    "wire/stamps",
    "wire/stream",
)
"""What a send and a delivery pass through; all else stays Python."""
OPTIMIZATION = "2"
FOLDERS = {*PACKAGES, "dist", "source"}
MARK = "@mypyc_attr(allow_interpreted_subclasses=True, serializable=True)"
"""A class needs both or neither: with the second alone, mypyc 2.4 does not call ``__init__``."""
SETUP = """
import sys
from mypyc.build import mypycify
from setuptools import find_packages, setup

opt_level = sys.argv.pop(1)
options = ["--config-file=", "--ignore-missing-imports", "--follow-imports=silent"]
modules = mypycify([*options, *{paths!r}], opt_level=opt_level, debug_level="0")
for module in modules:
    # To look for what to warn of in generated code takes longer than to compile it.
    module.extra_compile_args.append("-Wno-all")
setup(
    packages=find_packages(),
    package_data={{"": ["*", "**/*"]}},
    ext_modules=modules,
)
"""


def has_tools() -> bool:
    """Tell whether this machine can build it."""
    has_modules = all(map(find_spec, ("mypyc", "setuptools")))
    return has_modules and any(map(shutil.which, ("cc", "gcc", "clang")))


def build(folder: Path, optimization: str = OPTIMIZATION) -> Path:
    """Write a wheel and its contents into ``folder``, which we must have made; return it."""
    if folder.exists():
        strange = {
            path.name for path in folder.iterdir() if not path.name.endswith((".so", "-info"))
        }
        if strange - FOLDERS:
            msg = f"{folder} contains {', '.join(sorted(strange - FOLDERS))}; choose another folder"
            raise SystemExit(msg)
        shutil.rmtree(folder)
    source = folder / "source"
    for name in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(SOURCE / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", "PACKAGE.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    paths = [f"antecede/{module}.py" for module in MODULES]
    for path in paths:
        file = source / path
        file.write_text(prepared(file.read_text(encoding="utf-8")), encoding="utf-8")
    (source / "setup.py").write_text(SETUP.format(paths=paths), encoding="utf-8")
    command = [sys.executable, "setup.py", optimization, "--quiet", "bdist_wheel", "-d", "../dist"]
    done = subprocess.run(command, cwd=source, check=False, capture_output=True, text=True)
    wheels = sorted((folder / "dist").glob("*.whl"))
    if done.returncode or not wheels:
        msg = f"building the compiled form failed:\n{done.stdout}{done.stderr}"
        raise SystemExit(msg)
    with zipfile.ZipFile(wheels[0]) as wheel:
        wheel.extractall(folder)
    return folder


def cached(optimization: str = OPTIMIZATION) -> Path:
    """Return a folder with the compiled form of these sources; build it once."""
    state = blake2b(f"{sys.version} {optimization}".encode(), digest_size=8)
    for path in sorted([Path(__file__), ROOT / "pyproject.toml", *SOURCE.rglob("*.py")]):
        state.update(path.read_bytes())
    place = Path(tempfile.gettempdir()) / f"antecede-compiled-{state.hexdigest()}"
    if not place.exists():
        with tempfile.TemporaryDirectory() as name:
            made = build(Path(name) / "made", optimization)
            shutil.rmtree(made / "source")
            shutil.copytree(made, Path(name) / place.name)
            shutil.move(Path(name) / place.name, place)
    return place


def prepared(text: str) -> str:
    """Return the text of a module as mypyc should read it."""
    text = re.sub(r"^COMPILED: Final = False$", "COMPILED: Final = True", text, flags=re.MULTILINE)
    calls = re.findall(r"^@register\nclass (\w+)", text, flags=re.MULTILINE)
    text = re.sub(r"^@register\n", "", text, flags=re.MULTILINE)
    text += "".join(f"\n\nregister({name})\n" for name in calls)
    found = re.search(r"^class ", text, flags=re.MULTILINE)
    if found is None:
        return text
    doc = ast.get_docstring(ast.parse(text), clean=False)
    known = (
        "import typing\n\n"
        "if typing.TYPE_CHECKING:\n"
        "    from mypy_extensions import mypyc_attr\n\n"
        f"__doc__ = {doc!r}\n\n\n"
    )
    begin, rest = text[: found.start()], text[found.start() :]
    plain = r"^(class \w+(?!.*(?:NamedTuple|Error)\)))"
    return begin + known + re.sub(plain, MARK + r"\n\1", rest, flags=re.MULTILINE)


def main() -> None:
    """Build what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where to put the wheel and what is in it")
    parser.add_argument(
        "--optimization", default=OPTIMIZATION, help="of the C compiler (default %(default)s)"
    )
    asked = parser.parse_args()
    folder = build(asked.folder, asked.optimization)
    print(f"wrote {next((folder / 'dist').glob('*.whl'))}; to use it as it is: PYTHONPATH={folder}")


if __name__ == "__main__":
    main()
