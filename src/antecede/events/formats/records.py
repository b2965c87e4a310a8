"""Structured logs: JSON, in lines or lists or as Elasticsearch and Loki export it, and CSV.

``--field`` says where a record has the parts of an event, such as ``message=labels.order_id``;
other parts are looked up under their own names. A path leads into objects, and into text that is
JSON. ``kind`` is a word such as sent or received; or else ``--send`` and ``--deliver`` are searched
in the field ``event``, or in the whole record, and their groups are parts too. Records without a
kind or a message are left out and counted. The events of a process are in the order of ``seq``, or
else of their times, or else of the lines.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from antecede.errors import UsageError
from antecede.events.documents import documents, quoted, unwrapped
from antecede.events.drafts import Draft, log_of_drafts
from antecede.events.fields import picked, require_paths
from antecede.events.kinds import kind_of
from antecede.events.log import Format, Log, Source, read_text, reading
from antecede.events.patterns import compile_pattern
from antecede.events.rule import NO_KIND, Rejected
from antecede.events.tables import DELIVER, DESTS_SEPARATOR, EVENT_COLUMNS, LOCAL, SEND

#: The parts of an event log without numbers.
_PARTS = {"process", "kind", "message"}


def _read(sources: Sequence[Source]) -> dict[str, Log]:
    """Read files as one log."""
    first = sources[0]
    options = ((DELIVER, first.deliver, "--deliver"), (SEND, first.send, "--send"))
    patterns = {kind: compile_pattern(text, option) for kind, text, option in options if text}
    drafts: list[Draft] = []
    rejected: list[tuple[Source, Rejected]] = []
    records: list[tuple[Source, int, object]] = []
    for source in sources:
        with reading(source, "records"):
            text = read_text(source)
        bad: list[Rejected] = []
        records += [(source, line, record) for line, record in _records(text, bad)]
        rejected += [(source, row) for row in bad]
    require_paths((record for *_, record in records), first.fields)
    for source, line, record in records:
        found = _draft(source, line, record, patterns)
        if isinstance(found, str):
            rejected.append((source, Rejected(line, quoted(record), found)))
        else:
            drafts.append(found)
    kind = {**first.fields}.get("kind", "kind")
    if not (drafts or patterns) and any(row.reason == NO_KIND for _, row in rejected):
        msg = (
            f"no record of {first.name} says at {kind!r} whether it is a send or a delivery; give "
            "--field kind=PATH, or --send and --deliver with patterns that tell them apart"
        )
        raise UsageError(msg)
    return {"": log_of_drafts(drafts, rejected)}


def _records(text: str, rejected: list[Rejected]) -> Iterator[tuple[int, object]]:
    """Yield the records of a text, each with its line."""
    if not text.lstrip().startswith(("{", "[")):
        reader = csv.DictReader(io.StringIO(text))
        for row in reader:
            yield reader.line_num, {key: value for key, value in row.items() if value}
        return
    for line, document in documents(text, rejected):
        for part in document if isinstance(document, list) else [document]:
            for record in unwrapped(part):
                yield line, record


def _draft(source: Source, line: int, record: object, patterns: Mapping[str, Any]) -> Draft | str:
    """Return the event in a record, or why there is none."""
    if not isinstance(record, Mapping):
        return "not a JSON object"
    fields = {**{name: name for name in EVENT_COLUMNS}, **source.fields}
    parts = {part: _text(value) for part, value in picked(record, fields).items()}
    kind = None if patterns else kind_of(parts.get("kind", ""))
    words = parts.get("event") or quoted(record)
    for name, pattern in patterns.items():
        if found := pattern.search(words):
            kind = name
            parts |= {k: v.strip() for k, v in found.groupdict().items() if v is not None}
    if kind is None:
        return NO_KIND
    needed = ["process"] if "process" in source.fields else []
    needed += [] if kind == LOCAL else ["message"]
    for part in needed:
        if not parts.get(part):
            return f"it has no {part}"
    return Draft(source, line, kind, parts, quoted(record), is_record=True)


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return DESTS_SEPARATOR.join(map(str, value))
    return str(value)


def _sniff(head: str) -> float:
    """Return how much a file looks like an event log without numbers."""
    if head.lstrip().startswith(("{", "[")):
        names = {*re.findall(r'"(process|kind|message|seq)"\s*:', head)}
    else:
        names = {name.strip(' "') for name in head.partition("\n")[0].split(",")}
    return float(names >= _PARTS and "seq" not in names)


FORMAT = Format("records", (), _read, _sniff, options=frozenset({"send", "deliver", "fields"}))
