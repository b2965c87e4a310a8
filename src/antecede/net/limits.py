"""The limits of a node: how much it keeps, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass, fields

from antecede.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a node keeps at most, and its times in seconds.

    One message more may exceed a limit of bytes.
    """

    outbox_count: int = 1024
    """Packets to one peer that it has not acknowledged; ``send`` waits while there are so many."""
    outbox_bytes: int = 8 << 20
    """Bytes of these packets; ``send`` waits here too."""
    inbox_count: int = 1024
    """Deliveries that are not marked done. While there are so many, packets that arrive are not
    acknowledged, so that the outboxes of the peers fill in turn."""
    inbox_bytes: int = 8 << 20
    """Bytes of these deliveries."""
    payload_bytes: int = 1 << 20
    """The largest payload of a message; over NATS 512 KiB, unless it is set."""
    journal_bytes: int = 1 << 20
    """A checkpoint replaces a journal that is larger than this and the last checkpoint together."""
    resend_seconds: float = 1.0
    """How long a peer may take to acknowledge before packets are sent again; this doubles."""
    resend_seconds_max: float = 10.0
    """What it doubles to at most."""
    long_wait_seconds: float = 30.0
    """After how long a wait for a cause is logged."""
    linger_seconds: float = 5.0
    """How long a node without a store waits for acknowledgements when it is closed."""

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            least = 0 if entry.name == "linger_seconds" else 1e-6
            if not isinstance(value, (int, float)) or not least <= value < float("inf"):
                msg = f"{entry.name}={value!r} is not a limit; expected a positive number"
                raise UsageError(msg)
