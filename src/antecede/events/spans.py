"""Spans of distributed traces as events; all formats of spans share this module.

A file is read into spans, spans are paired into messages, and these become a table of events: in
the order of each process, with clocks for order that messages do not show.
"""

from __future__ import annotations

import base64
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count

import pyarrow as pa

from antecede.events.arrow_schemas import CLOCKS
from antecede.events.documents import documents, quoted, unwrapped
from antecede.events.lanes import Lanes, Moment
from antecede.events.log import (
    Format,
    Log,
    Source,
    read_bytes,
    read_text,
    reading,
    rejected_in,
    table_of,
)
from antecede.events.rule import SEEN_BEFORE, Event, Rejected, is_text
from antecede.events.tables import CLOCK, DELIVER, LOCAL, SEND

#: The name of a span: the id of its trace (may be empty) and its own.
Ref = tuple[str, str]

_TIME_END = 2**63
_HEX = re.compile(r"[0-9a-fA-F]{16}([0-9a-fA-F]{16})?")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{11}=|[A-Za-z0-9+/_-]{22}==")
_TITLE_CHARS = 80


class Role(StrEnum):
    """What a span does."""

    CREATE = "create"
    """Creates one message, which another span may send later."""
    SEND = "send"
    RECEIVE = "receive"
    """Asks the broker for messages (a poll), and ends when they have arrived."""
    PROCESS = "process"
    CONSUME = "consume"
    """Receives or processes messages; the span does not say which."""
    CLIENT = "client"
    SERVER = "server"
    NONE = ""


#: The words for messaging operations, of all versions of the conventions.
_OPERATIONS = {
    "create": Role.CREATE,
    "send": Role.SEND,
    "publish": Role.SEND,
    "produce": Role.SEND,
    "receive": Role.RECEIVE,
    "poll": Role.RECEIVE,
    "pull": Role.RECEIVE,
    "process": Role.PROCESS,
    "deliver": Role.PROCESS,
    "settle": Role.NONE,
    "ack": Role.NONE,
    "nack": Role.NONE,
    "commit": Role.NONE,
}
_OPERATION_KEYS = ("messaging.operation.type", "messaging.operation", "messaging.operation.name")
_MESSAGE_KEYS = ("messaging.message.id", "messaging.message_id")
_KINDS = {
    "PRODUCER": Role.SEND,
    "CONSUMER": Role.CONSUME,
    "CLIENT": Role.CLIENT,
    "SERVER": Role.SERVER,
}
#: The attributes that may name an instance of a service, the best first.
INSTANCES = ("service.instance.id", "k8s.pod.name", "container.id", "host.name", "hostname", "ip")


@dataclass(frozen=True, slots=True)
class Span:
    """One span; times are nanoseconds by the clock of its process."""

    service: str
    instance: str
    ref: Ref
    role: Role
    title: str
    start: int
    end: int | None = None
    parent: Ref | None = None
    links: tuple[Ref, ...] = ()
    failed: bool = False
    message: str = ""
    """The id of the message from the broker or the application, if the span has one."""


@dataclass(frozen=True, slots=True)
class Draft:
    """The parts of a span, as text and numbers in the units of its format."""

    service: object
    instance: object
    ref: Ref
    kind: str
    title: object
    start: int | None
    end: int | None = None
    parent: Ref | None = None
    links: tuple[Ref, ...] = ()
    attributes: Mapping[str, object] | None = None
    failed: bool = False


def span_of(draft: Draft) -> Span | str:
    """Return a span, or the reason why it is not valid."""
    if not draft.ref[1] or draft.start is None:
        return "a span needs an id and a start time"
    attributes = draft.attributes or {}
    title = draft.title if isinstance(draft.title, str) else ""
    title = " ".join(title.split())[:_TITLE_CHARS]
    service, instance = str(draft.service or "unknown"), str(draft.instance or "")
    refs = [draft.ref, *draft.links, *([draft.parent] if draft.parent else [])]
    if not is_text(service, instance, title, *(word for ref in refs for word in ref)):
        return "a name is not UTF-8"
    role = _role(draft.kind, attributes, title)
    # The end of a span that ends before it starts cannot be trusted.
    end = None if draft.end is None or draft.end < draft.start else draft.end
    parent = draft.parent if draft.parent and draft.parent[1] else None
    message = next((str(attributes[key]) for key in _MESSAGE_KEYS if attributes.get(key)), "")
    return Span(
        service, instance, draft.ref, role, title, draft.start, end, parent, draft.links,
        draft.failed, message,
    )  # fmt: skip


