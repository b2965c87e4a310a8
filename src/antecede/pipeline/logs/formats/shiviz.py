"""Logs with vector clocks, as ShiViz and GoVector write them.

Each event has its host, its vector clock and a text. The clocks order the events of a host and show
what happened before what, so they become the column ``clock`` of the event log. But they do not
show which delivery belongs to which send, and an overtaken message leaves no trace in them. So
patterns on the text pair sends and deliveries; without them a log can be drawn but not audited.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from antecede.core.tables import CLOCK, DELIVER, LOCAL, SEND
from antecede.errors import LogError, UsageError
from antecede.eventlog import Event, Rejected
from antecede.pipeline.logs.base import (
    QUOTED_CHARS,
    Format,
    Log,
    Source,
    log_of,
    read_utf8,
    table_of,
)
from antecede.pipeline.schemas import CLOCKS

#: Layouts seen in the wild: the clock line before the text, after it, or both on one line.
LAYOUTS = {
    "clock line, then text": r"(?P<host>\S.*) (?P<clock>\{\"[^\n]*\})[ \t]*\n(?P<event>[^\n]*)",
    "text, then clock line": r"(?P<event>[^\n]*)\n(?P<host>\S.*) (?P<clock>\{\"[^\n]*\})",
    "akka, on one line": (
        r"\[\w+\] \[(?P<date>[^\]]*)\] \[[^\]]*\] \[[^\]]*/(?P<host>[^/\]]+)\] "
        r"(?P<clock>\{\"[^\n]*?\}) (?P<event>[^\n]*)"
    ),
    "on one line": r"(?P<host>\S+) (?P<clock>\{\"[^\n]*?\})[ \t]+(?P<event>[^\n]*\S)",
}
_GROUPS = ("host", "clock", "event")
_COUNT_END = 2**63


@dataclass(frozen=True)
class Entry:
    """One event of such a log."""

    line: int
    host: str
    clock: dict[str, int]
    text: str


@dataclass
class Parsed:
    """The entries of a log, and the lines that could not be read."""

    layout: str
    entries: list[Entry] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


def parse_log(text: str, pattern: str | None = None) -> Parsed:
    """Read a log by ``pattern`` (groups host, clock and event) or by the layout that fits best."""
    text = text.replace("\r\n", "\n")
    if pattern is not None:
        compiled = compile_pattern(pattern, "--pattern", _GROUPS)
        found = _parse(text, compiled, "the given pattern")
    else:
        tries = (_parse(text, re.compile(p, re.MULTILINE), n) for n, p in LAYOUTS.items())
        found = max(tries, key=lambda parsed: (_sense(parsed), len(parsed.entries)))
    if not found.entries:
        known = "; ".join(LAYOUTS)
        msg = (
            "no events found: the log fits none of the known layouts "
            f"({known}); give --pattern with groups host, clock and event"
        )
        raise LogError(msg)
    return found


def _sense(parsed: Parsed) -> int:
    """Return how well a layout fits: how often a host's own count grows by one."""
    last: dict[str, int] = {}
    fits = 0
    for entry in parsed.entries:
        now = entry.clock[entry.host]
        fits += now == last.get(entry.host, 0) + 1
        last[entry.host] = now
    return fits - len(parsed.rejected)


def compile_pattern(pattern: str, option: str, groups: tuple[str, ...]) -> re.Pattern[str]:
    """Compile a user's regular expression, which may have JavaScript's ``(?<name>`` groups."""
    try:
        compiled = re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", pattern), re.MULTILINE)
    except re.error as error:
        msg = f"{option} {pattern!r} is not a regular expression: {error}"
        raise UsageError(msg) from None
    absent = [name for name in groups if name not in compiled.groupindex]
    if absent:
        msg = f"{option} {pattern!r} lacks the named group {absent[0]}: write (?<{absent[0]}>...)"
        raise UsageError(msg)
    return compiled


def _parse(text: str, pattern: re.Pattern[str], layout: str) -> Parsed:
    parsed = Parsed(layout)
    end, line = 0, 1
    for match in pattern.finditer(text):
        parsed.rejected += _between(text[end : match.start()], line)
        line += text.count("\n", end, match.start())
        clock, host = _clock(match["clock"]), match["host"].strip()
        if clock is not None and host in clock:
            parsed.entries.append(Entry(line, host, clock, match["event"].strip()))
        else:
            reason = f"the clock has no count of its own host {host}"
            reason = "the clock is not JSON with counts" if clock is None else reason
            parsed.rejected.append(Rejected(line, match.group()[:QUOTED_CHARS], reason))
        line += text.count("\n", match.start(), match.end())
        end = match.end()
    parsed.rejected += _between(text[end:], line)
    return parsed


