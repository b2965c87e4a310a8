"""Logs with vector clocks, as ShiViz and GoVector write them.

Each event has its host, its vector clock and a text. The clocks order the events of a host and show
which events happened before others, so they become the column ``clock`` of the event log. But they
do not show which delivery belongs to which send, and an overtaken message leaves no trace in them.
So patterns on the text pair sends and deliveries; without them a log can be drawn but not audited.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from antecede.errors import LogError
from antecede.events.arrow_schemas import CLOCKS
from antecede.events.lines import QUOTED_CHARS
from antecede.events.log import (
    Format,
    Log,
    Source,
    first_lines,
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
    split_at,
)
from antecede.events.rule import Event, Rejected
from antecede.events.tables import CLOCK, DELIVER, LOCAL, SEND
from antecede.events.times import seconds

#: Layouts seen in the wild: the clock line before the text, after it, or both on one line.
LAYOUTS = {
    "clock line, then text": (
        r"^[ \t]*(?P<host>\S.*) (?P<clock>\{[ \t]*\"[^\n]*\})[ \t]*\n(?P<event>[^\n]*)"
    ),
    "text, then clock line": (
        r"^(?P<event>[^\n]*)\n[ \t]*(?P<host>\S.*) (?P<clock>\{[ \t]*\"[^\n]*\})"
    ),
    "akka, on one line": (
        r"\[\w+\] \[(?P<date>[^\]]*)\] \[[^\]]*\] \[[^\]]*/(?P<host>[^/\]]+)\] "
        r"(?P<clock>\{[ \t]*\"[^\n]*?\}) (?P<event>[^\n]*)"
    ),
    "on one line": r"(?P<host>\S+) (?P<clock>\{[ \t]*\"[^\n]*?\})[ \t]+(?P<event>[^\n]*\S)",
}
#: The line between two executions, as in the example logs of ShiViz.
DELIMITER = re.compile(r"^=== *(?P<trace>.*?) *===[ \t]*$", re.MULTILINE)
_GROUPS = ("host", "clock", "event")
_COUNT_END = 2**63
_A_CLOCK = re.compile(r'\{\s*"[^"{}]*"\s*:\s*\d+\s*(?:,\s*"[^"{}]*"\s*:\s*\d+\s*)*\}')


@dataclass(frozen=True)
class Entry:
    """One event of such a log."""

    line: int
    host: str
    clock: dict[str, int]
    text: str
    time: float | None = None

    @property
    def count(self) -> int:
        """The host's own count, which is the place of the event in the host's order."""
        return self.clock[self.host]


@dataclass
class Parsed:
    """The entries of a log, the lines that could not be read, and how many could."""

    entries: list[Entry] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    lines: int = 0


def parse_log(text: str, pattern: str | None = None) -> Parsed:
    """Read a log of one execution with ``pattern`` or with the layout that fits best."""
    return _parse(text, layout_of(text, pattern))


def parse_executions(
    text: str, pattern: str | None = None, delimiter: str | None = None
) -> dict[str, Parsed]:
    """Read each execution in a text, by its label.

    Without ``delimiter``, a line such as ``=== Run 1 ===`` that is not an event's text separates
    two executions.
    """
    compiled = layout_of(text, pattern)
    if delimiter is not None:
        parts = split_at(text, delimiters_in(text, delimiter))
    else:
        spans = _parse(text, compiled).spans
        starts = [start for start, _ in spans]
        between = [
            match
            for match in DELIMITER.finditer(text)
            if not (at := bisect_right(starts, match.start())) or spans[at - 1][1] <= match.start()
        ]
        parts = split_at(text, between)
    if not parts:
        msg = f"no events found: the delimiter {delimiter!r} leaves nothing between its matches"
        raise LogError(msg)
    found = {part.label: _parse(part.text, compiled, part.line) for part in parts}
    return _with_events(found, parts)


def _with_events(found: dict[str, Parsed], parts: Sequence[Part]) -> dict[str, Parsed]:
    """Leave out what precedes the first execution if it has no events; others need some."""
    before = found.get("")
    if before is not None and not before.entries and len(found) > 1:
        del found[""]
        next(iter(found.values())).rejected += before.rejected
    for part in parts:
        if part.label in found and not found[part.label].entries:
            first = part.text.strip().split("\n")[0][:80]
            msg = f"the execution {part.label!r} has no events; it begins with {first!r}"
            raise LogError(msg)
    if len(found) > 1 and "" in found:
        found = {label or BEFORE: parsed for label, parsed in found.items()}
    return found


def layout_of(text: str, pattern: str | None) -> re.Pattern[str]:
    """Return the given pattern, or that of the best layout; refuse a text that fits none."""
    if pattern is not None:
        compiled = compile_pattern(pattern, "--pattern", _GROUPS)
        if compiled.search(text):
            return compiled
        msg = f"no events found: --pattern {pattern!r} matches nothing"
        raise LogError(msg)
    layouts = [re.compile(layout, re.MULTILINE) for layout in LAYOUTS.values()]
    tries = [(layout, _parse(text, layout)) for layout in layouts]
    best, found = max(tries, key=lambda one: _sense(one[1]))
    if found.entries:
        return best
    msg = (
        "no events found: the log fits none of the known layouts "
        f"({'; '.join(LAYOUTS)}); give --pattern with groups host, clock and event, or, for a log "
        "without clocks, process, kind and message"
    )
    raise LogError(msg)


def _sense(parsed: Parsed) -> tuple[int, int]:
    """Return how well a layout fits: how often a host's own count grows by one, or restarts."""
    last: dict[str, int] = {}
    fits = 0
    for entry in parsed.entries:
        fits += entry.count in {1, last.get(entry.host, 0) + 1}
        last[entry.host] = entry.count
    return fits - len(parsed.rejected), len(parsed.entries)


