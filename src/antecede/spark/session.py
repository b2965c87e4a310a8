"""Start and stop Spark: embedded by default, a cluster's or Spark Connect's by ``--master``.

In order: the masters and whether they answer, the settings that Spark starts with, the session.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import site
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import antecede
from antecede.errors import MasterError, UsageError
from antecede.spark.java import Jvm, find_java, has_jvm, java_home
from antecede.spark.ship import archive, found_by_drivers_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


WAIT_MAX = 1_000_000
"""The most seconds to wait for a master: more than a week."""

CONNECT_PORT = 15002
"""Where a Spark Connect server listens, unless the address says otherwise."""

CLOSED_SECONDS = 0.5
"""How soon a server that is not a Spark master closes a connection it has accepted."""

_EMBEDDED = re.compile(r"local(\[(\*|[1-9]\d*)(,\s*\d+)?\])?$")
_STANDALONE = re.compile(r"spark://[^/]+$")
_OTHER = re.compile(r"(yarn$|k8s://|local-cluster\[)")
_CONNECT = re.compile(r"sc://[^/;]+(/.*)?$")


def is_embedded(master: str) -> bool:
    """Return whether ``master`` runs on this machine with this Python."""
    return _EMBEDDED.match(master) is not None


def check_master(master: str, wait: float) -> None:
    """Refuse a master that has no valid name or, if standalone, does not answer in time."""
    if not 0 < wait <= WAIT_MAX:
        msg = f"--wait {wait:g} is not possible; give seconds, more than 0 and up to {WAIT_MAX:,}"
        raise UsageError(msg)
    if not any(form.match(master) for form in (_EMBEDDED, _STANDALONE, _CONNECT, _OTHER)):
        msg = (
            f"Spark has no master {master!r}; use local[*], local[2], spark://HOST:PORT, yarn, "
            "k8s://... or sc://HOST for Spark Connect"
        )
        raise MasterError(msg, master=master, reason="unknown")
    if not _STANDALONE.match(master) and not _CONNECT.match(master):
        return
    failures = []
    for host, port in _addresses(master):
        try:
            if _stays_open(host, port, wait):
                return
            failures.append(f"{host}:{port}: the connection is closed at once")
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
    reason = "; ".join(failures)
    msg = (
        f"master {master} does not answer ({reason}); is it running there? "
        "Without --master the work runs on this machine"
    )
    raise MasterError(msg, master=master, reason=reason)


def _stays_open(host: str, port: int, wait: float) -> bool:
    """Connect, and return whether the other side waits for a request, as a master does."""
    with socket.create_connection((host, port), timeout=wait) as made:
        made.settimeout(CLOSED_SECONDS)
        try:
            return made.recv(1) != b""
        except TimeoutError:
            return True


def _addresses(master: str) -> list[tuple[str, int]]:
    """Return hosts and ports of ``spark://a:1,b:2``, a master and its standbys, or ``sc://a``."""
    found = []
    if _CONNECT.match(master):
        with contextlib.suppress(ValueError):
            url = urlsplit(master.partition(";")[0])
            return [(url.hostname or "", url.port or CONNECT_PORT)]
    for part in master.removeprefix("spark://").split(","):
        host, _, port = part.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            msg = f"master {master!r} has no host and port; write spark://HOST:7077"
            raise MasterError(msg, master=master, reason="no host and port")
        found.append((host.strip("[]"), int(port)))
    return found


def is_loopback(master: str) -> bool:
    """Return whether ``master`` is a standalone master on this machine."""
    if not _STANDALONE.match(master):
        return False
    local = ("127.", "localhost", "::1")
    return all(host.startswith(local) for host, _ in _addresses(master))


#: Settings that can be changed while a session runs.
_RUNTIME = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
_ANY_JVM = "-XX:-UsePerfData"  # Its files would outlive a JVM that is killed.
_LIGHT_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_MEMORY_LEAST = 512 << 20
_MEMORY_MOST = 64 << 40
_HEAVY_JVM = "-XX:+UseParallelGC"

