"""Start and stop Spark: embedded by default, a cluster's by ``--master``.

The embedded session is quiet, removes its scratch folder when it stops, and listens on loopback
only. On a cluster the package is shipped to the executors (see ``ship``), whose Python needs only
what Spark needs, NumPy, Numba and PyArrow.

The JVM ends with the session, whatever ends it: also Ctrl-C or SIGTERM while Spark is starting.

The pipeline uses no ``sparkContext`` and no RDD.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING

from antecede.errors import MasterError
from antecede.pipeline.spark.java import Jvm
from antecede.pipeline.spark.masters import check_master, is_embedded
from antecede.pipeline.spark.settings import (
    make_scratch,
    quick_workers,
    set_environment,
    settings_for,
)
from antecede.pipeline.spark.ship import archive, found_by_drivers_jvm

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WAIT_SECONDS = 180.0
"""How long a master may take to answer, and its cluster to run a first task, unless told."""

JVM_SECONDS = 600.0
"""How long this machine may take to start a JVM."""

STOP_SECONDS = 5.0
"""How long Spark may take to stop in good order; then its JVM is killed."""


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP: the same as Ctrl-C, but for the exit status."""

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
    """Call in a thread, and wait no longer than this."""

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
    """Return the session, or say in one line why there is none."""
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


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def _await_jvm(thread: threading.Thread, begun: float) -> float:
    """Wait until this process has its JVM, which then asks the master; return the seconds."""
    from pyspark import SparkContext

    while thread.is_alive() and time.monotonic() - begun < JVM_SECONDS:
        if getattr(SparkContext, "_gateway", None) is not None:
            break
        thread.join(0.05)
    return time.monotonic() - begun


def _first_task(spark: SparkSession, master: str, wait: float) -> None:
    """Run one trivial task, to notice at once a cluster without free workers."""
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
