"""What Spark is told when it starts: its environment, its settings and its scratch folder."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import site
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import antecede
from antecede.errors import UsageError
from antecede.pipeline.spark.java import find_java, java_home
from antecede.pipeline.spark.masters import is_embedded, is_loopback

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
#: Loggers that would repeat what the driver raises: a failed task's error, or a lost master.
_SILENT = ("scheduler", "executor", "api.python", "util.Utils", "network", "deploy", "rpc")


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
    """Create a scratch folder named after this process; remove those of processes that are gone."""
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
    """Start the JVM within this, and its Python workers import PySpark from where it is installed.

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
    if is_embedded(master) or is_loopback(master):
        settings["spark.driver.host"] = "127.0.0.1"
        settings["spark.driver.bindAddress"] = "127.0.0.1"
    return settings
