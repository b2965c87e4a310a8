"""Sparks for tests: one embedded session, one standalone cluster."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import antecede
from antecede.spark import session as sessions
from antecede.spark.java import find_java, java_home
from antecede.spark.session import session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession


WORKERS = 2


@cache
def light_jvm() -> str:
    """Return the flags of a light JVM, which for tests does not verify Spark's classes either.

    That saves a sixth of its work until the first tables. Java after 21 warns about the flag.
    """
    flags = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    return f"{sessions._LIGHT_JVM} {flags if find_java().major <= 21 else ''}".strip()


def lighten() -> str:
    """Return a line of code that gives the light sessions of another process these flags."""
    return f"import antecede.spark.session as s; s._LIGHT_JVM = {light_jvm()!r}"


@contextlib.contextmanager
def embedded() -> Iterator[SparkSession]:
    """Run the one embedded session that all tests of a worker share."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "_LIGHT_JVM", light_jvm())
        with session("local[2]", app="antecede-tests", memory="1g", light=True) as started:
            yield started


@dataclass
class Cluster:
    """A standalone master with two workers on loopback.

    ``python`` is their interpreter: it has Spark's needs, NumPy and Numba, but not antecede.
    ``hidden`` is a folder that the driver can write and the workers see as empty and read-only
    (if the machine allows mount namespaces; ``hides`` says so).
    """

    master: str
    python: Path
    hidden: Path
    hides: bool
    launch: Callable[[], subprocess.Popen[bytes]]
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def environment(self) -> dict[str, str]:
        """Return the driver's environment for this cluster.

        It does not name the package's folder, so that processes of Spark do not find it that way.
        """
        return _clean() | {"PYSPARK_PYTHON": str(self.python)}

    def complete(self) -> None:
        """Replace the workers that were killed."""
        while len(self.workers) < WORKERS:
            self.workers.append(self.launch())

    def kill_worker(self) -> None:
        """Kill the oldest worker with everything it started, as a lost machine would."""
        worker = self.workers.pop(0)
        assert len(family(worker.pid)) > 1, "the worker has no executor"
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait(timeout=600)


def family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    found = [pid]
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in listed.read_text(encoding="utf-8").split():
                found += family(int(child))
    return found


def _home(folder: Path) -> Path:
    """Make a SPARK_HOME without the zip file of PySpark, which workers would compile each time."""
    import pyspark

    folder.mkdir()
    for name in ("bin", "jars"):
        (folder / name).symlink_to(Path(pyspark.__file__).parent / name, target_is_directory=True)
    return folder


def _foreign_python(folder: Path) -> Path:
    """Make an interpreter that finds our libraries, but not the package itself.

    Python ignores path files in a folder that a path file names, so it does not find the
    editable install of the package.
    """
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=600
    )
    site = Path(next(p for p in sys.path if p.endswith("site-packages")))
    inner = next((folder / "lib").glob("python*")) / "site-packages"
    (inner / "libraries.pth").write_text(f"{site}\n", encoding="utf-8")
    python = folder / "bin" / "python"
    code = "import pyspark, numba, pyarrow, importlib.util as u; assert not u.find_spec('antecede')"
    subprocess.run([str(python), "-c", code], check=True, timeout=600, env=_clean(), cwd="/")
    return python


def _clean() -> dict[str, str]:
    dropped = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_DIRS")
    kept = {key: value for key, value in os.environ.items() if key not in dropped}
    return kept | {"JAVA_HOME": str(java_home(find_java())), "SPARK_LOCAL_IP": "127.0.0.1"}


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _hiding(folder: Path) -> list[str]:
    """Return the command prefix under which a program sees ``folder`` empty and read-only."""
    words = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        f'mount -t tmpfs -o ro none "{folder}" && exec "$@"',
        "sh",
    ]
    try:
        subprocess.run([*words, "true"], check=True, timeout=600, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return words


def _await(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(encoding="utf-8")
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=60).close()
            return
        time.sleep(0.2)
    pytest.fail(f"the Spark master did not listen within 600 s: {log.read_text(encoding='utf-8')}")


@contextlib.contextmanager
def standalone() -> Iterator[Cluster]:
    """Start a standalone cluster whose Python has never heard of the package."""
    base = Path(tempfile.mkdtemp(prefix="antecede-cluster-"))
    hidden = base / "hidden"
    hidden.mkdir()
    home = _home(base / "home")
    environment = _clean() | {
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": light_jvm(),
        "SPARK_LOCAL_DIRS": str(base / "local"),
        "TMPDIR": str(base / "tmp"),
    }
    (base / "tmp").mkdir()
    port, started = _free_port(), list[subprocess.Popen[bytes]]()

    def launch(name: str, *words: str) -> subprocess.Popen[bytes]:
        with (base / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                words, stdout=log, stderr=log, env=environment, cwd=base, start_new_session=True
            )
        started.append(process)
        return process

    def daemon(name: str) -> list[str]:
        program = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        return [*program, "--host", "127.0.0.1", "--webui-port", "0"]

    hiding = _hiding(hidden)
    try:
        master = launch("master", *daemon("master.Master"), "--port", str(port))
        _await(port, master, base / "master.log")
        url, room = f"spark://127.0.0.1:{port}", ("--cores", "1", "--memory", "1g")

        def worker() -> subprocess.Popen[bytes]:
            name = f"worker{len(started)}"
            folder = ("--work-dir", str(base / name))
            return launch(name, *hiding, *daemon("worker.Worker"), *room, *folder, url)

        found = Cluster(url, _foreign_python(base / "venv"), hidden, bool(hiding), worker)
        found.complete()
        yield found
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=600)
        shutil.rmtree(base, ignore_errors=True)


def lend_kernels_to(theirs: Path) -> None:
    """Copy the kernels compiled beside the package to a copy of its sources.

    Numba's cache files are valid for sources of the same size and time.
    """
    ours = Path(antecede.__path__[0])
    assert theirs.name == "antecede"
    for source in theirs.rglob("*.py"):
        shutil.copystat(ours / source.relative_to(theirs), source)
    for kernel in ours.rglob("__pycache__/*.nb[ic]"):
        target = theirs / kernel.relative_to(ours)
        if target.parent.parent.is_dir():
            target.parent.mkdir(exist_ok=True)
            shutil.copy2(kernel, target)


@contextlib.contextmanager
def connect_server() -> Iterator[str]:
    """Start a Spark Connect server on this machine; yield its address."""
    base = Path(tempfile.mkdtemp(prefix="antecede-connect-"))
    port, log = _free_port(), base / "server.log"
    home = _home(base / "home")
    root = Path(__file__).resolve().parents[2]
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.extraJavaOptions": light_jvm(),
        "spark.driver.memory": "1g",
        "spark.local.dir": str(base / "local"),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(base / "warehouse"),
        "spark.ui.enabled": "false",
    }
    words = [str(home / "bin" / "spark-submit"), "--master", "local[2]"]
    for name, value in settings.items():
        words += ["--conf", f"{name}={value}"]
    words += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    environment = _clean() | {
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        # A query with state starts Python beside the driver, without the shipped package.
        "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)]),
    }
    with log.open("wb") as told:
        process = subprocess.Popen(
            [*words, "spark-internal"],
            stdout=told,
            stderr=told,
            env=environment,
            cwd=base,
            start_new_session=True,
        )
    try:
        _await(port, process, log)
        yield f"sc://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=600)
        shutil.rmtree(base, ignore_errors=True)