def _parse(text: str, pattern: re.Pattern[str], line: int = 1) -> Parsed:
    """Read the events of a text whose first line has the number ``line``."""
    parsed = Parsed()
    end = 0
    for match in pattern.finditer(text):
        line += text.count("\n", end, match.start())
        end = match.start()
        parsed.spans.append(match.span())
        entry = _entry(match, line)
        if isinstance(entry, Entry):
            parsed.entries.append(entry)
            parsed.lines += 1 + match.group().count("\n")
        else:
            parsed.rejected.append(Rejected(line, match.group()[:QUOTED_CHARS], entry))
    first = line - text.count("\n", 0, end)
    parsed.rejected += lines_outside(text, parsed.spans, first)
    return parsed


def _entry(match: re.Match[str], line: int) -> Entry | str:
    """Return the event of a match, or the reason why it is not one."""
    groups = match.groupdict()
    clock, host = _clock(groups["clock"] or ""), (groups["host"] or "").strip()
    if clock is None:
        return "the clock is not JSON with counts"
    time = groups.get("time") or groups.get("date")
    if host not in clock and " " in host:  # GoVector may write the time before the host.
        before, _, last = host.rpartition(" ")
        if last in clock:
            host, time = last, time or before
    if host not in clock:
        return f"the clock has no count of its own host {host}"
    return Entry(line, host, clock, (groups["event"] or "").strip(), seconds(time))


def _clock(text: str) -> dict[str, int] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    good = isinstance(found, dict) and all(
        type(count) is int and 0 <= count < _COUNT_END for count in found.values()
    )
    return found if good else None


def with_aliases(entry: Entry, source: Source) -> Entry:
    """Return an entry with the source's names for processes."""
    if not source.aliases:
        return entry
    clock: dict[str, int] = {}
    for host, count in entry.clock.items():
        name = source.called(host)
        clock[name] = max(count, clock.get(name, 0))
    return replace(entry, host=source.called(entry.host), clock=clock)


