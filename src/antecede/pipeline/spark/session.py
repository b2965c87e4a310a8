"""Start and stop Spark: embedded by default, a cluster's by ``--master``.

The embedded session is quiet, keeps its scratch files in one folder that it removes, and listens
on loopback only. On a cluster the package itself is shipped to the executors (see ``ship``), and
nothing is assumed about their Python but Spark's own needs, NumPy, Numba and PyArrow.

The JVM ends with the session, however that ends: by Ctrl-C or SIGTERM while Spark still starts, too.

No ``sparkContext`` and no RDD is used anywhere in the pipeline.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import antecede
from antecede.errors import UsageError
from antecede.pipeline.spark.java import Jvm, find_java, java_home
from antecede.pipeline.spark.ship import archive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

    from pyspark.sql import SparkSession

ANSWER_SECONDS = 30
"""How long a master may take to answer."""

JVM_SECONDS = 120
"""How long this machine may take to start a JVM."""

EXECUTOR_SECONDS = 180
"""How long a cluster may take to run a first, trivial task."""

CLOSED_SECONDS = 0.5
"""How soon something that is no Spark master closes a connection that it accepted."""

STOP_SECONDS = 5
"""How long Spark may take to stop in good order; then its JVM is ended."""

_EMBEDDED = re.compile(r"local(\[(\*|[1-9]\d*)(,\s*\d+)?\])?$")
_STANDALONE = re.compile(r"spark://[^/]+$")
_OTHER = re.compile(r"(yarn$|k8s://|local-cluster\[)")

_ANY_JVM = "-XX:-UsePerfData"  # its files would outlive a JVM that is ended from outside
_LIGHT_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_HEAVY_JVM = "-XX:+UseParallelGC"

_QUIET = """status = error
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %c{1}: %m%n%ex{3}
# A task that fails is raised in the driver; its trace need not be printed twice.
logger.tasks.name = org.apache.spark.scheduler
logger.tasks.level = off
logger.executor.name = org.apache.spark.executor
logger.executor.level = off
logger.python.name = org.apache.spark.api.python
logger.python.level = off
# Spark announces a change of level unless its gateway logs at the root's.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.util.name = org.apache.spark.util.Utils
logger.util.level = off
# A master that hangs up is told of in one line, by the driver.
logger.network.name = org.apache.spark.network
logger.network.level = off
logger.deploy.name = org.apache.spark.deploy
logger.deploy.level = off
logger.rpc.name = org.apache.spark.rpc
logger.rpc.level = off
logger.netty.name = io.netty
logger.netty.level = off
"""


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: the same as Ctrl-C, but for the exit status."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.status = 128 + number


def is_embedded(master: str) -> bool:
    """Return whether ``master`` runs inside this process's own machine and Python."""
    return _EMBEDDED.match(master) is not None


@contextlib.contextmanager
def session(
    master: str | None = None,
    *,
    app: str = "antecede",
    memory: str = "2g",
    light: bool = False,
    config: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Start Spark, hand it over, and stop it, leaving no scratch files behind.

    ``master`` is ``local[*]`` if not given. ``light`` suits work that is done in Python, with
    little left for the JVM: it starts some seconds sooner and is slower on large tables.
    ``config`` overrides any setting made here.
    """
    scratch, jvm = _scratch(), Jvm()
    try:
        with _terminable(), _unlogged():
            try:
                made = _start(master, app, memory, jvm, scratch=scratch, light=light, config=config)
                try:
                    yield made
                finally:
                    _within(STOP_SECONDS, made.stop)
            finally:
                jvm.end()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def start(
    master: str | None = None,
    *,
    scratch: Path,
    app: str = "antecede",
    memory: str = "2g",
    light: bool = False,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark with its files in ``scratch``; the caller stops it. Prefer :func:`session`."""
    jvm = Jvm()
    try:
        return _start(master, app, memory, jvm, scratch=scratch, light=light, config=config)
    except BaseException:
        jvm.end()
        raise


def _start(
    master: str | None,
    app: str,
    memory: str,
    jvm: Jvm,
    *,
    scratch: Path,
    light: bool,
    config: Mapping[str, str] | None,
) -> SparkSession:
    master = master or "local[*]"
    _check_master(master)
    _environment(master)
    settings = _settings(master, memory, scratch, light=light) | dict(config or {})
    spark = _connect(master, app, settings, jvm)
    if not is_embedded(master):
        spark.addArtifacts(str(archive(scratch)), pyfile=True)
        _first_task(spark, master)
    return spark


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """Leave by an exception where SIGTERM or SIGHUP would end the process at once."""
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
    """Keep py4j from printing traces: it tells the root logger of calls that were broken off."""
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)