def _role(kind: str, attributes: Mapping[str, object], title: str) -> Role:
    """Return what a span does, by its messaging operation if it has one, else by its kind."""
    for key in _OPERATION_KEYS:
        word = str(attributes.get(key) or "").lower()
        if word in _OPERATIONS:
            return _OPERATIONS[word]
    role = _KINDS.get(kind, Role.NONE)
    if role is Role.CONSUME and title:  # Older conventions have it only in the span's name.
        words = title.lower().split()
        for word in (words[-1], words[0]):
            if _OPERATIONS.get(word) in {Role.RECEIVE, Role.PROCESS}:
                return _OPERATIONS[word]
    return role


def plain_id(value: object) -> str:
    """Return an id in any encoding as lower-case hexadecimal digits; "" if it is none."""
    text = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if _BASE64.fullmatch(text):
        text = base64.b64decode(text, altchars=b"-_" if set(text) & set("-_") else None).hex()
    elif _HEX.fullmatch(text):
        text = text.lower()
    return text if text.strip("0") else ""


def whole(value: object, unit: int = 1) -> int | None:
    """Return a time in nanoseconds, or None if it is not one; ``unit`` is in nanoseconds too."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,19}", value):
        value = int(value)
    if isinstance(value, float) and abs(value) < _TIME_END:
        value = round(value * unit)
    elif isinstance(value, int) and not isinstance(value, bool):
        value *= unit
    else:
        return None
    return value if 0 <= value < _TIME_END else None


#: Which span of a process delivers a message, if several could: the first in this order.
_DELIVERS = {Role.PROCESS: 0, Role.CONSUME: 1, Role.RECEIVE: 2}
_MAKES = frozenset({Role.SEND, Role.CREATE})


@dataclass
class Pairs:
    """What the spans of a log show about messages and order."""

    sends: list[tuple[Moment, Ref]] = field(default_factory=list)
    deliveries: list[tuple[Moment, Ref]] = field(default_factory=list)
    after: list[tuple[Moment, Moment]] = field(default_factory=list)
    """Pairs (earlier, later) of moments whose order does not come from a message."""
    quiet: list[int] = field(default_factory=list)
    """Spans that should exchange messages, but whose other end is not in the log."""


class Index:
    """Spans by name."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = spans
        self._by_ref: dict[Ref, list[int]] = {}
        self._by_id: dict[str, dict[Ref, None]] = {}
        self._by_message: dict[str, dict[Ref, None]] = {}
        for number, span in enumerate(spans):
            if span.message and span.role in _MAKES:
                self._by_message.setdefault(span.message, {})[span.ref] = None
            self._by_ref.setdefault(span.ref, []).append(number)
            self._by_id.setdefault(span.ref[1], {})[span.ref] = None

    def find(self, ref: Ref | None) -> list[int]:
        """Return the spans of a name; one without a trace matches only if it is unambiguous."""
        if ref is None:
            return []
        if ref not in self._by_ref:
            alike = self._by_id.get(ref[1], {})
            whole = next(iter(alike), None)
            if len(alike) != 1 or whole is None or (ref[0] and whole[0]):
                return []
            ref = whole
        return self._by_ref[ref]

    def here(self, ref: Ref | None, process: Sequence[str], number: int) -> int | None:
        """Return the span of a name in the process of another span, or None."""
        return next((n for n in self.find(ref) if process[n] == process[number]), None)

    def of_message(self, message: str) -> list[Ref]:
        """Return the span that makes the message of an id, if it is the only one."""
        found = list(self._by_message.get(message, ()))
        return found if len(found) == 1 else []

    def of_role(self, ref: Ref | None, roles: Iterable[Role]) -> int | None:
        """Return the first span of a name with one of the roles, or None."""
        return next((n for n in self.find(ref) if self.spans[n].role in roles), None)


def process_names(spans: Sequence[Span]) -> list[str]:
    """Return each span's process: its service, or its instance if the service has several."""
    instances: dict[str, set[str]] = {}
    for span in spans:
        if span.instance:
            instances.setdefault(span.service, set()).add(span.instance)
    return [
        f"{span.service}/{span.instance}"
        if span.instance and len(instances[span.service]) > 1
        else span.service
        for span in spans
    ]


