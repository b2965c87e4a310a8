"""The part of a log that is drawn."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from antecede.audit.log_rows import FrameRows, TableRows
from antecede.audit.neighbourhood import CONTEXT, REACH, neighbourhoods
from antecede.report.diagrams import diagram_of
from tests.support.histories import SHAPES, Shape, history

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def table(shape: Shape, seed: int) -> pa.Table:
    log = sorted(history(shape, seed), key=lambda e: (e.process, e.seq))
    rows = [{"process": e.process, "seq": e.seq, "kind": e.kind, "message": e.message} for e in log]
    return pa.Table.from_pylist(rows)


@pytest.mark.parametrize("seed", range(10))
def test_a_beginning_has_every_process_and_no_effect_without_its_cause(seed: int) -> None:
    log = table(SHAPES[0], seed)
    first = TableRows(log).beginning(30)
    assert len(first) == 30
    assert {e.process for e in first} == set(log.column("process").to_pylist())
    sent: set[str | None] = set()
    for event in first:
        assert event.kind != "deliver" or event.message in sent
        sent |= {event.message} if event.kind == "send" else set()


@pytest.mark.parametrize("seed", range(10))
def test_a_log_that_contradicts_itself_has_a_beginning_too(seed: int) -> None:
    log = table(SHAPES[11], seed)
    assert len(TableRows(log).beginning(40)) == 40
    assert len(TableRows(log).beginning(10**6)) == len(log)


@pytest.mark.parametrize("step", [1, 10**6, 2**57], ids=["dense", "sparse", "huge"])
def test_the_neighbourhood_counts_events_not_seqs(step: int) -> None:
    rows = [
        {"process": "a", "seq": (k - 30) * step, "kind": "local", "message": None}
        for k in range(60)
    ]
    rows[40] = {**rows[40], "kind": "send", "message": "m"}
    (near,) = neighbourhoods(TableRows(pa.Table.from_pylist(rows)), [{"message": "m"}])
    assert list(near.places) == list(range(40 - CONTEXT, 41 + CONTEXT))
    assert [e.seq for e in near.events] == [rows[k]["seq"] for k in near.places]


def test_what_is_left_out_is_counted_and_near_places_are_joined() -> None:
    rows = [{"process": "a", "seq": 7 * k, "kind": "local", "message": None} for k in range(100)]
    for k in (10, 20, 70):
        rows[k] = {**rows[k], "kind": "send", "message": "m"}
    (near,) = neighbourhoods(TableRows(pa.Table.from_pylist(rows)), [{"message": "m"}])
    assert list(near.places) == [*range(7, 24), *range(67, 74)]
    diagram = diagram_of("m", near.events, near.row, near.places)
    assert [node.hidden for node in diagram.nodes if node.hidden] == [43]


@pytest.mark.spark
def test_spark_sees_the_same_neighbourhood(spark: SparkSession) -> None:
    log = table(SHAPES[3], 4)
    points = {
        name: [e["seq"] for e in log.to_pylist() if e["process"] == name][::7]
        for name in ("p0", "p3")
    }
    here = TableRows(log).near(points)
    assert here == FrameRows(spark.createDataFrame(log).repartition(5)).near(points)
    for line in here.values():
        assert all(a.seq < b.seq for (_, a), (_, b) in pairwise(sorted(line.items())))
        assert len(line) > REACH