_QUIET = """status = error
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n%ex{3}
# Spark announces a change of level unless its gateway has the root's level.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""
#: Loggers that would repeat what the driver raises: why a task or query failed, a lost master.
_SILENT = (
    "scheduler",
    "executor",
    "api.python",
    "util.Utils",
    "network",
    "deploy",
    "rpc",
    "sql.execution.streaming",
    "sql.execution.datasources.FileFormatWriter",
)


def check_memory(memory: str) -> None:
    """Refuse a size of memory that Java would not understand, or that is too small for Spark."""
    size = re.fullmatch(r"([0-9]{1,9})([kmgt])", memory, flags=re.IGNORECASE)
    asked = int(size[1]) << 10 * ("kmgt".index(size[2].lower()) + 1) if size else 0
    if asked < _MEMORY_LEAST:
        msg = (
            f"--memory {memory!r} is not a size of 512m or more; use a number and m or g, as in 4g"
        )
        raise UsageError(msg)
    if asked > _MEMORY_MOST:
        msg = f"--memory {memory!r} is more than Java can reserve; use less, as in 4g"
        raise UsageError(msg)


def make_scratch() -> Path:
    """Create a scratch folder named after this process; remove those of dead processes."""
    base = Path(tempfile.gettempdir())
    for old in base.glob("antecede-spark-*-*"):
        owner = old.name.split("-")[2]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and Path("/proc/self").exists():
            with contextlib.suppress(OSError):
                if old.stat().st_uid == os.getuid():
                    shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"antecede-spark-{os.getpid()}-"))


def set_environment(master: str) -> None:
    """Set the variables that Spark's launcher reads; keep those the user has set."""
    os.environ["JAVA_HOME"] = str(java_home(find_java()))
    if is_embedded(master):
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Workers import the same package as this process, however it was found.
        ours = str(Path(antecede.__path__[0]).parent)
        known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if ours not in known:
            os.environ["PYTHONPATH"] = os.pathsep.join([ours, *filter(None, known)])
    elif is_loopback(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


@contextlib.contextmanager
def quick_workers(scratch: Path) -> Iterator[None]:
    """Let workers of a JVM started inside the block import PySpark from where it is installed.

    Otherwise they read it from a zip file below SPARK_HOME, and compile all of it at each start:
    five times the work. Spark gives some of them only ten seconds, which a busy machine exceeds.
    """
    import pyspark

    home, links = Path(pyspark.__file__).parent, scratch / "home"
    is_installed = any(Path(folder) == home.parent for folder in site.getsitepackages())
    if "SPARK_HOME" in os.environ or not is_installed:
        yield
        return
    links.mkdir()
    for name in ("bin", "jars", "conf"):
        if (home / name).exists():
            (links / name).symlink_to(home / name, target_is_directory=True)
    os.environ["SPARK_HOME"] = str(links)
    try:
        yield
    finally:
        del os.environ["SPARK_HOME"]


def settings_for(master: str, memory: str, scratch: Path, *, light: bool) -> dict[str, str]:
    """Return Spark's settings; ``light`` suits work that is done in Python."""
    check_memory(memory)
    log4j = scratch / "log4j2.properties"
    silent = [f"org.apache.spark.{name}" for name in _SILENT] + ["io.netty"]
    off = "logger.off{0}.name = {1}\nlogger.off{0}.level = off\n"
    loggers = "".join(off.format(number, name) for number, name in enumerate(silent))
    log4j.write_text(_QUIET + loggers, encoding="utf-8")
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={log4j.as_uri()} -Dderby.system.home={scratch} "
            f"-Djava.io.tmpdir={scratch} {_ANY_JVM} {_LIGHT_JVM if light else _HEAVY_JVM}"
        ),
        "spark.local.dir": str(scratch),
        "spark.python.authenticate.socketTimeout": "600s",  # 15 s are short on a busy machine.
        "spark.python.worker.reuse": "true",
        **_RUNTIME,
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if is_embedded(master):
        settings["spark.sql.shuffle.partitions"] = "2"
        settings["spark.sql.adaptive.enabled"] = "true"
    if is_embedded(master) or is_loopback(master):
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


WAIT_SECONDS = 180.0
"""How long a master may take to answer, and its cluster to run a first task, by default."""

JVM_SECONDS = 600.0
"""How long this machine may take to start a JVM."""

STOP_SECONDS = 5.0
"""How long Spark may take to shut down cleanly; then its JVM is killed."""


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, handled like Ctrl-C except for the exit status."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.status = 128 + number


