"""Run folders: the only place where the pipeline writes files.

A run's folder holds its tables (Parquet), ``index.html`` and ``summary.json``. All files are first
written to ``.unfinished`` inside the folder and moved into place at the end, ``summary.json`` last:
a folder with a summary is complete. The summary lists the files of its run, and no others are ever
touched. Tables come back through the driver, so executors need not see the folder. A run locks its
folder against others, if the file system has locks.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from antecede.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

STAGE = ".unfinished"
SUMMARY = "summary.json"
ASKED = "asked.json"
"""What a resumable run was asked to do: a file in its stage, then beside its result."""
PARTS = "parts"
"""The finished parts of a resumable run, in its stage."""
_SPENT = ".seconds"


@cache
def version() -> str:
    """Return the package's version, also when it runs from a source tree."""
    try:
        return metadata.version("antecede")
    except metadata.PackageNotFoundError:
        return "0+source"


@dataclass(slots=True)
class RunFolder:
    """One run's folder, written whole or not at all. Use as a context manager.

    An exception removes what was staged, unless the run is ``resumable`` and a part of it is
    finished. Then the parts stay in ``.unfinished``, for a later call to ``resume``.
    """

    path: Path
    verb: str
    options: Mapping[str, Any]
    seed: int | None = None
    resumable: bool = False
    started: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))
    _clock: float = field(default_factory=time.monotonic)
    resumed: bool = False
    _spent: float = 0.0
    _made: list[Path] = field(default_factory=list)
    _lock: int | None = None
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
        """Prepare the folder ``out`` (default ``antecede-out/<verb>-<time>``).

        Raises :class:`UsageError` if it cannot be written, another run is writing to it, it holds
        files of other programs or the result of another verb, or it holds an interrupted run that
        is not to be resumed. The result of an earlier run of the same verb is replaced when the new
        one is complete.
        """
        if out == "":  # Path("") would be the current folder.
            msg = "--out is empty; name a folder, or give . for the current one"
            raise UsageError(msg)
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        path = Path(out) if out is not None else _unused(Path("antecede-out") / f"{verb}-{stamp}")
        folder = cls(path, verb, dict(options), seed, resumable=resumable, resumed=resume)
        try:
            folder._claim()
        except BaseException:
            folder._release()
            raise
        return folder

    @property
    def stage(self) -> Path:
        """Where files are written until the run is complete."""
        return self.path / STAGE

    @property
    def seconds(self) -> float:
        """Seconds since the run began, including those before it was resumed."""
        return self._spent + time.monotonic() - self._clock

    @property
    def has_parts(self) -> bool:
        """Whether there is finished work that a resumed run need not repeat."""
        return any(not part.name.startswith(".") for part in self.stage.glob(f"{PARTS}/*"))

    def keep_seconds(self) -> None:
        """Save the time spent next to the finished parts, for the call that resumes them."""
        (self.stage / PARTS / _SPENT).write_text(f"{self.seconds:.3f}\n", encoding="utf-8")

    def write_table(self, name: str, table: pa.Table, *, by: str | None = None) -> None:
        """Stage ``table`` as ``name.parquet``, or as folders ``name/<by>=.../`` if ``by``."""
        import pyarrow.parquet as pq

        if by is None:
            pq.write_table(table, self.stage / f"{name}.parquet")
            return
        rest = table.drop_columns([by])
        keys = [str(value) for value in table.column(by).to_pylist()]
        for value in sorted(set(keys)):
            part = self.stage / name / f"{by}={value}"
            part.mkdir(parents=True, exist_ok=True)
            rows = [number for number, key in enumerate(keys) if key == value]
            pq.write_table(rest.take(rows), part / "part-0.parquet")

    def write_text(self, name: str, text: str) -> None:
        """Stage a text file."""
        target = self.stage / name
        target.parent.mkdir(parents=True, exist_ok=True)
        # Names of files may hold bytes that are not UTF-8.
        target.write_text(text, encoding="utf-8", errors="backslashreplace")

    def summary(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Return the contents of ``summary.json``: the call, its provenance and its result."""
        return {
            "verb": self.verb,
            "version": version(),
            "options": dict(self.options),
            "seed": self.seed,
            "started": self.started,
            "seconds": round(self.seconds, 3),
            "files": sorted(({entry.name for entry in self.stage.iterdir()} | {SUMMARY}) - {PARTS}),
            "result": dict(result),
            "provenance": provenance(),
        }

    def finish(self, result: Mapping[str, Any]) -> dict[str, Any]:
        """Move everything staged into place, the summary last; return the summary.

        Only then are the parts of a resumable run removed, so it can be resumed until the end.
        """
        summary = self.summary(result)
        self.write_text(SUMMARY, json.dumps(summary, indent=2, default=str) + "\n")
        earlier = _files_of(self.path)
        _remove(self.path / SUMMARY)
        for name in earlier - set(summary["files"]):
            _remove(self.path / name)
        for name in sorted(summary["files"], key=lambda name: name == SUMMARY):
            _remove(self.path / name)
            (self.stage / name).rename(self.path / name)
        shutil.rmtree(self.stage)
        self._finished = True
        return summary

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if not self._finished:
            if self.resumable and self.has_parts:
                with contextlib.suppress(OSError):
                    self.keep_seconds()
            else:
                shutil.rmtree(self.stage, ignore_errors=True)
                for made in self._made:
                    with contextlib.suppress(OSError):
                        made.rmdir()
        self._release()

    def _claim(self) -> None:
        """Lock the folder and create the stage, or raise one line that says why not."""
        if self.resumed and not self.path.is_dir():
            msg = f"cannot resume: there is no folder {self.path}; give the --out of the first call"
            raise UsageError(msg)
        try:
            self._made = [part for part in (self.path, *self.path.parents) if not part.exists()]
            self.path.mkdir(parents=True, exist_ok=True)
            self._take_lock()
            self._check_contents()
            if self.resumed:
                self._spent = self._spent_earlier()
            else:
                shutil.rmtree(self.stage, ignore_errors=True)
            self.stage.mkdir(exist_ok=True)
            probe = self.stage / f".probe-{os.getpid()}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            reason = error.strerror or str(error)
            msg = f"cannot write to --out {self.path} ({reason}); choose another folder"
            raise UsageError(msg) from error

    def _spent_earlier(self) -> float:
        """Return the seconds spent on the earlier run, interrupted or complete."""
        try:
            if self.has_parts:
                return float((self.stage / PARTS / _SPENT).read_text(encoding="utf-8"))
            return float(_summary(self.path).get("seconds", 0.0))
        except (OSError, ValueError, TypeError):
            return 0.0

    def _take_lock(self) -> None:
        """Lock the folder itself until the run or its process ends; this leaves no file behind."""
        self._lock = lock_folder(self.path, f"--out {self.path}")

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _check_contents(self) -> None:
        present = {entry.name for entry in self.path.iterdir()}
        strange = present - _files_of(self.path) - _files_of(self.stage) - {STAGE}
        if strange:
            msg = (
                f"--out {self.path} holds other files, such as {min(strange)!r}; "
                "choose a new or empty folder"
            )
            raise UsageError(msg)
        earlier = _summary(self.path).get("verb", self.verb)
        if earlier != self.verb and not self.resumed:
            msg = f"--out {self.path} holds the result of {earlier}; choose another folder"
            raise UsageError(msg)
        if self.resumed:
            begun = self.has_parts or (self.stage / ASKED).is_file()
            if not begun and _summary(self.path).get("verb") != self.verb:
                msg = (
                    f"cannot resume: there is no {self.verb} in {self.path}; "
                    "give the --out of the first call, or leave --resume out"
                )
                raise UsageError(msg)
        elif self.has_parts:
            msg = (
                f"--out {self.path} holds an interrupted {self.verb}; continue it with --resume, "
                f"choose another folder, or remove {self.stage}"
            )
            raise UsageError(msg)


def lock_folder(path: Path, name: str) -> int:
    """Lock a folder for this process; return the descriptor to close when its run has ended.

    The system releases the lock when the process ends. If another run holds it, the error calls the
    folder ``name``.
    """
    lock = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        msg = f"another run is writing to {name}; wait until it ends, or choose another folder"
        raise UsageError(msg) from None
    except OSError:  # The file system has no locks, like some network file systems.
        pass
    return lock


def provenance() -> dict[str, str]:
    """Return what else affects a result or its speed: interpreter, machine, libraries."""
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
    """Return ``path``, with a number appended if two runs begin within the same second."""
    number, candidate = 1, path
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.name}-{number}")
    return candidate


def _summary(path: Path) -> dict[str, Any]:
    """Return the summary that an earlier run left in a folder; empty if there is none."""
    try:
        summary = json.loads((path / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    ours = isinstance(summary, dict) and {"verb", "version", "files"} <= set(summary)
    return summary if ours else {}


def _files_of(path: Path) -> set[str]:
    """Return the names of the files that an earlier run left in a folder, from its summary."""
    names = _summary(path).get("files", ())
    if not isinstance(names, list):
        return set()
    return {str(name) for name in names if Path(str(name)).name == str(name)}


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
