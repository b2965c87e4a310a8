"""What all tests share: the Hypothesis profile, the shared folder, and the rule on skips."""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "antecede",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("antecede")

REQUIRE_ALL = os.environ.get("ANTECEDE_REQUIRE_ALL") == "1"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of papers and data beside the project; skip if there is none."""
    path = Path(__file__).resolve().parents[2] / "shared"
    if not path.is_dir():
        pytest.skip("no shared folder beside the project")
    return path


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
