"""Reading logs: six forms, bad rows kept, and what cannot be decided said."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from antecede.errors import UsageError
from antecede.eventlog import Event, EventLog
from antecede.pipeline import shiviz, sources
from antecede.pipeline.audit import audit_table
from antecede.pipeline.sources import Source, table_of

if TYPE_CHECKING:
    from pathlib import Path

SEND = r"Sending (?<message>\S+) to (?<to>\w+)"
DELIVER = r"Received (?<message>\S+) from (?<from>\w+)"
STORY = [
    Event("a", 1, "send", "m1", ("c",), 0.0),
    Event("a", 2, "send", "m2", ("b",), 1.0),
    Event("b", 1, "deliver", "m2", None, 2.0),
    Event("b", 2, "send", "m3", ("c",), 3.0),
    Event("c", 1, "deliver", "m3", None, 4.0),
    Event("c", 2, "deliver", "m1", None, 5.0),
]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_the_event_log_is_read_in_three_forms(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"log.{form}"
    if form == "parquet":
        pq.write_table(table_of(STORY), path)
    else:
        for process in "abc":
            with EventLog(path, process) as log:
                for e in (e for e in STORY if e.process == process):
                    _ = log.send(e.message, e.dests) if e.kind == "send" else log.deliver(e.message)
    found = sources.read(Source(path))
    assert len(found.rejected) == 0
    row = audit_table(found.events).tables["violations"].to_pylist()[0]
    assert (row["process"], row["message"], row["overtaker"]) == ("c", "m1", "m3")
    assert row["chain"] == ["m1", "m2", "m3"]
    assert row["kind"] == "causal"


def test_bad_lines_are_kept_and_may_be_fatal(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    good = '{"process":"a","seq":1,"kind":"local"}'
    path.write_text(f"{good}\nnonsense\n" + '{"process":"a","seq":"x","kind":"local"}\n')
    found = sources.read(Source(path))
    assert found.rejected.to_pylist() == [
        {"source": "log.jsonl", "line": 2, "text": "nonsense", "reason": "not JSON"},
        {
            "source": "log.jsonl",
            "line": 3,
            "text": '{"process":"a","seq":"x","kind":"local"}',
            "reason": "seq is not a whole number of 64 bits",
        },
    ]
    with pytest.raises(UsageError, match=r"line 2 is no event: not JSON; got 'nonsense' \(2 such"):
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
    assert shiviz.clock_arrows(parsed)
    found = sources.read(Source(path))
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
    events = shiviz.to_events(parsed, SEND, DELIVER)
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
    with pytest.raises(UsageError, match="is no regular expression"):
        sources.read(Source(path, pattern="("))
    found = sources.read(Source(path, send="(?<message>hello)", deliver="(?<message>bye)"))
    assert found.undecidable is not None
    assert "none of them the same" in found.undecidable
    given = r"(?<host>\w+) (?<clock>\{.*\})\n(?<event>.*)"
    assert len(sources.read(Source(path, pattern=given)).events) == 1
    path.write_text("nothing of the kind\n")
    with pytest.raises(UsageError, match="fits none of the known layouts"):
        sources.read(Source(path))


def span(name: str, kind: int, start: int, **more: Any) -> dict[str, Any]:
    return {"spanId": name, "kind": kind, "startTimeUnixNano": str(start), **more}


def resource(service: str, spans: list[dict[str, Any]]) -> dict[str, Any]:
    attribute = {"key": "service.name", "value": {"stringValue": service}}
    return {"resource": {"attributes": [attribute]}, "scopeSpans": [{"spans": spans}]}


def test_opentelemetry_spans_are_sends_and_deliveries(tmp_path: Path) -> None:
    path = tmp_path / "spans.json"
    shop = [span("s1", 4, 10), span("s2", 3, 20)]
    bill = [span("b1", 2, 30, parentSpanId="s2"), span("b2", 4, 40)]
    mail = [
        span("m1", 5, 50, links=[{"spanId": "b2"}]),
        span("m2", 5, 60, links=[{"spanId": "s1"}]),
        {"kind": 5},
    ]
    document = {
        "resourceSpans": [resource("shop", shop), resource("bill", bill), resource("mail", mail)]
    }
    path.write_text(json.dumps(document))
    found = sources.read(Source(path))
    assert len(found.rejected) == 1
    row = audit_table(found.events).tables["violations"].to_pylist()[0]
    assert (row["process"], row["message"], row["overtaker"]) == ("mail", "s1", "b2")
    assert row["chain"] == ["s1", "s2", "b2"]
    path.write_text("\n".join(json.dumps(document) for _ in range(1)) + "\nnot json\n")
    assert len(sources.read(Source(path)).rejected) == 2


def test_edges_are_messages(tmp_path: Path) -> None:
    path = tmp_path / "edges.txt"
    path.write_text("src dst time\n1 2 10\n2 3 20\n2 1 20\noops\n# remark\n")
    found = sources.read(Source(path))
    assert [row["reason"] for row in found.rejected.to_pylist()] == [
        "expected: source destination time"
    ]
    assert Counter(found.events.column("kind").to_pylist()) == {"send": 2, "deliver": 3}
    assert audit_table(found.events).summary["causally_ordered"]


def test_wrong_input_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no log"):
        sources.read(Source(tmp_path / "absent.jsonl"))
    strange = tmp_path / "log.xyz"
    strange.write_text("")
    with pytest.raises(UsageError, match="give --format, one of parquet, jsonl"):
        sources.read(Source(strange))
    with pytest.raises(UsageError, match="unknown format 'xml'; known: parquet"):
        sources.read(Source(strange, form="xml"))
    with pytest.raises(UsageError, match="has no events"):
        sources.read(Source(strange, form="jsonl"))
    with pytest.raises(UsageError, match="as parquet"):
        sources.read(Source(strange, form="parquet"))


@pytest.mark.parametrize(
    ("column", "values", "reason"),
    [
        ("seq", ["1"], "the column seq has the type string; expected a whole number"),
        ("time", ["now"], "the column time has the type string; expected a number of seconds"),
        ("dests", ["b"], "the column dests has the type string; expected a list of strings"),
    ],
)
def test_columns_of_the_wrong_type_are_refused(
    tmp_path: Path, column: str, values: list[str], reason: str
) -> None:
    columns: dict[str, list[Any]] = {"process": ["a"], "seq": [1], "kind": ["local"]}
    table = pa.table(columns | {"message": ["m"], column: values})
    pq.write_table(table, tmp_path / "log.parquet")
    with pytest.raises(UsageError, match=reason):
        sources.read(Source(tmp_path / "log.parquet"))
    with pytest.raises(UsageError, match=reason):
        audit_table(table)
