"""Start and stop Spark: embedded by default, a cluster's by ``--master``.

The embedded session is quiet, keeps its scratch files in one folder that it removes, and listens
on loopback only. On a cluster the package itself is shipped to the executors (see ``ship``), and
nothing is assumed about their Python but Spark's own needs, NumPy, Numba and PyArrow.

No ``sparkContext`` and no RDD is used anywhere in the pipeline.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import antecede
from antecede.errors import UsageError
from antecede.pipeline.java import find_java, java_home
from antecede.pipeline.ship import archive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

ANSWER_SECONDS = 30
"""How long a master may take to answer."""

JVM_SECONDS = 120
"""How long this machine may take to start a JVM."""

EXECUTOR_SECONDS = 180
"""How long a cluster may take to run a first, trivial task."""

_EMBEDDED = re.compile(r"local(\[(\*|[1-9]\d*)(,\s*\d+)?\])?$")
_STANDALONE = re.compile(r"spark://[^/]+$")
_OTHER = re.compile(r"(yarn$|k8s://|local-cluster\[)")

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
"""


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
    scratch = _scratch()
    try:
        spark = start(master, app=app, memory=memory, light=light, scratch=scratch, config=config)
        try:
            yield spark
        finally:
            spark.stop()
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
    master = master or "local[*]"
    _check_master(master)
    _environment(master)
    settings = _settings(master, memory, scratch, light=light) | dict(config or {})
    spark = _connect(master, app, settings)
    if not is_embedded(master):
        try:
            spark.addArtifacts(str(archive(scratch)), pyfile=True)
            _first_task(spark, master)
        except BaseException:
            spark.stop()
            raise
    return spark


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
            f"-Djava.io.tmpdir={scratch} {_LIGHT_JVM if light else _HEAVY_JVM}"
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
            socket.create_connection((host, port), timeout=ANSWER_SECONDS).close()
        except OSError as error:
            failures.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return
    msg = (
        f"master {master} does not answer ({'; '.join(failures)}): is it running there? "
        "Without --master the work runs on this machine"
    )
    raise UsageError(msg)


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


def _connect(master: str, app: str, settings: Mapping[str, str]) -> SparkSession:
    """Build the session in a thread of its own: a silent master would block for minutes."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName(app).master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    if is_embedded(master):
        return builder.getOrCreate()
    outcome: list[SparkSession | BaseException] = []

    def build() -> None:
        try:
            outcome.append(builder.getOrCreate())
        except BaseException as error:  # noqa: BLE001 - handed to the caller's thread
            outcome.append(error)

    thread = threading.Thread(target=build, name="spark-start", daemon=True)
    begun = time.monotonic()
    thread.start()
    started = _await_jvm(thread, begun)
    # A machine too busy to start a JVM quickly is too busy to register quickly.
    thread.join(max(ANSWER_SECONDS, 4 * started))
    if not outcome:
        msg = (
            f"master {master} did not answer within {ANSWER_SECONDS} s: is it a Spark master of "
            "this Spark's version? Without --master the work runs on this machine"
        )
        raise UsageError(msg)
    if isinstance(outcome[0], BaseException):
        reason = str(outcome[0]).strip().splitlines()[0][:200]
        msg = f"master {master} refused the session: {reason}"
        raise UsageError(msg) from outcome[0]
    return outcome[0]


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
