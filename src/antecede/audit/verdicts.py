"""The verdict on a log, decided from the audit's counts, with the reason in one sentence."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from antecede.events.rule import NO_KIND, NO_LAYOUT, SEEN_BEFORE, UNMATCHED, Rejected

Verdict = Literal["ordered", "broken", "undecidable"]

#: The most events on cycles, with one seq, or missing, that the reason names.
NAMED = 3
#: The value of ``causally_ordered`` for each verdict.
CAUSALLY_ORDERED: dict[Verdict, bool | None] = {
    "ordered": True,
    "broken": False,
    "undecidable": None,
}


@dataclass(frozen=True)
class Asked:
    """What the caller of an audit asks for, and what its reader knows about the log."""

    explain: Sequence[str] = ()
    undecidable: str | None = None
    """Why the deliveries of the log show nothing about order, if so."""
    assume_complete: bool = False
    complete_until_end: bool | None = False
    """Whether each process's log is complete up to its last event; None: decided by the log."""
    rejected: Sequence[Rejected] = ()
    """The first rows that are not events."""
    has_spans: bool = False
    """Whether the events were made from the spans of traces."""
    left_out: int = 0
    """How many rows the reader left out because they are not events."""
    quote: Callable[[int], Sequence[Rejected]] | None = None
    """A function that returns so many of these rows, if the audit finds them itself."""


@dataclass(frozen=True)
class Trust:
    """To what extent a log is assumed complete, and why."""

    until_end: bool
    """Whether the log of each process is complete up to its last event."""
    because: str = ""
    """The sentence that explains it."""
    quoted: str = ""
    """The sentence about rows that may be the events missing from the log."""

    @property
    def advice(self) -> str:
        """What helps if the log lacks events that matter."""
        first = "Mend such rows." if self.quoted else "Log them, or clocks."
        if not self.quoted and not self.until_end:
            first += (
                " If the log of each process is complete up to its last event, say so: "
                "--complete-until-end."
            )
        return _sentences(self.because, first, "To judge by what there is: --assume-complete.")


def trust_in(asked: Asked, *, is_numbered: bool, rejected: int) -> Trust:
    """Return to what extent a log is complete.

    ``is_numbered`` says that all processes number their events from 0, or all from 1, without gaps,
    so that a missing line, except at the end, would show; and that no clock shows one to be missing
    nevertheless. ``rejected`` rows are not events, but may have been.
    """
    if asked.assume_complete:
        return Trust(until_end=True)
    rows = [*asked.rejected, *(asked.quote(rejected) if asked.quote and rejected else ())]
    may_be = [row for row in rows if may_be_event(row)]
    if rejected > len(rows) and not may_be:
        return Trust(until_end=False, quoted=f"{rejected:,} rows are not valid events.")
    if may_be:
        some = "A row that is" if len(may_be) == 1 else f"{len(may_be):,} rows that are"
        which = "it" if len(may_be) == 1 else "one of them; the first"
        first = may_be[0]
        where = "" if first.line is None else f", line {first.line}"
        quoted = f"{some} not valid may be {which}{where}: {first.reason}; got {first.text[:80]!r}."
        return Trust(until_end=False, quoted=quoted)
    said = "This assumes that the log of each process is complete up to its last event"
    if asked.complete_until_end:
        return Trust(until_end=True, because=f"{said} (--complete-until-end).")
    if asked.complete_until_end is None and is_numbered:
        return Trust(until_end=True, because=f"{said}: its numbers have no gaps.")
    return Trust(until_end=False)


def may_be_event(row: Rejected) -> bool:
    """Return whether an invalid row may have been a send or a delivery.

    The exceptions are whole JSON objects with neither kind nor message, repeated spans, lines that
    do not fit the layout, and rows not chosen by the user's patterns or fields.
    """
    if row.reason in {SEEN_BEFORE, NO_LAYOUT, UNMATCHED, NO_KIND}:
        return False
    try:
        found = json.loads(row.text)
    except (ValueError, RecursionError):
        return True
    return not isinstance(found, dict) or bool({"kind", "message"} & found.keys())


def is_numbered(processes: Collection[tuple[int, int, int]]) -> bool:
    """Return whether all processes number their events from 0, or all from 1, without gaps.

    Each process is given as its least and greatest number, and how many it has.
    """
    first = {low for low, _, _ in processes}
    return first in ({0}, {1}) and all(high - low + 1 == count for low, high, count in processes)


