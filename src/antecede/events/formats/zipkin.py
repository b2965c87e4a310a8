"""Zipkin's JSON, versions 1 and 2: lists of spans, as its servers accept and return them.

A span of version 1 has both ends of a call, marked by annotations. In version 2, the two halves of
an RPC may share one id. Zipkin has no links; where OpenTelemetry's collector wrote the file, they
are in the tags. `antecede.events.spans` says which spans are events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count, takewhile
from typing import Any

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

_MICROSECOND = 1000
#: The annotations of version 1 for the start and the end of a span, with its kind.
_ENDS = (
    ("cs", "cr", "CLIENT"),
    ("sr", "ss", "SERVER"),
    ("ms", "ws", "PRODUCER"),
    ("mr", "wr", "CONSUMER"),
)


def _spans(document: object) -> Iterator[tuple[object, Span | str]]:
    """Yield the spans of a list, of a list of traces, or a single span."""
    for part in document if isinstance(document, list) else [document]:
        for raw in part if isinstance(part, list) else [part]:
            for half in _halves(raw):
                yield raw, _span(half)


def _halves(raw: Any) -> Iterator[object]:
    """Yield spans of version 2: one for each end in a span of version 1."""
    if not isinstance(raw, dict) or "localEndpoint" in raw:
        yield raw
        return
    marks, notes = _told(raw, "annotations"), _told(raw, "binaryAnnotations")
    by_word = {mark.get("value"): mark for mark in marks}
    ends = [end for end in _ENDS if end[0] in by_word]
    for first, last, kind in ends:
        place, start = by_word[first]["endpoint"], by_word[first].get("timestamp")
        end = by_word.get(last, {}).get("timestamp")
        length = end - start if isinstance(start, int) and isinstance(end, int) else None
        about = {"localEndpoint": place, "kind": kind, "timestamp": start, "duration": length}
        yield {**raw, **about, "tags": _tags(notes, place)}
    if not ends:  # It is about something inside a service.
        place = next((one["endpoint"] for one in [*marks, *notes]), {})
        yield {**raw, "localEndpoint": place, "tags": _tags(notes, place)}


def _tags(notes: list[dict[str, Any]], place: object) -> dict[str, object]:
    return {str(note.get("key")): note.get("value") for note in notes if note["endpoint"] == place}


def _told(raw: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the annotations or tags of a version 1 span that say where they were made."""
    found = raw.get(name)
    rows = found if isinstance(found, list) else []
    return [row for row in rows if isinstance(row, dict) and isinstance(row.get("endpoint"), dict)]


def _span(raw: object) -> Span | str:
    """Return a span, or the reason why it is not valid."""
    if not isinstance(raw, dict):
        return "a span is not a JSON object"
    local, tags = _object(raw, "localEndpoint"), _object(raw, "tags")
    instance = next((tags[key] for key in INSTANCES if tags.get(key)), None)
    trace = plain_id(raw.get("traceId"))
    above = plain_id(raw.get("parentId"))
    start = whole(raw.get("timestamp"), _MICROSECOND)
    length = whole(raw.get("duration"), _MICROSECOND)
    draft = Draft(
        service=local.get("serviceName"),
        instance=instance or local.get("ipv4") or local.get("ipv6"),
        ref=(trace, plain_id(raw.get("id"))),
        kind=str(raw.get("kind") or "").upper(),
        title=raw.get("name"),
        start=start,
        end=None if start is None or length is None else start + length,
        parent=(trace, above) if above else None,
        links=_links(tags),
        attributes=tags,
        failed="error" in tags,
    )
    return span_of(draft)


def _object(owner: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = owner.get(name)
    return found if isinstance(found, dict) else {}


def _links(tags: Mapping[str, Any]) -> tuple[Ref, ...]:
    """Return the links that a collector wrote as tags: ids of trace and span, then more."""
    keys = takewhile(tags.__contains__, (f"otlp.link.{number}" for number in count()))
    words = [str(tags[key]).split("|") for key in keys]
    found = [(plain_id(word[0]), plain_id(word[1])) for word in words if len(word) > 1]
    return tuple(ref for ref in found if ref[1])


def _sniff(head: str) -> float:
    is_old = '"annotations"' in head and '"endpoint"' in head
    return float('"traceId"' in head and ('"localEndpoint"' in head or is_old))


FORMAT = format_of_spans("zipkin", _spans, _sniff)
