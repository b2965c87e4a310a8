"""One id, sent several times: which send counts, and to which send each delivery belongs.

All sends of one id are one message that was passed on, unless the log shows otherwise. A send is a
*relay* if its process had sent or delivered the message before, else an *origin*. If there is no
origin, the first sends of the processes to which no other send is addressed are origins: the
message came to them from outside the log.

- If one origin happened before all others (or is the only one), its send counts and owns every
  delivery. The delivery is judged against it, and follows it.
- Otherwise the origins are different messages with the same id. A delivery belongs to the origin
  whose copy it must be; if there are several possibilities, it belongs to none.
- A *reply* under the id of its request is a message of its own. Both ends take turns: a process
  that had just sent the id delivers it, and one that had just delivered it had sent it, to that
  process alone. All such sends to a process must come from one other; the k-th delivery there is of
  the k-th of them, unless the log lacks one of several turns. Without stated destinations, this
  holds where only two processes have the id.

A send can have caused a delivery at p if it is addressed to p (or the log does not say to whom), p
did not make it after the delivery, and its process can have got the message without p, or p had
sent it before. If only one send can, the delivery also follows that one: it came through this
relay. If every process had the message before it sent it, the first send is not in the log, and any
delivery may be a copy of that one.

A process that sent the message has it. Copies that come back to it are not judged, unless the send
that counts names it as a destination, or they are replies. If the id has one send, and that is for
others, the send of the returned copy is missing. None of this depends on the names of processes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from antecede.events.tables import DELIVERY_AMBIGUOUS, DELIVERY_WITHOUT_SEND

#: Why a delivery of such a message stands alone; a returned copy is not reported.
STRAY, AMBIGUOUS, RETURNED = 1, 2, 3
#: What a returned copy may be.
COPY, REPLY, FURTHER_REPLY = 0, 1, 2
FINDINGS = {STRAY: DELIVERY_WITHOUT_SEND, AMBIGUOUS: DELIVERY_AMBIGUOUS}


class Row(NamedTuple):
    """A send or delivery; ``number`` is its index among all events, in the order of processes."""

    number: int
    process: int
    is_send: bool
    dests: frozenset[int] | None

    def is_for(self, process: int) -> bool:
        """Return whether it may be addressed to a process."""
        return self.dests is None or process in self.dests

    def names(self, process: int) -> bool:
        """Return whether it is addressed to a process by name."""
        return self.dests is not None and process in self.dests


class Message:
    """The sends and deliveries of one id, in the order of their processes."""

    def __init__(self, rows: list[Row], earliest: int | None = None) -> None:
        self.rows = rows
        self.by_process: dict[int, list[Row]] = {}
        for row in rows:
            self.by_process.setdefault(row.process, []).append(row)
        self.sends = [row for row in rows if row.is_send]
        first = [mine[0] for mine in self.by_process.values()]
        self.origins = [row for row in first if row.is_send] or self._from_outside()
        if not self.origins and len(self.sends) == 1:
            self.origins = self.sends
        self.owners = [o for o in self.origins if earliest is None or o.process == earliest]
        self.deliveries = {
            p: next(row for row in mine if not row.is_send)
            for p, mine in self.by_process.items()
            if not all(row.is_send for row in mine)
        }
        self.causes = {p: self._causes(d) for p, d in self.deliveries.items()}
        self.answers = {p: self._answers(p) for p in self.by_process}
        self.replies = {d: c for p in self.deliveries for d, c in self._replies(p)}
        owners = self._found_owners()
        self.owner: dict[int, Row | int] = {
            **{d.number: owners[p] for p, d in self.deliveries.items()},
            **self.replies,
        }

    def _from_outside(self) -> list[Row]:
        """Return the first send of each process to which no send is addressed."""
        found = []
        for p, mine in self.by_process.items():
            sends = [row for row in mine if row.is_send]
            others = (c for c in self.sends if c.process != p)
            if (
                sends
                and not any(c.names(p) for c in sends)
                and not any(c.is_for(p) for c in others)
            ):
                found.append(sends[0])
        return found

    def _sent_before(self, delivery: Row) -> list[Row]:
        mine = self.by_process[delivery.process]
        return [c for c in mine if c.is_send and c.number < delivery.number]

    def _causes(self, delivery: Row) -> list[Row]:
        """Return the sends that may have caused the first delivery at a process."""
        p, own = delivery.process, self._sent_before(delivery)
        others = [c for c in self.sends if c.process != p and c.is_for(p)]
        if own:
            return others + [c for c in own if c.names(p) or (c.is_for(p) and not others)]
        others = list({c.process: c for c in reversed(others)}.values())[::-1]
        if not self.origins or all(c in self.origins for c in others):
            return others
        reached = self._reached_without(p)
        return [c for c in others if c.process in reached]

    def _reached_without(self, process: int) -> set[int]:
        """Return the processes that may have got the message without ``process``."""
        reached = {o.process for o in self.origins} - {process}
        todo = list(reached)
        while todo:
            sends = [c for c in self.by_process[todo.pop()] if c.is_send]
            fresh = {q for q in self.deliveries if any(c.is_for(q) for c in sends)}
            fresh -= {*reached, process}
            reached |= fresh
            todo += fresh
        return reached

    def _answers(self, process: int) -> list[Row]:
        """Return the sends that may be replies to a send of a process."""
        mine = self.by_process[process]
        if not any(row.is_send for row in mine):
            return []
        known = [] if mine[0].is_send else self.causes.get(process, [])
        alone = [frozenset({process}), *([None] if len(self.by_process) == 2 else [])]
        others = (c for c in self.sends if c.process != process and c not in known)
        return [c for c in others if c.dests in alone and self._had(c)]

    def _replies(self, process: int) -> Iterable[tuple[int, Row]]:
        """Yield (delivery, send) of the replies that a process got, if the pairing is clear."""
        mine, answers = self.by_process[process], self.answers[process]
        known = [] if mine[0].is_send else self.causes[process]
        others = [c for c in self.sends if c.process != process and c.is_for(process)]
        if (
            len({c.process for c in answers}) != 1
            or not {*answers, *known}.issuperset(others)
            or any(c.names(process) for c in mine if c.is_send)
        ):
            return ()
        answered = [b.number for a, b in pairwise(mine) if a.is_send and not b.is_send]
        several = max(len(answers), len(answered)) > 1
        if several and not self._take_turns(process, answers, len(answered)):
            return ()
        return zip(answered, answers, strict=False)

    def _take_turns(self, process: int, answers: list[Row], answered: int) -> bool:
        """Return whether the log has every turn of a process and of the one that answers it."""
        mine, theirs = self.by_process[process], self.by_process[answers[0].process]
        asked = sum(row.is_send and row.is_for(answers[0].process) for row in mine)
        got = sum(not row.is_send for row in theirs)
        turns = (*pairwise(mine), *pairwise(theirs))
        return all(a.is_send != b.is_send for a, b in turns) and (
            asked >= got >= len(answers) >= answered >= asked - 1
        )

    def _had(self, send: Row) -> bool:
        """Return whether a process had just delivered the id that it sends."""
        mine = self.by_process[send.process]
        at = bisect_left(mine, send.number, key=lambda row: row.number)
        return at > 0 and not mine[at - 1].is_send

    def _found_owners(self) -> dict[int, Row | int]:
        """Return, by process, the send that owns the first delivery there, or why none does."""
        found: dict[int, Row | int] = {}
        senders = {o.process: o for o in self.owners}
        if len(self.owners) == 1:
            owner = self.owners[0]
            for p, delivery in self.deliveries.items():
                found[p] = self._single_owner(owner, delivery)
            return found
        moved = True
        while moved:
            moved = False
            for p, causes in self.causes.items():
                if p in found or len(causes) != 1:
                    continue
                owner_of = senders.get(causes[0].process) or found.get(causes[0].process)
                if isinstance(owner_of, Row):
                    found[p] = owner_of
                    moved = True
        return {p: found.get(p, self._why_alone(p)) for p in self.deliveries}

    def _single_owner(self, owner: Row, delivery: Row) -> Row | int:
        p, at = delivery.process, delivery.number
        if p != owner.process:
            return RETURNED if self._sent_before(delivery) and not owner.names(p) else owner
        if owner.names(p):
            return owner
        if len(self.sends) > 1:
            return STRAY if at < owner.number else RETURNED
        return owner if owner.dests is None and at > owner.number else STRAY

    def _why_alone(self, process: int) -> int:
        return AMBIGUOUS if self.causes[process] and self.origins else STRAY

    def owner_of(self, delivery: Row) -> Row | int:
        """Return the send that owns a delivery, that of the one it repeats, or why none does."""
        mine = (row.number for row in self.by_process[delivery.process])
        return self.owner[max(n for n in mine if n in self.owner and n <= delivery.number)]

    def edges(self) -> Iterable[tuple[int, int]]:
        """Yield (send, delivery) where a delivery must have come through a relay."""
        for p, causes in self.causes.items():
            at = self.deliveries[p].number
            if not self.origins or len(causes) != 1 or causes[0] == self.owner[at]:
                continue
            if self.owner[at] != RETURNED or causes[0] not in self.answers[p]:
                yield causes[0].number, at

    def maybe(self) -> Iterable[tuple[int, int, int]]:
        """Yield (send, delivery, what) where a delivery may belong to several sends.

        ``what`` is ``COPY``, or the first or a further ``REPLY`` to a process.
        """
        for p, causes in self.causes.items():
            first = self.deliveries[p]
            if self.owner[first.number] == AMBIGUOUS:
                yield from self._maybe_of_several(p)
                continue
            outer = self._outer_answers(p)
            if self.owner[first.number] != RETURNED:
                for k, row in enumerate(self._unpaired(p)):
                    what = FURTHER_REPLY if k else REPLY
                    yield from ((cause.number, row.number, what) for cause in outer)
                continue
            if len(causes) == 1 and causes[0] not in self.answers[p]:
                continue
            for cause in causes:
                is_reply = cause in self.answers[p]
                yield cause.number, first.number, REPLY if is_reply else COPY
                for row in self.by_process[p] if cause in outer else ():
                    if not row.is_send and row.number > first.number:
                        yield cause.number, row.number, FURTHER_REPLY

    def _maybe_of_several(self, process: int) -> Iterable[tuple[int, int, int]]:
        """Yield what ``maybe`` does, where messages with one id may have been delivered."""
        first, possible = self.deliveries[process], {*self.causes[process]}
        if not possible.issubset(self.owners):
            possible |= {owner for owner in self.owners if owner.process != process}
        for row in self.by_process[process]:
            if not row.is_send and row.number not in self.replies:
                what = REPLY if row == first else FURTHER_REPLY
                yield from ((send.number, row.number, what) for send in sorted(possible))

    def _outer_answers(self, process: int) -> list[Row]:
        """Return the first and the last reply of each process: no other is later, or tells more."""
        answers = self.answers[process]
        first = {c.process: c for c in reversed(answers)}
        last = {c.process: c for c in answers}
        return sorted({*first.values(), *last.values()})

    def _unpaired(self, process: int) -> list[Row]:
        """Return the deliveries that may be replies, if the pairing of replies is not clear."""
        mine = self.by_process[process]
        if any(row.number in self.replies for row in mine):
            return []
        sent = next((row.number for row in mine if row.is_send), mine[-1].number)
        later = (row for row in mine if not row.is_send and row.number > sent)
        return [row for row in later if row.number not in self.owner]

    def undelivered(self) -> Iterable[tuple[int, int]]:
        """Yield (send, process) where the log lacks a delivery that the send should have."""
        paired = set(self.replies.values())
        # An origin is a separate message: a process's own send does not show that it got another.
        have = set(self.deliveries if len(self.origins) > 1 else self.by_process)
        for send in self.sends:
            for p in sorted((send.dests or frozenset()) - have):
                # The copy would follow this send, but be judged by the one that counts.
                others = {owner.number for owner in self.owners if owner.process != p}
                yield from ((number, p) for number in sorted({send.number, *others}))
        for p, answers in self.answers.items():
            got = sum(not row.is_send for row in self.by_process[p])
            is_short = got < len(answers) or not paired.isdisjoint(answers)
            for send in answers if is_short else ():
                if send not in paired:
                    yield send.number, p

    def unsettled(self) -> Iterable[tuple[int, int]]:
        """Yield those of ``undelivered`` that would show what a send of the process is.

        With such a delivery before it, an origin is a relay, and a relay may be a reply.
        """
        answers = {(c.number, p) for p, some in self.answers.items() for c in some}
        for number, p in self.undelivered():
            sends = [row for row in self.by_process.get(p, ()) if row.is_send]
            if len(sends) > ((number, p) in answers):
                yield number, p