def _between(text: str, line: int) -> list[Rejected]:
    """Return the lines that no match covers."""
    return [
        Rejected(line + number, words.strip()[:QUOTED_CHARS], "does not fit the layout")
        for number, words in enumerate(text.split("\n"))
        if words.strip()
    ]


def _clock(text: str) -> dict[str, int] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    good = isinstance(found, dict) and all(
        isinstance(count, int) and 0 <= count < _COUNT_END for count in found.values()
    )
    return found if good else None


def to_events(parsed: Parsed, send: str | None, deliver: str | None) -> list[Event]:
    """Return events; patterns with a group ``message`` tell which are sends and deliveries.

    That group is the message's id. Groups ``to`` (of a send) and ``from`` (of a delivery), if any,
    name the other end. Then both ends become part of the id, because a relay sends the same text
    to several hosts, and the k-th such send belongs to the k-th such delivery.
    """
    sends = compile_pattern(send, "--send", ("message",)) if send else None
    delivers = compile_pattern(deliver, "--deliver", ("message",)) if deliver else None
    seen: Counter[tuple[str, str]] = Counter()
    events = []
    for entry in parsed.entries:
        kind, message, dests = LOCAL, entry.text or None, None
        for name, pattern, other in ((SEND, sends, "to"), (DELIVER, delivers, "from")):
            match = pattern.search(entry.text) if pattern else None
            if match is None or kind != LOCAL:
                continue
            kind, message = name, match["message"]
            end = match.groupdict().get(other)
            if end is not None:
                ends = (entry.host, end) if name == SEND else (end, entry.host)
                message = f"{ends[0]}>{ends[1]} {message}"
                dests = (end,) if name == SEND else None
                seen[name, message] += 1
                if seen[name, message] > 1:
                    message = f"{message} #{seen[name, message]}"
        events.append(Event(entry.host, entry.clock[entry.host], kind, message, dests))
    return events


def ranks(parsed: Parsed) -> list[dict[str, int]]:
    """Return each entry's clock as how many events of every other host, in this log, it follows.

    A count c of a host means that host's event with c in its own place, and all before it. Where
    the log lacks that event, the latest one before it counts, so the clocks may have gaps.
    """
    own: dict[str, list[int]] = {}
    for entry in parsed.entries:
        own.setdefault(entry.host, []).append(entry.clock[entry.host])
    for counts in own.values():
        counts.sort()
    return [
        {
            host: rank
            for host, count in entry.clock.items()
            if host != entry.host and (rank := bisect_right(own.get(host, []), count))
        }
        for entry in parsed.entries
    ]


def clock_arrows(parsed: Parsed) -> list[tuple[int, int]]:
    """Return pairs (from, to) of entries such that the second learnt of the first.

    Of all that an event newly knows, arrows show only what the others do not imply.
    """
    at = {(e.host, e.clock[e.host]): i for i, e in enumerate(parsed.entries)}
    known: dict[str, dict[str, int]] = {}
    arrows = []
    for i, entry in sorted(enumerate(parsed.entries), key=lambda x: sum(x[1].clock.values())):
        before = known.get(entry.host, {})
        fresh = {
            host: count
            for host, count in entry.clock.items()
            if host != entry.host and count > before.get(host, 0) and (host, count) in at
        }
        for host, count in fresh.items():
            source = at[host, count]
            implied = any(
                parsed.entries[at[other, c]].clock.get(host, 0) >= count
                for other, c in fresh.items()
                if other != host
            )
            if not implied:
                arrows.append((source, i))
        known[entry.host] = entry.clock
    return arrows


def _read(source: Source) -> Log:
    rejected: list[Rejected] = []
    parsed = parse_log(read_utf8(source, rejected), source.pattern)
    events = to_events(parsed, source.send, source.deliver)
    why = _why_undecidable(events, source)
    clocks = pa.array([list(clock.items()) for clock in ranks(parsed)], CLOCKS)
    table = table_of(events).append_column(CLOCK, clocks)
    return log_of(source, table, rejected + parsed.rejected, why)


def _why_undecidable(events: Sequence[Event], source: Source) -> str | None:
    """Return why a log's sends and deliveries cannot be paired, or None if they can."""
    if source.send is None or source.deliver is None:
        return (
            "The clocks do not show which delivery belongs to which send, and an overtaken message "
            "leaves no trace in them; give --send and --deliver, both patterns with a group "
            "(?<message>...)."
        )
    sent = {event.message for event in events if event.kind == SEND}
    delivered = {event.message for event in events if event.kind == DELIVER}
    if not sent & delivered:
        return (
            f"The pattern --send found {len(sent)} messages and --deliver {len(delivered)}, but no "
            "message is in both; make both name messages alike (groups message, and to / from)."
        )
    return None


FORMAT = Format("shiviz", (".log",), _read)
