"""OpenTelemetry spans (OTLP JSON): producer spans send, consumer spans deliver.

A consumer span delivers the messages of the producer spans it links to. If it has no links, it
delivers that of its parent, if the parent is a producer span of another service. Client and server
spans work the same way. Each service is a process, or each of its instances if the resource names
them. Start times order the spans of a process; a batch's links are in the order of delivery.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from antecede.core.tables import DELIVER, SEND
from antecede.eventlog import Event, Rejected
from antecede.eventlog.rule import is_text
from antecede.pipeline.logs.base import QUOTED_CHARS, Format, Log, Source, log_of, read_text

_SENDS = {4: "PRODUCER", 3: "CLIENT"}
_DELIVERS = {5: "CONSUMER", 2: "SERVER"}
_QUIET = {0: "UNSPECIFIED", 1: "INTERNAL"}
_ALL = _SENDS | _DELIVERS | _QUIET
_KINDS = {f"SPAN_KIND_{name}": code for code, name in _ALL.items()} | {str(c): c for c in _ALL}
_TIME_END = 2**63

#: What names a span: the id of its trace (may be empty) and its own.
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
                rejected.append(Rejected(line, raw[:QUOTED_CHARS], "not JSON"))
    for line, document in documents:
        found = _found(document)
        for process, span in found:
            read = _span(process, span)
            if isinstance(read, str):
                rejected.append(Rejected(line, json.dumps(span)[:QUOTED_CHARS], read))
            else:
                spans.append(read)
        if not found:
            rejected.append(Rejected(line, json.dumps(document)[:QUOTED_CHARS], "no spans in it"))
    return _events(spans)


def _found(document: object) -> list[tuple[str | None, object]]:
    """Return what is in the place of spans, each with its process (None if that is malformed)."""
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
    """Return the list of that name; anything else in its place becomes its only member."""
    found = owner.get(name) if isinstance(owner, dict) else None
    return found if isinstance(found, list) else [found] if found else []


def _process(resource: object) -> str | None:
    """Return the name of a resource's process, or None if its attributes cannot be read."""
    found = {}
    for attribute in _list(resource, "attributes"):
        value = attribute.get("value") if isinstance(attribute, dict) else None
        if not isinstance(value, dict) or not isinstance(attribute.get("key"), str):
            return None
        found[attribute["key"]] = next(iter(value.values()), None)
    service = str(found.get("service.name") or "unknown")
    instance = found.get("service.instance.id")
    return f"{service}/{instance}" if instance else service


def _span(process: str | None, span: object) -> _Span | str:
    """Return a span, or the reason why it is not valid."""
    if not isinstance(span, dict):
        return "a span is not a JSON object"
    if process is None:
        return "the attributes of its resource are not a list of keys and values"
    name, start = _name(span, "spanId"), _nanos(span.get("startTimeUnixNano"))
    if not name[1] or start is None:
        return "a span needs spanId and startTimeUnixNano"
    kind, causes = _kind(span), _links(span)
    if isinstance(kind, str) or isinstance(causes, str):
        return str(kind if isinstance(kind, str) else causes)
    if not is_text(process, *(word for one in (name, *causes) for word in one)):
        return "a name is not UTF-8"
    return _Span(process, name, kind, start, _name(span, "parentSpanId"), causes)


def _kind(span: dict[str, Any]) -> int | str:
    kind = span.get("kind") or 0
    found = _KINDS.get(str(kind)) if isinstance(kind, int | str) else None
    return f"kind is {kind!r}; expected 0 to 5 or SPAN_KIND_..." if found is None else found


def _links(span: dict[str, Any]) -> tuple[Name, ...] | str:
    links = span.get("links") or []
    is_good = isinstance(links, list) and all(
        isinstance(link, dict) and link.get("spanId") for link in links
    )
    if not is_good:
        return "links is not a list of objects with a spanId"
    return tuple(_name(link, "spanId") for link in links)


def _name(owner: dict[str, Any], which: str) -> Name:
    return str(owner.get("traceId") or ""), str(owner.get(which) or "")


def _events(spans: list[_Span]) -> list[Event]:
    """Return sends and deliveries, each process's by start time."""
    sends = {span.name: span for span in spans if span.kind in _SENDS}
    traces: dict[str, list[Name]] = {}
    for name in sends:
        traces.setdefault(name[1], []).append(name)

    def whole(name: Name) -> Name:
        """Add the trace to a link without one if only one span can be meant."""
        known = traces.get(name[1], [])
        is_whole = len(known) != 1 or (name[0] and known[0][0])
        return name if is_whole else known[0]

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
    # A span's id is its message's id, unless another trace has the same.
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


def _read(source: Source) -> Log:
    rejected: list[Rejected] = []
    return log_of(source, read_spans(read_text(source), rejected), rejected)


FORMAT = Format("otlp", (".json",), _read)
