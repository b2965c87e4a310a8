"""Reading logs: six forms, kept bad rows, and statements of what cannot be decided."""

from __future__ import annotations

import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.audit.api import audit_table
from antecede.audit.drawings import clock_arrows, clocks_of
from antecede.errors import LogError, UsageError
from antecede.events import EventLog, arrow_schemas, sources
from antecede.events import log as logs
from antecede.events.formats import shiviz
from antecede.events.sources import Source, table_of
from antecede.spark.frames import cause
from tests.support.histories import LATE

SEND = r"Sending (?<message>\S+) to (?<to>\w+)"
DELIVER = r"Received (?<message>\S+) from (?<from>\w+)"


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_the_event_log_is_read_in_three_forms(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"log.{form}"
    if form == "parquet":
        pq.write_table(table_of(LATE), path)
    else:
        for process in "abc":
            with EventLog(path, process) as log:
                for e in (e for e in LATE if e.process == process):
                    _ = log.send(e.message, e.dests) if e.kind == "send" else log.deliver(e.message)
    found = sources.read(Source(path))
    assert found.form == form
    assert len(found.rejected) == 0
    row = audit_table(found.events).tables["violations"].to_pylist()[0]
    assert (row["process"], row["message"], row["overtaker"]) == ("c", "m1", "m3")
    assert row["chain"] == ["m1", "m2", "m3"]
    assert row["kind"] == "causal"


def test_bad_lines_are_kept_and_may_be_fatal(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    good = '{"process":"a","seq":1,"kind":"local"}'
    bad = ["nonsense", '{"process":"a","seq":"x","kind":"local"}']
    path.write_text("\n".join([good, *bad, good]))
    found = sources.read(Source(path))
    assert found.rejected.to_pylist() == [
        {"source": "log.jsonl", "line": 2, "text": "nonsense", "reason": "not JSON"},
        {
            "source": "log.jsonl",
            "line": 3,
            "text": '{"process":"a","seq":"x","kind":"local"}',
            "reason": "seq is not a 64-bit integer",
        },
    ]
    with pytest.raises(
        UsageError, match=r"line 2 is not a valid event: not JSON; got 'nonsense' \(invalid rows: 2"
    ):
        sources.read(Source(path, strict=True))


@pytest.mark.parametrize(
    ("name", "hosts", "events"),
    [
        ("voldemort", 20, 864),
        ("chord", 8, 1235),
        ("simpledb", 5, 509),
        ("reliable-broadcast", 4, 116),
    ],
)
def test_the_shared_shiviz_logs_are_read(shared: Path, name: str, hosts: int, events: int) -> None:
    path = shared / "data" / "shiviz" / f"{name}.log"
    parsed = shiviz.parse_log(path.read_text(encoding="utf-8"))
    assert len(parsed.entries) == events
    assert len({entry.host for entry in parsed.entries}) == hosts
    found = sources.read(Source(path))
    rows = found.events.sort_by([("process", "ascending"), ("seq", "ascending")]).to_pylist()
    assert clock_arrows(rows, clocks_of(rows))
    assert found.undecidable is not None
    assert "give --send and --deliver" in found.undecidable


def test_the_log_whose_text_names_messages_is_audited(shared: Path) -> None:
    path = shared / "data" / "shiviz" / "reliable-broadcast.log"
    found = sources.read(Source(path, send=SEND, deliver=DELIVER))
    assert found.undecidable is None
    kinds = Counter(found.events.column("kind").to_pylist())
    assert kinds == {"send": 49, "deliver": 48, "local": 19}
    summary = audit_table(found.events).summary
    assert summary["causally_ordered"]
    assert summary["findings"] == 0


def test_clock_arrows_agree_with_paired_messages(shared: Path) -> None:
    """Where messages are paired, every delivery's clock covers its send's."""
    path = shared / "data" / "shiviz" / "reliable-broadcast.log"
    parsed = shiviz.parse_log(path.read_text(encoding="utf-8"))
    events = shiviz.to_events(parsed.entries, Source(path, send=SEND, deliver=DELIVER))
    sent = {
        e.message: entry
        for e, entry in zip(events, parsed.entries, strict=True)
        if e.kind == "send"
    }
    pairs = 0
    for event, entry in zip(events, parsed.entries, strict=True):
        if event.kind == "deliver":
            send = sent[event.message]
            assert entry.clock[send.host] >= send.clock[send.host]
            pairs += 1
    assert pairs == 48


def test_patterns_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text('a {"a":1}\nhello\n')
    with pytest.raises(UsageError, match="lacks the named group message"):
        sources.read(Source(path, send="hello", deliver="(?<message>x)"))
    with pytest.raises(UsageError, match="is not a regular expression"):
        sources.read(Source(path, pattern="("))
    found = sources.read(Source(path, send="(?<message>hello)", deliver="(?<message>bye)"))
    assert found.undecidable == (
        "The pattern --deliver matches no event, so there is nothing to judge."
    )
    path.write_text('a {"a":1}\nhello\nb {"b":1}\nbye\n')
    found = sources.read(Source(path, send="(?<message>hello)", deliver="(?<message>bye)"))
    assert found.undecidable is not None
    assert "have none in common; make both name messages alike" in found.undecidable
    assert "such as 'hello' and 'bye'." in found.undecidable
    more = 'a {"a":99999999999999999999}\nhi\na {"a":-2}\nho\n'
    path.write_text('a {"a":1}\nhello\n' + more + 'a {"a":2}\nbye\n')
    reasons = [row["reason"] for row in sources.read(Source(path)).rejected.to_pylist()]
    assert reasons == ["the clock is not JSON with counts"] * 2
    path.write_text('a {"a":1}\nhello\n')
    given = r"(?<host>\w+) (?<clock>\{.*\})\n(?<event>.*)"
    assert len(sources.read(Source(path, pattern=given)).events) == 1
    path.write_text("nothing of the kind\n")
    with pytest.raises(LogError, match=r"cannot read .* as shiviz: no .* fits none of the known"):
        sources.read(Source(path))


def test_lines_that_are_not_utf8_are_rejected_in_every_form(tmp_path: Path) -> None:
    edges = tmp_path / "e.txt"
    edges.write_bytes(b"a b 1\n\xff b 2\n\xfe b 2\na b 3\n")
    found = sources.read(Source(edges))
    assert [(r["line"], r["text"], r["reason"]) for r in found.rejected.to_pylist()] == [
        (2, "\\xff b 2", "not UTF-8"),
        (3, "\\xfe b 2", "not UTF-8"),
    ]
    clocks = tmp_path / "c.log"
    clocks.write_bytes(b'a {"a":1}\nhello\nb {"b":1}\n\xe9\n')
    found = sources.read(Source(clocks))
    assert "not UTF-8" in [r["reason"] for r in found.rejected.to_pylist()]
    lines = tmp_path / "l.jsonl"
    row = b'{"process":"a","seq":1,"kind":"send","message":"caf%s"}\n'
    lines.write_bytes(row % b"\xe9" + row % b"\xe8" + row % b"e" + row % b"a")
    assert sources.read(Source(lines)).bad == 2
    with pytest.raises(UsageError, match="line 1 is not a valid event: not UTF-8"):
        sources.read(Source(lines, strict=True))


def test_when_no_row_is_an_event_the_first_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"proc":"a","seq":1,"kind":"send","message":"m1"}\n')
    with pytest.raises(
        UsageError,
        match=r'its only row is not a valid event; line 1: process is missing; got .*proc"',
    ):
        sources.read(Source(path))


def test_only_the_first_bad_rows_are_kept_and_all_counted(tmp_path: Path) -> None:
    rows = {"process": ["a"] + [None] * 3000 + ["b"] * 3000, "seq": [1] * 6001}
    words = {"kind": ["local"] * 6001, "message": ["m"] * 6001}
    pq.write_table(pa.table({**rows, **words}), tmp_path / "log.parquet")
    found = sources.read(Source(tmp_path / "log.parquet"))
    assert (found.bad, len(found.rejected)) == (3000, logs.QUOTED)
    first = found.rejected.to_pylist()[0]
    assert (first["line"], first["reason"]) == (2, "process is missing")


BASE: dict[str, list[Any]] = {
    "process": ["a", "b", "b", "c", "c"],
    "seq": [1, 1, 2, 1, 2],
    "kind": ["send", "deliver", "send", "deliver", "deliver"],
    "message": ["m1", "m1", "m2", "m2", "m1"],
}
DESTS = [["b", "c"], [], ["c"], None, None]


@pytest.mark.parametrize(
    "columns",
    [
        {"process": pa.array(BASE["process"], pa.large_string())},
        {"message": pa.array(BASE["message"], pa.string_view())},
        {name: pa.array(BASE[name]).dictionary_encode() for name in ("process", "kind", "message")},
        {"process": [name.encode() for name in BASE["process"]]},
        {"seq": pa.array(BASE["seq"], pa.uint64())},
        {"seq": pa.array(BASE["seq"], pa.decimal128(20, 0))},
        {"dests": pa.array(DESTS, pa.large_list(pa.large_string()))},
        {"dests": pa.array(DESTS, pa.list_(pa.string_view()))},
        {"dests": pa.array([[b"b", b"c"], None, [b"c"], None, None])},
        {"dests": pa.array([["b", "c"]] * 5, pa.list_(pa.string(), 2))},
        {"time": pa.array([1, 2, 3, 4, 5])},
    ],
)
def test_tables_of_any_kind_of_strings_are_read_as_strings(columns: dict[str, Any]) -> None:
    found = sources.sorted_out(pa.table(BASE | columns), "log")
    assert found.bad == 0
    for name in found.events.column_names:
        assert found.events.schema.field(name).type == arrow_schemas.EVENTS.field(name).type
    assert found.events.column("process").to_pylist() == BASE["process"]
    row = audit_table(found.events).tables["violations"].to_pylist()[0]
    assert (row["process"], row["message"], row["overtaker"]) == ("c", "m1", "m2")


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"seq": pa.array([2**64 - 1, 1, 2, 1, 2], pa.uint64())}, "seq is not a 64-bit integer"),
        ({"process": [b"a\xff", b"b", b"b", b"c", b"c"]}, "process is not UTF-8"),
        ({"message": pa.array([b"\xff", b"m1", b"m2", b"m2", b"m1"]).view(pa.string())}, "message"),
        ({"dests": [["b", None], None, ["c"], None, None]}, "dests is not a list of strings"),
        ({"dests": pa.array([[b"\xff"], None, [b"c"], None, None])}, "dests"),
        ({"kind": ["SEND", "deliver", "send", "deliver", "deliver"]}, "kind is 'SEND'; expected"),
    ],
)
def test_values_without_a_plain_form_make_rejected_rows(
    columns: dict[str, Any], reason: str
) -> None:
    found = sources.sorted_out(pa.table(BASE | columns), "log")
    (row,) = found.rejected.to_pylist()
    assert row["line"] == 1
    assert reason in row["reason"]
    assert len(found.events) == 4