def decide(
    counts: Mapping[str, Any],
    *,
    cycles: Sequence[str],
    ties: Sequence[str],
    is_certain: Callable[[], bool],
    missing: Sequence[Mapping[str, Any]],
    is_whole: bool,
    trust: Trust,
    asked: Asked,
    doubt: Callable[[], str | None],
) -> tuple[Verdict, str]:
    """Return the verdict and its reason.

    ``counts`` is the audit's summary and ``cycles`` describes the events on causal cycles: these
    mean that the pairing or the log is wrong, so nothing is decided. ``ties`` are the places where
    a process has different events with one seq; ``is_certain`` asks whether some violation does not
    depend on their order. ``missing`` are the first messages that never arrived although an effect
    did: they break the order if the log is complete. ``is_whole`` says that no stated destination
    lacks a delivery. ``doubt`` says what can be hidden; it is called last, as it may take long.
    ``asked`` has what the log's reader knows, such as why its deliveries say nothing about order.
    """
    broken = _violations(counts, missing if trust.until_end else ())
    if broken and not cycles and (not ties or is_certain()):
        assumed = trust.because if counts["missing"] and trust.until_end else ""
        besides = _absent(counts, missing) if missing and not trust.until_end else ""
        return "broken", _sentences(broken, assumed, besides)
    unknown = asked.undecidable or _cyclic(cycles, broken) or _tied(ties)
    unknown = unknown or (_without_pairs if asked.has_spans else _unpaired)(counts)
    if not unknown and missing and not trust.until_end:
        unknown = _sentences(_absent(counts, missing), trust.quoted, basis(counts), trust.advice)
    unknown = unknown or doubt()
    if unknown:
        return "undecidable", unknown
    kept = "No message was delivered after an effect of it."
    if is_whole and is_complete(counts):
        return "ordered", kept
    return "ordered", _sentences(kept, basis(counts), trust.because)


def hidden(where: str, counts: Mapping[str, Any], trust: Trust, *, is_whole: bool = False) -> str:
    """Say that events missing from the log can hide a violation, and where.

    If every send and delivery has its counterpart, the log lacks only their pairing.
    """
    if is_whole and is_complete(counts):
        return (
            f"Several sends have one id, and the log does not say which was delivered: {where}. "
            "Give each message, and each reply, an id of its own."
        )
    return _sentences(
        f"The log lacks events that can hide a violation: {where}.",
        trust.quoted,
        basis(counts),
        trust.advice,
    )


def _sentences(*some: str) -> str:
    return " ".join(filter(None, some))


def is_complete(counts: Mapping[str, Any]) -> bool:
    """Return whether every message has a delivery and every delivery has its send."""
    return bool(
        counts["paired_sends"] == counts["messages"]
        and counts["paired_deliveries"] == counts["deliveries"]
    )


def basis(counts: Mapping[str, Any]) -> str:
    """Say what a verdict on an incomplete log is based on."""
    sends, deliveries = counts["paired_sends"], counts["paired_deliveries"]
    clocks = " The log's clocks supply order besides." if counts["clocks"] else ""
    return (
        f"This is based on {sends:,} of {_count(counts['messages'], 'send')} with deliveries, and "
        f"on {deliveries:,} of {_count(counts['deliveries'], 'delivery', 'deliveries')} with sends."
        f"{clocks}"
    )


def _cyclic(cycles: Sequence[str], broken: str | None) -> str | None:
    """Say that the log contradicts itself, and where, or return None."""
    if not cycles:
        return None
    shown = "; ".join(cycles[:NAMED])
    more = f"; and {len(cycles) - NAMED:,} more in the findings" if len(cycles) > NAMED else ""
    besides = f" Leaving these out: {broken[0].lower()}{broken[1:]}" if broken else ""
    return (
        f"The log contradicts itself, so its pairing, its order or its clocks are wrong: {shown}"
        f"{more}.{besides}"
    )


def _tied(ties: Sequence[str]) -> str | None:
    """Say that the order of a process's events is unknown, and where, or return None."""
    if not ties:
        return None
    more = len(ties) - NAMED
    rest = f"; and {more:,} more" if more > 0 else ""
    return (
        "Different events of one process have the same seq, so their order is unknown: "
        f"{'; '.join(ties[:NAMED])}{rest}. If a process began anew, audit each run by "
        "itself: --delimiter separates the runs in a ShiViz or text log."
    )


def _violations(counts: Mapping[str, Any], missing: Sequence[Mapping[str, Any]]) -> str | None:
    """Say how causal order was broken, or return None."""
    parts = []
    if late := counts["violations"]:
        it = "it" if late == 1 else "they"
        parts.append(
            f"{late:,} of {_count(counts['deliveries'], 'delivery', 'deliveries')} arrived after a "
            f"message {it} had caused ({counts['fifo_violations']:,} from the same sender, "
            f"{counts['causal_violations']:,} via others)"
        )
    if missing:
        count = _count(counts["missing"], "message")
        parts.append(f"{count} never arrived although an effect did: {_named(counts, missing)}")
    return f"{'; '.join(parts)}." if parts else None


