"""Jaeger's JSON: downloads from its user interface, and answers of its query service.

References other than the parent are links. `antecede.events.spans` says which spans are events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def _spans(document: object) -> Iterator[tuple[object, Span | str]]:
    """Yield the spans of traces, or of a single trace."""
    if isinstance(document, dict) and isinstance(document.get("data"), list):
        document = document["data"]
    for trace in document if isinstance(document, list) else [document]:
        if not isinstance(trace, dict):
            yield trace, "a trace is not a JSON object"
            continue
        processes = trace.get("processes")
        known = processes if isinstance(processes, dict) else {}
        spans = trace.get("spans")
        if spans is None and "spanID" in trace:  # A single span, as in Jaeger's own stores.
            spans = [trace]
        for raw in spans if isinstance(spans, list) else []:
            yield raw, _span(raw, known)


def _span(raw: object, processes: Mapping[str, Any]) -> Span | str:
    """Return a span, or the reason why it is not valid."""
    if not isinstance(raw, dict):
        return "a span is not a JSON object"
    where = raw.get("processID")
    process = raw.get("process") or (processes.get(where) if isinstance(where, str) else None)
    if not isinstance(process, dict) or not isinstance(process.get("serviceName"), str):
        return f"processID is {where!r}, which is not among the processes of its trace"
    references = _references(raw)
    if references is None:
        return "references is not a list of objects with a spanID"
    parent, links = references
    tags, about = _tags(raw), _tags(process)
    start, length = (
        whole(raw.get("startTime"), _MICROSECOND),
        whole(raw.get("duration"), _MICROSECOND),
    )
    draft = Draft(
        service=process["serviceName"],
        instance=next((about[key] for key in INSTANCES if about.get(key)), None),
        ref=_ref(raw),
        kind=str(tags.get("span.kind") or "").upper(),
        title=raw.get("operationName"),
        start=start,
        end=None if start is None or length is None else start + length,
        parent=parent,
        links=links,
        attributes=tags,
        failed=str(tags.get("error", "")).lower() == "true",
    )
    return span_of(draft)


def _references(raw: Mapping[str, Any]) -> tuple[Ref | None, tuple[Ref, ...]] | None:
    """Return a span's parent and its links, or None if they cannot be read."""
    references = raw.get("references") or []
    if not isinstance(references, list):
        return None
    parent: Ref | None = None
    if above := plain_id(raw.get("parentSpanID")):
        parent = _ref(raw)[0], above
    links = []
    for one in references:
        ref = _ref(one) if isinstance(one, dict) else ("", "")
        if not ref[1]:
            return None
        if one.get("refType") == "CHILD_OF" and parent in {None, ref}:
            parent = ref
        else:
            links.append(ref)
    return parent, tuple(links)


def _ref(owner: Mapping[str, Any]) -> Ref:
    return plain_id(owner.get("traceID")), plain_id(owner.get("spanID"))


def _tags(owner: Mapping[str, Any]) -> dict[str, object]:
    """Return tags by their keys, leaving out malformed ones."""
    tags = owner.get("tags")
    return {
        tag["key"]: tag.get("value")
        for tag in (tags if isinstance(tags, list) else [])
        if isinstance(tag, dict) and isinstance(tag.get("key"), str)
    }


def _sniff(head: str) -> float:
    return float('"spanID"' in head and '"operationName"' in head)


FORMAT = format_of_spans("jaeger", _spans, _sniff)
