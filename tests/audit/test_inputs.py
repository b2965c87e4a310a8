"""Every kind of Parquet file is read the same in this process and on Spark, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.audit.api import audit, audit_table
from antecede.audit.files import audit_here, audit_on
from antecede.errors import UsageError
from antecede.events import sources
from antecede.events.sources import Source
from antecede.spark.frames import frame_of, read_natively, readable, rejected_rows

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
    """Return the summary and the rejected rows of the command on Spark."""
    source = Source(path)
    frame = read_natively(spark, [source])
    events = frame_of(spark, sources.read(source).events) if frame is None else frame
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


def test_several_files_and_executions_are_audited_alike(
    spark: SparkSession, tmp_path: Path
) -> None:
    halves = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    for path, rows in zip(halves, (slice(0, 3), slice(3, 5)), strict=True):
        pq.write_table(pa.table({name: values[rows] for name, values in BASE.items()}), path)
    kept = 'a {"a":1}\nsend A\nb {"b":1, "a":1}\ndeliver A\n'
    broken = kept.replace("b {", 'a {"a":2}\nsend B\nb {').replace("deliver A", "deliver B")
    clocks = tmp_path / "x.log"
    clocks.write_text(f'=== 1 ===\n{kept}=== 2 ===\n{broken}b {{"b":2, "a":2}}\ndeliver A\n')
    patterns: dict[str, Any] = {"send": "send (?<message>.)", "deliver": "deliver (?<message>.)"}
    verdicts: list[str] = []
    for files in ([Source(path) for path in halves], [Source(clocks, **patterns)]):
        here, there = audit_here(files), audit_on(spark, files)
        assert list(here) == list(there)
        for one, other in zip(here.values(), there.values(), strict=True):
            assert (one.name, one.audit.verdict) == (other.name, other.audit.verdict)
            assert one.audit.tables["violations"].equals(other.audit.tables["violations"])
        verdicts += [one.audit.verdict for one in there.values()]
    assert verdicts == ["broken", "ordered", "broken"]


def test_mostly_invalid_rows_are_refused_on_spark_too(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(BASE | {"process": ["a", "b", None, None, None]}), path)
    said = []
    for is_local in (True, False):
        with pytest.raises(
            UsageError, match=r"3 of its 5 rows are not valid; .*: process is"
        ) as no:
            _ = audit_here([Source(path)]) if is_local else audit_on(spark, [Source(path)])
        said.append(str(no.value))
    assert said[0].replace("line 3", "the first") == said[1]
