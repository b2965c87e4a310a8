"""OpenTelemetry spans as an event log: producer spans send, consumer spans deliver.

A consumer span delivers the messages of the producer spans it links to (or, in systems that do not
link, of its parent if that is a producer span of another service). Client and server spans are a
request and its receipt in the same way. Each service is a process, or each of its instances where
the resource names them. A process's order is the start times of its spans, the one clock it has.
"""

from __future__ import annotations

import json
from typing import Any

from antecede.core.tables import DELIVER, SEND
from antecede.eventlog import Event, Rejected

_SENDS = {4: "PRODUCER", 3: "CLIENT"}
_DELIVERS = {5: "CONSUMER", 2: "SERVER"}
_KINDS = {f"SPAN_KIND_{name}": code for code, name in (_SENDS | _DELIVERS).items()}


def read_spans(text: str, rejected: list[Rejected]) -> list[Event]:
    """Read OTLP JSON: one document, or one per line as collectors write them."""
    spans: list[tuple[int, str, dict[str, Any]]] = []
    try:
        documents = [(1, json.loads(text))]
    except ValueError:
        documents = []
        for line, raw in enumerate(text.splitlines(), start=1):
            if not raw.strip():
                continue
            try:
                documents.append((line, json.loads(raw)))
            except ValueError:
                rejected.append(Rejected(line, raw[:200], "not JSON"))
    for line, document in documents:
        found = list(_spans(document)) if isinstance(document, dict) else []
        spans += [(line, process, span) for process, span in found]
        if not found:
            rejected.append(Rejected(line, json.dumps(document)[:200], "no resourceSpans in it"))
    return _events(spans, rejected)


def _spans(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for resource in document.get("resourceSpans") or ():
        process = _process(resource.get("resource") or {})
        for scope in (
            resource.get("scopeSpans") or resource.get("instrumentationLibrarySpans") or ()
        ):
            found += [(process, span) for span in scope.get("spans") or ()]
    return found


def _process(resource: dict[str, Any]) -> str:
    told = {}
    for attribute in resource.get("attributes") or ():
        value = attribute.get("value") or {}
        told[attribute.get("key")] = next(iter(value.values()), None)
    service = str(told.get("service.name") or "unknown")
    instance = told.get("service.instance.id")
    return f"{service}/{instance}" if instance else service


def _events(spans: list[tuple[int, str, dict[str, Any]]], rejected: list[Rejected]) -> list[Event]:
    """Return sends and deliveries, each process's by start time."""
    homes: dict[str, str] = {}
    kinds: dict[str, int] = {}
    for _, process, span in spans:
        name = str(span.get("spanId") or "")
        homes[name], kinds[name] = process, _kind(span)
    drafts: list[tuple[str, int, str, str]] = []
    for line, process, span in spans:
        kind, name = _kind(span), str(span.get("spanId") or "")
        start = _nanos(span.get("startTimeUnixNano"))
        if not name or start is None:
            text = json.dumps(span)[:200]
            rejected.append(Rejected(line, text, "a span needs spanId and startTimeUnixNano"))
        elif kind in _SENDS:
            drafts.append((process, start, SEND, name))
        elif kind in _DELIVERS:
            causes = [str(link.get("spanId")) for link in span.get("links") or ()]
            parent = str(span.get("parentSpanId") or "")
            if not causes and kinds.get(parent) in _SENDS and homes[parent] != process:
                causes = [parent]
            drafts += [(process, start, DELIVER, cause) for cause in causes]
    dests: dict[str, set[str]] = {}
    for process, _, what, message in drafts:
        if what == DELIVER:
            dests.setdefault(message, set()).add(process)
    events, counts = [], dict.fromkeys((p for _, p, _ in spans), 0)
    for process, start, what, message in sorted(drafts, key=lambda d: (d[0], d[1], d[2] == SEND)):
        counts[process] += 1
        to = tuple(sorted(dests.get(message, ()))) if what == SEND else None
        events.append(Event(process, counts[process], what, message, to or None, start / 1e9))
    return events


def _kind(span: dict[str, Any]) -> int:
    kind = span.get("kind")
    return _KINDS.get(kind, 0) if isinstance(kind, str) else int(kind or 0)


def _nanos(value: object) -> int | None:
    try:
        return int(str(value))
    except ValueError:
        return None
