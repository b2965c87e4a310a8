"""What all tests share: the Hypothesis profile, the shared folder, the order, the rule on skips."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.support.rounds import some
from tests.support.workers import Scheduling

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.spark import Cluster

settings.register_profile(
    "antecede",
    deadline=None,
    max_examples=some(100),
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("antecede")

TESTS = Path(__file__).resolve().parent
# Files that come before all others; each free worker gets the next. One worker compiles kernels
# while the others do something else, so that nothing is compiled twice. The rest take long: if
# started last, they would leave a core idle.
FIRST = (
    "sim/test_kernels.py",  # compiles the kernels of simulations
    "audit/test_windows.py",  # compiles those of the audit
    "net/test_soak.py",  # mostly waits
    "check/test_explore.py",
    "reorder/test_reorder_cli.py",
    "reorder/test_nats_spark.py",
    "audit/test_spark.py",  # compiles what clusters and Spark Connect borrow
    "study/test_cli.py",
    "spark/test_cluster.py",
)
REQUIRE_ALL = os.environ.get("ANTECEDE_REQUIRE_ALL") == "1"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of papers and data beside the project; skip if there is none."""
    path = Path(__file__).resolve().parents[2] / "shared"
    if not path.is_dir():
        pytest.skip("no shared folder beside the project")
    return path


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Return the one embedded session that all tests of a worker share."""
    from tests.support.spark import embedded

    with embedded() as session:
        yield session


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Return a standalone cluster whose Python has never heard of the package."""
    from tests.support.spark import standalone

    with standalone() as started:
        yield started


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files named in `FIRST` before all others."""
    places = {TESTS / name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.path, len(FIRST)))


def pytest_collection_finish() -> None:
    """Exclude loaded libraries and tests from garbage collection: they stay anyway."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Hand whole files to the workers, in order."""
    if config.getvalue("dist") != "load":
        return None
    config.option.loadscopereorder = False
    return Scheduling(config, log)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, None]:
    """Turn a skipped test into a failure if ANTECEDE_REQUIRE_ALL=1."""
    outcome = yield
    report = outcome.get_result()
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped, and ANTECEDE_REQUIRE_ALL=1 forbids it"
