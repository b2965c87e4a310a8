"""JSON documents of a file, on lines or one after the other, and their unwrapped records."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from antecede.events.lines import QUOTED_CHARS
from antecede.events.rule import Rejected, safe

_BLANKS = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def documents(text: str, rejected: list[Rejected]) -> Iterator[tuple[int, object]]:
    """Yield each JSON document of a file with its line: one after the other, or on lines."""
    first = text.lstrip().partition("\n")[0]
    whole = None if _is_json(first) else _one_after_the_other(text)
    if whole is not None:
        yield from whole
        return
    for line, raw in enumerate(text.split("\n"), start=1):
        if not raw.strip():
            continue
        try:
            document = json.loads(raw)
        except (ValueError, RecursionError):
            rejected.append(Rejected(line, safe(raw.strip())[:QUOTED_CHARS], "not JSON"))
        else:
            yield line, document


def _one_after_the_other(text: str) -> list[tuple[int, object]] | None:
    """Return the documents of a text that holds only documents, or None."""
    found: list[tuple[int, object]] = []
    at = _after_blanks(text, 0)
    line = 1 + text.count("\n", 0, at)
    while at < len(text):
        try:
            document, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return None
        found.append((line, document))
        start, at = at, _after_blanks(text, end)
        line += text.count("\n", start, at)
    return found


def _after_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return at if found is None else found.end()


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def quoted(value: object) -> str:
    """Return part of a document as the text of a rejected row."""
    return json.dumps(value)[:QUOTED_CHARS]


def unwrapped(document: object) -> Iterator[object]:
    """Yield the records in an answer or export of Elasticsearch or Loki; else the document.

    Elasticsearch wraps records as ``hits`` of an answer, or each separately; Loki has streams of
    lines with common labels, or separate lines. A line that is a JSON object becomes part of its
    record.
    """
    if isinstance(document, list) and document and all(map(_is_wrapped, document)):
        for part in document:
            yield from unwrapped(part)
    elif not isinstance(document, Mapping):
        yield document
    elif isinstance(hits := _at(document, "hits", "hits"), list):
        for hit in hits:
            yield from unwrapped(hit)
    elif isinstance(source := document.get("_source"), Mapping):
        yield source
    elif isinstance(streams := _at(document, "data", "result") or document.get("streams"), list):
        for stream in streams:
            yield from _lines(stream)
    elif {"labels", "line", "timestamp"} <= set(document):
        yield _line(document["labels"], document["timestamp"], document["line"])
    else:
        yield document


def _is_wrapped(document: object) -> bool:
    return isinstance(document, Mapping) and ("_source" in document or "line" in document)


def _at(document: Mapping[str, Any], *path: str) -> object:
    found: object = document
    for word in path:
        found = found.get(word) if isinstance(found, Mapping) else None
    return found


def _lines(stream: object) -> Iterator[object]:
    """Yield the lines of a stream of Loki, with its labels."""
    values = stream.get("values") if isinstance(stream, Mapping) else None
    if not isinstance(stream, Mapping) or not isinstance(values, list):
        yield stream
        return
    for value in values:
        if isinstance(value, list) and len(value) > 1:
            yield _line(stream.get("stream"), value[0], value[1])


def _line(labels: object, time: object, line: object) -> dict[str, object]:
    """Return a record: the labels, the time, the line and, if that is an object, its parts."""
    record: dict[str, object] = {**labels} if isinstance(labels, Mapping) else {}
    record |= {"timestamp": time, "line": line}
    if isinstance(line, str) and line.lstrip().startswith("{"):
        try:
            inside = json.loads(line)
        except (ValueError, RecursionError):
            inside = {}
        record |= inside
    return record
