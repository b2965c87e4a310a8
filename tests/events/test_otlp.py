"""Reading OpenTelemetry spans: which are sends and deliveries, and which are rejected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antecede.audit.api import audit_table
from antecede.errors import LogError
from antecede.events import sources
from antecede.events.sources import Source
from tests.support.traces import S, otlp


def span(name: str, kind: int | str, start: int, **more: Any) -> dict[str, Any]:
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


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda doc: doc["resourceSpans"][0]["scopeSpans"][0]["spans"][0].update(kind=[4]), "kind"),
        (lambda doc: doc["resourceSpans"][0]["scopeSpans"][0]["spans"][0].update(kind="x"), "kind"),
        (lambda doc: doc["resourceSpans"][0]["scopeSpans"][0]["spans"].append("oops"), "JSON obj"),
        (lambda doc: doc["resourceSpans"].append("x"), "not a JSON object"),
        (lambda doc: doc["resourceSpans"][0]["scopeSpans"].append(3), "not a JSON object"),
        (lambda doc: doc["resourceSpans"][0]["resource"].update(attributes={"a": "b"}), "attribut"),
        (
            lambda doc: doc["resourceSpans"][1]["scopeSpans"][0]["spans"][0].update(links=["s"]),
            "lin",
        ),
        (
            lambda doc: doc["resourceSpans"][1]["scopeSpans"][0]["spans"][0].update(links=[{}]),
            "link",
        ),
        (lambda doc: doc["resourceSpans"][1]["scopeSpans"][0]["spans"][0].update(links=5), "links"),
        (
            lambda doc: doc["resourceSpans"][0]["scopeSpans"][0]["spans"][0].update(
                spanId="\ud800"
            ),
            "not UTF-8",
        ),
    ],
)
def test_a_bad_span_is_rejected_and_the_others_are_read(
    tmp_path: Path, spoil: Callable[[Any], object], reason: str
) -> None:
    path = tmp_path / "spans.json"
    links = [{"spanId": "s1"}]
    parts = [resource("a", [span("s1", 4, 1)]), resource("b", [span("r1", 5, 2, links=links)])]
    document = {"resourceSpans": [*parts, resource("c", [span("s2", 4, 1)])]}
    spoil(document)
    path.write_text(json.dumps(document))
    found = sources.read(Source(path))
    assert found.bad == 1
    assert reason in found.rejected.to_pylist()[0]["reason"]
    assert "s2" in found.events.column("message").to_pylist()


@pytest.mark.parametrize("document", [{}, {"resourceSpans": []}, {"resourceSpans": [{}]}])
def test_a_document_without_spans_is_refused_as_such(tmp_path: Path, document: object) -> None:
    path = tmp_path / "spans.json"
    path.write_text(json.dumps(document))
    with pytest.raises(LogError, match="line 1: no spans in it; got"):
        sources.read(Source(path))


def test_a_span_is_known_by_its_trace_and_itself(tmp_path: Path) -> None:
    path = tmp_path / "spans.json"
    sends = [span("1", "4", 1, traceId="t1"), span("1", 4, 2, traceId="t2")]
    links = [{"spanId": "1", "traceId": trace} for trace in ("t2", "t1")]
    batch = span("r", "SPAN_KIND_CONSUMER", 9, links=links)
    document = {"resourceSpans": [resource("a", sends), resource("b", [batch])]}
    path.write_text(json.dumps(document))
    row = audit_table(sources.read(Source(path)).events).tables["violations"].to_pylist()[0]
    assert (row["message"], row["overtaker"]) == ("t1/1", "t2/1")


def test_documents_may_take_several_lines_each(tmp_path: Path) -> None:
    lines = otlp([S("shop", "PRODUCER", "a1", 1, 2), S("mail", "CONSUMER", "b1", 3, 4, "", "a1")])
    whole = json.loads(lines)["resourceSpans"]
    parts = [json.dumps({"resourceSpans": [one]}, indent=1) for one in (*whole, 5)]
    path = tmp_path / "pretty.json"
    path.write_text("\n\n".join(parts), encoding="utf-8")
    found = sources.read(Source(path))
    assert found.events.column("kind").to_pylist() == ["deliver", "send"]
    last = len("\n\n".join(parts[:2]).splitlines()) + 2
    assert found.rejected.column("line").to_pylist() == [last]


def test_metrics_and_logs_in_the_same_file_are_passed_over(tmp_path: Path) -> None:
    others = [{"resourceMetrics": []}, {"resourceLogs": [{}]}, {"resource_metrics": [{}]}]
    spans = otlp([S("shop", "PRODUCER", "a1", 1, 2, "publish")], lines=True)
    path = tmp_path / "signals"
    path.write_text("\n".join([*map(json.dumps, others), spans]), encoding="utf-8")
    found = sources.read(Source(path))
    assert (len(found.events), found.bad, found.form) == (1, 0, "otlp")
