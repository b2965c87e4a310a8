"""Every kind of Parquet file is read alike in this process and on Spark, or refused in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.errors import UsageError
from antecede.pipeline.audits.entry import audit, audit_table
from antecede.pipeline.logs import sources
from antecede.pipeline.logs.sources import Source
from antecede.pipeline.spark.frames import read_frame, readable, rejected_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
BASE: dict[str, list[Any]] = {
    "process": ["a", "b", "b", "c", "c"],
    "seq": [1, 1, 2, 1, 2],
    "kind": ["send", "deliver", "send", "deliver", "deliver"],
    "message": ["m1", "m1", "m2", "m2", "m1"],
}
TIME = [1.0, 2.0, 3.0, 4.0, 5.0]


def on_spark(spark: SparkSession, path: Path) -> tuple[dict[str, Any], pa.Table]:
    """Return what the command's path on Spark finds: the summary and the rejected rows."""
    source = Source(path)
    events, _ = read_frame(spark, source)
    with readable(source):
        found = audit(events)
        return found.summary, rejected_rows(events, "log", found.summary["rejected"])


@pytest.mark.parametrize(
    ("columns", "bad"),
    [
        ({"process": [1, 2, 2, 3, 3], "dests": [[2], None, [3], None, None]}, 0),
        ({"seq": pa.array([2**64 - 1, 1, 2, 1, 2], pa.uint64())}, 1),
        ({"process": [b"a\xff", b"b", b"b", b"c", b"c"]}, 1),
        ({"dests": [["b", None], None, ["c"], None, None]}, 1),
        ({"dests": [["b", None], None, ["c"], None, None], "time": TIME}, 1),
        ({"dests": pa.array([["b", "c"]] * 5, pa.list_(pa.string(), 2)), "time": TIME}, 0),
        ({"dests": pa.array([[b"b", b"\xff"], None, [b"c"], None, None])}, 1),
    ],
)
def test_both_engines_take_and_reject_the_same(
    spark: SparkSession, tmp_path: Path, columns: dict[str, Any], bad: int
) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(BASE | columns), path)
    here = sources.read(Source(path))
    summary, rejected = on_spark(spark, path)
    own = audit_table(here.events).summary
    for name in ("events", "processes", "messages", "violations", "missing", "findings_by_kind"):
        assert summary[name] == own[name]
    assert summary["rejected"] == here.bad == bad
    for one, other in zip(here.rejected.to_pylist(), rejected.to_pylist(), strict=True):
        assert (one["text"], one["reason"]) == (other["text"], other["reason"])
        assert (one["line"], other["line"]) == (1, None)


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({}, "kind is 'SEND'; expected one of send"),
        ({"time": TIME}, "kind is 'SEND'; expected one of send"),
        ({"time": TIME, "process": [""] * 5}, "process is missing"),
    ],
)
def test_a_log_of_nothing_but_bad_rows_says_what_is_wrong(
    spark: SparkSession, tmp_path: Path, extra: dict[str, Any], reason: str
) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(BASE | {"kind": ["SEND"] * 5} | extra), path)
    words = f"no events: none of its 5 rows is a valid event; .*: {reason}"
    with pytest.raises(UsageError, match=words):
        sources.read(Source(path))
    with pytest.raises(UsageError, match=words):
        on_spark(spark, path)


def test_damaged_files_and_wrong_types_are_one_line(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(BASE), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:60] + b"\xff" * 40 + whole[100:])
    with pytest.raises(UsageError, match=r"cannot read .* as parquet: .+") as damaged:
        on_spark(spark, path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match="is not a Parquet file") as half:
        on_spark(spark, path)
    assert "\n" not in f"{damaged.value}{half.value}"
    for columns in ({"kind": [0] * 5}, {"message": [{"a": 1}] * 5}):
        pq.write_table(pa.table(BASE | columns), path)
        said = []
        for read in (lambda: sources.read(Source(path)), lambda: on_spark(spark, path)):
            with pytest.raises(UsageError, match=r"log\.parquet.* has the type") as error:
                read()
            said.append(str(error.value))
        assert said[0] == said[1]
