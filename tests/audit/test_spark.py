"""The audit on Spark: every arrangement gives the oracle's answer and the local engine's tables."""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from typer.testing import CliRunner

from antecede.audit.api import Audit, audit, audit_table
from antecede.audit.arrangements import plain_files
from antecede.cli.audit import audit as command
from antecede.errors import UsageError
from antecede.events.arrow_schemas import CLOCKS
from antecede.events.hashing import hash_names
from antecede.events.sources import table_of
from tests.support.histories import BRIEF, CLOCKED, RELAYED, SHAPES, Shape, history
from tests.support.oracles import Stamped, Truth, oracle

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from antecede.events import Event

pytestmark = pytest.mark.spark


def clock_of(event: Event) -> tuple[tuple[str, int], ...] | None:
    return event.clock if isinstance(event, Stamped) else None


def many(
    *, timed: bool, seeds: range, shapes: tuple[Shape, ...] = SHAPES
) -> tuple[list[Event], Truth]:
    """Combine many histories in one log, each with processes and messages of its own."""
    log: list[Event] = []
    truth = Truth()
    for number, shape in enumerate(shapes):
        for seed in seeds:
            mark = f"{number}-{seed}/"
            part: list[Event] = [
                Stamped(
                    mark + e.process,
                    e.seq,
                    e.kind,
                    e.message and mark + e.message,
                    None if e.dests is None else tuple(mark + d for d in e.dests),
                    float(i) if e.time is None and timed else e.time if timed else None,
                    None
                    if (clock := clock_of(e)) is None
                    else tuple((mark + p, r) for p, r in clock),
                )
                for i, e in enumerate(history(shape, seed))
            ]
            found = oracle(part)
            truth.violations |= found.violations
            truth.missing |= found.missing
            truth.findings |= found.findings
            log += part
    return log, truth


def truth_of(found: Audit) -> Truth:
    truth = Truth()
    for row in found.tables["violations"].to_pylist():
        place = (row["process"], row["message"], row["seq"])
        truth.violations[place] = row["overtaker"], row["overtaker_seq"], row["lateness"]
    for row in found.tables["missing"].to_pylist():
        truth.missing[row["process"], row["message"]] = (row["overtaker"], row["overtaker_seq"])
    for row in found.tables["findings"].to_pylist():
        truth.findings.add((row["kind"], row["process"], row["seq"], row["message"]))
    return truth


def same_tables(one: Audit, other: Audit) -> bool:
    return all(one.tables[name].equals(other.tables[name]) for name in one.tables)


def write_in_time(table: pa.Table, path: Path, rows: int) -> str:
    times = np.nan_to_num(np.asarray(table.column("time").to_numpy()))
    pq.write_table(table.take(np.argsort(times, kind="stable")), path, row_group_size=rows)
    return str(path)


