"""Read files of spans: the JSON in them, the spans in that, and the table of their events."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence

from antecede.eventlog import Rejected
from antecede.eventlog.rule import safe
from antecede.pipeline.logs.base import (
    QUOTED_CHARS,
    Format,
    Log,
    Source,
    read_text,
    reading,
    rejected_in,
)
from antecede.pipeline.logs.spans.events import table_of_spans
from antecede.pipeline.logs.spans.model import Span

_BLANKS = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()

#: What a format finds in a document: each span, or why it is not one, with the JSON it came from;
#: None for a document that is about something else.
Find = Callable[[object], Iterator[tuple[object, Span | str | None]]]


def read_log(sources: Sequence[Source], form: str, find: Find) -> dict[str, Log]:
    """Read files of spans as one log: spans of one file may link to those of another."""
    rejected: list[tuple[str, list[Rejected]]] = []
    spans: dict[Span, None] = {}
    for source in sources:
        bad: list[Rejected] = []
        with reading(source, form):
            spans |= dict.fromkeys(read_spans(read_text(source), find, bad, spans))
        rejected.append((source.name, bad))
    left_out = sum(len(rows) for _, rows in rejected)
    table = table_of_spans(list(spans))
    return {"": Log(table, rejected_in(rejected), left_out, good=len(spans))}


def format_of_spans(
    name: str, find: Find, sniff: Callable[[str], float], suffixes: tuple[str, ...] = ()
) -> Format:
    """Return a format of files of spans."""
    return Format(name, suffixes, lambda sources: read_log(sources, name, find), sniff)


def read_spans(
    text: str, find: Find, rejected: list[Rejected], known: Collection[Span] = ()
) -> list[Span]:
    """Return the spans of a text; what is not one, or was read before, goes to ``rejected``."""
    spans: dict[Span, None] = {}
    for line, document in _documents(text, rejected):
        is_empty = True
        for raw, span in find(document):
            is_empty = False
            if span is None:
                continue
            if isinstance(span, str) or span in spans or span in known:
                reason = span if isinstance(span, str) else "the same span was read before"
                rejected.append(Rejected(line, _quoted(raw), reason))
            else:
                spans[span] = None
        if is_empty:
            rejected.append(Rejected(line, _quoted(document), "no spans in it"))
    return list(spans)


def _documents(text: str, rejected: list[Rejected]) -> Iterator[tuple[int, object]]:
    """Yield the JSON documents of a file, each with its line: one after the other, or on lines."""
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
    """Return the documents that a text consists of, or None if something else is in it."""
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


def _quoted(value: object) -> str:
    """Return a part of a document as the text of a rejected row."""
    return json.dumps(value)[:QUOTED_CHARS]
