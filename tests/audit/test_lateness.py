"""Lateness in seconds, if the log has times: in tables, summary, sentences and on the page."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from antecede import events as eventlog
from antecede.audit.api import audit, audit_table
from antecede.audit.log_rows import FrameRows, TableRows
from antecede.audit.results import in_seconds
from antecede.cli.main import app
from antecede.events import Event
from antecede.events.sources import table_of
from antecede.report.numbers import counted, seconds_in_words
from tests.support.histories import Shape, history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LATE = [
    Event("a", 1, "send", "m1", ("b",), 1.0),
    Event("a", 2, "send", "m2", ("b",), 2.0),
    Event("b", 1, "deliver", "m2", None, 103.0),
    Event("b", 2, "local", "work", None, 103.1),
    Event("b", 3, "deliver", "m1", None, 103.25),
]


def test_lateness_is_measured_by_the_receivers_clock(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    eventlog.write(tmp_path / "log.jsonl", LATE)
    out = tmp_path / "o"
    with pytest.raises(SystemExit):
        app(["audit", str(tmp_path / "log.jsonl"), "--local", "--out", str(out)])
    (row,) = pq.read_table(out / "violations.parquet").to_pylist()
    assert list(row)[-1] == "lateness_seconds"
    assert row["lateness_seconds"] == pytest.approx(0.25)
    summary = json.loads((out / "summary.json").read_text())["result"]
    assert summary["lateness_seconds"]["max"] == pytest.approx(0.25)
    assert "lateness_seconds" in (out / "violations.csv").read_text().splitlines()[0]
    shown = capsys.readouterr().out
    assert "(seq 3; 1 event in between, 250 ms later)" in shown
    assert "Late by 250 ms (receivers' clocks), with 1 event in between" in shown
    assert "5 events of 2 processes, 2 messages and 2 deliveries." in shown
    page = (out / "index.html").read_text()
    assert "lateness, seconds" in page
    assert "lateness in seconds, largest" in page


@pytest.mark.parametrize("times", [(None, 103.25), (103.0, None), (104.0, 103.25), (-1e308, 1e308)])
def test_without_times_that_tell_there_is_no_lateness_in_seconds(
    times: tuple[float | None, float | None],
) -> None:
    events = [*LATE[:2], replace(LATE[2], time=times[0]), replace(LATE[4], time=times[1])]
    table = table_of(events)
    found = in_seconds(audit_table(table), TableRows(table))
    assert "lateness_seconds" not in found.tables["violations"].column_names
    assert "lateness_seconds" not in found.summary


def test_a_late_delivery_that_was_repeated_counts_where_it_was_first() -> None:
    events = [*LATE, Event("b", 4, "deliver", "m1", None, 200.0)]
    table = table_of(events)
    found = in_seconds(audit_table(table), TableRows(table))
    assert found.tables["violations"]["lateness_seconds"].to_pylist() == [pytest.approx(0.25)]


def test_both_engines_measure_the_same(spark: SparkSession) -> None:
    table = table_of(history(Shape(processes=5, sends=120, fan_out=2, delay=2.0, own=0.0), 5))
    frame = spark.createDataFrame(table)
    here = in_seconds(audit_table(table), TableRows(table))
    there = in_seconds(audit(frame, windows=3), FrameRows(frame))
    late = here.tables["violations"].to_pylist()
    assert len(late) > 5
    assert there.tables["violations"].to_pylist() == late
    assert all(row["lateness_seconds"] > 0 for row in late)


def test_times_and_counts_in_words() -> None:
    times = (0.0, 0.0000123, 0.0123, 1.5, 12345.6)
    assert [seconds_in_words(time) for time in times] == [
        "0 s", "12.3 \N{MICRO SIGN}s", "12.3 ms", "1.5 s", "12,346 s",
    ]  # fmt: skip
    assert counted(1, "delivery", "deliveries") == "1 delivery"
    assert counted(2000, "event") == "2,000 events"
