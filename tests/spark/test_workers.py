"""Workers of Spark whose Python lacks a package are named in one line."""

from __future__ import annotations

import pytest

from antecede.errors import UsageError
from antecede.spark.tasks import explained

ABSENT = "Job aborted:\nTraceback:\nModuleNotFoundError: No module named 'antecede.spark'\n"


def test_the_line_says_what_is_missing_and_what_to_set() -> None:
    with pytest.raises(UsageError, match=r"lacks antecede; .* PYSPARK_PYTHON") as told, explained():
        raise RuntimeError(ABSENT)
    assert "\n" not in str(told.value)


def test_other_errors_pass() -> None:
    text = "the disk is full"
    with pytest.raises(RuntimeError, match=text), explained():
        raise RuntimeError(text)