@contextlib.contextmanager
def session(
    master: str | None = None,
    *,
    app: str = "antecede",
    memory: str = "2g",
    light: bool = False,
    config: Mapping[str, str] | None = None,
    wait: float = WAIT_SECONDS,
) -> Iterator[SparkSession]:
    """Start Spark, yield the session, and stop it, leaving no scratch files behind.

    ``master`` defaults to ``local[*]``. ``light`` suits work that is done in Python: the JVM starts
    some seconds sooner, but is slower on large tables. ``config`` overrides any setting made here.
    ``wait`` is how many seconds a master may take to answer.
    """
    master = master or "local[*]"
    check_master(master, wait)
    if _CONNECT.match(master):
        with _remote(master, dict(config or {}), wait) as spark:
            yield spark
        return
    scratch, jvm = make_scratch(), Jvm()
    try:
        with _terminable(), _unlogged():
            try:
                set_environment(master)
                settings = settings_for(master, memory, scratch, light=light) | dict(config or {})
                if is_embedded(master):
                    with quick_workers(scratch):
                        spark = _connect(master, app, settings, jvm, wait)
                else:
                    packed = archive(scratch)
                    with found_by_drivers_jvm(packed):
                        spark = _connect(master, app, settings, jvm, wait)
                    spark.addArtifacts(str(packed), pyfile=True)
                    _first_task(spark, master, wait)
                try:
                    yield spark
                finally:
                    _within(STOP_SECONDS, spark.stop)
            finally:
                jvm.end()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def _remote(master: str, config: dict[str, str], wait: float) -> Iterator[SparkSession]:
    """Connect to a Spark Connect server, and ship the package to its executors."""
    scratch = make_scratch()
    try:
        with _terminable():
            spark = _reached(master)
            try:
                for name, value in (_RUNTIME | config).items():
                    spark.conf.set(name, value)
                spark.addArtifacts(str(archive(scratch)), pyfile=True)
                _first_task(spark, master, wait)
                yield spark
            finally:
                _within(STOP_SECONDS, spark.stop)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Raise an exception on SIGTERM and SIGHUP, which would end the process at once."""
    taken = []

    def leave(number: int, _: FrameType | None) -> None:
        raise Terminated(number)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, leave)
                taken.append(number)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """Keep py4j from printing traces of interrupted calls through the root logger."""
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


def _within(seconds: float, call: Callable[[], object]) -> None:
    """Run a call in a thread, and wait for it no longer than this."""

    def quietly() -> None:
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()

    thread = threading.Thread(target=quietly, name="spark-stop", daemon=True)
    thread.start()
    thread.join(seconds)


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks run at once: the number of parts Spark splits a range into."""
    from pyspark.sql import functions as F

    ids = spark.range(4096).select(F.spark_partition_id().alias("partition")).distinct()
    return max(1, ids.count())


def _connect(
    master: str, app: str, settings: Mapping[str, str], jvm: Jvm, wait: float
) -> SparkSession:
    """Build the session in its own thread.

    A silent master would block it for minutes, and Ctrl-C must not interrupt the JVM's launch.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    outcome: list[SparkSession | BaseException] = []

    def build() -> None:
        try:
            with jvm.watched():
                outcome.append(builder.getOrCreate())
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
            outcome.append(error)

    thread = threading.Thread(target=build, name="spark-start", daemon=True)
    begun = time.monotonic()
    try:
        thread.start()
        started = _await_jvm(thread, begun)
        # A machine too busy to start a JVM quickly is too busy to register quickly.
        thread.join(JVM_SECONDS if is_embedded(master) else max(wait, 4 * started))
    finally:
        answered = list(outcome)
        if not answered:
            jvm.end()
            thread.join(STOP_SECONDS)
    return _built(master, answered, wait)


def _built(master: str, outcome: list[SparkSession | BaseException], wait: float) -> SparkSession:
    """Return the session, or raise one line that says why there is none."""
    found = outcome[0] if outcome else None
    if found is not None and not isinstance(found, BaseException):
        return found
    reason = "it did not answer" if found is None else _first_line(found)
    if is_embedded(master):
        msg = f"Spark does not start on this machine ({reason}); run: antecede doctor"
    elif found is None:
        msg = (
            f"master {master} did not answer within {wait:g} s; is it a Spark master of the same "
            "version? Wait longer with --wait, or leave --master out to work on this machine"
        )
    else:
        msg = f"master {master} refused the session: {reason}"
    raise MasterError(msg, master=master, reason=reason) from found


def is_from_spark(error: Exception) -> bool:
    """Return whether PySpark, or Java through py4j, raised this; a Connect client has no py4j."""
    origin = type(error).__module__.split(".")[0]
    return origin in ("pyspark", "py4j")


def _reached(master: str) -> SparkSession:
    """Return the session of a Spark Connect server, or raise one line that says why not."""
    from pyspark.sql import SparkSession

    try:
        return SparkSession.builder.remote(master).getOrCreate()
    except Exception as error:
        reason = _first_line(error)
        msg = f"master {master} refused the session: {reason}"
        raise MasterError(msg, master=master, reason=reason) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _await_jvm(thread: threading.Thread, begun: float) -> float:
    """Wait until this process has its JVM, which then contacts the master; return the seconds."""
    while thread.is_alive() and time.monotonic() - begun < JVM_SECONDS:
        if has_jvm():
            break
        thread.join(0.05)
    return time.monotonic() - begun


def _first_task(spark: SparkSession, master: str, wait: float) -> None:
    """Run one trivial task, to detect a cluster without free workers at once."""
    done = threading.Event()

    def task() -> None:
        with contextlib.suppress(Exception):
            spark.range(1).count()
            done.set()

    threading.Thread(target=task, name="spark-first-task", daemon=True).start()
    if not done.wait(wait):
        reason = f"it ran no task within {wait:g} s"
        msg = (
            f"master {master} answers, but {reason}; has it a live worker with free cores and "
            "memory? Wait longer with --wait"
        )
        raise MasterError(msg, master=master, reason=reason)