def test_sql_and_we_hash_alike(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    names = ["", "a", "abcd", "12345678", "x" * 31, "x" * 32, "y" * 100, "\u00e9\u2202\u0192"]
    frame = spark.createDataFrame(pa.table({"name": names}))
    rows = frame.select(F.xxhash64("name"), F.xxhash64(F.lit("3"), "name")).collect()
    assert [row[0] for row in rows] == hash_names(names).tolist()
    assert [row[1] for row in rows] == hash_names(names, salt=3).tolist()


def test_any_frame_gives_the_oracles_answer(spark: SparkSession) -> None:
    log, truth = many(timed=True, seeds=range(500, 502))
    table = table_of(log)
    found = audit(spark.createDataFrame(table), windows=5)
    assert found.summary["arrangement"] == "blobs"
    assert truth_of(found) == truth
    assert same_tables(found, audit_table(table))
    assert found.violations.count() == len(truth.violations)


def test_clocks_and_relays_give_the_oracles_answer(spark: SparkSession, tmp_path: Path) -> None:
    log, truth = many(timed=True, seeds=range(700, 701), shapes=(*CLOCKED[:7], *RELAYED[:4]))
    clocks = pa.array([clock_of(e) for e in log], CLOCKS)
    table = table_of(log).append_column("clock", clocks)
    path = write_in_time(table, tmp_path / "log.parquet", 200)
    found = audit(spark.read.parquet(path), windows=4)
    assert (found.summary["arrangement"], found.summary["clocks"]) == ("blobs", True)
    assert truth_of(found) == truth
    assert same_tables(found, audit_table(table))


def test_relays_in_files_in_the_order_of_time(spark: SparkSession, tmp_path: Path) -> None:
    log, truth = many(timed=True, seeds=range(710, 714), shapes=RELAYED[:5])
    path = write_in_time(table_of(log), tmp_path / "log.parquet", 100)
    found = audit(spark.read.parquet(path), windows=3)
    assert found.summary["arrangement"] == "slices"
    assert truth_of(found) == truth
    assert same_tables(found, audit_table(table_of(log)))


@pytest.mark.parametrize("shape", [Shape(delay=0.001, unlogged=0.1), BRIEF[-1]])
def test_what_a_log_lacks_is_weighed_alike(
    spark: SparkSession, tmp_path: Path, shape: Shape
) -> None:
    table = table_of(history(shape, 1))
    path = write_in_time(table, tmp_path / "log.parquet", 15)
    local = audit_table(table)
    for frame in (spark.createDataFrame(table), spark.read.parquet(path)):
        found = audit(frame, windows=2)
        assert (found.verdict, found.reason) == (local.verdict, local.reason)


def test_a_frame_without_times_gives_the_oracles_answer(spark: SparkSession) -> None:
    log, truth = many(timed=False, seeds=range(600, 602), shapes=SHAPES[:4])
    table = table_of(log)
    found = audit(spark.createDataFrame(table.drop_columns(["time"])), windows=4)
    assert truth_of(found) == truth
    assert same_tables(found, audit_table(table))


def test_files_in_the_order_of_time_are_read_by_their_tasks(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Clocks that run backwards, or differ by much of these short logs, are packed instead.
    steady = tuple(s for s in SHAPES if s.skew <= 1 and not s.swapped and s.timed)
    log, truth = many(timed=True, seeds=range(700, 704), shapes=steady)
    table = table_of(log)
    frame = spark.read.parquet(write_in_time(table, tmp_path / "log.parquet", 80))
    found = audit(frame, windows=4)
    assert found.summary["arrangement"] == "slices"
    assert truth_of(found) == truth
    assert same_tables(found, audit_table(table))


def test_files_in_the_order_of_processes_are_packed_instead(
    spark: SparkSession, tmp_path: Path
) -> None:
    log, truth = many(timed=True, seeds=range(800, 801))
    log.sort(key=lambda e: (e.process, e.seq))
    pq.write_table(table_of(log), tmp_path / "log.parquet", row_group_size=200)
    found = audit(spark.read.parquet(str(tmp_path / "log.parquet")), windows=4)
    assert found.summary["arrangement"] == "blobs"
    assert truth_of(found) == truth


def test_a_frame_is_its_files_only_as_it_was_read(spark: SparkSession, tmp_path: Path) -> None:
    log, _ = many(timed=True, seeds=range(1), shapes=SHAPES[:1])
    frame = spark.read.parquet(write_in_time(table_of(log), tmp_path / "a b.parquet", 400))
    assert plain_files(frame) == [str(tmp_path / "a b.parquet")]
    assert plain_files(frame.filter("seq > 1")) is None
    assert plain_files(frame.select("process", "seq", "kind", "message")) is None


@pytest.mark.parametrize("arrangement", ["slices", "blobs"])
def test_hard_logs(spark: SparkSession, tmp_path: Path, arrangement: str) -> None:
    """Skewed clocks, gaps, bursts, silent processes, and one process with half of all events."""
    log = hard_log()
    table = table_of(log)
    local = audit_table(table)
    frame = spark.createDataFrame(table)
    if arrangement == "slices":
        frame = spark.read.parquet(write_in_time(table, tmp_path / "log.parquet", 100))
    found = audit(frame, windows=5)
    assert found.summary["arrangement"] == arrangement
    assert local.summary["violations"] > 100
    assert same_tables(found, local)


def hard_log() -> list[Event]:
    import random

    from antecede.events import Event

    rng = random.Random(5)
    skew = {p: rng.uniform(-6, 6) for p in range(12)}
    planned = []
    for m in range(4000):
        burst = 400 * (m // 1000) + rng.random() * 40
        sender = 0 if rng.random() < 0.5 else rng.randrange(10)
        dest = 0 if sender and rng.random() < 0.6 else rng.randrange(1, 10)
        if m % 2000 < 5:  # Two processes that are silent for most of the log.
            sender, dest = 10, 11
        delay = rng.expovariate(1.0)
        planned += [(burst, 0, m, sender, dest), (burst + delay, 1, m, sender, dest)]
    seqs = dict.fromkeys(range(12), 0)
    log = []
    for when, kind, m, sender, dest in sorted(planned):
        p = dest if kind else sender
        seqs[p] += rng.randint(1, 4)
        dests = None if kind else (f"p{dest}",)
        what = "deliver" if kind else "send"
        log.append(Event(f"p{p}", seqs[p], what, f"m{m}", dests, when + skew[p]))
    return log


def test_rows_that_are_no_events_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    log, truth = many(timed=True, seeds=range(1), shapes=SHAPES[:2])
    bad = pa.table(
        {
            "process": ["p", None, "p", ""],
            "seq": pa.array([None, 1, 2, 3], pa.int64()),
            "kind": ["send", "send", "think", "local"],
            "message": ["m", "m", "m", "m"],
            "dests": pa.array([None] * 4, pa.list_(pa.string())),
            "time": [1.0, 2.0, 3.0, 4.0],
        }
    )
    table = pa.concat_tables([table_of(log), bad])
    whole = audit_table(table)
    packed = audit(spark.createDataFrame(table), windows=2)
    frame = spark.read.parquet(write_in_time(table, tmp_path / "log.parquet", 50))
    sliced = audit(frame, windows=2)
    for found in (whole, packed, sliced):
        assert found.summary["rejected"] == 4
        assert truth_of(found) == truth


def test_wrong_calls_are_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame(pa.table({"process": ["a"], "seq": [1], "kind": ["local"]}))
    with pytest.raises(UsageError, match="lacks the column message; it has process, seq, kind"):
        audit(frame)
    empty = spark.createDataFrame(table_of([]))
    with pytest.raises(UsageError, match="has no events"):
        audit(empty)
    with pytest.raises(UsageError, match="unknown engine 'dask'"):
        audit(empty, engine="dask")
    with pytest.raises(UsageError, match="windows is 0"):
        audit(empty, windows=0)


def test_the_verdict_does_not_depend_on_the_engine(spark: SparkSession) -> None:
    from antecede.events import Event

    unpaired = table_of([Event("a", 1, "send", "m", ("b",)), Event("b", 1, "deliver", "other")])
    for found in (audit(spark.createDataFrame(unpaired)), audit(unpaired, engine="local")):
        assert (found.verdict, found.summary["causally_ordered"]) == ("undecidable", None)
        assert found.reason == found.summary["reason"]


#: Columns in Spark SQL that users have in addition to, or instead of, those of an event log.
ORDINARY: dict[str, dict[str, str]] = {
    "unrelated times": {
        "created": "current_timestamp()",
        "local": "timestamp_ntz'2026-01-01 10:00:00'",
        "day": "current_date()",
        "age": "interval 3 days",
    },
    "a timestamp": {"time": "timestamp_seconds(time)"},
    "a time without a zone": {"time": "cast(timestamp_seconds(time) as timestamp_ntz)"},
    "the whole range of seq": {"seq": "if(seq = 1, -9223372036854775807L, seq)"},
    "decimals": {
        "seq": "cast(seq as decimal(38, 0)) + 9223372036854775000",
        "time": "date'2026-01-01'",
    },
}


@pytest.mark.parametrize("what", ORDINARY)
def test_ordinary_frames(spark: SparkSession, tmp_path: Path, what: str) -> None:
    from pyspark.sql.functions import expr

    log = history(SHAPES[0], 3)
    timed = [replace(event, time=float(place)) for place, event in enumerate(log)]
    frame = spark.createDataFrame(table_of(timed))
    frame = frame.withColumns({name: expr(how) for name, how in ORDINARY[what].items()})
    found = audit(frame, windows=2)
    whole = audit(frame.toArrow(), engine="plain", complete_until_end=False)
    assert found.verdict == whole.verdict == "broken"
    assert found.records == whole.records
    found.report(tmp_path / "page.html")


def test_a_seq_that_fits_no_long_is_not_an_event(spark: SparkSession) -> None:
    from pyspark.sql.functions import expr

    frame = spark.createDataFrame(table_of(history(SHAPES[0], 3)))
    wide = frame.withColumn("seq", expr("cast(seq as decimal(38, 0)) + 9223372036854775800"))
    found = audit(wide)
    whole = audit(wide.toArrow(), engine="plain", complete_until_end=False)
    assert found.summary["rejected"] == whole.summary["rejected"] > 0
    assert (found.verdict, found.records) == (whole.verdict, whole.records)


def test_the_command_says_that_a_small_log_needs_no_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antecede.spark.session.session", lambda **_: nullcontext(spark))
    path = tmp_path / "log.parquet"
    pq.write_table(table_of(history(SHAPES[0], 3)), path)
    app = typer.Typer()
    app.command()(command)
    done = CliRunner().invoke(app, [str(path), "--windows", "2", "--out", str(tmp_path / "out")])
    assert done.exit_code == 1, done.output
    (hint,) = done.stderr.splitlines()
    assert re.fullmatch(r"antecede: \d+ events are few; --local is faster \(.*\)", hint)
