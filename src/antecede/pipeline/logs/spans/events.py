"""Spans as a table of events: in the order of each process, with clocks for order without messages.

Times order the events of a process. Where two are equal, what is known of the spans decides: what
a process learns comes before what it sends, and a span ends before another one begins unless that
one is inside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from antecede.eventlog import Event
from antecede.eventlog.tables import CLOCK, DELIVER, LOCAL, SEND
from antecede.pipeline.logs.base import table_of
from antecede.pipeline.logs.spans.model import Ref, Span
from antecede.pipeline.logs.spans.pairing import Index, Moment, Pairs, pair, process_names
from antecede.pipeline.schemas import CLOCKS

_SHORTEST, _LONGEST = 4, 32
_KIND_ORDER = {DELIVER: 0, LOCAL: 1, SEND: 2}


@dataclass(frozen=True, slots=True)
class _Place:
    """An event, before it has a number."""

    process: str
    time: int
    rank: tuple[int, int, int]
    """Its place among events of the same time."""
    moment: Moment
    kind: str
    message: str


def table_of_spans(spans: Sequence[Span]) -> pa.Table:
    """Return the events of spans, with a column ``clock``."""
    index = Index(spans)
    process = process_names(spans)
    pairs = pair(index, process)
    places = _places(index, process, pairs)
    places.sort(key=lambda place: (place.process, place.time, place.rank))
    counts: Counter[str] = Counter()
    seqs: list[int] = []
    first: dict[Moment, int] = {}
    last: dict[Moment, int] = {}
    for number, place in enumerate(places):
        counts[place.process] += 1
        seqs.append(counts[place.process])
        first.setdefault(place.moment, number)
        last[place.moment] = number
    clocks: list[dict[str, int]] = [{} for _ in places]
    for earlier, later in pairs.after:
        cause = last[earlier]
        clock = clocks[first[later]]
        there = places[cause].process
        clock[there] = max(seqs[cause], clock.get(there, 0))
    dests: dict[str, set[str]] = {}
    for place in places:
        if place.kind == DELIVER:
            dests.setdefault(place.message, set()).add(place.process)
    events = [
        Event(
            place.process,
            seq,
            place.kind,
            place.message,
            tuple(sorted(dests.get(place.message, ()))) or None if place.kind == SEND else None,
            place.time / 1e9,
        )
        for place, seq in zip(places, seqs, strict=True)
    ]
    # Replies and parents are not all that an event follows: its own count of 0 says so.
    stated = [
        [*clock.items(), (place.process, 0)] if clock else None
        for clock, place in zip(clocks, places, strict=True)
    ]
    column = pa.array(stated, CLOCKS)
    return table_of(events).append_column(CLOCK, column)


def _places(index: Index, process: Sequence[str], pairs: Pairs) -> list[_Place]:
    """Return every moment that is an event, as what it is."""
    spans = index.spans
    named = names_of(spans, [ref for _, ref in (*pairs.sends, *pairs.deliveries)])
    drafts = [(moment, SEND, named[ref]) for moment, ref in pairs.sends]
    drafts += [(moment, DELIVER, named[ref]) for moment, ref in pairs.deliveries]
    known = {moment for moment, _, _ in drafts}
    bare = [(number, False) for number in pairs.quiet]
    bare += [moment for both in pairs.after for moment in both]
    bare = [moment for moment in dict.fromkeys(bare) if moment not in known]
    titles = names_of(spans, [spans[number].ref for number, _ in bare])
    for number, is_end in bare:
        title = titles[spans[number].ref]
        drafts.append(((number, is_end), LOCAL, f"end of {title}" if is_end else title))
    depths = _Depths(index)
    inner = _with_inner_starts(index, process, [moment for moment, _, _ in drafts])
    found = []
    for order, (moment, kind, message) in enumerate(drafts):
        number, is_end = moment
        span, depth = spans[number], depths.of(number)
        time = span.end if is_end and span.end is not None else span.start
        rank = (1, _KIND_ORDER[kind], depth)
        if is_end:
            rank = (2, -depth, 0) if number in inner or time == span.start else (0, -depth, 0)
        place = _Place(process[number], time, rank, moment, kind, message)
        found.append((order, place))
    return [place for _, place in found]


def _with_inner_starts(index: Index, process: Sequence[str], moments: Iterable[Moment]) -> set[int]:
    """Return the spans inside which another event of their process happens just as they end."""
    spans = index.spans
    moments = list(moments)
    ends = {(process[n], spans[n].end) for n, is_end in moments if is_end}
    found: set[int] = set()
    for number, is_end in moments:
        here = process[number], spans[number].start
        if is_end or here not in ends:
            continue
        seen = {number}
        above = index.here(spans[number].parent, process, number)
        while above is not None and above not in seen:
            if spans[above].end == here[1]:
                found.add(above)
            seen.add(above)
            above = index.here(spans[above].parent, process, above)
    return found


class _Depths:
    """How many spans are above a span."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._known: dict[int, int] = {}

    def of(self, number: int) -> int:
        """Return a span's depth; a span above itself, which is a fault of the log, has any."""
        path: dict[int, None] = {}
        at: int | None = number
        while at is not None and at not in self._known and at not in path:
            path[at] = None
            above = self._index.find(self._index.spans[at].parent)
            at = above[0] if above else None
        depth = -1 if at is None else self._known.get(at, -1)
        for one in reversed(path):
            depth += 1
            self._known[one] = depth
        return self._known[number]


def names_of(spans: Sequence[Span], refs: Iterable[Ref]) -> dict[Ref, str]:
    """Return readable names for spans, all different: service, title and the start of the id.

    A span without a title, or that is not in the log, is named by its id.
    """
    wanted = dict.fromkeys(refs)
    titles: dict[Ref, tuple[str, str]] = {}
    for span in spans:
        if span.title and span.ref in wanted:
            titles.setdefault(span.ref, (span.service, span.title))
    groups: dict[tuple[str, str], list[Ref]] = {}
    for ref in wanted:
        groups.setdefault(titles.get(ref, ("", "")), []).append(ref)
    names: dict[Ref, str] = {}
    for (service, title), mine in groups.items():
        ids = {ref[1] for ref in mine}
        size = _LONGEST
        if title:
            tries = range(_SHORTEST, _LONGEST)
            size = next((k for k in tries if len({i[:k] for i in ids}) == len(ids)), _LONGEST)
        is_said = title.lower().startswith(service.lower())
        words = [word for word in ("" if is_said else service, title) if word]
        names |= {ref: " ".join((*words, ref[1][:size] if title else ref[1])) for ref in mine}
    counts = Counter(names.values())
    whole = {ref: "/".join(filter(None, ref)) for ref, name in names.items() if counts[name] > 1}
    return names | whole