def _within(seconds: float, call: Callable[[], object]) -> None:
    """Call, but do not wait longer than this."""

    def quietly() -> None:
        with contextlib.suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()

    thread = threading.Thread(target=quietly, name="spark-stop", daemon=True)
    thread.start()
    thread.join(seconds)


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks run at once, as Spark itself splits a range."""
    from pyspark.sql import functions as F

    ids = spark.range(4096).select(F.spark_partition_id().alias("partition")).distinct()
    return max(1, ids.count())


def _scratch() -> Path:
    """Make a scratch folder that names its owner, and remove those whose owner is gone."""
    base = Path(tempfile.gettempdir())
    for old in base.glob("antecede-spark-*-*"):
        owner = old.name.split("-")[2]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists() and Path("/proc/self").exists():
            with contextlib.suppress(OSError):
                if old.stat().st_uid == os.getuid():
                    shutil.rmtree(old, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"antecede-spark-{os.getpid()}-"))


def _environment(master: str) -> None:
    """Set what Spark's launcher reads from the environment, and nothing the user has set."""
    os.environ["JAVA_HOME"] = str(java_home(find_java()))
    if is_embedded(master):
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # The workers import the very package that runs here, however it was found.
        ours = str(Path(antecede.__path__[0]).parent)
        known = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        if ours not in known:
            os.environ["PYTHONPATH"] = os.pathsep.join([ours, *filter(None, known)])
    elif _loopback(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _settings(master: str, memory: str, scratch: Path, *, light: bool) -> dict[str, str]:
    logging = scratch / "log4j2.properties"
    logging.write_text(_QUIET, encoding="utf-8")
    settings = {
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": (
            f"-Dlog4j2.configurationFile={logging.as_uri()} -Dderby.system.home={scratch} "
            f"-Djava.io.tmpdir={scratch} {_ANY_JVM} {_LIGHT_JVM if light else _HEAVY_JVM}"
        ),
        "spark.local.dir": str(scratch),
        "spark.python.worker.reuse": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if is_embedded(master):
        settings["spark.sql.shuffle.partitions"] = "2"
        settings["spark.sql.adaptive.enabled"] = "true"
    if is_embedded(master) or _loopback(master):
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings


def _check_master(master: str) -> None:
    if not any(form.match(master) for form in (_EMBEDDED, _STANDALONE, _OTHER)):
        msg = (
            f"master {master!r} is none that Spark knows: use local[*], local[2], "
            "spark://HOST:PORT, yarn or k8s://..."
        )
        raise UsageError(msg)
    if not _STANDALONE.match(master):
        return
    failures = []
    for host, port in _addresses(master):
        try:
            if _stays_open(host, port):
                return
            failures.append(f"{host}:{port}: it closes the connection at once")
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
    msg = (
        f"master {master} does not answer ({'; '.join(failures)}): is it running there? "
        "Without --master the work runs on this machine"
    )
    raise UsageError(msg)


def _stays_open(host: str, port: int) -> bool:
    """Connect, and return whether the other side waits to be spoken to, as a master does."""
    with socket.create_connection((host, port), timeout=ANSWER_SECONDS) as made:
        made.settimeout(CLOSED_SECONDS)
        try:
            return made.recv(1) != b""
        except TimeoutError:
            return True


def _addresses(master: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of ``spark://a:1,b:2``: masters that stand by for each other."""
    found = []
    for part in master.removeprefix("spark://").split(","):
        host, _, port = part.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            msg = f"master {master!r} names no host and port: write spark://HOST:7077"
            raise UsageError(msg)
        found.append((host.strip("[]"), int(port)))
    return found


def _loopback(master: str) -> bool:
    if not _STANDALONE.match(master):
        return False
    local = ("127.", "localhost", "::1")
    return all(host.startswith(local) for host, _ in _addresses(master))


def _connect(master: str, app: str, settings: Mapping[str, str], jvm: Jvm) -> SparkSession:
    """Build the session in a thread of its own.

    A silent master would block for minutes, and Ctrl-C must not fall into the launch of the JVM.
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
        thread.join(JVM_SECONDS if is_embedded(master) else max(ANSWER_SECONDS, 4 * started))
    finally:
        answered = list(outcome)
        if not answered:
            jvm.end()
            thread.join(STOP_SECONDS)
    return _built(master, answered)


def _built(master: str, outcome: list[SparkSession | BaseException]) -> SparkSession:
    """Return the session, or say in one line why there is none."""
    found = outcome[0] if outcome else None
    if found is not None and not isinstance(found, BaseException):
        return found
    if is_embedded(master):
        reason = "it did not answer" if found is None else _first_line(found)
        msg = f"Spark does not start on this machine ({reason}): `antecede doctor` says what it has"
        raise UsageError(msg) from found
    if found is None:
        msg = (
            f"master {master} did not answer within {ANSWER_SECONDS} s: is it a Spark master of "
            "this Spark's version? Without --master the work runs on this machine"
        )
        raise UsageError(msg)
    msg = f"master {master} refused the session: {_first_line(found)}"
    raise UsageError(msg) from found


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _await_jvm(thread: threading.Thread, begun: float) -> float:
    """Wait until this process has its JVM (the master is asked only then); return the seconds."""
    from pyspark import SparkContext

    while thread.is_alive() and time.monotonic() - begun < JVM_SECONDS:
        if getattr(SparkContext, "_gateway", None) is not None:
            break
        thread.join(0.05)
    return time.monotonic() - begun


def _first_task(spark: SparkSession, master: str) -> None:
    """Run one trivial task, so that a cluster without free workers is found out at once."""
    done = threading.Event()

    def task() -> None:
        with contextlib.suppress(Exception):
            spark.range(1).count()
            done.set()

    threading.Thread(target=task, name="spark-first-task", daemon=True).start()
    if not done.wait(EXECUTOR_SECONDS):
        msg = (
            f"master {master} answers but started nothing within {EXECUTOR_SECONDS} s: "
            "has it a live worker with free cores and memory?"
        )
        raise UsageError(msg)
