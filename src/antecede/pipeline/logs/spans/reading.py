"""Read files of spans: the JSON in them, the spans in that, and the table of their events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from antecede.eventlog import Rejected
from antecede.eventlog.rule import safe
from antecede.pipeline.logs.base import QUOTED_CHARS, Log, Source, log_of, read_text
from antecede.pipeline.logs.spans.events import table_of_spans
from antecede.pipeline.logs.spans.model import Span

#: What a format finds in a document: each span, or why it is not one, with the JSON it came from.
Find = Callable[[object], Iterator[tuple[object, Span | str]]]


def read_log(source: Source, find: Find) -> Log:
    """Read a file of spans as a log."""
    rejected: list[Rejected] = []
    spans = read_spans(read_text(source), find, rejected)
    return log_of(source, table_of_spans(spans), rejected)


def read_spans(text: str, find: Find, rejected: list[Rejected]) -> list[Span]:
    """Return the spans of a text; what is not one, or was read before, goes to ``rejected``."""
    spans: dict[Span, None] = {}
    for line, document in _documents(text, rejected):
        is_empty = True
        for raw, span in find(document):
            is_empty = False
            if isinstance(span, str) or span in spans:
                reason = span if isinstance(span, str) else "the same span was read before"
                rejected.append(Rejected(line, _quoted(raw), reason))
            else:
                spans[span] = None
        if is_empty:
            rejected.append(Rejected(line, _quoted(document), "no spans in it"))
    return list(spans)


def _documents(text: str, rejected: list[Rejected]) -> Iterator[tuple[int, object]]:
    """Yield the JSON documents of a file, each with its line: one in all, or one on each line."""
    try:
        yield 1, json.loads(text)
    except (ValueError, RecursionError):
        pass
    else:
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


def _quoted(value: object) -> str:
    """Return a part of a document as the text of a rejected row."""
    return json.dumps(value)[:QUOTED_CHARS]
