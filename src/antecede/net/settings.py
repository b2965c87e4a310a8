"""A node's settings: its name, what all nodes of a group have in common, and its limits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from antecede.endpoint.endpoint import HELD_BYTES_MAX
from antecede.endpoint.messages import PAYLOAD_MAX
from antecede.errors import UsageError

DIGEST_BYTES: Final = 8
LIMITS_OF_ENDPOINTS: Final = ("held_max", "held_bytes_max", "queue_max")
"""Options that each node sets for itself; the others belong to the view."""


class Setup(NamedTuple):
    """The settings on which the founders of a group must agree, and this process's name."""

    process: str
    members: tuple[str, ...]
    protocol: str
    options: Mapping[str, Any]

    @property
    def own_options(self) -> dict[str, Any]:
        """The options that all members share."""
        return {
            name: value for name, value in self.options.items() if name not in LIMITS_OF_ENDPOINTS
        }

    @property
    def digest(self) -> bytes:
        """A short digest of the settings on which the founders must agree."""
        return _digest((self.protocol, _plain(self.own_options), self.members))

    @property
    def rules(self) -> bytes:
        """A short digest of the protocol and its options alone."""
        return _digest((self.protocol, _plain(self.own_options)))

    @property
    def sentence(self) -> str:
        """The setup as error messages name it."""
        options = "".join(f", {key}={value!r}" for key, value in self.options.items())
        return f"{self.process} of {', '.join(self.members)} ({self.protocol}{options})"


def _digest(value: object) -> bytes:
    text = repr(value).encode(errors="surrogatepass")
    return hashlib.blake2b(text, digest_size=DIGEST_BYTES).digest()


def _plain(value: object) -> object:
    """Return options in one form, whether written as lists, tuples or sets."""
    if isinstance(value, Mapping):
        return tuple(sorted((str(key), _plain(item)) for key, item in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(_plain(item) for item in value)
    if isinstance(value, (set, frozenset)):
        return tuple(sorted(map(str, value)))
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a node may keep, and its times in seconds.

    A limit of bytes may be exceeded by one message.
    """

    outbox_count: int = 1024
    """Packets that one peer has not acknowledged; ``send`` waits while there are this many."""
    outbox_bytes: int = 8 << 20
    """Bytes of these packets; ``send`` waits here too."""
    inbox_count: int = 1024
    """Deliveries that are not marked done. While there are this many, arriving packets are not
    acknowledged, so the outboxes of the peers fill in turn."""
    inbox_bytes: int = 8 << 20
    """Bytes of these deliveries."""
    payload_bytes: int = 1 << 20
    """The largest payload of a message; over NATS the default is 512 KiB."""
    journal_bytes: int = 1 << 20
    """A checkpoint replaces a journal that is larger than this and the last checkpoint together."""
    resend_seconds: float = 1.0
    """How long a peer may take to acknowledge before packets are resent; doubles each time."""
    resend_seconds_max: float = 10.0
    """The most that it doubles to."""
    long_wait_seconds: float = 30.0
    """How long a message waits for a cause before this is logged."""
    linger_seconds: float = 5.0
    """How long a node without a store waits for acknowledgements when it is closed."""
    held_seconds_max: float = 0.0
    """With ``on_lost="mark"``: how long a message may wait for a cause; 0 means forever."""
    on_lost: str = "wait"
    """``"mark"``: after ``held_seconds_max`` the cause is declared lost, as by ``Node.skip``."""

    def __post_init__(self) -> None:
        if self.on_lost not in ("wait", "mark"):
            msg = f"on_lost={self.on_lost!r} is not known; expected 'wait' or 'mark'"
            raise UsageError(msg)
        if (self.on_lost == "mark") != (self.held_seconds_max != 0):
            msg = "held_seconds_max and on_lost='mark' need each other; give both or neither"
            raise UsageError(msg)
        for entry in fields(self):
            if entry.name == "on_lost":
                continue
            value, is_time = getattr(self, entry.name), "seconds" in entry.name
            least = 0 if entry.name in ("linger_seconds", "held_seconds_max") else 1e-6
            kinds = (int, float) if is_time else int
            if not isinstance(value, kinds) or not least <= value < float("inf"):
                kind = "number" if is_time else "whole number"
                msg = f"{entry.name}={value!r} is not a limit; expected a positive {kind}"
                raise UsageError(msg)

    def check(self, options: Mapping[str, Any]) -> None:
        """Refuse limits with which a message could be sent, but never arrive."""
        payload, held = self.payload_bytes, options.get("held_bytes_max", HELD_BYTES_MAX)
        if payload > PAYLOAD_MAX:
            msg = (
                f"payload_bytes={payload} is too much: a message carries at most {PAYLOAD_MAX} "
                "bytes; send what is longer in parts"
            )
            raise UsageError(msg)
        if held < 2 * payload:
            msg = (
                f"held_bytes_max={held} is too little for payload_bytes={payload}: expected at "
                f"least {2 * payload}; raise the one or lower the other"
            )
            raise UsageError(msg)
