"""``reorder`` on Spark: tables, streams, restarts, repeated batches, timeouts, rejected rows."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException

from antecede.errors import UsageError
from antecede.events.hashing import hash_each, hash_words
from antecede.pipeline import reorder
from antecede.reorder import spark_state as packing
from antecede.reorder.files import reason_of
from antecede.reorder.progress import Figures, Progress
from antecede.reorder.waiting import waiting
from tests.support.streams import Sent, audited, check_order, rows_table, stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

SCHEMA = (
    "id string, dest string, source string, seq long, causes array<string>, "
    "payload struct<text: string, size: long>"
)
PATIENCE = 600


def put(folder: Path, name: str, rows: pa.Table) -> None:
    """Write a file that appears at once, as a file source expects."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, folder.parent / f"{name}.aside")
    (folder.parent / f"{name}.aside").rename(folder / f"{name}.parquet")


def source(spark: SparkSession, folder: Path, files: int = 3) -> DataFrame:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files)
    return reader.parquet(str(folder))


def finish(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Run a query to its end; start it again if Spark lost patience with a Python worker.

    Spark gives one 10 seconds to start, which a busy machine may exceed.
    """
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        query = start()
        try:
            assert query.awaitTermination(PATIENCE)
        except StreamingQueryException as error:
            if "failed to connect back" not in str(error):
                raise
        else:
            return query
        finally:
            query.stop()
    pytest.fail(f"Spark could not start a Python worker in {PATIENCE} s")


def test_a_table_comes_out_in_order_and_an_incomplete_one_as_asked(spark: SparkSession) -> None:
    copies, batches, _ = stream(random.Random(1), messages=60)
    rows = [row for batch in batches for row in batch]
    table = rows_table(rows)
    found = reorder(spark.createDataFrame(table)).toArrow().to_pylist()
    assert {(row["dest"], row["id"]) for row in found} == {(c.dest, c.id) for c in copies}
    check_order(found, copies)
    assert not any(row["released"] or row["late"] or row["held_seconds"] for row in found)
    assert all(row["payload"] == {"text": row["id"] * 2, "size": row["seq"]} for row in found)

    lost = rows_table([row for row in rows if row.id != "m3"])
    frame = spark.createDataFrame(lost).withColumnRenamed("causes", "parents")
    held = {row.id for row in reorder(frame, causes="parents").collect()}
    all_out = reorder(frame, causes="parents", on_missing="release").collect()
    assert len(all_out) == len({(row.dest, row.id) for row in rows if row.id != "m3"})
    assert {row.id for row in all_out if row.released} == {
        row.id for row in rows if "m3" in row.causes
    }
    assert held < {row.id for row in all_out}


def test_rows_that_are_not_messages_are_rejected_with_their_reason(spark: SparkSession) -> None:
    rows = [
        ("1", "d", "a", "1", []),
        (None, "d", "a", "2", []),
        ("3", "", "a", "3", []),
        ("4", "d", None, "4", []),
        ("5", "d", "a", "five", []),
        ("6", "d", "a", "6", [""]),
        ("7", "d", "a", "7", ["7"]),
        ("8", "d", "a", "8", None),
        ("9", "d", "a", "9", ["1", None]),
    ]
    frame = spark.createDataFrame(
        rows, "id string, dest string, source string, seq string, causes array<string>"
    ).selectExpr("id", "dest", "source", "try_cast(seq as long) as seq", "causes")
    found = reorder(frame, keep_rejected=True).collect()
    assert sorted(row.rejected for row in found if row.rejected) == [
        "causes has an empty id",
        "causes has an empty id",
        "dest is missing",
        "id is missing",
        "seq is missing or not a whole number",
        "source is missing",
        "the message is its own cause",
    ]
    assert all((row.position is None) == (row.rejected is not None) for row in found)
    assert [row.id for row in reorder(frame).orderBy("position").collect()] == ["1", "8"]


def test_events_with_one_cause_and_no_numbers(spark: SparkSession) -> None:
    """The common shape: what began a chain names nothing, an empty text, or itself."""
    rows = [
        ("3", "2", "c1", "a", "orders", b"3"),
        ("2", "1", "c1", "b", "payments", b"2"),
        ("1", None, "c1", "a", "orders", b"1"),
        ("1", None, "c1", "a", "orders", b"1"),
        ("5", "4", "c2", "a", "orders", b"5"),
        ("4", "4", "c2", "a", "orders", b"4"),
        ("6", "", "c3", "a", "orders", b"6"),
        ("7", "never", "c3", "a", "orders", b"7"),
    ]
    names = "event_id string, causation_id string, correlation_id string, aggregate_id string"
    frame = spark.createDataFrame(rows, f"{names}, topic string, payload binary")
    found = reorder(frame, id="event_id", causes="causation_id", dest="correlation_id").collect()
    assert sorted((r.correlation_id, r.position, r.event_id) for r in found) == [
        ("c1", 1, "1"), ("c1", 2, "2"), ("c1", 3, "3"), ("c2", 1, "4"), ("c2", 2, "5"),
        ("c3", 1, "6"),
    ]  # fmt: skip
    numbered = frame.selectExpr("int(event_id) as id", "try_cast(causation_id as int) as causes")
    found = reorder(numbered).orderBy("position").collect()
    assert sorted(row.id for row in found) == [1, 2, 3, 4, 5, 6, 7], "one destination, no cause"


def test_a_person_sees_releases_and_drops_while_the_query_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    come, told, checkpoint = tmp_path / "in", tmp_path / "told", tmp_path / "checkpoint"
    come.mkdir()
    told.mkdir()

    def events(*names: tuple[str, str | None]) -> pa.Table:
        columns = zip(*names, strict=True)
        return pa.table(dict(zip(("event_id", "causation_id"), columns, strict=True)) | {
            "correlation_id": ["c"] * len(names)})  # fmt: skip

    def commands(action: str, name: str) -> pa.Table:
        return pa.table({"action": [action], "id": [name], "dest": ["c"]})

    schema = "event_id string, causation_id string, correlation_id string"
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(come))
    asked = spark.readStream.schema("action string, id string, dest string").parquet(str(told))
    ordered = reorder(
        stream,
        id="event_id",
        causes="causation_id",
        dest="correlation_id",
        commands=asked,
        keep_rejected=True,
        buckets=1,
    )
    figures: list[Figures] = []
    listener = Progress(figures.append)
    spark.streams.addListener(listener)

    def run() -> list[tuple[str, int | None, bool, str | None]]:
        writer = ordered.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        finish(writer.start)
        found = spark.read.parquet(str(tmp_path / "out")).collect()
        return sorted((r.event_id, r.position, r.released, r.rejected) for r in found)

    put(come, "0", events(("2", "1"), ("3", "2"), ("5", "4"), ("6", "5"), ("0", None)))
    assert run() == [("0", 1, False, None)]
    seen = waiting(spark, str(checkpoint)).orderBy("id").collect()
    assert [(row.dest, row.id, row.lacks) for row in seen] == [
        ("c", "2", ["1"]), ("c", "3", ["2"]), ("c", "5", ["4"]), ("c", "6", ["5"])]  # fmt: skip
    assert all(row.seconds >= 0 and row.since for row in seen)
    put(told, "0", commands("release", "3"))
    put(told, "1", commands("drop", "4"))
    put(told, "2", commands("explode", "4"))
    assert run() == [
        ("0", 1, False, None), ("2", 4, True, None), ("3", 5, False, None),
        ("5", 2, True, None), ("6", 3, False, None),
    ]  # fmt: skip
    assert waiting(spark, str(checkpoint)).count() == 0
    listener.wait()
    spark.streams.removeListener(listener)
    assert [(f.rows_in, f.rows_out, f.held) for f in figures] == [(5, 1, 4), (0, 4, 0)]


def test_hashes_of_causes_are_those_that_spark_computes(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    rng, sizes = random.Random(1), (0, 1, 3, 4, 7, 8, 9, 31, 32, 33, 64, 70)
    lists: list[list[str] | None] = [
        ["".join(rng.choices("abé漢 ", k=size)) for size in rng.sample(sizes, rng.randint(0, 5))]
        for _ in range(200)
    ]
    lists[7] = None
    table = pa.table({"dest": [f"d{at % 7}" for at in range(200)], "causes": lists})
    hashes = F.transform("causes", lambda cause: F.xxhash64("dest", cause))
    frame = spark.createDataFrame(table).select(
        "causes", F.xxhash64("dest").alias("seed"), F.coalesce(hashes, F.array()).alias("hashes")
    )
    found = frame.toArrow().combine_chunks()
    causes, seeds, expected = (found.column(at).combine_chunks() for at in range(3))
    assert hash_each(causes, np.asarray(seeds)).to_pylist() == expected.to_pylist()
    words, whose = (
        causes.flatten(),
        np.repeat(np.asarray(seeds), causes.value_lengths().fill_null(0)),
    )
    assert hash_words(words, whose).tolist() == expected.flatten().to_pylist()
    part = hash_each(causes.slice(5, 60), np.asarray(seeds)[5:65])
    assert part.to_pylist() == expected.to_pylist()[5:65]


def test_a_wrong_call_is_refused_before_anything_runs(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [("1", "d", "a", 1, ("x",))],
        "id string, dest string, source string, seq long, causes struct<one string>",
    )
    wrong: list[tuple[dict[str, Any], str]] = [
        ({}, "has type struct<one:string>; reorder needs an id or an array of ids"),
        ({"held_bytes_max": 0}, "held_bytes_max is 0; expected a whole number from 1"),
        ({"seq": "number"}, "needs a column 'number'"),
        ({"causes": "parents"}, "needs a column 'parents'"),
        ({"on_missing": "skip"}, "expected 'wait' or 'release'"),
        ({"timeout": 5}, "use on_missing='release'"),
        ({"on_missing": "release", "timeout": -1}, "greater than 0"),
        ({"horizon": 0}, "greater than 0"),
        ({"buckets": 0}, "from 1 to 65536"),
    ]
    for options, reason in wrong:
        with pytest.raises(UsageError, match=reason) as caught:
            reorder(frame, **options)
        assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="adds a column 'position'"):
        reorder(frame.withColumnRenamed("id", "position"), id="position")


def test_a_stream_goes_on_from_its_checkpoint_and_repeats_a_lost_commit(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copies, batches, history = stream(random.Random(5), messages=160, spread=60)
    while len(batches) > 8:
        batches[-2:] = [batches[-2] + batches[-1]]
    come, out, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"

    compiled = []
    jvm: Any = spark._jvm
    codegen = jvm.org.apache.spark.metrics.source.CodegenMetrics

    def overwrite(frame: DataFrame, number: int) -> None:
        frame.write.mode("overwrite").parquet(str(out / f"batch={number}"))
        compiled.append(codegen.METRIC_COMPILATION_TIME().getCount())

    def merge(frame: DataFrame, number: int) -> None:
        there = spark.read.parquet(str(out)).select("dest", "position")
        new = frame.join(there, ["dest", "position"], "left_anti").select(frame.columns)
        new.write.mode("append").parquet(str(out / f"batch={number}"))

    def run(write: Callable[[DataFrame, int], None] = overwrite, **options: Any) -> StreamingQuery:
        writer = reorder(source(spark, come), **options).writeStream.foreachBatch(write)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
        return finish(query.start)

    def rows() -> list[dict[str, Any]]:
        return sorted(
            pq.read_table(out).to_pylist(), key=lambda row: (row["dest"], row["position"])
        )

    for number, batch in enumerate(batches[:4]):
        put(come, f"{number}", rows_table(batch))
    first = run()
    half = rows()
    check_order(half, copies)
    assert first.lastProgress is not None
    figures = first.lastProgress.observedMetrics["reorder"]
    assert {row["bucket"] for row in figures.buckets} <= set(range(8))
    assert any(row["held"] and row["oldest"] for row in figures.buckets)

    for number, batch in enumerate(batches[4:], 4):
        put(come, f"{number}", rows_table(batch))
    run()
    assert compiled[-1] == compiled[1], "Spark compiles code for each batch"
    whole = rows()
    assert {(row["dest"], row["id"]) for row in whole} == {(c.dest, c.id) for c in copies}
    assert len(whole) == len(copies)
    check_order(whole, copies)
    assert [row for row in whole if row in half] == half
    assert any(row["held_seconds"] > 0 for row in whole)
    assert audited(history, whole).verdict == "ordered"

    # The last batch's commit is lost, and half of what it wrote. The same rows come again, at the
    # same positions, so a sink that merges on them adds those that are missing and no others.
    last = max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
    for path in (checkpoint / "commits").glob(f"*{last}*"):
        path.unlink()
    wrote = pq.read_table(out / f"batch={last}", partitioning=None)
    assert len(wrote) > 1
    shutil.rmtree(out / f"batch={last}")
    (out / f"batch={last}").mkdir()
    pq.write_table(wrote.slice(0, len(wrote) // 2), out / f"batch={last}" / "half.parquet")
    run(merge)
    assert rows() == whole

    put(come, "more", rows_table([Sent("x", "p0", "p1", 1000, ())]))
    with pytest.raises(Exception, match="was written with buckets=8, the query has buckets=4"):
        run(buckets=4)
    monkeypatch.setattr("antecede.reorder.api.STATE_VERSION", 3)
    with pytest.raises(Exception, match="state has version 2, this antecede reads version 3"):
        run()


def test_a_checkpoint_of_the_first_layout_is_refused_in_one_line(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class First(packing.Reorder):
        """Has the variable that named the layout's version, of the kind that it was."""

        def init(self, handle: Any) -> None:
            self.head = handle.getValueState("head", "head string")

        def handleInputRows(  # noqa: N802 - Spark's names
            self,
            key: Any,
            rows: Any,
            timerValues: Any,  # noqa: N803
        ) -> Iterator[Any]:
            self.head.update(('{"version": 1}',))
            yield from ()

    def run() -> None:
        writer = reorder(source(spark, tmp_path / "in")).writeStream.format("noop")
        query = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        finish(query.trigger(availableNow=True).start)

    put(tmp_path / "in", "0", rows_table([Sent("1", "d", "a", 1, ())]))
    with monkeypatch.context() as patched:
        patched.setattr(packing, "Reorder", First)
        run()
    put(tmp_path / "in", "1", rows_table([Sent("2", "d", "a", 2, ("1",))]))
    wanted = "the checkpoint's state has version 1, this antecede reads version 2; go on with"
    with pytest.raises(StreamingQueryException) as caught:
        run()
    assert reason_of(str(caught.value), tmp_path).startswith(wanted)
    with pytest.raises(UsageError, match=wanted):
        waiting(spark, str(tmp_path / "checkpoint"))


def test_a_cause_that_never_comes_delays_its_effects_by_the_timeout(
    spark: SparkSession, tmp_path: Path
) -> None:
    come = tmp_path / "in"
    put(come, "0", rows_table([Sent("2", "d", "a", 2, ("1",)), Sent("3", "d", "b", 1, ("2",))]))
    ordered = reorder(source(spark, come), on_missing="release", timeout=3)
    writer = (
        ordered.writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(processingTime="200 milliseconds")
    )
    queries = [writer.start()]

    def rows() -> list[dict[str, Any]]:
        # Only what Spark has committed: a file that is being written is there too.
        if not (tmp_path / "out" / "_spark_metadata").is_dir():
            return []
        found = spark.read.schema(ordered.schema).parquet(str(tmp_path / "out"))
        return [row.asDict() for row in found.orderBy("position").collect()]

    try:
        _wait(queries, writer.start, lambda: len(rows()) == 2)
        put(come, "1", rows_table([Sent("1", "d", "a", 1, ())]))
        _wait(queries, writer.start, lambda: len(rows()) == 3)
    finally:
        queries[-1].stop()
    assert [(r["id"], r["position"], r["released"], r["late"]) for r in rows()] == [
        ("2", 1, True, False),
        ("3", 2, False, False),
        ("1", 3, False, True),
    ]
    assert all(row["held_seconds"] >= 3 for row in rows()[:2])


def _wait(
    queries: list[StreamingQuery], start: Callable[[], StreamingQuery], reached: Callable[[], bool]
) -> None:
    begin = time.monotonic()
    while not reached():
        if not queries[-1].isActive:
            assert "failed to connect back" in str(queries[-1].exception())
            queries.append(start())
        assert time.monotonic() < begin + PATIENCE
        time.sleep(0.5)
