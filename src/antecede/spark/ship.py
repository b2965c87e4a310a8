"""Ship the package to executors where it is not installed.

On the driver, :func:`archive` packs the package's source into a zip file, which Spark puts on the
executors' import path. Compiled kernels cannot be cached beside a source inside a zip file. So
every function that runs on an executor first calls :func:`use_unpacked`, which unpacks the file
once per machine and version and imports the rest of the package from there.

A streaming query with state also starts a Python process on the driver's machine. It has the
executors' interpreter, but does not get what was shipped to them, so :func:`found_by_drivers_jvm`
puts the package on its path.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import antecede

_LEFT_BEHIND = ("cli", "net")
"""Packages that only the driver needs."""


def archive(folder: Path) -> Path:
    """Pack the package's source into ``folder``; equal sources give equal bytes and name."""
    root = Path(antecede.__path__[0])
    files = sorted(
        path for path in root.rglob("*.py") if path.relative_to(root).parts[0] not in _LEFT_BEHIND
    )
    digest = hashlib.sha256()
    contents = []
    for path in files:
        name = f"antecede/{path.relative_to(root).as_posix()}"
        data = path.read_bytes()
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
        contents.append((name, data))
    target = folder / f"antecede-{digest.hexdigest()[:16]}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, data in contents:
            packed.writestr(zipfile.ZipInfo(name), data)
    return target


@contextlib.contextmanager
def found_by_drivers_jvm(packed: Path) -> Iterator[None]:
    """Let the Python processes of a JVM started inside the block find the package.

    They find an unpacked copy beside ``packed``, without the libraries that are installed beside
    the package: those are for this interpreter.
    """
    folder = packed.with_suffix("")
    with zipfile.ZipFile(packed) as archived:
        archived.extractall(folder)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), before]))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def use_unpacked() -> None:
    """Import the rest of the package from an unpacked copy if it runs from a zip file."""
    packed = Path(antecede.__path__[0]).parent
    if packed.is_file():
        _redirect(_unpacked(packed))


def _redirect(folder: Path) -> None:
    """Make every package of ours find its other modules in the unpacked copy."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "antecede" and hasattr(module, "__path__"):
            module.__path__ = [str(folder.joinpath(*name.split(".")))]
    sys.path.insert(0, str(folder))


def _unpacked(packed: Path) -> Path:
    """Return the folder of the unpacked archive, renamed into place once complete."""
    folder = Path(tempfile.gettempdir()) / f"{packed.stem}-{os.getuid()}"
    if not folder.exists():
        aside = Path(tempfile.mkdtemp(prefix=f"{packed.stem}-"))
        with zipfile.ZipFile(packed) as archived:
            archived.extractall(aside)
        try:
            aside.rename(folder)
        except OSError:  # Another worker of this machine was quicker.
            shutil.rmtree(aside, ignore_errors=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        # Never import code from a folder that belongs to someone else.
        folder = Path(tempfile.mkdtemp(prefix=f"{packed.stem}-"))
        with zipfile.ZipFile(packed) as archived:
            archived.extractall(folder)
    return folder