def _absent(counts: Mapping[str, Any], missing: Sequence[Mapping[str, Any]]) -> str:
    """Say which deliveries the log lacks, although it has their effects."""
    count = counts["missing"]
    which = "a delivery" if count == 1 else f"{count:,} deliveries"
    return (
        f"The log lacks {which} of messages whose effects it has: {_named(counts, missing)}. "
        "Either the message came late or never, or the line is not in the log."
    )


def _named(counts: Mapping[str, Any], missing: Sequence[Mapping[str, Any]]) -> str:
    shown = [
        f"{row['message']} at {row['process']}, which delivered {row['overtaker']} "
        f"(seq {row['overtaker_seq']})"
        for row in missing[:NAMED]
    ]
    more = counts["missing"] - len(shown)
    return "; ".join(shown) + (f"; and {more:,} more" if more > 0 else "")


def _unpaired(counts: Mapping[str, Any]) -> str | None:
    """Say that no delivery can be judged, or return None if one can."""
    deliveries = counts["deliveries"]
    if not deliveries:
        return "The log has no deliveries, so there is nothing to judge."
    if counts["judged_deliveries"]:
        return None
    return (
        f"The log has {_count(counts['messages'], 'sent message')} and "
        f"{_count(deliveries, 'delivery', 'deliveries')}, but no delivery matches a "
        "send; log the same id at both ends and never reuse one."
    )


def _without_pairs(counts: Mapping[str, Any]) -> str | None:
    """Say that no span can be judged, or return None if one can."""
    if counts["judged_deliveries"]:
        return None
    return (
        f"The trace has {_count(counts['messages'], 'span')} that send and "
        f"{_count(counts['deliveries'], 'span')} that receive, but no span that receives names its "
        "sender, by a parent or a link, as a span of another service in this log; export the spans "
        "of both ends, and pass the context on with each message."
    )


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def tied_events(
    who: Sequence[int], seq: Sequence[int], what: Sequence[object], matters: Sequence[bool]
) -> set[int]:
    """Return the events that share a seq with different events of their process.

    Events are sorted by process and seq; ``what`` compares them, and ``matters`` selects some.
    """
    tied: set[int] = set()
    first = 0
    for i in range(1, len(who) + 1):
        if i < len(who) and seq[i] == seq[first] and who[i] == who[first]:
            continue
        if i - first > 1 and len({what[k] for k in range(first, i) if matters[k]}) > 1:
            tied.update(range(first, i))
        first = i
    return tied


def is_certain(
    start: Sequence[int],
    link: Sequence[int],
    edges: Mapping[int, Sequence[int]],
    left_out: Collection[int],
    absent: Collection[tuple[int, int]] = (),
) -> bool:
    """Return whether some delivery is late even without the events left out.

    The order of events with one seq is unknown: a process that restarted numbers its events from 1
    again. A violation is certain if it shows without them: they follow nothing, nothing follows
    them, and neither a delivery nor a send among them is judged.

    The events of process p are ``start[p]`` to ``start[p + 1]``; ``link`` has the send of each
    delivery (below 0: none), and ``edges`` what else events follow. ``absent`` are (send, process)
    where a message never arrived: it is late there if an effect arrived.
    """
    n = len(start) - 1
    who = {i: p for p in range(n) for i in range(start[p], start[p + 1])}
    past, seen = [[0] * n for _ in range(n)], [[0] * n for _ in range(n)]
    done: dict[int, list[int]] = {}
    at, waiting = list(start[:n]), defaultdict[int, list[int]](list)
    ready = list(range(n))
    while ready:
        p = ready.pop()
        for i in range(at[p], start[p + 1]):
            if i not in left_out:
                send = -1 if link[i] in left_out else link[i]
                follows = [source for source in edges.get(i, ()) if source not in left_out]
                follows += [send] if send >= 0 else []
                if blocked := [source for source in follows if source not in done]:
                    waiting[blocked[0]].append(p)
                    break
                for source in follows:
                    past[p] = list(map(max, past[p], done[source]))
                if send >= 0:
                    if seen[p][who[send]] > send - start[who[send]]:
                        return True
                    seen[p] = list(map(max, seen[p], done[send]))
                past[p][p] = i - start[p] + 1
                done[i] = past[p].copy()
                ready += waiting.pop(i, ())
            at[p] = i + 1
    return any(
        seen[p][who[send]] > send - start[who[send]] for send, p in absent if send not in left_out
    )
