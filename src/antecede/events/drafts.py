"""Events as they are found in text or records: their parts as text, which may be incomplete.

The formats text and records share this module: processes may be named by files, order may be that
of lines or times, and ids may have to be distinguished by the other ends of messages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from antecede.errors import LogError, UsageError
from antecede.events.kinds import kind_of
from antecede.events.log import STDIN, Log, Source, rejected_in, table_of
from antecede.events.patterns import Pairing
from antecede.events.rule import Event, Rejected, parse
from antecede.events.tables import DELIVER, SEND
from antecede.events.times import seconds

_BETWEEN_DESTS = re.compile(r"[\s,;]+")


@dataclass(frozen=True)
class Draft:
    """An event as found in a log: its file, its line, and its groups by name."""

    source: Source
    line: int
    kind: str | None
    groups: dict[str, str]
    quoted: str
    is_record: bool = False
    """Whether its time, if any, says more about its order than its line does."""


def log_of_drafts(drafts: Sequence[Draft], rejected: list[tuple[Source, Rejected]]) -> Log:
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
    """Return why the log is undecidable, or None: a file seems to hold several processes' events.

    A process named after its file that received its own sends is probably several processes.
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
    """Return an event, with seq 0 if the log has none, or the reason why it is not valid.

    If the log names the other end of the message, the message's id does not include it yet.
    """
    groups, source = draft.groups, draft.source
    word = groups.get("kind", "")
    kind = draft.kind or kind_of(word)
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
    """Return events whose message ids include both ends, counted in the order of processes."""
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


def _are_timed(own: list[tuple[Draft, Event]]) -> bool:
    """Return whether times give the order: records are often exported in another, latest first."""
    times = [event.time for _, event in own]
    if not all(draft.is_record for draft, _ in own) or None in times:
        return False
    if (times[0] or 0.0) > (times[-1] or 0.0):
        own.reverse()
    return True


def _in_order(found: Sequence[tuple[Draft, Event]]) -> list[tuple[Draft, Event]]:
    """Return events numbered in the order of their process."""
    processes: dict[str, list[tuple[Draft, Event]]] = {}
    for draft, event in found:
        processes.setdefault(event.process, []).append((draft, event))
    events: list[tuple[Draft, Event]] = []
    for process, own in processes.items():
        if all("seq" in draft.groups for draft, _ in own):
            events += own
            continue
        files = list(dict.fromkeys(draft.source.name for draft, _ in own))
        if len(files) > 1 and any(event.time is None for _, event in own):
            msg = (
                f"the process {process!r} has events in {len(files)} files "
                f"({', '.join(files[:3])}), and nothing tells their order; "
                "give a group seq or time, or a group process that tells the files apart"
            )
            raise LogError(msg)
        if len(files) > 1 or _are_timed(own):
            own.sort(key=lambda item: item[1].time or 0.0)
        events += [
            (draft, replace(event, seq=place)) for place, (draft, event) in enumerate(own, start=1)
        ]
    return events