def to_events(entries: Sequence[Entry], source: Source) -> list[Event]:
    """Return events; patterns with a group ``message`` identify sends and deliveries.

    That group is the message's id. Groups ``to`` (of a send) and ``from`` (of a delivery), if any,
    name the other end. Then both ends become part of the id, because a relay sends the same text to
    several hosts, and the k-th such send belongs to the k-th such delivery.
    """
    patterns = [
        (kind, compile_pattern(given, option, ("message",)), other)
        for kind, given, option, other in (
            (SEND, source.send, "--send", "to"),
            (DELIVER, source.deliver, "--deliver", "from"),
        )
        if given is not None
    ]
    pairing = Pairing()
    events: dict[int, Event] = {}
    for place, entry in sorted(enumerate(entries), key=lambda item: item[1].count):
        kind, message, dests = LOCAL, entry.text or None, None
        for name, pattern, other in patterns:
            match = pattern.search(entry.text)
            if match is None or not match["message"]:
                continue
            kind, message = name, match["message"]
            end = match.groupdict().get(other)
            if end:
                end = source.called(end)
                message = pairing.name(kind, entry.host, end, message)
                dests = (end,) if kind == SEND else None
            break
        events[place] = Event(entry.host, entry.count, kind, message, dests, entry.time)
    return [events[place] for place in range(len(entries))]


def ranks(entries: Sequence[Entry]) -> list[dict[str, int]]:
    """Return each entry's clock as how many events of each other host in this log it follows.

    A count c of a host means the host's event whose own count is c, and all before it. If the log
    lacks that event, the latest one before it counts, so the clocks may have gaps.
    """
    own: dict[str, list[int]] = {}
    for entry in entries:
        own.setdefault(entry.host, []).append(entry.count)
    for counts in own.values():
        counts.sort()
    return [
        {
            host: rank
            for host, count in entry.clock.items()
            if host != entry.host and (rank := bisect_right(own.get(host, []), count))
        }
        for entry in entries
    ]


def _read(sources: Sequence[Source]) -> dict[str, Log]:
    """Read files as one log; executions with the same label in several files are the same one."""
    found: dict[str, list[tuple[Source, Parsed]]] = {}
    for source in sources:
        bad: list[Rejected] = []
        with reading(source, "shiviz"):
            text = read_utf8(source, bad)
            executions = parse_executions(text, source.pattern, source.delimiter)
        next(iter(executions.values())).rejected += bad
        for label, parsed in executions.items():
            found.setdefault(label, []).append((source, parsed))
    return {label: _log(parts) for label, parts in found.items()}


def _log(parts: Sequence[tuple[Source, Parsed]]) -> Log:
    """Return the log of one execution, from all its files."""
    source = parts[0][0]
    entries = [with_aliases(entry, source) for _, parsed in parts for entry in parsed.entries]
    events = to_events(entries, source)
    clocks = pa.array([list(clock.items()) for clock in ranks(entries)], CLOCKS)
    return Log(
        table_of(events).append_column(CLOCK, clocks),
        rejected_in((one.name, parsed.rejected) for one, parsed in parts),
        sum(len(parsed.rejected) for _, parsed in parts),
        _why_undecidable(events, source),
        good=sum(parsed.lines for _, parsed in parts),
        is_selection=source.pattern is not None,
    )


def _why_undecidable(events: Sequence[Event], source: Source) -> str | None:
    """Return why a log's sends and deliveries cannot be paired, or None if they can."""
    if source.send is None or source.deliver is None:
        return (
            "The clocks do not show which delivery belongs to which send, and an overtaken message "
            "leaves no trace in them; give --send and --deliver, both patterns with a group "
            "(?<message>...)."
        )
    found = {
        "--send": {event.message for event in events if event.kind == SEND},
        "--deliver": {event.message for event in events if event.kind == DELIVER},
    }
    unused = [option for option, messages in found.items() if not messages]
    if unused:
        return f"The pattern {unused[0]} matches no event, so there is nothing to judge."
    sent, delivered = found.values()
    if not sent & delivered:
        return (
            f"The messages that --send found ({len(sent):,}) and those that --deliver found "
            f"({len(delivered):,}) have none in common; make both name messages alike (groups "
            f"message, and to / from): such as {min(map(str, sent))!r} and "
            f"{min(map(str, delivered))!r}."
        )
    return None


def _sniff(head: str) -> float:
    """Return the share of lines with a clock; in most layouts that is every other line."""
    lines = first_lines(head)
    texts = [line for line in lines if not line.startswith(("{", "[{"))]
    clocks = sum(bool(_A_CLOCK.search(line)) for line in texts)
    return min(1.0, 2 * clocks / max(1, len(lines)))


FORMAT = Format(
    "shiviz",
    (".log",),
    _read,
    _sniff,
    options=frozenset({"pattern", "send", "deliver", "delimiter"}),
)
