"""Application logs as text: patterns with named groups find the events.

``--pattern`` describes an event, ``--send`` and ``--deliver`` one kind of event each; used
together, the latter are searched in matches of the former. Their groups are ``process`` (else the
name of the file, up to its first dot), ``message``, ``kind`` (a word such as sent or received),
``dests``, ``to`` and ``from`` (the other end), ``seq`` (else the order of the lines) and ``time``.
Patterns may match several lines. Lines that no pattern matches are left out and counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from antecede.errors import LogError, UsageError
from antecede.events.drafts import Draft, log_of_drafts
from antecede.events.lines import QUOTED_CHARS
from antecede.events.log import (
    Format,
    Log,
    Source,
    read_utf8,
    reading,
)
from antecede.events.patterns import (
    BEFORE,
    Part,
    compile_pattern,
    delimiters_in,
    lines_outside,
    split_at,
)
from antecede.events.rule import UNMATCHED, Rejected
from antecede.events.tables import DELIVER, SEND

if TYPE_CHECKING:
    import re


@dataclass(frozen=True)
class Patterns:
    """The compiled patterns of a source."""

    event: re.Pattern[str] | None
    kinds: tuple[tuple[str, re.Pattern[str]], ...]

    @classmethod
    def of(cls, source: Source) -> Patterns:
        """Return the compiled patterns; refuse those that cannot describe an event."""
        given = ((DELIVER, source.deliver, "--deliver"), (SEND, source.send, "--send"))
        kinds = tuple(
            (kind, compile_pattern(pattern, option))
            for kind, pattern, option in given
            if pattern is not None
        )
        event = None
        if source.pattern is not None:
            event = compile_pattern(source.pattern, "--pattern", () if kinds else ("kind",))
        if event is None and not kinds:
            msg = (
                "the format text needs --pattern with groups kind and message, or --send and "
                "--deliver with a group message"
            )
            raise UsageError(msg)
        shared = set() if event is None else set(event.groupindex)
        asked = [pattern for _, pattern in kinds] or ([] if event is None else [event])
        for pattern in asked:
            if "message" not in shared | set(pattern.groupindex):
                msg = (
                    f"the pattern {pattern.pattern!r} lacks the named group message: write "
                    "(?<message>...)"
                )
                raise UsageError(msg)
        return cls(event, kinds)

    def drafts(self, source: Source, part: Part, rejected: list[Rejected]) -> list[Draft]:
        """Return the events that patterns find in a text; lines without a match are rejected."""
        found, spans = [], []
        line, at = part.line, 0
        for start, end, kind, groups in sorted(self._found(part.text), key=lambda one: one[:2]):
            line += part.text.count("\n", at, start)
            at = start
            quoted = part.text[start:end].strip()[:QUOTED_CHARS]
            found.append(Draft(source, line, kind, groups, quoted))
            spans.append((start, end))
        outside = lines_outside(part.text, _whole_lines(part.text, spans), part.line)
        rejected += [replace(row, reason=UNMATCHED) for row in outside]
        return found

    def _found(self, text: str) -> Iterator[tuple[int, int, str | None, dict[str, str]]]:
        """Yield each match: its start and end, its kind if a pattern gives it, and its groups."""
        if self.event is None:
            for kind, pattern in self.kinds:
                for match in pattern.finditer(text):
                    yield match.start(), match.end(), kind, _groups(match)
            return
        for match in self.event.finditer(text):
            base = _groups(match)
            if not self.kinds:
                yield match.start(), match.end(), None, base
                continue
            end = text.find("\n", match.end())
            end = len(text) if end < 0 else end
            words = base.get("event", text[match.start() : end])
            for kind, pattern in self.kinds:
                if inner := pattern.search(words):
                    yield match.start(), match.end(), kind, base | _groups(inner)


def _groups(match: re.Match[str]) -> dict[str, str]:
    return {name: value.strip() for name, value in match.groupdict().items() if value is not None}


def _whole_lines(text: str, spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return spans that cover all lines touched by the given ones, in order, without overlap."""
    whole: list[tuple[int, int]] = []
    for start, end in spans:
        first = text.rfind("\n", 0, start) + 1
        last = text.find("\n", max(start, end - 1))
        last = len(text) if last < 0 else last
        if whole and first <= whole[-1][1]:
            whole[-1] = whole[-1][0], max(whole[-1][1], last)
        else:
            whole.append((first, last))
    return whole


def _read(sources: Sequence[Source]) -> dict[str, Log]:
    """Read files as one log; executions with the same label in several files are the same one."""
    patterns = Patterns.of(sources[0])
    drafts: dict[str, list[Draft]] = {}
    rejected: dict[str, list[tuple[Source, Rejected]]] = {}
    for source in sources:
        bad: list[Rejected] = []
        with reading(source, "text"):
            text = read_utf8(source, bad)
        cuts = [] if source.delimiter is None else delimiters_in(text, source.delimiter)
        for part in split_at(text, cuts) or [Part("", 1, "")]:
            drafts.setdefault(part.label, []).extend(patterns.drafts(source, part, bad))
            rejected.setdefault(part.label, []).extend((source, row) for row in bad)
            bad.clear()
    if len(drafts) > 1 and "" in drafts and not drafts[""]:
        del drafts[""]
        rejected[next(iter(drafts))] += rejected[""]
    empty = [label for label, found in drafts.items() if not found]
    if empty and len(drafts) > 1:
        msg = f"the execution {empty[0]!r} has no events: no pattern matches its lines"
        raise LogError(msg)
    several = len(drafts) > 1
    return {
        (label or BEFORE) if several else label: log_of_drafts(found, rejected[label])
        for label, found in drafts.items()
    }


FORMAT = Format(
    "text",
    (),
    _read,
    options=frozenset({"pattern", "send", "deliver", "delimiter"}),
)
