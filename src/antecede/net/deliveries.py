"""Deliveries as the application sees them."""

from __future__ import annotations

from collections.abc import Awaitable

from antecede.core import messages
from antecede.core.messages import COMPILED, MessageId, Need, Packet


class Keeper:
    """What a delivery belongs to once the application has it.

    ``past`` has the names of removed processes; while there are none, all labels are names.
    """

    def __init__(self, past: dict[str, str]) -> None:
        self.past = past

    def done(self, event: int) -> Awaitable[None]:
        """Mark a delivery as dealt with."""
        raise NotImplementedError

    def name_of(self, label: str) -> str:
        """Return the name of the process behind a label."""
        raise NotImplementedError


class Delivery:
    """A message handed to the application, which calls :meth:`done` when it has dealt with it."""

    __slots__ = ("_ahead", "_delivery", "_first", "_keeper", "event", "payload")

    _keeper: Keeper
    _delivery: messages.Delivery | None
    _first: Packet
    _ahead: int

    def __init__(self, delivery: messages.Delivery) -> None:
        self._delivery = delivery
        self.payload: bytes = delivery.payload
        self.event: int = delivery.event

    @property
    def message(self) -> MessageId:
        """The message's id, which no other message has."""
        if self._delivery is not None:
            return self._delivery.message
        return MessageId(self._first.source, self._first.seq + self._ahead)

    @property
    def dests(self) -> tuple[str, ...]:
        """The destinations, as message ids name them."""
        return self._first.dests if self._delivery is None else self._delivery.dests

    @property
    def unmet(self) -> tuple[Need, ...]:
        """What the message should have waited for, if that was lost with a removed process."""
        return () if self._delivery is None else self._delivery.unmet

    @property
    def source(self) -> str:
        """The process that sent the message.

        ``message.sender`` says more: if a process was removed and came back, it names the view in
        which it joined again, as in ``c#7``.
        """
        made = self._delivery
        label = self._first.source if made is None else made.source
        return label if not self._keeper.past else self._keeper.name_of(label)

    def done(self) -> Awaitable[None]:
        """Mark the delivery as dealt with; it is not delivered again, even after a restart.

        The mark is made at the call. Awaiting the result waits until the mark is saved.
        """
        return self._keeper.done(self.event)

    def __repr__(self) -> str:
        return f"Delivery({self.message}, {len(self.payload)} bytes)"


def follow(first: Packet, event: int, payloads: list[bytes]) -> list[Delivery]:
    """Make the deliveries of messages behind the first of a run, the next one as ``event``."""
    deliveries = []
    for ahead, payload in enumerate(payloads, 1):
        made = Delivery(_NONE) if COMPILED else _new(Delivery)
        made._delivery = None
        made._first = first
        made._ahead = ahead
        made.event = event
        made.payload = payload
        event += 1
        deliveries.append(made)
    return deliveries


_new = object.__new__  # quicker than calling a class, but for compiled ones
_NONE = messages.Delivery(MessageId("", 0), (), b"", 0)
