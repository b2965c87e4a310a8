"""Every reader of the event log agrees on what an event is: one table of cases, each path."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede import events as eventlog
from antecede.events import arrow_schemas
from antecede.events.sources import Source, read, sorted_out
from antecede.events.tables import EVENT_COLUMNS
from antecede.spark.frames import plain_frame, rejected_rows, validity
from tests.support.event_cases import CASES, GOOD, Case

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def each(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


def raw(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def table_of(case: Case) -> pa.Table:
    """Return the case as a table of two rows: itself, and an event that is always good."""
    columns = {}
    for name in EVENT_COLUMNS:
        kind = case.types.get(name, arrow_schemas.EVENTS.field(name).type)
        values = [(GOOD | case.changed)[name], None]
        if kind in {pa.string(), pa.list_(pa.string())}:  # Strings may hold any bytes.
            columns[name] = _forced(values, kind)
        else:
            columns[name] = pa.array(values, kind)
    table = pa.table(columns)
    good = {"process": "z", "seq": 1, "kind": "local"}
    rows = pa.Table.from_pylist([good], arrow_schemas.EVENTS)
    plain = {n for n in EVENT_COLUMNS if table.schema.field(n).type == rows.schema.field(n).type}
    if plain != set(EVENT_COLUMNS):
        return table.slice(0, 1)
    return pa.concat_tables([table.slice(0, 1), rows])


def _forced(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind == pa.string():
        data = [None if v is None else raw(v) for v in values]
        return pa.array(data, pa.binary()).view(pa.string())
    lists = [v if v is None else [None if x is None else raw(x) for x in v] for v in values]
    bare = pa.array(lists, pa.list_(pa.binary()))
    words = bare.values.view(pa.string())
    return pa.ListArray.from_arrays(bare.offsets, words, mask=bare.is_null())


def seen(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of any reader as an event's columns."""
    dests, time = row.get("dests"), row.get("time")
    return {name: row.get(name) for name in EVENT_COLUMNS} | {
        "dests": None if dests is None else list(dests),
        "time": None if time is None or not math.isfinite(time) else float(time),
        "message": row.get("message") or None,
    }


def check(case: Case, rows: list[dict[str, Any]], reasons: list[str]) -> None:
    """Check that a reader found the event, or rejected it for the expected reason."""
    mine = [seen(row) for row in rows if row["process"] != "z"]
    if case.reason is None:
        assert (mine, reasons) == ([seen(case.expected())], [])
    else:
        assert mine == []
        (reason,) = reasons
        assert case.reason in reason


def text_bytes(value: object) -> bytes:
    """Return a value as JSON, keeping bytes that are not UTF-8."""
    if isinstance(value, list):
        return b"[" + b",".join(map(text_bytes, value)) + b"]"
    return b'"' + value + b'"' if isinstance(value, bytes) else json.dumps(value).encode()


@each([case for case in CASES if case.json])
@pytest.mark.parametrize("reader", ["plain", "pipeline"])
def test_json_lines(tmp_path: Path, case: Case, reader: str) -> None:
    path = tmp_path / "log.jsonl"
    fields = [b'"%s":%s' % (n.encode(), text_bytes(v)) for n, v in (GOOD | case.changed).items()]
    path.write_bytes(b"{" + b",".join(fields) + b"}\n" + b'{"process":"z","seq":1,"kind":"local"}')
    check_file(case, path, reader)


@each([case for case in CASES if case.csv])
@pytest.mark.parametrize("reader", ["plain", "pipeline"])
def test_csv(tmp_path: Path, case: Case, reader: str) -> None:
    path = tmp_path / "log.csv"
    row = GOOD | case.changed
    dests = row["dests"]
    row["dests"] = b"" if dests is None else b";".join(raw(str_or_bytes(dest)) for dest in dests)
    values = [raw(str_or_bytes(row[name])) for name in EVENT_COLUMNS]
    out = io.StringIO()
    words = [value.decode(errors="surrogateescape") for value in values]
    csv.writer(out).writerow(EVENT_COLUMNS)
    csv.writer(out).writerow(words)
    csv.writer(out).writerow(["z", "1", "local", "", "", ""])
    path.write_bytes(out.getvalue().encode(errors="surrogateescape"))
    check_file(case, path, reader)


def str_or_bytes(value: object) -> str | bytes:
    if value is None:
        return ""
    return value if isinstance(value, bytes) else str(value)


def check_file(case: Case, path: Path, reader: str) -> None:
    if reader == "plain":
        rejected: list[eventlog.Rejected] = []
        events = eventlog.read(path, rejected=rejected)
        rows = [{name: getattr(event, name) for name in EVENT_COLUMNS} for event in events]
        check(case, rows, [row.reason for row in rejected])
    else:
        log = read(Source(path))
        check(case, log.events.to_pylist(), log.rejected.column("reason").to_pylist())


@each(CASES)
def test_arrow(case: Case) -> None:
    log = sorted_out(table_of(case), "log")
    check(case, log.events.to_pylist(), log.rejected.column("reason").to_pylist())
    if case.reason is None:
        assert log.events.schema.equals(arrow_schemas.EVENTS)


@pytest.mark.spark
def test_spark(spark: SparkSession, tmp_path: Path) -> None:
    """One file for all cases whose columns have the same types; its rows stay in their order."""
    alike: dict[str, list[Case]] = {}
    for case in CASES:
        alike.setdefault(str(sorted(case.types.items())), []).append(case)
    for number, cases in enumerate(alike.values()):
        tables = [table_of(case) for case in cases]
        owners = [place for place, table in enumerate(tables) for _ in range(len(table))]
        table = pa.concat_tables(tables).append_column("case", pa.array(owners))
        path = tmp_path / f"{number}.parquet"
        pq.write_table(table, path, coerce_timestamps="us")  # Spark has no nanoseconds
        frame = spark.read.parquet(str(path))
        plain = plain_frame(frame)
        rows = plain.filter(validity(plain)).select("case", *EVENT_COLUMNS).toArrow().to_pylist()
        rejected = rejected_rows(frame.drop("case"), "log", 1).column("reason").to_pylist()
        reasons = iter(rejected)
        for place, case in enumerate(cases):
            mine = [row for row in rows if row["case"] == place]
            check(case, mine, [] if case.reason is None else [next(reasons)])
        assert list(reasons) == []
