"""Everything that ``antecede.pipeline.audit`` accepts from Python, in one table, and its output."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from antecede.errors import UsageError
from antecede.events import Event
from antecede.events.sources import Source
from antecede.pipeline import audit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2024, 5, 1, 12, tzinfo=UTC)
#: b answers m1 with m2, and c gets the answer first.
ROWS: list[dict[str, Any]] = [
    {"process": "a", "seq": 1, "kind": "send", "message": "m1", "dests": ["b", "c"], "time": 0.0},
    {"process": "b", "seq": 1, "kind": "deliver", "message": "m1", "dests": None, "time": 1.0},
    {"process": "b", "seq": 2, "kind": "send", "message": "m2", "dests": ["c"], "time": 2.0},
    {"process": "c", "seq": 1, "kind": "deliver", "message": "m2", "dests": None, "time": 3.0},
    {"process": "c", "seq": 2, "kind": "deliver", "message": "m1", "dests": None, "time": 4.5},
]
#: The same with the user's own names, words and types, and without numbers.
OWN: list[dict[str, Any]] = [
    {
        "service": row["process"],
        "action": {"send": "Published", "deliver": "received"}[row["kind"]],
        "order_id": row["message"],
        "to": "; ".join(row["dests"] or []) or None,
        "at": START + timedelta(seconds=row["time"]),
    }
    for row in reversed(ROWS)
]
COLUMNS = {
    "process": "service",
    "kind": "action",
    "message": "order_id",
    "dests": "to",
    "time": "at",
}


class Row(NamedTuple):
    process: str
    seq: int
    kind: str
    message: str
    dests: list[str] | None
    time: float


class Stream:
    """An object of another library."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.Table.from_pylist(ROWS).__arrow_c_stream__(requested_schema)


def duck(rows: list[dict[str, Any]]) -> duckdb.DuckDBPyRelation:
    table = pa.Table.from_pylist(rows)
    return duckdb.connect().from_arrow(table)


def jsonl(folder: Path) -> Path:
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def halves(folder: Path) -> list[Path]:
    paths = [folder / "1.jsonl", folder / "2.jsonl"]
    for path, rows in zip(paths, (ROWS[:3], ROWS[3:]), strict=True):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return paths


def own_csv(folder: Path) -> Path:
    path = folder / "own.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, OWN[0].keys())
        writer.writeheader()
        writer.writerows(OWN)
    return path


def own_parquet(folder: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(OWN), folder / "own.parquet")
    return folder / "own.parquet"


def mixed_pandas(folder: Path) -> pd.DataFrame:
    """Return a frame with text and lists in one column, which Arrow cannot represent."""
    rows = [{**row, "dests": "b;c" if row["message"] == "m1" else row["dests"]} for row in ROWS]
    return pd.DataFrame(rows)


def with_gaps(folder: Path) -> pd.DataFrame:
    """Return a frame whose numbers are floating point, because one is missing."""
    return pd.DataFrame([*ROWS, {"process": "d", "kind": "local"}])


