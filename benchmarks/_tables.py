"""Rows that benchmarks record besides printing them; ``--out FOLDER`` writes them as CSV.

A benchmark calls :func:`record` once per row. ``FOLDER/TABLE.csv`` has the rows of one table, and
``FOLDER/runs.json`` says when, where and how long each benchmark ran. A benchmark that runs again
replaces its own tables and leaves the others.
"""

from __future__ import annotations

import csv
import datetime as dt
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import antecede

Value = str | int | float | None
ROWS: dict[str, list[dict[str, Value]]] = {}
MISSED: list[str] = []


def record(table: str, **row: Value) -> None:
    """Store a row of a table until :func:`write`."""
    ROWS.setdefault(table, []).append(row)


def judge(bound: str, is_met: bool) -> bool:  # noqa: FBT001 - it is what is passed on
    """Return whether a bound was met; if not, store its name until :func:`write`."""
    if not is_met:
        MISSED.append(bound)
    return is_met


def write(folder: Path, benchmark: str, *, quick: bool, is_met: bool, seconds: float) -> None:
    """Write the rows recorded since the last call, and add the benchmark to ``runs.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "runs.json"
    runs: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    for old in runs.get(benchmark, {}).get("tables", []):
        (folder / f"{old}.csv").unlink(missing_ok=True)
    for table, rows in ROWS.items():
        write_csv(folder / f"{table}.csv", rows)
    runs[benchmark] = {
        "tables": sorted(ROWS),
        "quick": quick,
        "bounds_met": is_met,
        "missed": [] if is_met else list(MISSED),
        "ended": dt.datetime.now(dt.UTC).isoformat(timespec="minutes"),
        "seconds": round(seconds),
        **machine(),
    }
    path.write_text(json.dumps(dict(sorted(runs.items())), indent=1) + "\n")
    ROWS.clear()
    MISSED.clear()


def write_csv(path: Path, rows: list[dict[str, Value]]) -> None:
    """Write rows as CSV; a row may lack columns that others have."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _short(value) for key, value in row.items()} for row in rows)


def _short(value: Value) -> Value:
    """Return a figure rounded to the digits that a measurement has."""
    return float(f"{value:.5g}") if isinstance(value, float) else value


def machine() -> dict[str, Value]:
    """Return the properties of this machine that figures depend on."""
    return {
        "version": antecede.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
    }


def _commit() -> str:
    """Return the commit of the sources, with a plus sign if there are changes to them."""
    here = Path(__file__).resolve().parent

    def told(*words: str) -> str:
        words = "git", "-C", str(here), *words
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()

    changed = told("status", "--porcelain", "--", "../src", ".")  # the tables are no sources
    return (told("rev-parse", "--short=8", "HEAD") or "-") + "+" * bool(changed)


def _processor() -> str:
    """Return the name of the processor, if the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or "unknown"