def pair(index: Index, process: Sequence[str]) -> Pairs:
    """Return the sends, the deliveries and the order among spans of these processes."""
    pairs = Pairs()
    called = _rpcs(index, process, pairs)
    told = called | _messages(index, process, called, pairs)
    _strays(index, process, told, pairs)
    _order(index, process, told, pairs)
    return pairs


def _rpcs(index: Index, process: Sequence[str], pairs: Pairs) -> set[int]:
    """Pair the spans of servers with those of their clients; return the paired ones."""
    told: set[int] = set()
    for number, server in enumerate(index.spans):
        if server.role is not Role.SERVER:
            continue
        # Both halves may have the same name; Zipkin calls this a shared span.
        client = index.of_role(server.ref, {Role.CLIENT})
        if client is None:
            client = index.of_role(server.parent, {Role.CLIENT})
        if client is None or process[client] == process[number]:
            continue
        if client not in told:
            pairs.sends.append(((client, False), index.spans[client].ref))
        pairs.deliveries.append(((number, False), index.spans[client].ref))
        told |= {client, number}
        if _answers(server, index.spans[client]):
            pairs.after.append(((number, True), (client, True)))
    return told


def _answers(server: Span, client: Span) -> bool:
    """Return whether the client waited for the server's end.

    Clocks may differ, so durations decide: a client with the shorter span did not wait.
    """
    if server.end is None or client.end is None:
        return False
    gave_up = client.failed and client.end < server.end
    return server.end - server.start <= client.end - client.start and not gave_up


def _messages(index: Index, process: Sequence[str], called: set[int], pairs: Pairs) -> set[int]:
    """Find the spans that send and deliver messages; return the consumers that deliver some.

    ``called`` are the spans of calls, both of whose ends are in the log.
    """
    spans = index.spans
    causes = {n: _causes(index, n) for n, span in enumerate(spans) if span.role in _DELIVERS}
    best: dict[tuple[str, Ref], int] = {}
    for number, refs in causes.items():
        for ref in refs:
            rank = _DELIVERS[spans[number].role]
            place = process[number], ref
            best[place] = min(rank, best.get(place, rank))
    told = set()
    handlers = _handlers(index, process, called)
    for number, refs in causes.items():
        role = spans[number].role
        # A poll delivers when it ends; it may have begun long before there was a message. But some
        # libraries call the span that handles a message "receive".
        handles = process[number] in handlers and len(refs) == 1
        is_poll = role is Role.RECEIVE and spans[number].end is not None and not handles
        moment = number, is_poll
        mine = [ref for ref in refs if best[process[number], ref] == _DELIVERS[role]]
        pairs.deliveries += [(moment, ref) for ref in mine]
        if refs:
            told.add(number)
    wanted = {ref for refs in causes.values() for ref in refs}
    senders = _senders(index)
    carriers = set(senders.values())
    for number, span in enumerate(spans):
        if span.role in _MAKES and (number not in carriers or span.ref in wanted):
            pairs.sends.append(((senders.get(number, number), False), span.ref))
    return told


def _handlers(index: Index, process: Sequence[str], called: set[int]) -> set[str]:
    """Return the processes that send messages or call others inside a span that receives.

    These spans begin, rather than end, when a message arrives.
    """
    spans = index.spans
    found: set[str] = set()
    for number, span in enumerate(spans):
        is_call = span.role is Role.CLIENT and number in called
        if process[number] in found or not (is_call or span.role in _MAKES):
            continue
        seen = {number}
        above = index.here(span.parent, process, number)
        while above is not None and above not in seen:
            seen.add(above)
            end = spans[above].end
            if spans[above].role is Role.RECEIVE and end is not None and span.start < end:
                found.add(process[number])
            above = index.here(spans[above].parent, process, number)
    return found


def _senders(index: Index) -> dict[int, int]:
    """Return which span sent each message that was created by a separate span.

    The sending span links to the creating ones, or is their parent.
    """
    found: dict[int, int] = {}
    for number, span in enumerate(index.spans):
        if span.role is Role.SEND:
            made = [index.of_role(link, {Role.CREATE}) for link in span.links]
        elif span.role is Role.CREATE:
            parent = index.of_role(span.parent, {Role.SEND})
            if parent is not None:
                found.setdefault(number, parent)
            continue
        else:
            continue
        for one in made:
            if one is not None:
                found.setdefault(one, number)
    return found