def test_whole_numbers_are_names_in_tables_too() -> None:
    numbers = {"process": [1, 2, 2, 3, 3], "dests": [[2, 3], None, [3], None, None]}
    found = sources.sorted_out(pa.table(BASE | numbers), "log")
    assert found.events.column("process").to_pylist() == ["1", "2", "2", "3", "3"]
    assert found.events.column("dests").to_pylist()[0] == ["2", "3"]


def test_java_errors_are_told_by_their_cause() -> None:
    said = """An error occurred while calling o54.parquet.
: org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.Some.thing(Some.scala:1)
Caused by: java.lang.RuntimeException: x.parquet is not a Parquet file
\tat more
"""
    assert cause(said) == "RuntimeException: x.parquet is not a Parquet file"
    assert cause("") == "no reason given"


def test_edges_are_messages(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("src dst time\n1 2 10\n2 3 20\n2 1 20\noops\n1 2 nan\n1 2 inf\n# remark\n")
    found = sources.read(Source(path))
    assert [row["reason"] for row in found.rejected.to_pylist()] == [
        "expected: source destination time",
        "time is not finite",
        "time is not finite",
    ]
    assert Counter(found.events.column("kind").to_pylist()) == {"send": 2, "deliver": 3}
    assert audit_table(found.events).summary["causally_ordered"]


def test_wrong_input_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no log"):
        sources.read(Source(tmp_path / "absent.jsonl"))
    strange = tmp_path / "log.xyz"
    strange.write_text("")
    with pytest.raises(UsageError, match="give --format, one of csv, edges"):
        sources.read(Source(strange))
    with pytest.raises(UsageError, match="unknown format 'xml'; known: csv, edges, jaeger, jsonl"):
        sources.read(Source(strange, form="xml"))
    with pytest.raises(UsageError, match="has no events"):
        sources.read(Source(strange, form="jsonl"))
    strange.write_text("words")
    with pytest.raises(UsageError, match="as parquet"):
        sources.read(Source(strange, form="parquet"))
    with lzma.open(tmp_path / "log.jsonl.xz", "wb") as file:
        file.write(b'{"process":"a","seq":1,"kind":"local"}')
    with pytest.raises(UsageError, match="is compressed; unpack it first, with unxz"):
        sources.read(Source(tmp_path / "log.jsonl.xz"))
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="has no files in it"):
        sources.read(Source(tmp_path / "folder"))


