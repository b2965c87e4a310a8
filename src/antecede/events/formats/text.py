"""Application logs as text: patterns with named groups tell which lines are events.

``--pattern`` describes an event, ``--send`` and ``--deliver`` one kind of event each; together, the
latter are searched in what the former matched. Their groups are ``process`` (else the name of the
file, up to its first dot), ``message``, ``kind`` (a word such as sent or received), ``dests``,
``to`` and ``from`` (the other end), ``seq`` (else the order of the lines) and ``time``. Patterns
may match several lines. Lines that no pattern matches are left out and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from antecede.errors import LogError, UsageError
from antecede.events.log import (
    QUOTED_CHARS,
    STDIN,
    Format,
    Log,
    Source,
    read_utf8,
    reading,
    rejected_in,
    table_of,
)
from antecede.events.patterns import (
    BEFORE,
    Pairing,
    Part,
    compile_pattern,
    delimiters_in,
    lines_outside,
    seconds,
    split_at,
)
from antecede.events.rule import Event, Rejected, parse
from antecede.events.tables import DELIVER, LOCAL, SEND

#: Verbs that a group ``kind`` may have, in any form and case.
VERBS = {
    SEND: "send publish produce emit forward relay broadcast multicast flood post",
    DELIVER: "deliver receive consume handle process",
}
#: Other words that it may have.
WORDS = {
    SEND: "sent snd emitted emitting pub put tx out > ->",
    DELIVER: "delivery recv rcv rcvd got get sub rx in < <-",
    LOCAL: "local event internal",
}


def _forms(verb: str) -> tuple[str, ...]:
    """Return the regular forms of a verb."""
    stem = verb.removesuffix("e")
    return verb, f"{verb}s", f"{verb}es", f"{stem}ed", f"{stem}ing"


_KIND_OF = {
    **{
        form: kind
        for kind, verbs in VERBS.items()
        for verb in verbs.split()
        for form in _forms(verb)
    },
    **{word: kind for kind, words in WORDS.items() for word in words.split()},
}
_BETWEEN_DESTS = re.compile(r"[\s,;]+")
_UNMATCHED = "no pattern matches it"


@dataclass(frozen=True)
class Draft:
    """An event as it was found: its file, its line, and its groups by name."""

    source: Source
    line: int
    kind: str | None
    groups: dict[str, str]
    quoted: str


@dataclass(frozen=True)
class Patterns:
    """The compiled patterns of a source."""

    event: re.Pattern[str] | None
    kinds: tuple[tuple[str, re.Pattern[str]], ...]

    @classmethod
    def of(cls, source: Source) -> Patterns:
        """Compile the patterns, and refuse those that cannot describe an event."""
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
        """Return what the patterns find in a text; lines that they do not match are rejected."""
        found, spans = [], []
        line, at = part.line, 0
        for start, end, kind, groups in sorted(self._found(part.text), key=lambda one: one[:2]):
            line += part.text.count("\n", at, start)
            at = start
            quoted = part.text[start:end].strip()[:QUOTED_CHARS]
            found.append(Draft(source, line, kind, groups, quoted))
            spans.append((start, end))
        outside = lines_outside(part.text, _whole_lines(part.text, spans), part.line)
        rejected += [replace(row, reason=_UNMATCHED) for row in outside]
        return found

    def _found(self, text: str) -> Iterator[tuple[int, int, str | None, dict[str, str]]]:
        """Yield each match: where it is, its kind if a pattern tells, and its groups."""
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
    """Return spans that cover the lines which the given ones touch, in order, without overlap."""
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
    """Read files as one log; executions of the same label in several files are the same one."""
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
        (label or BEFORE) if several else label: _log(found, rejected[label])
        for label, found in drafts.items()
    }


def _log(drafts: Sequence[Draft], rejected: list[tuple[Source, Rejected]]) -> Log:
    """Return the log of one execution."""
    events: list[tuple[Draft, Event]] = []
    for draft in drafts:
        event = _event(draft)
        if isinstance(event, str):
            rejected.append((draft.source, Rejected(draft.line, draft.quoted, event)))
        else:
            events.append((draft, event))
    files = list(dict.fromkeys(source.name for source, _ in rejected))
    by_file = [(file, [row for source, row in rejected if source.name == file]) for file in files]
    events = _paired(_in_order(events))
    table = table_of([event for _, event in events])
    why = _why_undecidable(events)
    return Log(table, rejected_in(by_file), len(rejected), why, is_selection=True)


def _why_undecidable(found: Sequence[tuple[Draft, Event]]) -> str | None:
    """Say that a file seems to hold the events of several processes, or return None.

    A process named after its file that got what it sent itself is probably more than one.
    """
    processes = {event.process for _, event in found}
    sent = {event.message for _, event in found if event.kind == SEND}
    delivered = {event.message for _, event in found if event.kind == DELIVER}
    is_named = any("process" in draft.groups for draft, _ in found)
    if is_named or len(processes) != 1 or not sent & delivered:
        return None
    return (
        f"All events count as those of one process, {min(processes)!r} after the name of the file, "
        "which sent messages and delivered them itself. If the file has several processes, name "
        "them by a group (?<process>...)."
    )


def _event(draft: Draft) -> Event | str:
    """Return an event, its seq 0 if the log has none, or the reason why it is not valid.

    If the log names the other end of the message, this is not yet part of the message's id.
    """
    groups, source = draft.groups, draft.source
    word = groups.get("kind", "")
    kind = draft.kind or _KIND_OF.get(word.lower())
    if kind is None:
        return f"kind is {word!r}; expected a word such as sent or received"
    process = groups.get("process") or _process_of(source)
    process = source.called(process)
    message, dests = groups.get("message"), None
    if kind == SEND and "dests" in groups:
        names = (name.strip("[](){}\"'") for name in _BETWEEN_DESTS.split(groups["dests"]))
        dests = tuple(source.called(name) for name in names if name)
    end = _other_end(draft, kind)
    if end and message and kind == SEND:
        dests = dests or (end,)
    seq = groups.get("seq", "0")
    if not re.fullmatch(r"-?\d{1,19}", seq):
        return f"seq is {seq!r}; expected a whole number"
    row = {"process": process, "seq": int(seq), "kind": kind, "message": message, "dests": dests}
    return parse({**row, "time": seconds(groups.get("time"))})


def _other_end(draft: Draft, kind: str) -> str | None:
    """Return the process at the other end of a message, if the log names it."""
    end = draft.groups.get("to" if kind == SEND else "from")
    return draft.source.called(end) if end else None


def _paired(found: Sequence[tuple[Draft, Event]]) -> list[tuple[Draft, Event]]:
    """Return events with the ends of messages in their ids, counted in the order of processes."""
    pairing = Pairing()
    events = list(found)
    for place, (draft, event) in sorted(enumerate(found), key=lambda item: item[1][1].seq):
        end = _other_end(draft, event.kind)
        if end and event.message:
            name = pairing.name(event.kind, event.process, end, event.message)
            events[place] = draft, replace(event, message=name)
    return events


def _process_of(source: Source) -> str:
    """Return the process whose file this is: the file's name up to its first dot."""
    if source.path == STDIN:
        msg = "standard input has no name to call a process by; give a group (?<process>...)"
        raise UsageError(msg)
    return source.path.name.lstrip(".").partition(".")[0]


def _in_order(found: Sequence[tuple[Draft, Event]]) -> list[tuple[Draft, Event]]:
    """Return events with their places in the order of their process."""
    processes: dict[str, list[tuple[Draft, Event]]] = {}
    for draft, event in found:
        processes.setdefault(event.process, []).append((draft, event))
    events: list[tuple[Draft, Event]] = []
    for process, own in processes.items():
        if all("seq" in draft.groups for draft, _ in own):
            events += own
            continue
        files = list(dict.fromkeys(draft.source.name for draft, _ in own))
        if len(files) > 1:
            if any(event.time is None for _, event in own):
                msg = (
                    f"the process {process!r} has events in {len(files)} files "
                    f"({', '.join(files[:3])}), and nothing tells their order; "
                    "give a group seq or time, or a group process that tells the files apart"
                )
                raise LogError(msg)
            own.sort(key=lambda item: item[1].time or 0.0)
        events += [
            (draft, replace(event, seq=place)) for place, (draft, event) in enumerate(own, start=1)
        ]
    return events


FORMAT = Format(
    "text",
    (),
    _read,
    options=frozenset({"pattern", "send", "deliver", "delimiter"}),
)