def _causes(index: Index, number: int) -> list[Ref]:
    """Return the messages that a consumer's span names, in order."""
    span = index.spans[number]
    found: dict[Ref, None] = {}
    # Both ends of a message may have the same name; Zipkin calls this a shared span.
    parent = index.of_role(span.ref, _MAKES)
    if parent is None:
        parent = index.of_role(span.parent, _MAKES)
    for ref in span.links:
        maker = index.of_role(ref, _MAKES)
        if maker is not None:
            found[index.spans[maker].ref] = None
        elif parent is None and not index.find(ref):
            found[ref] = None  # A message from outside the log; the parent is not its producer.
    if parent is not None:
        found[index.spans[parent].ref] = None
    if not found:
        found = dict.fromkeys(index.of_message(span.message))
    if found or span.role is Role.RECEIVE:
        return list(found)
    # A message from a poll is processed in a span below the poll, or linked to it.
    polls = [index.of_role(ref, {Role.RECEIVE}) for ref in (*span.links, span.parent)]
    polled = [_causes(index, poll) for poll in polls if poll is not None]
    if any(polled):
        single = [refs[0] for refs in polled if len(refs) == 1]
        return single[:1]
    if polled or index.find(span.parent):
        return []
    return [span.parent or span.ref]


def _strays(index: Index, process: Sequence[str], told: set[int], pairs: Pairs) -> None:
    """Add the deliveries to a process from spans that the log lacks.

    The parent of a server span is in another process. So, probably, is that of any other span, if
    its trace has spans of other processes and it is in none of its own process.
    """
    spans = index.spans
    places: dict[str, set[str]] = {}
    for number, span in enumerate(spans):
        places.setdefault(span.ref[0], set()).add(process[number])
    known = {(process[number], ref) for (number, _), ref in pairs.deliveries}
    until: dict[tuple[str, str], float] = {}
    for number in sorted(range(len(spans)), key=lambda n: (spans[n].start, -_end(spans[n]), n)):
        span = spans[number]
        here = process[number], span.ref[0]
        is_inside = until.get(here, -1.0) >= span.start
        until[here] = max(_end(span), until.get(here, -1.0))
        if span.parent is None or span.role in _DELIVERS or index.find(span.parent):
            continue
        came = len(places[span.ref[0]]) > 1 and span.ref[0] != "" and not is_inside
        came |= span.role is Role.SERVER and number not in told
        if came and (process[number], span.parent) not in known:
            known.add((process[number], span.parent))
            pairs.deliveries.append(((number, False), span.parent))


def _end(span: Span) -> float:
    return float("inf") if span.end is None else span.end


def _order(index: Index, process: Sequence[str], told: set[int], pairs: Pairs) -> None:
    """Add the order between processes that parents and links show where no message does."""
    for number, span in enumerate(index.spans):
        if number in told or span.role is Role.RECEIVE:
            continue
        for ref in dict.fromkeys((*span.links, *([span.parent] if span.parent else []))):
            others = index.find(ref)
            if others and all(process[other] != process[number] for other in others):
                pairs.after.append(((others[0], False), (number, False)))
        if span.role in {Role.CLIENT, Role.SERVER}:
            pairs.quiet.append(number)


_SHORTEST, _LONGEST = 4, 32
_KIND_ORDER = {DELIVER: 0, LOCAL: 1, SEND: 2}


@dataclass(frozen=True, slots=True)
class _Place:
    """An event without its number."""

    process: str
    time: int
    rank: tuple[int, int, int]
    """Its place among events of the same time."""
    moment: Moment
    kind: str
    message: str
    is_followed: bool = True
    """Whether what follows the moment also follows this event."""
    handled: str = ""
    """The message that this event handles, though another process delivers it."""


