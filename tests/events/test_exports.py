"""Logs as users have them: exports, envelopes, console output, protobuf, custom fields."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from antecede.audit.api import audit_log
from antecede.audit.verdicts import Asked
from antecede.errors import LogError, UsageError
from antecede.events.fields import fields_of
from antecede.events.inputs import log_of
from antecede.events.sources import Log, Source, form_of, read
from tests.support.traces import (
    REVERSED,
    based,
    console,
    flat,
    jaeger,
    otlp,
    printed_by_go,
    zipkin,
)

#: mail gets the answer (m2) before the question (m1).
STORY = [
    ("ann", "sent", "m1", 0),
    ("bob", "received", "m1", 1),
    ("bob", "sent", "m2", 2),
    ("mail", "received", "m2", 3),
    ("mail", "received", "m1", 4),
]
EVENTS = [
    {"process": p, "seq": t, "kind": {"sent": "send"}.get(k, "deliver"), "message": m}
    for p, k, m, t in STORY
]
DAY = "2024-05-01T12:00:0"


def ecs(row: tuple[str, str, str, int]) -> dict[str, Any]:
    process, kind, message, time = row
    return {
        "@timestamp": f"{DAY}{time}.000Z",
        "log.level": "info",
        "message": f"{kind} the order {message}",
        "service": {"name": process},
        "event.action": kind,
        "labels": {"order_id": message},
    }


ECS_FIELDS = {
    "process": "service.name",
    "kind": "event.action",
    "message": "labels.order_id",
    "time": "@timestamp",
}


def lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def docker(row: tuple[str, str, str, int]) -> dict[str, Any]:
    process, kind, message, time = row
    inside = {"svc": process, "action": kind, "order": message}
    return {"log": json.dumps(inside) + "\n", "stream": "stdout", "time": f"{DAY}{time}.123456789Z"}


def journald(row: tuple[str, str, str, int]) -> dict[str, Any]:
    process, kind, message, time = row
    return {
        "_HOSTNAME": process,
        "__REALTIME_TIMESTAMP": str(1_700_000_000_000_000 + time),
        "MESSAGE": f"order {message} was {kind}",
    }


def loki(row: tuple[str, str, str, int]) -> dict[str, Any]:
    process, kind, message, time = row
    line = json.dumps({"action": kind, "order": message})
    return {"stream": {"app": process}, "values": [[str(1_700_000_000_000_000_000 + time), line]]}


def logcli(row: tuple[str, str, str, int]) -> dict[str, Any]:
    process, kind, message, time = row
    line = f"action={kind} order={message}"
    return {"labels": {"app": process}, "line": line, "timestamp": f"{DAY}{time}Z"}


LOKI_FIELDS = {"process": "app", "kind": "action", "message": "order", "time": "timestamp"}
DOCKER_FIELDS = {"process": "log.svc", "kind": "log.action", "message": "log.order"}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "a JSON array of events": (json.dumps(EVENTS), {}),
    "a pretty JSON array": (json.dumps(EVENTS, indent=2), {}),
    "Elasticsearch's answer with events": (
        json.dumps({"hits": {"total": 5, "hits": [{"_source": row} for row in EVENTS]}}),
        {},
    ),
    "ECS": (lines([ecs(row) for row in STORY]), {"fields": ECS_FIELDS}),
    "ECS as an array": (json.dumps([ecs(row) for row in STORY]), {"fields": ECS_FIELDS}),
    "Elasticsearch's answer": (
        json.dumps({"took": 1, "hits": {"hits": [{"_source": ecs(row)} for row in STORY]}}),
        {"fields": ECS_FIELDS},
    ),
    "elasticdump": (
        lines([{"_index": "logs", "_id": "1", "_source": ecs(row)} for row in STORY]),
        {"fields": ECS_FIELDS},
    ),
    "latest first": (lines([ecs(row) for row in reversed(STORY)]), {"fields": ECS_FIELDS}),
    "docker json-file": (lines([docker(row) for row in STORY]), {"fields": DOCKER_FIELDS}),
    "journald": (
        lines([journald(row) for row in STORY]),
        {
            "fields": {
                "process": "_HOSTNAME",
                "time": "__REALTIME_TIMESTAMP",
                "event": "MESSAGE",
            },
            "send": r"order (?<message>\w+) was sent",
            "deliver": r"order (?<message>\w+) was received",
        },
    ),
    "Loki's answer": (
        json.dumps({"status": "success", "data": {"result": [loki(row) for row in STORY]}}),
        {"fields": LOKI_FIELDS},
    ),
    "logcli": (
        lines([logcli(row) for row in STORY]),
        {
            "fields": {"process": "app", "time": "timestamp", "event": "line"},
            "send": r"action=sent order=(?<message>\w+)",
            "deliver": r"action=received order=(?<message>\w+)",
        },
    ),
    "CSV": (
        "svc,what,id,at\n" + "".join(f"{p},{k},{m},{t}\n" for p, k, m, t in STORY),
        {"fields": {"process": "svc", "kind": "what", "message": "id", "time": "at"}},
    ),
}


def judged(log: Log) -> list[tuple[str, str, str]]:
    late = audit_log(log).tables["violations"].to_pylist()
    return [(row["process"], row["message"], row["overtaker"]) for row in late]


@pytest.mark.parametrize("name", CASES)
def test_an_export_is_read_as_it_is(tmp_path: Path, name: str) -> None:
    text, options = CASES[name]
    path = tmp_path / "export.json"
    path.write_text(text)
    log = read(Source(path, **options))
    assert (len(log.events), log.bad) == (5, 0)
    assert judged(log) == [("mail", "m1", "m2")]


def test_parquet_may_have_other_names_and_structs(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    rows = [{"svc": {"name": p}, "what": k, "id": m, "at": t} for p, k, m, t in reversed(STORY)]
    pq.write_table(pa.Table.from_pylist(rows), path)
    fields = {"process": "svc.name", "kind": "what", "message": "id", "time": "at"}
    assert judged(read(Source(path, fields=fields))) == [("mail", "m1", "m2")]
    with pytest.raises(LogError, match="no column 'nothing' for message; it has svc, what, id, at"):
        read(Source(path, fields=fields | {"message": "nothing"}))


def test_records_that_are_no_events_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "app.jsonl"
    noise = [{"service": {"name": "ann"}, "message": "hello"}] * 20
    path.write_text(lines([*noise, *map(ecs, STORY)]) + '{"torn')
    log = read(Source(path, fields=ECS_FIELDS))
    assert (len(log.events), log.bad) == (5, 21)
    assert judged(log) == [("mail", "m1", "m2")]
    with pytest.raises(
        UsageError, match=r"no record of app.jsonl says at 'message' whether it is a"
    ):
        read(Source(path, fields={"kind": "message"}))
    for wrong, reason in (
        ("message", "use PART=PATH"),
        ("colour=x", "no part 'colour'"),
        ("kind=", "use PART"),
    ):
        with pytest.raises(UsageError, match=reason):
            fields_of([wrong])
    with pytest.raises(UsageError, match="two places for kind, 'a' and 'b'"):
        fields_of(["kind=a", "kind=b"])
    with pytest.raises(UsageError, match="--field has no effect on the format otlp"):
        read(Source(path, "otlp", fields={"kind": "x"}))


def test_records_of_something_else_leave_no_doubt(tmp_path: Path) -> None:
    path = tmp_path / "app.jsonl"
    path.write_text(lines([{"message": "hello", "kind": "x"}, *map(ecs, STORY[:2])]))
    found = audit_log(read(Source(path, fields=ECS_FIELDS)), Asked(complete_until_end=True))
    assert found.verdict == "ordered"


def protobuf(spans: Any) -> bytes:
    data = json.loads(otlp(spans, id_of=based))
    return bytes(ParseDict(data, TracesData()).SerializeToString())


def framed(spans: Any) -> bytes:
    parts = [protobuf([span]) for span in spans]
    return b"".join(len(part).to_bytes(4) + part for part in parts)


def tempo(spans: Any) -> bytes:
    return json.dumps({"trace": json.loads(otlp(spans))}).encode()


def batches(spans: Any) -> bytes:
    return json.dumps({"batches": json.loads(otlp(spans))["resourceSpans"]}).encode()


def in_elasticsearch(spans: Any) -> bytes:
    trace = json.loads(jaeger(spans))["data"][0]
    rows = [{**span, "process": trace["processes"][span["processID"]]} for span in trace["spans"]]
    return json.dumps({"hits": {"hits": [{"_source": row} for row in rows]}}).encode()


def zipkin_1(spans: Any) -> str:
    """Return spans in the format of version 1, where annotations give the events."""
    words = {"PRODUCER": ("ms", "ws"), "CONSUMER": ("mr", "wr"), "CLIENT": ("cs", "cr")}
    words["SERVER"] = "sr", "ss"
    rows = []
    for row in json.loads(zipkin(spans)):
        place, tags, kind = row.pop("localEndpoint"), row.pop("tags"), row.pop("kind", "")
        times = row["timestamp"], row["timestamp"] + row["duration"]
        marks = zip(words.get(kind, ()), times, strict=False)
        row["annotations"] = [{"value": w, "timestamp": t, "endpoint": place} for w, t in marks]
        notes = {"lc": "", **tags}.items()
        row["binaryAnnotations"] = [{"key": k, "value": v, "endpoint": place} for k, v in notes]
        rows.append(row)
    return json.dumps([rows])


TRACES: dict[str, tuple[Callable[[Any], str | bytes], str]] = {
    "OTLP in protobuf": (protobuf, "otlp"),
    "OTLP in protobuf, several messages": (framed, "otlp"),
    "OTLP in protobuf, gzipped": (lambda spans: gzip.compress(protobuf(spans)), "otlp"),
    "Tempo's answer": (tempo, "otlp"),
    "Tempo's older answer": (batches, "otlp"),
    "Jaeger's answer": (jaeger, "jaeger"),
    "Jaeger's spans in Elasticsearch": (in_elasticsearch, "jaeger"),
    "Python's console exporter": (console, "spans"),
    "Go's console exporter": (printed_by_go, "spans"),
    "flat spans": (flat, "spans"),
    "Zipkin": (zipkin, "zipkin"),
    "Zipkin, version 1": (zipkin_1, "zipkin"),
}


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_is_read_as_it_is(tmp_path: Path, name: str) -> None:
    make, form = TRACES[name]
    path = tmp_path / "trace"
    data = make(REVERSED)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    assert form_of(Source(path)) == form
    log = read(Source(path))
    assert log.bad == 0
    ((process, message, overtaker),) = judged(log)
    assert (process, "invoices" in message, "orders" in overtaker) == ("mail", True, True)


@pytest.mark.parametrize("cut", [3, 40, -5])
def test_half_a_protobuf_file_is_one_line(tmp_path: Path, cut: int) -> None:
    for data in (protobuf(REVERSED), framed(REVERSED)):
        path = tmp_path / "trace.pb"
        path.write_bytes(data[:cut])
        with pytest.raises(UsageError) as error:
            read(Source(path))
        assert "\n" not in str(error.value)


FOREIGN = {
    "X-Ray": {"Traces": [{"Id": "1", "Segments": [{"Id": "2", "Document": "{}"}]}]},
    "X-Ray's segments": {"trace_id": "1-58-a0", "id": "2", "name": "shop", "subsegments": []},
    "X-Ray's segments alone": {"trace_id": "1-58-a0", "id": "2", "name": "x", "start_time": 1.5},
    "CloudEvents": {"specversion": "1.0", "id": "1", "source": "/shop", "type": "order.made"},
    "Debezium": {"payload": {"op": "c", "ts_ms": 1, "source": {"table": "orders"}}},
}


@pytest.mark.parametrize("name", FOREIGN)
def test_what_cannot_tell_is_said_in_one_line(tmp_path: Path, name: str) -> None:
    for file in ("export", "export.json", "export.jsonl"):
        path = tmp_path / file
        path.write_text(json.dumps(FOREIGN[name]))
        said = name.removesuffix(" alone")
        with pytest.raises(LogError, match=rf"cannot read '.*{file}': {said}") as error:
            read(Source(path))
        assert "\n" not in str(error.value)


UNMAPPED = {
    "docker.log": lines(list(map(docker, STORY))),
    "journal.json": lines(list(map(journald, STORY))),
    "search.json": json.dumps({"hits": {"hits": [{"_source": ecs(row)} for row in STORY]}}),
    "array.json": json.dumps(list(map(ecs, STORY)), indent=1),
    "ecs.ndjson": lines(list(map(ecs, STORY))),
}


@pytest.mark.parametrize("name", UNMAPPED)
def test_records_without_a_mapping_are_shown_with_what_they_have(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(UNMAPPED[name])
    with pytest.raises(LogError, match=r"--field process=PATH .*the first has ") as error:
        read(Source(path))
    has = {"docker.log": "log.order", "journal.json": "MESSAGE"}.get(name, "labels.order_id")
    assert has in str(error.value)
    assert "\n" not in str(error.value)


def test_a_path_that_no_record_has_is_refused(tmp_path: Path) -> None:
    """A misspelt process would be the name of the file, and a misspelt time the order of lines."""
    path = tmp_path / "ecs.jsonl"
    path.write_text(lines(list(map(ecs, STORY))))
    for part, slip in (("process", "service.nam"), ("time", "timestamp"), ("message", "order_id")):
        fields = {**ECS_FIELDS, part: slip}
        words = f"no record has '{slip}', which is to be the {part}; the first has .*service.name"
        with pytest.raises(UsageError, match=words):
            read(Source(path, fields=fields))
        with pytest.raises(UsageError, match=words):
            log_of(list(map(ecs, STORY)), fields)
    path.write_text(lines([*map(ecs, STORY), {**ecs(STORY[0]), "service": {}}]))
    found = read(Source(path, fields=ECS_FIELDS))
    assert (len(found.events), found.bad) == (5, 1)
    assert found.rejected.column("reason").to_pylist() == ["it has no process"]


@pytest.mark.parametrize("name", ["log.jsonl", "log.csv", "log.json"])
def test_events_without_numbers_are_in_the_order_of_times(tmp_path: Path, name: str) -> None:
    rows = [{k: v for k, v in row.items() if k != "seq"} for row in EVENTS]
    rows = [{**row, "time": f"{DAY}{n}Z"} for n, row in enumerate(rows)][::-1]
    table = ",".join(rows[0]) + "\n" + "".join(",".join(map(str, r.values())) + "\n" for r in rows)
    text = {"log.csv": table, "log.json": json.dumps(rows)}.get(name, lines(rows))
    path = tmp_path / name
    path.write_text(text)
    assert judged(read(Source(path))) == [("mail", "m1", "m2")]
