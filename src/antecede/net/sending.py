"""The way in for messages: checked, and sent if there is room."""

from __future__ import annotations

import asyncio
from typing import Final, TypeAlias

from antecede.core.messages import MessageId
from antecede.errors import QueueFullError, UsageError
from antecede.net.engine import Engine

Sent: TypeAlias = MessageId | asyncio.Future[None]
_new_tuple: Final = tuple.__new__  # quicker than calling the class


def send_now(
    engine: Engine, dests: tuple[str, ...] | str, payload: bytes, after: int | None
) -> Sent:
    """Send a message; if that has to wait, return a future to wait for before the next attempt."""
    if engine.is_closed or engine.failure is not None:
        engine.check()
    limits = engine.limits
    if isinstance(payload, bytes) and len(payload) > limits.payload_bytes:
        msg = (
            f"payload has {len(payload)} bytes, at most {limits.payload_bytes} are allowed; "
            "send it in parts, or raise payload_bytes in the limits of all nodes"
        )
        raise UsageError(msg)
    machine, burst = engine.machine, None
    if after is None and dests == machine.last_dests and type(payload) is bytes:
        burst = machine.burst or machine.found_burst()
    if (
        burst is None
        or len(burst.channel.outbox) >= limits.outbox_count
        or burst.channel.outbox_bytes >= limits.outbox_bytes
    ):
        room = engine.room(dests)
        if room is not None:
            return room
    try:
        engine.send(burst, dests, payload, after)
    except QueueFullError:
        return engine.next_input()
    return _new_tuple(MessageId, (machine.label, machine.sends))
