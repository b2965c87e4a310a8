"""The pipeline's functions by the names that the design gives them."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

import antecede.pipeline
from antecede.audit.api import audit

LOG = pa.table(
    {
        "process": ["a", "a", "b", "b", "c", "c"],
        "seq": [1, 2, 1, 2, 1, 2],
        "kind": ["send", "send", "deliver", "send", "deliver", "deliver"],
        "message": ["m1", "m2", "m2", "m3", "m3", "m1"],
    }
)


def test_a_verb_is_a_plain_function() -> None:
    called = antecede.pipeline.audit(LOG, engine="local")
    assert called.violations == audit(LOG, engine="local").violations
    assert called.violations.column("message").to_pylist() == ["m1"]


def test_what_is_not_there_is_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'reorganise'"):
        _ = antecede.pipeline.reorganise


def test_the_package_alone_is_light() -> None:
    code = "import sys, antecede.pipeline; print('pyspark' in sys.modules, 'numba' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout.split() == ["False", "False"]
