"""Small traces for tests, in the formats of OTLP, Jaeger and Zipkin."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
TRACE = "5b8aa5a2d2c872e8321cf37308d69df2"
START = 1_700_000_000_000_000  # microseconds


@dataclass(frozen=True)
class S:
    """A span; times are milliseconds after the start of the trace."""

    service: str
    kind: str
    id: str
    start: float
    end: float
    name: str = ""
    parent: str = ""
    links: tuple[str, ...] = ()
    attributes: dict[str, str] = field(default_factory=dict)
    failed: bool = False
    instance: str = ""

    @property
    def micros(self) -> tuple[int, int]:
        return START + round(1000 * self.start), START + round(1000 * self.end)


def hexed(name: str) -> str:
    """Return an id of eight bytes that begins with ``name``, as hexadecimal digits."""
    return name.ljust(16, "0") if name else ""


def based(name: str) -> str:
    return base64.b64encode(bytes.fromhex(name)).decode()


def otlp(
    spans: Sequence[S], *, lines: bool = False, id_of: Callable[[str], str] = str,
    case: Callable[[str], str] = str,
) -> str:  # fmt: skip
    """Return spans as OTLP JSON: one document, or one per span on its own line."""

    def attributes(values: dict[str, str]) -> list[dict[str, Any]]:
        return [
            {"key": key, "value": {case("stringValue"): value}} for key, value in values.items()
        ]

    def resource(span: S) -> dict[str, Any]:
        start, end = span.micros
        about = {"service.name": span.service}
        if span.instance:
            about["service.instance.id"] = span.instance
        row: dict[str, Any] = {
            case("traceId"): id_of(TRACE),
            case("spanId"): id_of(hexed(span.id)),
            case("parentSpanId"): id_of(hexed(span.parent)) if span.parent else "",
            "name": span.name,
            "kind": KINDS.index(span.kind),
            case("startTimeUnixNano"): str(1000 * start),
            case("endTimeUnixNano"): str(1000 * end),
            "attributes": attributes(span.attributes),
            "status": {"code": 2} if span.failed else {},
        }
        if span.links:
            row["links"] = [
                {case("traceId"): id_of(TRACE), case("spanId"): id_of(hexed(link))}
                for link in span.links
            ]
        return {
            "resource": {"attributes": attributes(about)},
            case("scopeSpans"): [{"scope": {"name": "test"}, "spans": [row]}],
        }

    parts = [resource(span) for span in spans]
    if lines:
        return "".join(json.dumps({case("resourceSpans"): [part]}) + "\n" for part in parts)
    return json.dumps({case("resourceSpans"): parts})


def jaeger(spans: Sequence[S]) -> str:
    """Return spans as Jaeger's user interface downloads them."""
    origins = list(dict.fromkeys((span.service, span.instance) for span in spans))
    rows = []
    for span in spans:
        start, end = span.micros
        refs = [("CHILD_OF", span.parent)] if span.parent else []
        refs += [("FOLLOWS_FROM", link) for link in span.links]
        tags = {"span.kind": span.kind.lower(), **span.attributes}
        rows.append(
            {
                "traceID": TRACE,
                "spanID": hexed(span.id),
                "operationName": span.name,
                "references": [
                    {"refType": kind, "traceID": TRACE, "spanID": hexed(name)}
                    for kind, name in refs
                ],
                "startTime": start,
                "duration": end - start,
                "tags": [{"key": k, "type": "string", "value": v} for k, v in tags.items()]
                + [{"key": "error", "type": "bool", "value": True}] * span.failed,
                "logs": [],
                "processID": f"p{origins.index((span.service, span.instance)) + 1}",
                "warnings": None,
            }
        )
    processes = {
        f"p{number}": {
            "serviceName": service,
            "tags": [{"key": "hostname", "type": "string", "value": instance}] * bool(instance),
        }
        for number, (service, instance) in enumerate(origins, start=1)
    }
    trace = {"traceID": TRACE, "spans": rows, "processes": processes, "warnings": None}
    return json.dumps({"data": [trace], "total": 0, "limit": 0, "offset": 0, "errors": None})


