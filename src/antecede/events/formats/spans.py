"""Single spans, as console exporters of OpenTelemetry print them and many tools store them.

Python's console exporter has ``context`` and ``SpanKind.PRODUCER``, Go's ``SpanContext`` and
``SpanKind``; flat spans have ids of trace and span next to the service's name. Each part is looked
up under all of these names. `antecede.events.spans` says which spans are events.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from antecede.events.fields import value_at
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
from antecede.events.times import seconds_of_date

_TRACES = ("traceId", "trace_id", "TraceID", "traceID", "trace.id", "context.trace_id",
           "context.traceId", "SpanContext.TraceID", "spanContext.traceId")  # fmt: skip
_SPANS = ("spanId", "span_id", "SpanID", "spanID", "span.id", "context.span_id", "context.spanId",
          "SpanContext.SpanID", "spanContext.spanId", "id")  # fmt: skip
_PARENTS = ("parentSpanId", "parent_span_id", "parent_id", "parentId", "Parent.SpanID",
            "parentSpanContext.spanId", "parent.id", "ParentSpanId")  # fmt: skip
_SERVICES = ("service.name", "serviceName", "service_name", "service", "ServiceName",
             "resource.attributes.service.name", "resource.service.name")  # fmt: skip
_STARTS = ("startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime", "StartTime",
           "start", "timestamp", "Timestamp", "@timestamp")  # fmt: skip
_ENDS = ("endTimeUnixNano", "end_time_unix_nano", "end_time", "endTime", "EndTime", "end")
_LENGTHS = ("duration", "Duration", "durationNano", "duration_nano")
_KINDS = ("UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
#: The least numbers of times since 1970 in each unit, and the unit in nanoseconds.
_UNITS = ((10**17, 1), (10**14, 10**3), (10**11, 10**6), (0, 10**9))


def _spans(document: object) -> Iterator[tuple[object, Span | str]]:
    for raw in document if isinstance(document, list) else [document]:
        yield raw, _span(raw)


def _first(record: object, names: tuple[str, ...]) -> Any:
    values = (value_at(record, name) for name in names)
    return next((value for value in values if value is not None and value != ""), None)


def _span(raw: object) -> Span | str:
    """Return a span, or the reason why it is not valid."""
    if not isinstance(raw, dict):
        return "a span is not a JSON object"
    about, own = _attributes(_either(raw, "resource", "Resource")), _attributes(raw)
    start = _nanoseconds(_first(raw, _STARTS))
    end = _nanoseconds(_first(raw, _ENDS))
    length = _first(raw, _LENGTHS)
    if end is None and start is not None and isinstance(length, int):
        end = start + length
    trace = _id(_first(raw, _TRACES))
    parent = _id(_first(raw, _PARENTS))
    kind = _either(raw, "kind", "SpanKind", "spanKind", "span.kind", "span_kind")
    kind = own.get("span.kind") if kind is None else kind
    draft = Draft(
        service=about.get("service.name") or _text(_first(raw, _SERVICES)),
        instance=next((about[key] for key in INSTANCES if about.get(key)), None),
        ref=(trace, _id(_first(raw, _SPANS))),
        kind=_kind(kind),
        title=_either(raw, "name", "Name", "operationName", "span.name", "SpanName"),
        start=start,
        end=end,
        parent=(trace, parent) if parent else None,
        links=_links(_either(raw, "links", "Links")),
        attributes={**raw, **own},
        failed="ERROR" in str(_either(raw, "status", "Status", "status_code")).upper(),
    )
    return span_of(draft)


def _either(raw: Mapping[str, Any], *names: str) -> Any:
    return next((raw[name] for name in names if raw.get(name) is not None), None)


def _text(value: object) -> str | None:
    if isinstance(value, Mapping):
        value = value.get("name")
    return value if isinstance(value, str) else None


def _attributes(owner: object) -> dict[str, object]:
    """Return attributes: an object, or a list of keys and values as Go prints it."""
    found = owner
    if isinstance(owner, Mapping):
        found = _either(owner, "attributes", "Attributes", "tags")
    if isinstance(found, Mapping):
        return dict(found)
    pairs = [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []
    values = {}
    for one in pairs:
        key, value = _either(one, "Key", "key"), _either(one, "Value", "value")
        if isinstance(value, Mapping):
            value = _either(value, "Value", "stringValue", "intValue")
        if isinstance(key, str):
            values[key] = value
    return values


def _id(value: object) -> str:
    """Return an id without the 0x that Python writes before it."""
    return plain_id(value[2:] if isinstance(value, str) and value.startswith("0x") else value)


def _kind(value: object) -> str:
    """Return a span's kind as a word: SpanKind.PRODUCER, SPAN_KIND_PRODUCER, producer or 4."""
    text = re.sub(r"^SPAN_?KIND[._]", "", str(value or "").upper())
    return _KINDS[int(text)] if text.isdigit() and int(text) < len(_KINDS) else text


def _links(found: object) -> tuple[Ref, ...]:
    links = found if isinstance(found, list) else []
    refs = [(_id(_first(link, _TRACES)), _id(_first(link, _SPANS))) for link in links]
    return tuple(ref for ref in refs if ref[1])


def _nanoseconds(value: object) -> int | None:
    """Return a date, or a number since 1970 in any of the usual units, in nanoseconds."""
    if isinstance(value, str) and not value.isdigit():
        found = seconds_of_date(value)
        return None if found is None else whole(found, 10**9)
    number = whole(value)
    if number is None:
        return None
    unit = next(unit for least, unit in _UNITS if number >= least)
    return whole(value, unit)


def _sniff(head: str) -> float:
    keys = {*re.findall(r'"([\w.@]+)"\s*:', head)}
    has = [any(name in keys for name in names) for names in (_flat(_TRACES), _flat(_SPANS))]
    is_timed = any(name in keys for name in _STARTS)
    is_named = bool(keys & {"name", "Name", "operationName", "span.name", "SpanName"})
    # Other formats of spans, which recognise theirs more surely, have these names too.
    return 0.9 * float(all(has) and is_timed and is_named)


def _flat(names: tuple[str, ...]) -> set[str]:
    return {*names, *(name.rpartition(".")[2] for name in names)} - {"id"}


FORMAT = format_of_spans("spans", _spans, _sniff)
