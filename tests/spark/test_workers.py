"""Workers of Spark whose Python lacks a package are named in one line."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

import antecede
from antecede.errors import UsageError
from antecede.spark.java import find_java, java_home
from antecede.spark.tasks import explained
from tests.support.spark import light_jvm

ABSENT = "Job aborted:\nTraceback:\nModuleNotFoundError: No module named 'antecede.spark'\n"
#: A user's own session, whose driver finds the package where no worker looks.
OWN_SESSION = """
import sys
sys.path.insert(0, {source!r})
from pyspark.sql import SparkSession
from antecede.errors import UsageError
from antecede.pipeline import audit
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
rows = [("a", 1, "send", "m", ["b"]), ("b", 1, "deliver", "m", None)]
columns = "process string, seq long, kind string, message string, dests array<string>"
try:
    print("VERDICT", audit(spark.createDataFrame(rows, columns)).verdict)
except UsageError as error:
    print("REFUSED", error)
spark.stop()
"""


def test_the_line_says_what_is_missing_and_what_to_set() -> None:
    with pytest.raises(UsageError, match=r"lacks antecede; .* PYSPARK_PYTHON") as told, explained():
        raise RuntimeError(ABSENT)
    assert "\n" not in str(told.value)


def test_other_errors_pass() -> None:
    text = "the disk is full"
    with pytest.raises(RuntimeError, match=text), explained():
        raise RuntimeError(text)


@pytest.mark.spark
def test_a_session_whose_workers_lack_the_package(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    venv.create(bare, symlinks=True)
    here = Path(sysconfig.get_path("purelib"))
    there = Path(sysconfig.get_path("purelib", vars={"base": str(bare)}))
    for name in ("numpy", "numpy.libs", "pandas", "pyarrow", "dateutil", "pytz", "tzdata"):
        if (here / name).exists():
            (there / name).symlink_to(here / name)
    if (here / "six.py").exists():
        (there / "six.py").symlink_to(here / "six.py")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"JAVA_HOME": str(java_home(find_java())), "SPARK_LOCAL_IP": "127.0.0.1"}
    env |= {"PYSPARK_PYTHON": str(bare / "bin" / "python")}
    env |= {"PYSPARK_DRIVER_PYTHON": sys.executable}
    env |= {"PYSPARK_SUBMIT_ARGS": f'--driver-java-options "{light_jvm()}" pyspark-shell'}
    source = str(Path(antecede.__path__[0]).parent)
    done = subprocess.run(
        [sys.executable, "-c", OWN_SESSION.format(source=source)],
        env=env, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    said = [line for line in done.stdout.splitlines() if line.startswith(("VERDICT", "REFUSED"))]
    assert len(said) == 1, done.stdout + done.stderr
    assert "the Python of Spark's workers lacks antecede; " in said[0]
    assert "PYSPARK_PYTHON" in said[0]
