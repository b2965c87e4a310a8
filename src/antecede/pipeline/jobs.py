"""Run folders: the only place where the pipeline writes files.

A run's folder holds its tables (Parquet), ``index.html`` and ``summary.json``. Everything is
first written into ``.unfinished`` inside the folder and moved into place at the end,
``summary.json`` last: a folder with a summary is whole, one without is not a result. The summary
lists the files of its run; nothing else in a folder is ever touched. Tables come back through the
driver, so the folder need not be visible to a cluster's executors.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from antecede.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    import pyarrow as pa
    from pyspark.sql import DataFrame

STAGE = ".unfinished"
SUMMARY = "summary.json"
PAGE = "index.html"


def version() -> str:
    """Return the package's version, also where it runs from a source tree."""
    try:
        return metadata.version("antecede")
    except metadata.PackageNotFoundError:
        return "0+source"


@dataclass(slots=True)
class RunFolder:
    """One run's folder, written whole or not at all. Use as a context manager.

    On an exception what was staged is removed again, unless the run is ``resumable``: then it
    stays in ``.unfinished`` for the next call with the same folder.
    """

    path: Path
    verb: str
    options: Mapping[str, Any]
    seed: int | None = None
    resumable: bool = False
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    _clock: float = field(default_factory=time.monotonic)
    _made: bool = False
    _finished: bool = False

    @classmethod
    def open(
        cls,
        out: str | Path | None,
        verb: str,
        *,
        options: Mapping[str, Any],
        seed: int | None = None,
        resume: bool = False,
        resumable: bool = False,
    ) -> RunFolder:
        """Make ready the folder ``out`` (default ``antecede-out/<verb>-<time>``).

        Raises :class:`UsageError` if it cannot be written, or holds files that no run of ours
        left there. An earlier result of ours is replaced when the new one is whole.
        """
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        path = Path(out) if out is not None else _unused(Path("antecede-out") / f"{verb}-{stamp}")
        folder = cls(path, verb, dict(options), seed, resumable=resumable)
        folder._made = not path.exists()
        folder._claim(resume=resume)
        return folder

    @property
    def stage(self) -> Path:
        """Where files are written until the run is whole."""
        return self.path / STAGE

    @property
    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._clock

    def write_table(self, name: str, table: pa.Table, *, by: str | None = None) -> None:
        """Stage ``table`` as ``name.parquet``, or as folders ``name/<by>=.../`` if ``by``."""
        import pyarrow.parquet as pq

        if by is None:
            target = self.stage / f"{name}.parquet"
            target.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table, target)
            return
        rest = table.drop_columns([by])
        keys = [str(value) for value in table.column(by).to_pylist()]
        for value in sorted(set(keys)):
            part = self.stage / name / f"{by}={value}"
            part.mkdir(parents=True, exist_ok=True)
            rows = [number for number, key in enumerate(keys) if key == value]
            pq.write_table(rest.take(rows), part / "part-0.parquet")

    def write_frame(self, name: str, frame: DataFrame) -> pa.Table:
        """Stage a (small enough) Spark frame through the driver; return it as a table."""
        table = frame.toArrow()
        self.write_table(name, table)
        return table

    def write_text(self, name: str, text: str) -> None:
        """Stage a text file."""
        target = self.stage / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def summary(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return what ``summary.json`` says: the call, its provenance and its result."""
        return {
            "verb": self.verb,
            "version": version(),
            "options": dict(self.options),
            "seed": self.seed,
            "started": self.started,
            "seconds": round(self.seconds, 3),
            "files": sorted({entry.name for entry in self.stage.iterdir()} | {SUMMARY}),
            "result": dict(result),
            "provenance": provenance(),
        }

    def finish(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Move everything staged into place, the summary last; return the summary."""
        summary = self.summary(result)
        self.write_text(SUMMARY, json.dumps(summary, indent=2, default=str) + "\n")
        earlier = _files_of(self.path)
        _remove(self.path / SUMMARY)
        for name in earlier - set(summary["files"]):
            _remove(self.path / name)
        entries = sorted(self.stage.iterdir(), key=lambda entry: entry.name == SUMMARY)
        for entry in entries:
            target = self.path / entry.name
            _remove(target)
            entry.rename(target)
        self.stage.rmdir()
        self._finished = True
        return summary

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._finished or (self.resumable and any(self.stage.iterdir())):
            return
        shutil.rmtree(self.stage, ignore_errors=True)
        if self._made:
            with contextlib.suppress(OSError):
                self.path.rmdir()

    def _claim(self, *, resume: bool) -> None:
        """Make the staging folder, or say in one line why it cannot be."""
        if self.path.is_dir():
            present = {entry.name for entry in self.path.iterdir()}
            strange = present - _files_of(self.path) - _files_of(self.stage) - {STAGE}
            if strange:
                msg = (
                    f"--out {self.path} holds other files ({min(strange)!r} among them): "
                    "choose a new or empty folder"
                )
                raise UsageError(msg)
        elif resume:
            msg = f"--resume: there is no folder {self.path}; give the --out of the first call"
            raise UsageError(msg)
        if not resume:
            shutil.rmtree(self.stage, ignore_errors=True)
        try:
            self.stage.mkdir(parents=True, exist_ok=True)
            probe = self.stage / f".probe-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            reason = error.strerror or str(error)
            msg = f"cannot write to --out {self.path} ({reason}): choose another folder"
            raise UsageError(msg) from error


def provenance() -> dict[str, str]:
    """Return what else decides a result or its speed: interpreter, machine, libraries."""
    libraries = {}
    for name in ("numpy", "numba", "pyarrow", "pyspark"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            libraries[name] = metadata.version(name)
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        **libraries,
    }


def _unused(path: Path) -> Path:
    """Return ``path``, or it with a number if two runs begin within one second."""
    number, candidate = 1, path
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate


def _files_of(path: Path) -> set[str]:
    """Return the names of what an earlier run of ours left in a folder, by its summary."""
    try:
        summary = json.loads((path / SUMMARY).read_text(encoding="utf-8"))
        if "verb" not in summary or "version" not in summary:
            return set()
        names = {str(name) for name in summary["files"]}
    except (OSError, ValueError, TypeError, KeyError):
        return set()
    return {name for name in names if Path(name).name == name}


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
