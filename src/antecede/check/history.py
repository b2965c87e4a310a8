"""Histories and happened-before, by explicit sets and without any clock.

This is the project's only definition of "correct". A history is the list of sends and deliveries
that happened. It determines, for each message, the set of messages that could have influenced it.
Sets of messages and copies are kept as bits of an integer, so unions are exact and fast, and
nothing here shares an idea with the protocols that it judges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from antecede.endpoint.messages import MessageId
from antecede.errors import UsageError


@dataclass(frozen=True, slots=True)
class Event:
    """A send or a delivery.

    ``dests`` and what follows it matter for sends only. ``after`` is the number of the last local
    event that the message depends on; None means everything so far. ``is_part`` is None if there
    are no non-atomic events; otherwise it says whether the message belongs to the same one as its
    process's previous message, so that the two need no order.
    """

    process: str
    kind: Literal["send", "deliver"]
    message: MessageId
    dests: tuple[str, ...] = ()
    after: int | None = None
    is_part: bool | None = None

    def __str__(self) -> str:
        if self.kind == "send":
            return f"{self.process} sends {self.message} to {', '.join(self.dests)}"
        return f"{self.process} delivers {self.message}"


@dataclass(frozen=True, slots=True)
class Knowledge:
    """The causal past of a point in a computation, as sets of bits.

    ``messages``: messages whose send is in the past. ``delivered``: copies whose delivery is.
    ``replaced``: copies of a message to a process that a later message to the same process follows
    (the second Propagation Constraint of [KS98] 3.4).
    """

    messages: int = 0
    delivered: int = 0
    replaced: int = 0

    def joined(self, other: Knowledge) -> Knowledge:
        """Return the union of two pasts."""
        return Knowledge(
            self.messages | other.messages,
            self.delivered | other.delivered,
            self.replaced | other.replaced,
        )


class History:
    """What happened, in order, and the causal order that follows from it."""

    def __init__(self, members: Iterable[str], events: Iterable[Event] = ()) -> None:
        self.members = tuple(members)
        self.events: list[Event] = []
        self.messages: list[MessageId] = []
        self._number: dict[MessageId, int] = {}
        self._dests: list[tuple[str, ...]] = []
        self._past: list[Knowledge] = []
        self._sent: list[Knowledge] = []
        self._parts: dict[str, int] = {}
        self._unordered_at: list[str] = []
        self._local: dict[str, list[Knowledge]] = {}
        self._copies: dict[tuple[int, str], int] = {}
        self._copy_names: list[tuple[MessageId, str]] = []
        self._copies_of: list[int] = []
        self._copies_to: dict[str, int] = {}
        self._addressed: dict[str, int] = {}
        self._delivered: dict[str, int] = {}
        for event in events:
            self.append(event)

    def append(self, event: Event) -> None:
        """Append the next event."""
        if event.kind == "send":
            self._append_send(event)
        else:
            self._append_delivery(event)
        self.events.append(event)

    def send(
        self,
        process: str,
        message: MessageId,
        dests: Iterable[str],
        after: int | None = None,
        *,
        is_part: bool | None = None,
    ) -> None:
        """Add a send."""
        self.append(Event(process, "send", message, tuple(dests), after, is_part))

    def deliver(self, process: str, message: MessageId) -> None:
        """Add a delivery."""
        self.append(Event(process, "deliver", message))

    def _append_send(self, event: Event) -> None:
        if event.message in self._number:
            msg = f"{event.message} is sent twice; a message is sent once"
            raise UsageError(msg)
        local = self._local_of(event.process)
        if event.after is not None and not 0 <= event.after < len(local):
            msg = (
                f"{event.message} is sent after event {event.after} of {event.process}, which has "
                f"had {len(local) - 1}"
            )
            raise UsageError(msg)
        before = local[-1] if event.after is None else local[event.after]
        number = len(self.messages)
        self.messages.append(event.message)
        self._number[event.message] = number
        self._dests.append(event.dests)
        self._past.append(self._ordered_past(event, number, before))
        mine = 0
        for dest in event.dests:
            bit = 1 << len(self._copy_names)
            self._copies[number, dest] = bit
            self._copy_names.append((event.message, dest))
            mine |= bit
        # From now on this message replaces the known copies to its destinations.
        past = self._copies_in(before.messages)
        replaced = 0
        for dest in event.dests:
            replaced |= past & self._copies_to.get(dest, 0)
        self._copies_of.append(mine)
        for dest in event.dests:
            self._copies_to[dest] = self._copies_to.get(dest, 0) | self._copies[number, dest]
            self._addressed[dest] = self._addressed.get(dest, 0) | 1 << number
        own = Knowledge(before.messages | 1 << number, before.delivered, before.replaced | replaced)
        self._sent.append(own)
        local.append(local[-1].joined(own))

    def _ordered_past(self, event: Event, number: int, before: Knowledge) -> Knowledge:
        """Return the past without the parts of the message's own non-atomic event.

        A message to oneself is delivered at once. So a process's own messages wait for nothing at
        that process: it may know of parts that it has not delivered.
        """
        self._unordered_at.append("" if event.is_part is None else event.process)
        if event.is_part is None or event.dests == (event.process,):
            return before
        parts = self._parts.get(event.process, 0) if event.is_part else 0
        self._parts[event.process] = parts | 1 << number
        return Knowledge(before.messages & ~parts, before.delivered, before.replaced)

    def _append_delivery(self, event: Event) -> None:
        number = self._number.get(event.message)
        if number is None:
            msg = f"{event.process} delivers {event.message}, which was not sent before"
            raise UsageError(msg)
        if event.process not in self._dests[number]:
            msg = (
                f"{event.process} delivers {event.message}, which is for "
                f"{', '.join(self._dests[number])}"
            )
            raise UsageError(msg)
        if self.is_delivered(event.process, event.message):
            msg = f"{event.process} delivers {event.message} twice"
            raise UsageError(msg)
        local = self._local_of(event.process)
        here = local[-1].joined(self._sent[number])
        copy = self._copies[number, event.process]
        local.append(Knowledge(here.messages, here.delivered | copy, here.replaced))
        self._delivered[event.process] = self._delivered.get(event.process, 0) | 1 << number

    def _local_of(self, process: str) -> list[Knowledge]:
        return self._local.setdefault(process, [Knowledge()])

    # What follows from it.

    @property
    def sends(self) -> list[Event]:
        """The sends, in order."""
        return [event for event in self.events if event.kind == "send"]

    def dests(self, message: MessageId) -> tuple[str, ...]:
        """Return the destinations of a message."""
        return self._dests[self._number[message]]

    def deliveries(self, process: str) -> list[MessageId]:
        """Return what a process delivered, in order."""
        return [
            event.message
            for event in self.events
            if event.kind == "deliver" and event.process == process
        ]

    def local_count(self, process: str) -> int:
        """Return how many sends and deliveries a process has had."""
        return len(self._local_of(process)) - 1

    def causes(self, message: MessageId) -> frozenset[MessageId]:
        """Return the messages whose send happened before this one's send."""
        return self._named(self._past[self._number[message]].messages)

    def causes_at(self, process: str, message: MessageId) -> frozenset[MessageId]:
        """Return the messages for ``process`` that must be delivered there before this one."""
        number = self._number[message]
        if self._unordered_at[number] == process:
            return frozenset()
        return self._named(self._past[number].messages & self._addressed.get(process, 0))

    def is_delivered(self, process: str, message: MessageId) -> bool:
        """Return whether ``process`` has delivered ``message``."""
        return bool(self._delivered.get(process, 0) >> self._number[message] & 1)

    def missing_causes(self, process: str, message: MessageId) -> frozenset[MessageId]:
        """Return the causes of ``message`` that are for ``process`` and not delivered there."""
        number = self._number[message]
        missing = (
            self._past[number].messages
            & self._addressed.get(process, 0)
            & ~self._delivered.get(process, 0)
        )
        if not missing or self._unordered_at[number] == process:
            return frozenset()
        return self._named(missing)

    def undelivered(self, process: str) -> frozenset[MessageId]:
        """Return the messages for ``process`` that it has not delivered."""
        return self._named(self._addressed.get(process, 0) & ~self._delivered.get(process, 0))

    def required(self, process: str) -> dict[MessageId, frozenset[str]]:
        """Return the explicit information that the Propagation Constraints require now.

        [KS98] 3.4: "d is a destination of M" must be kept in the causal future of M's send until
        its delivery at d, or the send of a later message to d, is in the past. A message to oneself
        is delivered with the send and never needs to be kept.
        """
        return self._needed(self._local_of(process)[-1])

    def carried(self, message: MessageId, dest: str) -> dict[MessageId, frozenset[str]]:
        """Return the explicit information that the copy of ``message`` for ``dest`` must carry.

        A destination of the message itself is named in the copy to that destination only.
        """
        number = self._number[message]
        elsewhere = frozenset(self._dests[number]) - {dest}
        needed = self._needed(self._past[number])
        kept = {cause: names - elsewhere for cause, names in needed.items()}
        return {cause: names for cause, names in kept.items() if names}

    def _needed(self, past: Knowledge) -> dict[MessageId, frozenset[str]]:
        open_copies = self._copies_in(past.messages) & ~(past.delivered | past.replaced)
        result: dict[MessageId, set[str]] = {}
        for bit in bits_of(open_copies):
            message, dest = self._copy_names[bit]
            if dest != message.sender:
                result.setdefault(message, set()).add(dest)
        return {message: frozenset(names) for message, names in sorted(result.items())}

    def _copies_in(self, messages: int) -> int:
        copies = 0
        for number in bits_of(messages):
            copies |= self._copies_of[number]
        return copies

    def _named(self, numbers: int) -> frozenset[MessageId]:
        return frozenset(self.messages[number] for number in bits_of(numbers))

    def influenced_directly(self, message: MessageId) -> list[tuple[MessageId, Event]]:
        """Return the messages that ``message`` directly follows, each with the linking event.

        The events are local to the sender: its own earlier sends and its deliveries.
        """
        result: list[tuple[MessageId, Event]] = []
        for event in self.events:
            if event.process != message.sender:
                continue
            if event.message == message and event.kind == "send":
                return result if event.after is None else result[: event.after]
            result.append((event.message, event))
        return result


def bits_of(numbers: int) -> Iterator[int]:
    """Yield the members of a set of bits, in ascending order."""
    while numbers:
        low = numbers & -numbers
        yield low.bit_length() - 1
        numbers ^= low