@pytest.mark.parametrize(
    ("column", "values", "reason"),
    [
        ("seq", ["1"], "the column seq has the type string; expected integers"),
        ("time", [["now"]], "the column time has the type list.*; expected numbers of seconds"),
        ("dests", [1], "the column dests has the type int64; expected lists of strings"),
        ("kind", [1], "the column kind has the type int64; expected the strings send, deliver"),
        ("message", [{"a": 1}], "the column message has the type struct<a: int64>; expected str"),
    ],
)
def test_columns_of_the_wrong_type_are_refused(
    tmp_path: Path, column: str, values: list[Any], reason: str
) -> None:
    columns: dict[str, list[Any]] = {"process": ["a"], "seq": [1], "kind": ["local"]}
    table = pa.table(columns | {"message": ["m"], column: values})
    pq.write_table(table, tmp_path / "log.parquet")
    with pytest.raises(
        LogError, match=r"cannot read '.*log\.parquet' as parquet: " + reason
    ) as error:
        sources.read(Source(tmp_path / "log.parquet"))
    assert error.value.path == tmp_path / "log.parquet"
    with pytest.raises(LogError, match="^" + reason) as error:
        audit_table(table)
    assert error.value.path is None


def test_a_table_with_two_columns_of_one_name_is_refused() -> None:
    columns = [pa.array(values) for values in (["a"], [1], ["local"], ["m"], ["n"])]
    table = pa.table(columns, names=["process", "seq", "kind", "message", "message"])
    with pytest.raises(LogError, match=r"^the log has 2 columns of the name message; keep one$"):
        audit_table(table)


def test_an_invalid_row_of_a_type_that_arrow_cannot_take_is_quoted() -> None:
    names = pa.array(["a", None], pa.string_view())
    table = pa.table({"process": names, "seq": [1, 2], "kind": ["send"] * 2, "message": ["m"] * 2})
    log = sources.sorted_out(table, "")
    assert (len(log.events), log.bad) == (1, 1)
    assert log.rejected["line"].to_pylist() == [2]