INPUTS: dict[str, tuple[Callable[[Path], Any], bool]] = {
    "Arrow table": (lambda _: pa.Table.from_pylist(ROWS), False),
    "Arrow batch": (lambda _: pa.RecordBatch.from_pylist(ROWS), False),
    "Arrow reader": (lambda _: pa.Table.from_pylist(ROWS).to_reader(), False),
    "Arrow dataset": (lambda _: ds.dataset(pa.Table.from_pylist(ROWS)), False),
    "a stream of Arrow": (lambda _: Stream(), False),
    "pandas": (lambda _: pd.DataFrame(ROWS), False),
    "pandas with an index": (lambda _: pd.DataFrame(ROWS).set_index("process"), False),
    "pandas with mixed columns": (mixed_pandas, False),
    "pandas with gaps": (with_gaps, False),
    "pandas with own columns": (lambda _: pd.DataFrame(OWN), True),
    "Polars": (lambda _: pl.DataFrame(ROWS), False),
    "lazy Polars": (lambda _: pl.DataFrame(ROWS).lazy(), False),
    "Polars with own columns": (lambda _: pl.DataFrame(OWN), True),
    "DuckDB": (lambda _: duck(ROWS), False),
    "DuckDB with own columns": (lambda _: duck(OWN), True),
    "columns": (lambda _: {key: [row[key] for row in ROWS] for key in ROWS[0]}, False),
    "rows": (lambda _: ROWS, False),
    "rows from a generator": (lambda _: (row for row in ROWS), False),
    "rows as named tuples": (lambda _: [Row(**row) for row in ROWS], False),
    "rows with own names": (lambda _: OWN, True),
    "events": (
        lambda _: [Event(**{**row, "dests": tuple(row["dests"] or ()) or None}) for row in ROWS],
        False,
    ),
    "a path": (jsonl, False),
    "a path as text": (lambda folder: str(jsonl(folder)), False),
    "a source": (lambda folder: Source(jsonl(folder)), False),
    "paths": (halves, False),
    "CSV with own columns": (own_csv, True),
    "Parquet with own columns": (own_parquet, True),
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", INPUTS)
def test_an_audit_takes(tmp_path: Path, name: str) -> None:
    make, is_own = INPUTS[name]
    found = audit(make(tmp_path), columns=COLUMNS if is_own else None)
    assert found.verdict == "broken"
    late = found.violations.to_pandas()
    assert late[["process", "message", "overtaker", "seq"]].to_numpy().tolist() == [
        ["c", "m1", "m2", 2]
    ]
    assert found.summary["deliveries"] == 3
    drawn = found.draw("m1")
    assert "c delivered m2 (seq 1) before m1 (seq 2" in drawn.text


@pytest.mark.spark
def test_a_spark_frame_may_have_own_columns(spark: SparkSession) -> None:
    rows = [{**row, "n": number} for number, row in enumerate(reversed(OWN), start=1)]
    frame = spark.createDataFrame(pa.Table.from_pylist(rows))
    found = audit(frame, columns={**COLUMNS, "seq": "n"})
    assert found.verdict == "broken"
    assert [row["message"] for row in found.violations.collect()] == ["m1"]
    assert "before m1" in found.draw("m1").text
    assert "Causal order was broken" in found._repr_html_()


@pytest.mark.parametrize(
    ("given", "columns", "reason"),
    [
        (7, None, r"events is .*7.*; give a frame \(Spark, pandas, Polars"),
        ([], None, "it records no sends, deliveries or local events"),
        ([1, 2], None, "expected a row as a dict"),
        ("nowhere.jsonl", None, "there is no log 'nowhere.jsonl'"),
        (pd.DataFrame(OWN), None, "lacks the columns process, .*it has service, action"),
        (pd.DataFrame(OWN), {"process": "svc"}, "no column 'svc' for process; it has service"),
        (OWN, {**COLUMNS, "message": "order"}, "no record has 'order', which is to be the message"),
        (OWN, ["service"], "columns is .*; give a dict, such as"),
        (pd.DataFrame(OWN), {"process": 3}, "the place of process is .*3"),
        (pd.Series(["a"]), None, "events is one column; give a frame"),
        (OWN, {"sender": "service"}, "an event has no part 'sender'; its parts are process, seq"),
        ({"process": ["a"], "seq": [1, 2]}, None, "cannot read the columns of the log"),
        (pd.DataFrame({"process": ["a"], "kind": [1], "message": [2]}), None, "kind has the type"),
    ],
)
def test_what_is_no_log_is_refused_in_one_line(given: Any, columns: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as error:
        audit(given, columns=columns)
    assert "\n" not in str(error.value)


def test_numbers_that_name_messages_may_have_gaps_in_pandas() -> None:
    """A frame with local events has no messages there, so pandas makes fractions of the rest."""
    rows = [{**row, "message": int(row["message"][1:])} for row in ROWS]
    frame = pd.DataFrame([*rows, {"process": "c", "seq": 3, "kind": "local"}])
    assert frame["message"].dtype == float
    assert audit(frame).violations.to_pandas()["message"].tolist() == ["1"]


def test_an_audit_shows_itself(tmp_path: Path) -> None:
    found = audit(ROWS)
    assert repr(found).startswith("<Audit: broken. ")
    assert len(repr(found)) < 200
    card = found._repr_html_()
    assert "<b>Causal order was broken.</b>" in card
    assert card.count("<svg viewBox") == 1
    page = found.report(tmp_path / "page.html")
    assert page.read_text().startswith("<!doctype html>")
    with pytest.raises(UsageError, match="cannot write the page"):
        found.report(tmp_path / "none" / "page.html")
    with pytest.raises(UsageError, match=r"no message 'm9'; its messages have ids such as 'm1'"):
        found.draw("m9")
    kept = audit([*ROWS[:3], ROWS[4] | {"seq": 0}, ROWS[3]])
    assert kept.verdict == "ordered"
    assert "All 5 events, in causal order." in kept.draw()._repr_html_()