def table_of_spans(
    spans: Sequence[Span], origins: dict[str, dict[str, str]] | None = None
) -> pa.Table:
    """Return the events of spans, with a column ``clock``.

    ``origins`` receives the ids of trace, span and message for each message.
    """
    index = Index(spans)
    process = process_names(spans)
    pairs = pair(index, process)
    places = _in_lanes(index, process, pairs, _places(index, process, pairs))
    counts: Counter[str] = Counter()
    seqs: list[int] = []
    first: dict[Moment, int] = {}
    last: dict[Moment, int] = {}
    for number, place in enumerate(places):
        counts[place.process] += 1
        seqs.append(counts[place.process])
        if place.is_followed:
            first.setdefault(place.moment, number)
            last[place.moment] = number
    clocks: list[dict[str, int]] = [{} for _ in places]
    sent = {place.message: n for n, place in enumerate(places) if place.kind == SEND}
    causes = [(last[earlier], first[later]) for earlier, later in pairs.after]
    causes += [(sent[p.handled], n) for n, p in enumerate(places) if p.handled]
    for cause, effect in causes:
        clock, there = clocks[effect], places[cause].process
        if there != places[effect].process:
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
    # An event follows more than replies and parents: its own count of 0 says so.
    stated = [
        [*clock.items(), (place.process, 0)] if clock else None
        for clock, place in zip(clocks, places, strict=True)
    ]
    column = pa.array(stated, CLOCKS)
    if origins is not None:
        _add_origins(origins, spans, pairs)
    return table_of(events).append_column(CLOCK, column)


def _add_origins(origins: dict[str, dict[str, str]], spans: Sequence[Span], pairs: Pairs) -> None:
    named = _names_in(spans, pairs)
    ids = {span.ref: span.message for span in spans if span.message}
    for ref, name in named.items():
        origins[name] = {"trace_id": ref[0], "span_id": ref[1], "message_id": ids.get(ref, "")}


def _names_in(spans: Sequence[Span], pairs: Pairs) -> dict[Ref, str]:
    return names_of(spans, [ref for _, ref in (*pairs.sends, *pairs.deliveries)])


def _places(index: Index, process: Sequence[str], pairs: Pairs) -> list[_Place]:
    """Return all events among the moments, without numbers."""
    spans = index.spans
    named = _names_in(spans, pairs)
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


def _in_lanes(
    index: Index, process: Sequence[str], pairs: Pairs, places: Sequence[_Place]
) -> list[_Place]:
    """Return the events in the order of their processes, one for each lane of a service.

    If several lanes get messages, these are delivered in a separate process, in order of time, so
    that they can be judged. The events of a lane follow only the messages that it handles.
    """
    own: dict[str, dict[int, int | None]] = {}
    came = {(process[n], ref): n for (n, _), ref in pairs.deliveries if not index.find(ref)}
    for number, name in enumerate(process):
        ref = index.spans[number].parent
        above = index.here(ref, process, number)
        if ref and above is None:  # What came from an unknown span is below its first span.
            above = came.get((name, ref))
        own.setdefault(name, {})[number] = None if above == number else above
    events: dict[str, list[_Place]] = {}
    for place in sorted(places, key=lambda place: (place.process, place.time, place.rank)):
        events.setdefault(place.process, []).append(place)
    found: list[_Place] = []
    sent = {place.message for place in places if place.kind == SEND}
    quiet = {(n, False) for n in pairs.quiet} - {m for both in pairs.after for m in both}
    for name, mine in events.items():
        spans = {number: index.spans[number] for number in own[name]}
        times = {n: (s.start, s.start if s.end is None else s.end) for n, s in spans.items()}
        lanes = Lanes(times, own[name], {place.moment for place in mine}, quiet)
        if len(lanes.lanes) == 1:
            found += mine
            continue
        pairs.after += [*lanes.after, *_links_within(index, process, [p.moment for p in mine])]
        found += _apart(name, mine, lanes, sent, process)
    return found


def _links_within(
    index: Index, process: Sequence[str], moments: Iterable[Moment]
) -> list[tuple[Moment, Moment]]:
    """Return the order that links show inside a service, between the starts of spans."""
    starts = dict.fromkeys(number for number, is_end in moments if not is_end)
    found = []
    for number in starts:
        for ref in index.spans[number].links:
            other = index.here(ref, process, number)
            if other in starts and index.spans[other].start <= index.spans[number].start:
                found.append(((other, False), (number, False)))
    return found


