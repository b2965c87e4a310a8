"""OpenTelemetry spans as an event log: producer spans send, consumer spans deliver.

A consumer span delivers the messages of the producer spans it links to (or, in systems that do not
link, of its parent if that is a producer span of another service). Client and server spans are a
request and its receipt in the same way. Each service is a process, or each of its instances where
the resource names them. A process's order is the start times of its spans, the one clock it has;
the links of one span, a batch, are taken to be in the order of delivery.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from antecede.core.tables import DELIVER, SEND
from antecede.eventlog import Event, Rejected

_SENDS = {4: "PRODUCER", 3: "CLIENT"}
_DELIVERS = {5: "CONSUMER", 2: "SERVER"}
_QUIET = {0: "UNSPECIFIED", 1: "INTERNAL"}
_ALL = _SENDS | _DELIVERS | _QUIET
_KINDS = {f"SPAN_KIND_{name}": code for code, name in _ALL.items()} | {str(c): c for c in _ALL}
_TIME_END = 2**63

#: A span as others speak of it: its trace (if told) and itself.
Name = tuple[str, str]


@dataclass(frozen=True)
class _Span:
    process: str
    name: Name
    kind: int
    start: int
    parent: Name
    links: tuple[Name, ...]


def read_spans(text: str, rejected: list[Rejected]) -> list[Event]:
    """Read OTLP JSON: one document, or one per line as collectors write them."""
    spans: list[_Span] = []
    try:
        documents = [(1, json.loads(text))]
    except (ValueError, RecursionError):
        documents = []
        for line, raw in enumerate(text.splitlines(), start=1):
            if not raw.strip():
                continue
            try:
                documents.append((line, json.loads(raw)))
            except (ValueError, RecursionError):
                rejected.append(Rejected(line, raw[:200], "not JSON"))
    for line, document in documents:
        found = _found(document)
        for process, span in found:
            read = _span(process, span)
            if isinstance(read, str):
                rejected.append(Rejected(line, json.dumps(span)[:200], read))
            else:
                spans.append(read)
        if not found:
            rejected.append(Rejected(line, json.dumps(document)[:200], "no resourceSpans in it"))
    return _events(spans)


def _found(document: object) -> list[tuple[str | None, object]]:
    """Return what stands where spans do, each with its process (None: that is not told right)."""
    found: list[tuple[str | None, object]] = []
    for resource in _list(document, "resourceSpans"):
        if not isinstance(resource, dict):
            found.append((None, resource))
            continue
        process = _process(resource.get("resource"))
        scopes = _list(resource, "scopeSpans") or _list(resource, "instrumentationLibrarySpans")
        for scope in scopes:
            spans = _list(scope, "spans") if isinstance(scope, dict) else [scope]
            found += [(process, span) for span in spans]
    return found


def _list(owner: object, name: str) -> list[Any]:
    """Return the list of that name; something else in its place is its one, bad, member."""
    told = owner.get(name) if isinstance(owner, dict) else None
    return told if isinstance(told, list) else [told] if told else []


def _process(resource: object) -> str | None:
    """Return the name of a resource's process, or None if its attributes cannot be read."""
    told = {}
    for attribute in _list(resource, "attributes"):
        value = attribute.get("value") if isinstance(attribute, dict) else None
        if not isinstance(value, dict) or not isinstance(attribute.get("key"), str):
            return None
        told[attribute["key"]] = next(iter(value.values()), None)
    service = str(told.get("service.name") or "unknown")
    instance = told.get("service.instance.id")
    return f"{service}/{instance}" if instance else service


def _span(process: str | None, span: object) -> _Span | str:
    """Return a span, or the reason why it is none."""
    if not isinstance(span, dict):
        return "a span is not a JSON object"
    if process is None:
        return "its resource's attributes are not a list of key and value"
    name, start = _name(span, "spanId"), _nanos(span.get("startTimeUnixNano"))
    if not name[1] or start is None:
        return "a span needs spanId and startTimeUnixNano"
    kind, causes = _kind(span), _links(span)
    if isinstance(kind, str) or isinstance(causes, str):
        return str(kind if isinstance(kind, str) else causes)
    if not _is_text(process, *(word for one in (name, *causes) for word in one)):
        return "a name is not UTF-8"
    return _Span(process, name, kind, start, _name(span, "parentSpanId"), causes)


def _kind(span: dict[str, Any]) -> int | str:
    told = span.get("kind") or 0
    found = _KINDS.get(str(told)) if isinstance(told, int | str) else None
    return (
        f"the span's kind is {told!r}, expected 0 to 5 or SPAN_KIND_..." if found is None else found
    )


def _links(span: dict[str, Any]) -> tuple[Name, ...] | str:
    told = span.get("links") or []
    is_good = isinstance(told, list) and all(isinstance(x, dict) and x.get("spanId") for x in told)
    if not is_good:
        return "the span's links are not a list of objects with a spanId"
    return tuple(_name(link, "spanId") for link in told)


def _name(told: dict[str, Any], which: str) -> Name:
    return str(told.get("traceId") or ""), str(told.get(which) or "")


def _is_text(*words: str) -> bool:
    try:
        return bool("".join(words).encode() or True)
    except UnicodeEncodeError:
        return False


def _events(spans: list[_Span]) -> list[Event]:
    """Return sends and deliveries, each process's by start time."""
    sends = {span.name: span for span in spans if span.kind in _SENDS}
    traces: dict[str, list[Name]] = {}
    for name in sends:
        traces.setdefault(name[1], []).append(name)

    def whole(name: Name) -> Name:
        """Complete a link where one end does not tell the trace and only one span can be meant."""
        known = traces.get(name[1], [])
        is_told = len(known) != 1 or (name[0] and known[0][0])
        return name if is_told else known[0]

    drafts: list[tuple[str, int, str, Name]] = []
    for span in spans:
        if span.kind in _SENDS:
            drafts.append((span.process, span.start, SEND, span.name))
        elif span.kind in _DELIVERS:
            causes = [whole(link) for link in span.links]
            parent = sends.get(span.parent)
            if not causes and parent is not None and parent.process != span.process:
                causes = [span.parent]
            drafts += [(span.process, span.start, DELIVER, cause) for cause in causes]
    dests: dict[Name, set[str]] = {}
    for process, _, what, message in drafts:
        if what == DELIVER:
            dests.setdefault(message, set()).add(process)
    # A span's own id is its message's, unless another trace has the same.
    shared = {i for i, count in Counter(n[1] for n in {d[3] for d in drafts}).items() if count > 1}
    events, counts = [], Counter[str]()
    for process, start, what, message in sorted(drafts, key=lambda d: (d[0], d[1], d[2] == SEND)):
        counts[process] += 1
        to = tuple(sorted(dests.get(message, ()))) if what == SEND else None
        text = "/".join(filter(None, message)) if message[1] in shared else message[1]
        events.append(Event(process, counts[process], what, text, to or None, start / 1e9))
    return events


def _nanos(value: object) -> int | None:
    try:
        found = int(str(value))
    except ValueError:
        return None
    return found if 0 <= found < _TIME_END else None
