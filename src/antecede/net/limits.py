"""The limits of a node: how much it keeps, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass, fields

from antecede.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a node keeps at most, and its times in seconds.

    ``outbox_count`` and ``outbox_bytes`` limit the packets to one peer that it has not
    acknowledged: ``send`` waits while they are reached. ``inbox_count`` and ``inbox_bytes`` limit
    the deliveries that are not marked done: packets wait unacknowledged while they are reached, so
    that the peers' outboxes fill in turn. One message more may exceed a limit of bytes.
    """

    outbox_count: int = 1024
    outbox_bytes: int = 8 << 20
    inbox_count: int = 1024
    inbox_bytes: int = 8 << 20
    payload_bytes: int = 1 << 20
    journal_bytes: int = 1 << 20
    resend_seconds: float = 1.0
    resend_seconds_max: float = 10.0
    long_wait_seconds: float = 30.0
    linger_seconds: float = 5.0

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            least = 0 if entry.name == "linger_seconds" else 1e-6
            if not isinstance(value, (int, float)) or not least <= value < float("inf"):
                msg = f"{entry.name}={value!r} is not a limit; expected a positive number"
                raise UsageError(msg)