def _apart(
    name: str, events: Sequence[_Place], lanes: Lanes, sent: set[str], taken: Collection[str]
) -> list[_Place]:
    """Return the events of a service with lanes; if several deliver, deliveries are separate.

    In its lane, a delivery of a message that was ``sent`` is then a local event.
    """
    at: dict[Moment, list[_Place]] = {}
    for event in events:
        at.setdefault(event.moment, []).append(event)
    gets = [any(e.kind == DELIVER for m in lane for e in at[m]) for lane in lanes.lanes]
    is_apart = sum(gets) > 1
    found = [replace(e, is_followed=False) for e in events if e.kind == DELIVER and is_apart]
    main = None if is_apart else gets.index(True) if any(gets) else 0
    names = (f"{name} ({number})" for number in count(2))
    names = (one for one in names if one not in taken)
    for number, lane in enumerate(lanes.lanes):
        called = name if number == main else next(names)
        for event in (event for moment in lane for event in at[moment]):
            is_handled = is_apart and event.kind == DELIVER and event.message in sent
            handled = event.message if is_handled else ""
            message = f"handles {handled}" if handled else event.message
            kind = LOCAL if handled else event.kind
            found.append(
                replace(event, process=called, kind=kind, message=message, handled=handled)
            )
    return found


def _with_inner_starts(index: Index, process: Sequence[str], moments: Iterable[Moment]) -> set[int]:
    """Return the spans that end just when a span below them in the same process starts."""
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
    """The depths of spans: how many ancestors each has."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._known: dict[int, int] = {}

    def of(self, number: int) -> int:
        """Return a span's depth, or any number if the span is its own ancestor by mistake."""
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
    """Return distinct, readable names for spans: service, title and the start of the id.

    A span is named by the id of its message if no other span has that, and by its own id if it has
    no title or is not in the log.
    """
    wanted = dict.fromkeys(refs)
    messages: dict[str, set[Ref]] = {}
    for span in spans:
        if span.message and span.ref in wanted:
            messages.setdefault(span.message, set()).add(span.ref)
    own = {refs.pop(): message for message, refs in messages.items() if len(refs) == 1}
    return own | _titled(spans, [ref for ref in wanted if ref not in own], set(own.values()))


def _titled(spans: Sequence[Span], wanted: Iterable[Ref], taken: set[str]) -> dict[Ref, str]:
    wanted = dict.fromkeys(wanted)
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
    counts = Counter([*names.values(), *taken])
    whole = {ref: "/".join(filter(None, ref)) for ref, name in names.items() if counts[name] > 1}
    return names | whole


#: What a format finds in a document: each span, or why it is not one, with its JSON source; None
#: for a document that is not about spans.
Find = Callable[[object], Iterator[tuple[object, Span | str | None]]]


def format_of_spans(
    name: str,
    find: Find,
    sniff: Callable[[str], float],
    suffixes: tuple[str, ...] = (),
    text_of: Callable[[bytes], str | None] = lambda _: None,
) -> Format:
    """Return a format of files of spans; ``text_of`` converts other content to JSON."""

    def read(sources: Sequence[Source]) -> dict[str, Log]:
        """Read files as one log: spans in one file may link to those in another."""
        rejected: list[tuple[str, list[Rejected]]] = []
        spans: dict[Span, None] = {}
        for source in sources:
            bad: list[Rejected] = []
            with reading(source, name):
                text = text_of(read_bytes(source)) or read_text(source)
                spans |= dict.fromkeys(read_spans(text, find, bad, spans))
            rejected.append((source.name, bad))
        left_out = sum(len(rows) for _, rows in rejected)
        origins: dict[str, dict[str, str]] = {}
        table = table_of_spans(list(spans), origins)
        found = Log(table, rejected_in(rejected), left_out, good=len(spans), origins=origins)
        return {"": found}

    return Format(name, suffixes, read, sniff, has_spans=True)


def read_spans(
    text: str, find: Find, rejected: list[Rejected], known: Collection[Span] = ()
) -> list[Span]:
    """Return the spans of a text; invalid or repeated ones go to ``rejected``."""
    spans: dict[Span, None] = {}
    for line, document in documents(text, rejected):
        found = [pair for part in unwrapped(document) for pair in find(part)]
        for raw, span in found:
            if span is None:
                continue
            if isinstance(span, str) or span in spans or span in known:
                reason = span if isinstance(span, str) else SEEN_BEFORE
                rejected.append(Rejected(line, quoted(raw), reason))
            else:
                spans[span] = None
        if not found:
            rejected.append(Rejected(line, quoted(document), "no spans in it"))
    return list(spans)
