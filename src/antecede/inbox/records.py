"""What an inbox and its stores exchange: plain data, and bodies as bytes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from antecede.errors import UsageError, shown
from antecede.inbox.causes import Entry, Then, topic_of

NONE, BYTES, TEXT, JSON = range(4)


def pack(body: object) -> tuple[int, bytes | None]:
    """Return a body's form and its bytes; refuse what JSON cannot represent."""
    if body is None:
        return NONE, None
    if isinstance(body, (bytes, bytearray, memoryview)):
        return BYTES, bytes(body)
    try:
        if isinstance(body, str):
            return TEXT, body.encode()
        return JSON, json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0][:80]
        raise UsageError(
            f"body is {shown(body)}: {reason}; give bytes, text, None or what JSON can hold"
        ) from None


def unpack(form: int, data: bytes | None) -> Any:
    """Return the original body."""
    if form == NONE or data is None:
        return None
    if form == BYTES:
        return bytes(data)
    text = bytes(data).decode()
    return text if form == TEXT else json.loads(text)


class Offer(NamedTuple):
    """A message as it is offered; ``fetch`` may return such offers."""

    id: str
    body: object = None
    causes: Iterable[object] | None = None
    topic: str | None = None
    time: float | None = None


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message that a handler sends. It leaves after the handler's transaction is committed.

    Publish ``body`` with ``id``, ``topic`` and ``causes``; a receiver offers them to its inbox.
    """

    key: str
    causes: tuple[str, ...]
    body: Any
    time: float
    number: int = 0

    @property
    def topic(self) -> str:
        """The topic that it is sent to."""
        return topic_of(self.key)

    @property
    def id(self) -> str:
        """Its id, by which receivers drop duplicates."""
        return self.key.partition("/")[2]

    def offer(self) -> dict[str, Any]:
        """Return the arguments with which a receiver offers it: ``inbox.offer(**out.offer())``."""
        return {
            "id": self.id,
            "body": self.body,
            "causes": self.causes,
            "topic": self.topic,
            "time": self.time,
        }


@dataclass(frozen=True, slots=True)
class Waiting:
    """A message that waits, since when, and its causes with their states or ``"not here"``."""

    key: str
    since: float
    seconds: float
    lacks: dict[str, str]


@dataclass(frozen=True, slots=True)
class Parked:
    """A message kept for a person, since when, and why."""

    key: str
    since: float
    reason: str


class Handled(NamedTuple):
    """A message that is done, as in the event log."""

    key: str
    causes: tuple[str, ...]
    at: float
    unmet: tuple[str, ...]


@dataclass(slots=True)
class Report:
    """Figures on an inbox's messages and on those that arrived early."""

    name: str
    mode: str
    topics: list[str]
    waiting: int = 0
    ready: int = 0
    parked: int = 0
    done: int = 0
    outbox: int = 0
    released: int = 0
    #: Messages that arrived before a cause; in shadow mode they did not wait.
    early: int = 0
    early_unresolved: int = 0
    early_seconds_mean: float | None = None
    early_seconds_max: float | None = None


@dataclass(slots=True)
class Upkeep:
    """What is due at a time: everything up to a time, or nothing where it is None."""

    now: float
    overdue: float | None = None
    then: Then = "wait"
    forget: float | None = None


@dataclass(slots=True)
class Kept:
    """The results of upkeep."""

    released: list[str] = field(default_factory=list)
    parked: list[str] = field(default_factory=list)
    forgotten: int = 0


class Store(Protocol):
    """Where an inbox stores its messages. Each method is one transaction, unless stated otherwise.

    A failure raises :class:`antecede.errors.StoreError` and changes nothing.
    """

    name: str
    topics: frozenset[str]
    #: Whether one open message blocks every other call.
    is_exclusive: bool

    def offer(self, entry: Entry) -> str:
        """Take a message; return its state, or ``"duplicate"``."""

    def would_wait(self, entry: Entry) -> bool:
        """Return whether a message is new and lacks a cause."""

    def begin(self, left: Collection[str], only: str | None = None) -> Entry | None:
        """Open a transaction with a ready message that nobody else has, except those ``left``.

        ``only`` is the key of a particular message to open, if any.
        """

    def execute(self, taken: Entry, statement: str, values: Sequence[Any]) -> Any:
        """Run a user's statement in the transaction of a message; return its cursor."""

    def finish(self, taken: Entry, sends: Sequence[Outgoing], now: float) -> None:
        """Mark a message as done, keep what it sends, commit."""

    def abandon(self, taken: Entry) -> None:
        """Roll back; the message is ready again."""

    def fail(self, taken: Entry, error: str, tries: int | None) -> bool:
        """Roll back, count the failure, park after so many tries; return whether it parked."""

    def causes_of(self, taken: Entry, key: str) -> tuple[str, ...]:
        """Return the causes of another message, if it is known."""

    def group(self) -> AbstractContextManager[None]:
        """Commit everything that this thread does inside the block at once, at its end."""

    def keep_up(self, upkeep: Upkeep) -> Kept:
        """Do what is due: patience, forgetting, a clock that was set back."""

    def missing(self, now: float, after: float) -> list[str]:
        """Return missing causes waited for so long, and record that they were asked for."""

    def release(self, key: str, now: float) -> None:
        """Release a message without its missing causes."""

    def park(self, key: str, reason: str) -> None:
        """Keep a message for a person."""

    def retry(self, key: str, now: float) -> None:
        """Treat a parked message as if it arrived now."""

    def waiting(self, now: float, limit: int | None) -> list[Waiting]:
        """Return what waits, oldest first."""

    def parked(self, limit: int | None) -> list[Parked]:
        """Return what is parked, oldest first."""

    def keys(self, name: str) -> list[str]:
        """Return the keys of messages with this id that are not done, of any topic."""

    def report(self) -> Report:
        """Return figures on the messages."""

    def outgoing(self, limit: int) -> AbstractContextManager[list[Outgoing]]:
        """Give the unpublished sends, in order, to one relay at a time."""

    def published(self, sent: Sequence[Outgoing], now: float) -> None:
        """Mark these as published; only while :meth:`outgoing` is open."""

    def handled(self) -> Iterator[Handled]:
        """Return what is done, in the order of handling."""

    def sent(self) -> Iterator[Outgoing]:
        """Return what was sent, in order, without bodies."""

    def close(self) -> None:
        """Close everything."""