def zipkin(spans: Sequence[S], *, shared: bool = False) -> str:
    """Return spans as Zipkin's JSON; with ``shared``, a server has the id of its client."""
    clients = {span.id: span for span in spans if span.kind == "CLIENT"}
    servers = [span for span in spans if shared and span.kind == "SERVER"]
    shared_ids = {span.id: span.parent for span in servers if span.parent in clients}
    rows = []
    for span in spans:
        start, end = span.micros
        name, parent = span.id, shared_ids.get(span.parent, span.parent)
        is_shared = name in shared_ids
        if is_shared:
            name, parent = parent, clients[parent].parent
        row: dict[str, Any] = {
            "traceId": TRACE,
            "id": hexed(name),
            "name": span.name,
            "timestamp": start,
            "duration": end - start,
            "localEndpoint": {"serviceName": span.service},
            "tags": dict(span.attributes),
        }
        row |= {"parentId": hexed(parent)} if parent else {}
        row |= {"kind": span.kind} if span.kind in KINDS[2:] else {}
        row |= {"shared": True} if is_shared else {}
        for number, link in enumerate(span.links):
            row["tags"][f"otlp.link.{number}"] = f"{TRACE}|{hexed(link)}||{{}}|0"
        if span.instance:
            row["localEndpoint"]["ipv4"] = span.instance
        if span.failed:
            row["tags"]["error"] = "timeout"
        rows.append(row)
    return json.dumps(rows)


def console(spans: Sequence[S]) -> str:
    """Return spans as Python's console exporter prints them."""
    rows = []
    for span in spans:
        start, end = (datetime.fromtimestamp(t / 1e6, UTC).isoformat() for t in span.micros)
        context = {"trace_id": f"0x{TRACE}", "trace_state": "[]"}
        about = {"service.name": span.service}
        if span.instance:
            about["service.instance.id"] = span.instance
        links = [{"context": context | {"span_id": f"0x{hexed(link)}"}} for link in span.links]
        row = {
            "name": span.name,
            "context": context | {"span_id": f"0x{hexed(span.id)}"},
            "kind": f"SpanKind.{span.kind}",
            "parent_id": f"0x{hexed(span.parent)}" if span.parent else None,
            "start_time": start.replace("+00:00", "Z"),
            "end_time": end.replace("+00:00", "Z"),
            "status": {"status_code": "ERROR" if span.failed else "UNSET"},
            "attributes": span.attributes,
            "events": [],
            "links": links,
            "resource": {"attributes": about, "schema_url": ""},
        }
        rows.append(json.dumps(row, indent=4))
    return "\n".join(rows)


def printed_by_go(spans: Sequence[S]) -> str:
    """Return spans as Go's stdouttrace exporter prints them."""

    def pairs(values: dict[str, str]) -> list[dict[str, Any]]:
        return [{"Key": k, "Value": {"Type": "STRING", "Value": v}} for k, v in values.items()]

    def context(name: str) -> dict[str, str]:
        return {"TraceID": TRACE if name else 32 * "0", "SpanID": hexed(name) or 16 * "0"}

    rows = []
    for span in spans:
        start, end = (datetime.fromtimestamp(t / 1e6, UTC).isoformat() for t in span.micros)
        row = {
            "Name": span.name,
            "SpanContext": context(span.id),
            "Parent": context(span.parent),
            "SpanKind": KINDS.index(span.kind),
            "StartTime": start,
            "EndTime": end,
            "Attributes": pairs(span.attributes) or None,
            "Links": [{"SpanContext": context(link)} for link in span.links] or None,
            "Status": {"Code": "Error" if span.failed else "Unset", "Description": ""},
            "Resource": pairs({"service.name": span.service}),
        }
        rows.append(json.dumps(row, indent="\t"))
    return "\n".join(rows)


def flat(spans: Sequence[S]) -> str:
    """Return spans as flat objects, one a line, with times in microseconds."""
    return "\n".join(
        json.dumps(
            {
                "traceId": TRACE,
                "spanId": hexed(span.id),
                "parentSpanId": hexed(span.parent),
                "service": span.service,
                "name": span.name,
                "kind": span.kind.lower(),
                "startTime": span.micros[0],
                "endTime": span.micros[1],
                "links": [{"traceId": TRACE, "spanId": hexed(link)} for link in span.links],
                "attributes": span.attributes,
            }
        )
        for span in spans
    )


#: billing publishes inside an RPC, checkout publishes after the reply, mail gets them reversed.
REVERSED = (
    S("checkout", "CLIENT", "c1", 10, 60, "POST /invoice"),
    S("billing", "SERVER", "b1", 20, 50, "POST /invoice", "c1"),
    S("billing", "PRODUCER", "b2", 30, 35, "publish invoices", "b1"),
    S("checkout", "PRODUCER", "c2", 70, 75, "publish orders"),
    S("mail", "CONSUMER", "e1", 90, 95, "process orders", links=("c2",)),
    S("mail", "CONSUMER", "e2", 100, 105, "process invoices", "b2"),
)
