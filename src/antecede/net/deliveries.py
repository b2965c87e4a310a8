"""Deliveries as the application sees them."""

from __future__ import annotations

from collections.abc import Awaitable

from antecede.core import messages
from antecede.core.messages import MessageId, Need
from antecede.net.engine import Engine
from antecede.net.saving import NOW


class Delivery:
    """A message handed to the application, which calls :meth:`done` when it has dealt with it."""

    __slots__ = ("_delivery", "_engine", "event", "payload")

    def __init__(self, delivery: messages.Delivery, engine: Engine) -> None:
        self._delivery = delivery
        self._engine = engine
        self.payload: bytes = delivery.payload
        self.event: int = delivery.event

    @property
    def message(self) -> MessageId:
        """The message's id, which no other message has."""
        return self._delivery.message

    @property
    def dests(self) -> tuple[str, ...]:
        """The destinations, as message ids name them."""
        return self._delivery.dests

    @property
    def unmet(self) -> tuple[Need, ...]:
        """What the message should have waited for, if that was lost with a removed process."""
        return self._delivery.unmet

    @property
    def source(self) -> str:
        """The process that sent the message.

        ``message.sender`` says more: if a process was removed and came back, it names the view in
        which it joined again, as in ``c#7``.
        """
        sender, past = self._delivery.message.sender, self._engine.machine.group.past
        return sender if not past else self._engine.machine.group.name_of(sender)

    def done(self) -> Awaitable[None]:
        """Mark the delivery as dealt with; it is not delivered again, even after a restart.

        The mark is made at the call. Awaiting the result waits until the mark is saved.
        """
        engine = self._engine
        if engine.is_closed or engine.failure is not None:
            engine.check()
        engine.done(self.event)
        return engine.saving.saved() if engine.is_durable else NOW

    def __repr__(self) -> str:
        return f"Delivery({self.message}, {len(self.payload)} bytes)"


def next_of(engine: Engine) -> Delivery | None:
    """Return the next delivery that is ready; None if there is none."""
    return Delivery(engine.ready.popleft(), engine) if engine.ready else None
