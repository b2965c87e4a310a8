"""OpenTelemetry spans in OTLP, JSON or protobuf, as collectors and exporters write them.

JSON is one document, one on each line, or one after the other; names of fields may be in camelCase
or snake_case, and ids in hexadecimal digits or base64. Protobuf is one message, or several with
their lengths before them, as the collector's file exporter writes it. `antecede.events.spans`
says which spans are events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from antecede.errors import LogError
from antecede.events.spans import (
    INSTANCES,
    Draft,
    Ref,
    Span,
    format_of_spans,
    plain_id,
    span_of,
    whole,
)

_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_ERRORS = {2, "2", "STATUS_CODE_ERROR", "ERROR"}
#: The fields in which documents have resources with spans. Tempo's answers have batches, or a trace
#: with resources; Jaeger's newest ones have a result with resources.
_RESOURCES = ("resourceSpans", "batches")
_SCOPES = ("scopeSpans", "instrumentationLibrarySpans")
#: The fields of documents that are not about spans.
_OTHERS = ("resourceMetrics", "resourceLogs", "resourceProfiles")

#: The service and the instance that a resource names.
Origin = tuple[object, object]


def _spans(document: object) -> Iterator[tuple[object, Span | str | None]]:
    if isinstance(document, dict) and any(_get(document, name) is not None for name in _OTHERS):
        yield document, None  # Collectors may write all signals to one file.
    for origin, raw in _found(document):
        yield raw, _span(origin, raw)


def _get(owner: object, name: str) -> Any:
    """Return a field by its name in camelCase or in snake_case."""
    if not isinstance(owner, dict):
        return None
    if name in owner:
        return owner[name]
    return owner.get(re.sub(r"([A-Z])", lambda found: f"_{found[1].lower()}", name))


def _list(owner: object, *names: str) -> list[Any]:
    """Return the first list with one of these names; any other value becomes a list of one."""
    for name in names:
        found = _get(owner, name)
        if found:
            return found if isinstance(found, list) else [found]
    return []


def _found(document: object) -> Iterator[tuple[Origin | None, object]]:
    """Yield candidates for spans, each with its origin (None if that is malformed)."""
    for part in document if isinstance(document, list) else [document]:
        whole = [part, _get(part, "result"), _get(part, "trace")]
        for resource in (one for owner in whole for one in _list(owner, *_RESOURCES)):
            if not isinstance(resource, dict):
                yield None, resource
                continue
            origin = _origin(resource.get("resource"))
            for scope in _list(resource, *_SCOPES):
                spans = _list(scope, "spans") if isinstance(scope, dict) else [scope]
                for span in spans:
                    yield origin, span


def _attributes(owner: object) -> dict[str, object] | None:
    """Return attributes by their keys, or None if they are not a list of keys and values."""
    found: dict[str, object] = {}
    for attribute in _list(owner, "attributes"):
        value = attribute.get("value") if isinstance(attribute, dict) else None
        if not isinstance(value, dict) or not isinstance(attribute.get("key"), str):
            return None
        found[attribute["key"]] = next(iter(value.values()), None)
    return found


def _origin(resource: object) -> Origin | None:
    found = _attributes(resource)
    if found is None:
        return None
    instance = next((found[key] for key in INSTANCES if found.get(key)), None)
    return found.get("service.name"), instance


def _span(origin: Origin | None, span: object) -> Span | str:
    """Return a span, or the reason why it is not valid."""
    if not isinstance(span, dict):
        return "a span is not a JSON object"
    if origin is None:
        return "the attributes of its resource are not a list of keys and values"
    kind, links = _kind(span.get("kind")), _get(span, "links") or []
    if kind is None:
        return f"kind is {span.get('kind')!r}; expected 0 to 5 or SPAN_KIND_..."
    if not isinstance(links, list) or not all(_ref(link, "spanId")[1] for link in links):
        return "links is not a list of objects with a spanId"
    draft = Draft(
        *origin,
        ref=_ref(span, "spanId"),
        kind=kind,
        title=span.get("name"),
        start=whole(_get(span, "startTimeUnixNano")),
        end=whole(_get(span, "endTimeUnixNano")) or None,
        parent=_ref(span, "parentSpanId"),
        links=tuple(_ref(link, "spanId") for link in links),
        attributes=_attributes(span),
        failed=_is_failed(span.get("status")),
    )
    return span_of(draft)


def _kind(value: object) -> str | None:
    """Return a span's kind as a word, or None if it is not one."""
    if not value:
        return _KINDS[0]
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    text = str(value).upper().removeprefix("SPAN_KIND_")
    numbered = {str(number): kind for number, kind in enumerate(_KINDS)}
    return numbered.get(text, text if text in _KINDS else None)


def _is_failed(status: object) -> bool:
    code = _get(status, "code")
    return isinstance(code, int | str) and code in _ERRORS


def _ref(owner: object, which: str) -> Ref:
    return plain_id(_get(owner, "traceId")), plain_id(_get(owner, which))


def text_of(data: bytes) -> str | None:
    """Return protobuf as JSON, one document per line; None if the data is not protobuf."""
    if data.lstrip()[:1] in {b"{", b"["} or data[:1] not in {b"\n", b"\0"}:
        return None
    try:
        from google.protobuf.json_format import MessageToDict
        from google.protobuf.message import DecodeError
        from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
    except ImportError as error:
        msg = f"protobuf needs {error.name}, which is not installed: pip install 'antecede[otlp]'"
        raise LogError(msg) from None
    try:
        parts = [TracesData.FromString(part) for part in _messages(data)]
    except DecodeError:
        msg = "it begins like OTLP in protobuf, but is damaged or cut off"
        raise LogError(msg) from None
    return "\n".join(json.dumps(MessageToDict(part)) for part in parts)


def _messages(data: bytes) -> Iterator[bytes]:
    """Yield a single message, or messages that follow their lengths."""
    if data[:1] == b"\n":
        yield data
        return
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4])
        if at + 4 + size > len(data):
            msg = "its last message is cut off"
            raise LogError(msg)
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def _sniff(head: str) -> float:
    if head[:1] in {"\n", "\0"} and "\x12" in head and "service.name" in head:
        return 1.0
    names = (*_RESOURCES, "resource_spans", *_SCOPES, "scope_spans")
    is_about_spans = any(f'"{name}"' in head for name in names) and '"spans"' in head
    return float(is_about_spans or any(f'{{"{name}"' in head for name in _OTHERS))


FORMAT = format_of_spans("otlp", _spans, _sniff, (".json", ".otlp", ".pb"), text_of)
