"""Deliveries as the application sees them."""

from __future__ import annotations

from collections.abc import Awaitable

from antecede.core import messages
from antecede.core.messages import MessageId, Need
from antecede.net.engine import Engine


class Delivery:
    """A message handed to the application, which calls :meth:`done` when it has dealt with it."""

    __slots__ = ("_engine", "dests", "event", "message", "payload", "unmet")

    def __init__(self, delivery: messages.Delivery, engine: Engine) -> None:
        self.message: MessageId = delivery.message
        self.dests: tuple[str, ...] = delivery.dests
        self.payload: bytes = delivery.payload
        self.event: int = delivery.event
        self.unmet: tuple[Need, ...] = delivery.unmet
        self._engine = engine

    @property
    def source(self) -> str:
        """The process that sent the message.

        ``message.sender`` says more: if a process was removed and came back, it names the view in
        which it joined again, as in ``c#7``.
        """
        return self._engine.machine.group.name_of(self.message.sender)

    def done(self) -> Awaitable[None]:
        """Mark the delivery as dealt with; it is not delivered again, even after a restart.

        The mark is made at the call. Awaiting the result waits until the mark is saved.
        """
        self._engine.check()
        self._engine.done(self.event)
        return self._engine.saving.saved()

    def __repr__(self) -> str:
        return f"Delivery({self.message}, {len(self.payload)} bytes)"
