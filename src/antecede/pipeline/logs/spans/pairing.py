"""Which spans are sends and deliveries of the same message, and which order follows besides.

A consumer delivers the messages of the spans it links to, or of its parent, or else the one with
the same id. Where a process both received and processed a message, processing is the delivery. A
server span delivers the request of its client span, and the client span's end follows the server
span's end. Any other span that starts after one of another process, its parent or a span it links
to, follows that one's start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from antecede.pipeline.logs.spans.model import Ref, Role, Span

#: Which span of a process delivers a message, if several could: the first of these.
_DELIVERS = {Role.PROCESS: 0, Role.CONSUME: 1, Role.RECEIVE: 2}
_MAKES = frozenset({Role.SEND, Role.CREATE})

#: A moment of a span: its number, and whether it is the end.
Moment = tuple[int, bool]


@dataclass
class Pairs:
    """What the spans of a log say about messages and order."""

    sends: list[tuple[Moment, Ref]] = field(default_factory=list)
    deliveries: list[tuple[Moment, Ref]] = field(default_factory=list)
    after: list[tuple[Moment, Moment]] = field(default_factory=list)
    """Pairs (earlier, later) of moments that are ordered without being a message."""
    quiet: list[int] = field(default_factory=list)
    """Spans that should exchange messages, but whose other end is not in the log."""


class Index:
    """Spans by what names them."""

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
        """Return the spans of that name; one without a trace is found if only one can be meant."""
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
        """Return the span of that name in the process of another span, if it is in the log."""
        return next((n for n in self.find(ref) if process[n] == process[number]), None)

    def of_message(self, message: str) -> list[Ref]:
        """Return what makes the message of that id, if only one span does."""
        found = list(self._by_message.get(message, ()))
        return found if len(found) == 1 else []

    def of_role(self, ref: Ref | None, roles: Iterable[Role]) -> int | None:
        """Return the first span of that name with one of the roles."""
        return next((n for n in self.find(ref) if self.spans[n].role in roles), None)


def process_names(spans: Sequence[Span]) -> list[str]:
    """Return each span's process: its service, or its instance if the log has several of it."""
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
    """Pair the spans of servers with those of their clients; return the ones that were paired."""
    told: set[int] = set()
    for number, server in enumerate(index.spans):
        if server.role is not Role.SERVER:
            continue
        # Both halves may have the same name: Zipkin calls that a shared span.
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

    Clocks may differ, so durations tell: a client whose span is the shorter one did not wait.
    """
    if server.end is None or client.end is None:
        return False
    gave_up = client.failed and client.end < server.end
    return server.end - server.start <= client.end - client.start and not gave_up


def _messages(index: Index, process: Sequence[str], called: set[int], pairs: Pairs) -> set[int]:
    """Find which spans send and deliver messages; return the consumers that deliver some.

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

    So these spans do not end when a message is there; they begin then.
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
    """Return which span sent a message that was created by a span of its own.

    The one that sends links to those that create, or is their parent.
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
    """Return the messages that a consumer's span names, in the order in which it names them."""
    span = index.spans[number]
    found: dict[Ref, None] = {}
    parent = index.of_role(span.parent, _MAKES)
    for ref in span.links:
        maker = index.of_role(ref, _MAKES)
        if maker is not None:
            found[index.spans[maker].ref] = None
        elif parent is None and not index.find(ref):
            found[ref] = None  # A message from outside the log, for the parent is not its producer.
    if parent is not None:
        found[index.spans[parent].ref] = None
    if not found:
        found = dict.fromkeys(index.of_message(span.message))
    if found or span.role is Role.RECEIVE:
        return list(found)
    # What was polled as one message is processed in a span below the poll, or linked to it.
    polls = [index.of_role(ref, {Role.RECEIVE}) for ref in (*span.links, span.parent)]
    polled = [_causes(index, poll) for poll in polls if poll is not None]
    if any(polled):
        single = [refs[0] for refs in polled if len(refs) == 1]
        return single[:1]
    if polled or index.find(span.parent):
        return []
    return [span.parent or span.ref]


def _strays(index: Index, process: Sequence[str], told: set[int], pairs: Pairs) -> None:
    """Add the deliveries of what came to a process from spans that the log lacks.

    The parent of a server span is in another process. So, probably, is the parent of any other
    span, if its trace has spans of other processes and none of its own around it.
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
    """Add the order that parents and links show between processes, where no message does."""
    for number, span in enumerate(index.spans):
        if number in told or span.role is Role.RECEIVE:
            continue
        for ref in dict.fromkeys((*span.links, *([span.parent] if span.parent else []))):
            others = index.find(ref)
            if others and all(process[other] != process[number] for other in others):
                pairs.after.append(((others[0], False), (number, False)))
        if span.role in {Role.CLIENT, Role.SERVER}:
            pairs.quiet.append(number)
