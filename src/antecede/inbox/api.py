"""The inbox that users call: offer messages, and handle each ready one in a transaction."""

from __future__ import annotations

import math
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import Any, Self

from antecede.errors import HoldFullError, UsageError, shown
from antecede.inbox.causes import (
    CAUSES_MAX,
    Entry,
    Mode,
    Then,
    carried,
    check_causes,
    check_id,
    check_topic,
    joined,
    topic_of,
)
from antecede.inbox.events import write_events
from antecede.inbox.records import (
    Offer,
    Outgoing,
    Parked,
    Report,
    Store,
    Upkeep,
    Waiting,
    pack,
    unpack,
)
from antecede.inbox.stores.memory import MemoryStore

#: How many sends a relay takes at once.
RELAY_BATCH = 100
BODY_BYTES_MAX = 1 << 26
Place = str | os.PathLike[str] | None
CausesOf = Callable[[Any], Iterable[object] | None]

#: The message that is being handled here, which is a cause of everything sent meanwhile.
current: ContextVar[Message | None] = ContextVar("antecede_message", default=None)
#: The inboxes whose outbox is being published here.
relaying: ContextVar[tuple[Desk, ...]] = ContextVar("antecede_relaying", default=())


def current_causes() -> tuple[str, ...]:
    """Return the causes for a message that is sent here and now: none outside a handler."""
    message = current.get()
    return () if message is None else carried(message.key, message.causes)


@dataclass(slots=True)
class Metrics:
    """What this process has counted on its inbox since it opened it."""

    offered: int = 0
    duplicates: int = 0
    #: Messages that had to wait, or in shadow mode would have.
    early: int = 0
    handled: int = 0
    failed: int = 0
    late: int = 0
    released: int = 0
    parked: int = 0
    forgotten: int = 0
    published: int = 0
    asked: int = 0


class Policy:
    """The options of an inbox, checked. It turns offers into entries for a store."""

    #: The topics of the inbox, and whether bodies are kept as bytes: known once the store is open.
    topics: frozenset[str]
    is_packed: bool

    def __init__(
        self,
        *,
        mode: Mode = "enforce",
        patience: float | None = None,
        then: Then = "wait",
        remember: float | None = None,
        fetch_after: float = 1.0,
        causes: CausesOf | None = None,
        tries: int | None = None,
        waiting_max: int | None = None,
        causes_max: int = CAUSES_MAX,
        body_bytes_max: int = BODY_BYTES_MAX,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if mode not in ("enforce", "shadow"):
            raise UsageError(f"mode is {shown(mode)}; give 'enforce' or 'shadow'")
        if then not in ("wait", "release", "park"):
            raise UsageError(f"then is {shown(then)}; give 'wait', 'release' or 'park'")
        if then != "wait" and patience is None:
            raise UsageError(
                f"then={then!r} needs patience: after how many seconds, such as patience=30"
            )
        for name, seconds in (
            ("patience", patience), ("remember", remember), ("fetch_after", fetch_after)
        ):  # fmt: skip
            if seconds is not None and not _is_seconds(seconds):
                raise UsageError(f"{name} is {shown(seconds)}; give seconds, more than 0")
        for name, count in (
            ("tries", tries), ("waiting_max", waiting_max), ("causes_max", causes_max),
            ("body_bytes_max", body_bytes_max),
        ):  # fmt: skip
            if count is not None and not (type(count) is int and count > 0):
                raise UsageError(f"{name} is {shown(count)}; give a number from 1")
        check_callable("clock", clock)
        if causes is not None:
            check_callable("causes", causes)
        self.is_shadow = mode == "shadow"
        self.mode: Mode = mode
        self.then: Then = then
        self.patience, self.remember, self.fetch_after = patience, remember, fetch_after
        self.causes, self.tries = causes, tries
        self.waiting_max, self.causes_max = waiting_max, causes_max
        self.body_bytes_max = body_bytes_max
        self.clock = clock
        periods = [each for each in (patience, remember) if each is not None]
        #: How often to check what is due by time, if ever.
        self.period = min(1.0, *(each / 4 for each in periods)) if periods else None

    def entry(
        self, name: object, body: object, causes: Iterable[object] | None, topic: str | None,
        sent: float | None,
    ) -> Entry:  # fmt: skip
        """Return an entry for what is offered, after checking it."""
        topics = self.topics
        if not isinstance(topic, str) or topic not in topics:
            topic = self._only_topic(topic)
        key = f"{topic}/{check_id(name)}"
        if causes is None and self.causes is not None:
            causes = self.causes(body)
        keys = () if causes is None else check_causes(causes, topic, self.causes_max)
        form, data = pack(body) if self.is_packed else (-1, body)
        if isinstance(data, bytes | str) and len(data) > self.body_bytes_max:
            raise UsageError(
                f"the body of {key} has {len(data):,} bytes, of at most {self.body_bytes_max:,}; "
                "keep it elsewhere and offer its address, or set body_bytes_max"
            )
        now = self.clock()
        if sent is None:
            sent = now
        elif not _is_number(sent):
            raise UsageError(f"time is {shown(sent)}; give seconds since 1970, or leave it out")
        entry = Entry(key, keys, now, sent, form, data)
        if self.remember is not None and key not in keys:
            entry.is_old = sent < now - self.remember
        entry.is_shadow = self.is_shadow
        return entry

    def _only_topic(self, topic: object) -> str:
        """Return the topic of a message without one; refuse one that is not subscribed to."""
        topics = self.topics
        if topic is not None:
            raise UsageError(
                f"topic {shown(topic)} is not one of the inbox's: {', '.join(sorted(topics))}; "
                "subscribe to it with topics=, or do not offer it"
            )
        if len(topics) != 1:
            raise UsageError(
                f"the inbox has {len(topics)} topics; say which: topic='{min(topics)}'"
            )
        return min(topics)

    def upkeep(self, now: float) -> Upkeep:
        """Return the upkeep that is due at a time."""
        overdue = None if self.patience is None else now - self.patience
        return Upkeep(
            now, overdue, self.then, None if self.remember is None else now - self.remember
        )


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < 1e15  # neither infinite nor NaN, nor with more digits than a time has


def check_callable(name: str, function: object) -> None:
    """Refuse what cannot be called."""
    if not callable(function):
        raise UsageError(f"{name} is {shown(function)}; give a function")


def check_limit(limit: object) -> None:
    """Refuse a limit that is neither None nor a number."""
    if limit is not None and not (type(limit) is int and limit >= 0):
        raise UsageError(f"limit is {shown(limit)}; give a number from 0, or None")


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and _is_number(value) and value > 0


class Transaction:
    """The transaction in which a message is handled: the handler's writes, sends, and "done"."""

    __slots__ = ("_desk", "_taken", "message", "sends")

    def __init__(self, message: Message, desk: Desk, taken: Entry) -> None:
        self.message = message
        self.sends: list[Outgoing] = []
        self._desk, self._taken = desk, taken

    @property
    def connection(self) -> Any:
        """The database connection inside the transaction; do not commit on it."""
        return getattr(self._taken.link, "connection", None)

    def execute(self, statement: str, values: Sequence[Any] = ()) -> Any:
        """Run a statement on the inbox's database, in its SQL dialect; return the cursor."""
        self._require_open()
        return self._desk.store.execute(self._taken, statement, values)

    def send(
        self,
        topic: str,
        body: object = None,
        *,
        id: str | None = None,
        causes: Iterable[object] | None = None,
    ) -> Outgoing:
        """Send a message when the transaction is committed; return it, with its causes.

        The message being handled is its cause. Name any further causes, for instance a message that
        the same handler sent before. A second message with the same topic and ``id`` is a
        duplicate, which is dropped here or by its receivers.
        """
        self._require_open()
        check_topic(topic)
        message = self.message
        name = uuid.uuid4().hex if id is None else check_id(id)
        if isinstance(causes, Iterable) and not isinstance(causes, str | bytes):
            causes = [one.key if isinstance(one, Outgoing) else one for one in causes]
        keys = check_causes(causes, topic)
        parts = [carried(message.key, message.causes)]
        parts += [carried(key, self._causes_of(key)) for key in keys]
        pack(body)
        every = joined(*parts)
        out = Outgoing(f"{topic}/{name}", every, body, self._desk.policy.clock())
        if out.key in every:
            raise UsageError(f"{out.key} cannot be its own cause; leave id out, or give another")
        self.sends.append(out)
        return out

    def _require_open(self) -> None:
        if not self.message.is_entered:
            raise UsageError(
                f"the with block of {self.message.key} has ended, and with it the transaction; "
                "write and send inside the block"
            )

    def _causes_of(self, key: str) -> tuple[str, ...]:
        for one in self.sends:
            if one.key == key:
                return one.causes
        return self._desk.store.causes_of(self._taken, key)


class Message:
    """A message that is ready: ``with message as transaction:`` handles it.

    If the block raises, everything is rolled back and the message is handed over again.
    """

    __slots__ = ("_desk", "_sends", "_taken", "_token", "is_closed", "is_done", "key")

    def __init__(self, desk: Desk, taken: Entry) -> None:
        self._desk, self._taken = desk, taken
        self.key = taken.key
        self.is_closed = self.is_done = False
        #: What its transaction sends. A reference to the transaction would make a reference cycle.
        self._sends: list[Outgoing] | None = None
        self._token: Token[Message | None]

    @property
    def causes(self) -> tuple[str, ...]:
        """The causes with which it was offered."""
        return self._taken.causes

    @property
    def unmet(self) -> tuple[str, ...]:
        """The causes without which it was released."""
        return self._taken.unmet

    @property
    def late(self) -> bool:
        """Whether one of its effects was released before it."""
        return self._taken.late

    @property
    def id(self) -> str:
        """Its id."""
        return self.key.partition("/")[2]

    @property
    def topic(self) -> str:
        """Its topic."""
        return topic_of(self.key)

    @property
    def body(self) -> Any:
        """The body that was offered."""
        taken = self._taken
        return taken.body if taken.form < 0 else unpack(taken.form, taken.body)

    @property
    def attempt(self) -> int:
        """How many times it has been handed over, including this time; failures count."""
        return self._taken.failures + 1

    @property
    def waited(self) -> float:
        """How many seconds ago it was offered."""
        return max(0.0, self._desk.policy.clock() - self._taken.came)

    def __repr__(self) -> str:
        return f"<Message {self.key}>"

    def is_of(self, desk: Desk) -> bool:
        """Return whether it is of a certain inbox."""
        return self._desk is desk

    @property
    def is_entered(self) -> bool:
        """Whether its transaction is open."""
        return self._sends is not None and not self.is_closed

    def enter(self) -> Transaction:
        """Begin to handle it; if it was given back meanwhile, take it again."""
        if self._sends is not None:
            raise UsageError(f"{self.key} was handled already; a message has one with block")
        if self.is_closed:
            self._desk.leave_last()
            taken = self._desk.store.begin((), self.key)
            if taken is None:
                raise UsageError(
                    f"{self.key} was left, and is not ready for you any more; take the next"
                )
            self._taken, self.is_closed = taken, False
            self._desk.mine.last = self
        transaction = Transaction(self, self._desk, self._taken)
        self._sends = transaction.sends
        self._token = current.set(self)
        return transaction

    def finish(self) -> None:
        """Commit."""
        desk, taken, sends = self._desk, self._taken, self._sends
        assert sends is not None
        if self.is_closed:
            raise UsageError(
                f"the group ended before the with block of {self.key}; it is handed over again"
            )
        self.is_closed = True
        desk.store.finish(taken, sends, desk.policy.clock())
        self.is_done = True
        desk.metrics.handled += 1
        if taken.late:
            desk.metrics.late += 1

    def fail(self, error: BaseException) -> None:
        """Roll back, and record why."""
        if self.is_closed:
            return
        self.is_closed = True
        store, metrics = self._desk.store, self._desk.metrics
        if not isinstance(error, Exception):  # the program ends: not the handler's fault
            store.abandon(self._taken)
            return
        metrics.failed += 1
        metrics.parked += store.fail(self._taken, told(error), self._desk.policy.tries)

    def leave(self) -> None:
        """Give it back untouched, unless it was handled."""
        if not self.is_closed:
            self.is_closed = True
            self._desk.store.abandon(self._taken)

    __enter__ = enter

    def exit(self) -> None:
        """Stop being a cause of what is sent from here on."""
        try:  # noqa: SIM105 - each message takes this way; suppress() is slower
            current.reset(self._token)
        except ValueError:  # It was entered in another context, which the caller has left.
            pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self.exit()
        if error is None:
            self.finish()
        else:
            self.fail(error)


def told(error: Exception) -> str:
    """Return the first line of an error, as every store can keep it."""
    try:
        first = (str(error).splitlines() or [""])[0][:200]
    except Exception:  # what cannot be shown must not keep the message open
        first = "it cannot be shown"
    return kept_text(f"{type(error).__name__}: {first}".rstrip(": "))


def kept_text(text: str) -> str:
    """Escape what some database cannot keep as text."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class Relay:
    """One run of a relay: each send goes after its causes, and effects of stuck ones stay."""

    def __init__(self, desk: Desk, limit: int | None) -> None:
        check_limit(limit)
        self._desk = desk
        self._left = math.inf if limit is None else limit
        self._gone: list[Outgoing] = []
        self._failed: set[str] = set()
        self._errors: list[Exception] = []
        self._batch: AbstractContextManager[list[Outgoing]] | None = None
        self._count = 0

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Give whether to publish: inside another relay's ``publish``, that one goes on with it."""
        outer = relaying.get()
        token = relaying.set((*outer, self._desk))
        try:
            yield self._desk not in outer
        finally:
            relaying.reset(token)

    def begin(self) -> list[Outgoing]:
        """Lock out other relays, and return the next sends that have not failed yet."""
        room = int(min(RELAY_BATCH, self._left)) + len(self._failed) if self._left > 0 else 0
        batch = self._desk.store.outgoing(room)
        waiting = batch.__enter__()
        self._batch = batch
        return [one for one in waiting if one.key not in self._failed]

    def may_go(self, one: Outgoing) -> bool:
        """Return whether none of its causes is stuck."""
        if self._failed.isdisjoint(one.causes) and self._left > 0:
            return True
        self._failed.add(one.key)
        return False

    @contextmanager
    def going(self, one: Outgoing) -> Iterator[None]:
        """Record whether a send was published inside the block."""
        try:
            yield
        except Exception as error:  # raised at the end
            self._failed.add(one.key)
            self._errors.append(error)
        else:
            self._gone.append(one)
            self._left -= 1

    def end(self) -> None:
        """Record what was published, and unlock other relays."""
        gone, self._gone = self._gone, []
        try:
            if gone:
                self._desk.store.published(gone, self._desk.policy.clock())
                self._desk.metrics.published += len(gone)
                self._count += len(gone)
        finally:
            self.close()

    def close(self) -> None:
        """Unlock other relays; what was published but not recorded is published again."""
        batch, self._batch = self._batch, None
        if batch is not None:
            batch.__exit__(None, None, None)

    def result(self) -> int:
        """Return how many were published; raise the first error."""
        if self._errors:
            raise self._errors[0]
        return self._count


class Mine(threading.local):
    """What a thread knows of an inbox: the last message it got."""

    last: Message | None = None


class Desk:
    """What both forms of the inbox share: a store, a policy, and their joint operations."""

    def __init__(
        self,
        place: Place,
        topics: Iterable[str] | None,
        name: str,
        options: dict[str, Any],
        *,
        create: bool = True,
    ) -> None:
        self.policy = Policy(**options)
        self.store = open_store(place, name, topics, create=create)
        self.metrics = Metrics()
        self.policy.topics = self.store.topics
        self.policy.is_packed = not isinstance(self.store, MemoryStore)
        self._next_upkeep = self._next_fetch = -math.inf
        self._last_time = -math.inf
        self.mine = Mine()

    def take(self, entry: Entry) -> str:
        """Keep a message; return its state, or ``"duplicate"``."""
        policy, metrics = self.policy, self.metrics
        if policy.waiting_max is not None and not entry.is_shadow:
            self._check_room(entry, policy.waiting_max)
        state = self.store.offer(entry)
        metrics.offered += 1
        if state == "ready":
            pass
        elif state == "duplicate":
            metrics.duplicates += 1
        elif state == "waiting":
            metrics.early += 1
        elif state == "parked":
            metrics.parked += 1
        return state

    def _check_room(self, entry: Entry, most: int) -> None:
        if not self.store.would_wait(entry):
            return
        held = self.store.report().waiting
        if held >= most:
            msg = f"{held:,} messages wait, of at most {most:,}; offer it again later"
            raise HoldFullError(msg, held=held, held_max=most)

    def keep_up(self, now: float, *, has_fetch: bool) -> list[str]:
        """Do what is due, if enough time has passed; return the causes to fetch."""
        policy = self.policy
        is_back = now < self._last_time
        self._last_time = now
        if policy.period is not None and (now >= self._next_upkeep or is_back):
            self._next_upkeep = now + policy.period
            kept = self.store.keep_up(policy.upkeep(now))
            self.metrics.released += len(kept.released)
            self.metrics.parked += len(kept.parked)
            self.metrics.forgotten += kept.forgotten
        if not has_fetch or (now < self._next_fetch and not is_back):
            return []
        self._next_fetch = now + policy.fetch_after / 4
        missing = self.store.missing(now, policy.fetch_after)
        self.metrics.asked += len(missing)
        return missing

    def take_fetched(self, found: Iterable[Offer] | None) -> None:
        """Keep the messages that ``fetch`` returned."""
        offers = [] if found is None else list(found) if isinstance(found, Iterable) else [found]
        for one in offers:
            if not isinstance(one, Offer):
                raise UsageError(f"fetch returned {shown(one)}; return a list of Offer, or None")
        for one in offers:
            self.take(self.policy.entry(*one))

    def must_leave(self, last: Message | None, name: str = "") -> bool:
        """Return whether the last message taken must be given back before something else is done.

        Inside its handler, that is refused if there is one writer or it is itself named.
        """
        if last is None or last.is_closed or not last.is_of(self):
            return False
        if last.is_entered and (self.store.is_exclusive or name in (last.key, last.id)):
            raise UsageError(inside(last))
        return not last.is_entered

    def leave_last(self, name: str = "") -> None:
        """Give back what this thread took but did not handle."""
        last = self.mine.last
        if last is not None and self.must_leave(last, name):
            last.leave()

    def release(self, name: str) -> None:
        """Release a message without its missing causes."""
        self.store.release(self._key(name), self.policy.clock())
        self.metrics.released += 1

    def park(self, name: str, reason: str) -> None:
        """Keep a message for a person."""
        if not isinstance(reason, str):
            raise UsageError(f"reason is {shown(reason)}; give text")
        self.store.park(self._key(name), kept_text(reason))
        self.metrics.parked += 1

    def retry(self, name: str) -> None:
        """Treat a parked message as if it arrived now."""
        self.store.retry(self._key(name), self.policy.clock())

    def _key(self, name: str) -> str:
        """Return the key of a message that a person named by key, or only by id."""
        check_id(name)
        if "/" in name and topic_of(name) in self.store.topics:
            return name
        found = self.store.keys(name)
        if len(found) > 1:
            raise UsageError(f"{name} is in several topics; say which: {', '.join(found)}")
        if not found:
            raise UsageError(
                f"nothing that waits or is parked is called {name}; `antecede inbox` lists what is"
            )
        return found[0]

    def report(self) -> Report:
        """Return figures on the inbox's messages."""
        report = self.store.report()
        report.mode = self.policy.mode
        return report


class Opened:
    """What both forms of the inbox offer without the store."""

    def __init__(
        self,
        place: Place,
        topics: Iterable[str] | None,
        name: str,
        fetch: Callable[[list[str]], Any] | None,
        options: dict[str, Any],
    ) -> None:
        if fetch is not None:
            check_callable("fetch", fetch)
        self._desk = Desk(place, topics, name, options)
        self._fetch = fetch
        self.metrics = self._desk.metrics

    @property
    def name(self) -> str:
        """The inbox's name in event logs."""
        return self._desk.store.name

    @property
    def topics(self) -> frozenset[str]:
        """The topics that it subscribes to."""
        return self._desk.store.topics


class Inbox(Opened):
    """Hands over each message once, after its declared causes.

    Parameters
    ----------
    place
        A file (SQLite), ``"postgresql://..."`` for several instances, or None: in memory.
    topics
        What this inbox gets. Causes in other topics are not waited for. A place that has been used
        remembers its topics, and may be given other ones.
    name
        The inbox's name in event logs; in PostgreSQL, each name is a separate inbox.
    mode
        ``"shadow"`` hands everything over at once, and counts what would have waited.
    patience, then
        What to do after so many seconds of waiting: ``"wait"`` on, ``"release"`` the message, whose
        missing causes are then ``unmet``, or ``"park"`` it for a person.
    remember
        For how many seconds the id of a message is kept after it is done; None: for ever. After
        that, a duplicate is new. A message sent longer ago does not wait for missing causes.
    fetch, fetch_after
        Called with the missing causes that have been waited for so many seconds, and again each
        time that this time has doubled. It may return messages, as :class:`Offer`.
    causes
        Called with the body of a message offered without causes; returns the causes.
    tries
        After so many failures a message is parked; None: never.
    waiting_max
        No more messages than this may wait; further ones are refused, and may be offered again.
        None: any number.
    causes_max
        A message that names more causes is refused.
    body_bytes_max
        A message with a longer body is refused; 64 MiB by default. In memory, only bytes and text
        have a length.
    clock
        Returns seconds since 1970. Order never depends on it.
    """

    def __init__(
        self,
        place: Place = None,
        *,
        topics: Iterable[str] | None = None,
        name: str = "inbox",
        fetch: Callable[[list[str]], Iterable[Offer] | None] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(place, topics, name, fetch, options)
        self._mine = self._desk.mine

    def offer(
        self,
        id: str,
        body: object = None,
        *,
        causes: Iterable[object] | None = None,
        topic: str | None = None,
        time: float | None = None,
    ) -> Iterator[Message]:
        """Take a message; return an iterator over the messages that are ready now, causes first.

        The message is kept when this returns, whether or not the iterator is used. A later call
        hands over what is not handled. ``time`` is when it was sent.
        """
        desk = self._desk
        entry = desk.policy.entry(id, body, causes, topic, time)
        if (last := self._mine.last) is not None and not last.is_closed:
            self._desk.leave_last()
        desk.take(entry)
        if desk.policy.period is not None or self._fetch is not None:
            self._keep_up(entry.came)
        return self._hand_over()

    def ready(self) -> Iterator[Message]:
        """Return an iterator over the messages that are ready now, causes first.

        Call it after a start, and from time to time if nothing is offered: for messages that
        failed, that other instances gave back, or whose patience is over.
        """
        self._desk.leave_last()
        self._keep_up(self._desk.policy.clock())
        return self._hand_over()

    def _hand_over(self) -> Iterator[Message]:
        desk, mine, begin = self._desk, self._mine, self._desk.store.begin
        left: frozenset[str] = frozenset()
        while (taken := begin(left)) is not None:
            message = mine.last = Message(desk, taken)
            try:
                yield message
            finally:
                if not message.is_closed and not message.is_entered:
                    message.leave()
            if not message.is_done:
                desk.must_leave(message)
                left |= {message.key}

    def _keep_up(self, now: float) -> None:
        missing = self._desk.keep_up(now, has_fetch=self._fetch is not None)
        if missing and self._fetch is not None:
            self._desk.take_fetched(self._fetch(missing))

    def group(self) -> AbstractContextManager[None]:
        """Commit everything that this thread does inside the block at once, at its end (SQLite).

        A failed handler is rolled back alone. Confirm messages to their senders only after the
        block.
        """
        return self._grouped(self._desk.store.group())

    @contextmanager
    def _grouped(self, group: AbstractContextManager[None]) -> Iterator[None]:
        self._desk.leave_last()
        with group:
            try:
                yield
            finally:
                if self._mine.last is not None:
                    self._mine.last.leave()

    def waiting(self, limit: int | None = None) -> list[Waiting]:
        """Return the waiting messages, with what they wait for and since when, oldest first."""
        check_limit(limit)
        return self._desk.store.waiting(self._desk.policy.clock(), limit)

    def parked(self, limit: int | None = None) -> list[Parked]:
        """Return the messages kept for a person, and why."""
        check_limit(limit)
        return self._desk.store.parked(limit)

    def release(self, id: str) -> None:
        """Release a message without its missing causes; ``id`` may be ``topic/id``."""
        self._desk.leave_last(id)
        self._desk.release(id)

    def park(self, id: str, reason: str = "by hand") -> None:
        """Keep a message for a person."""
        self._desk.leave_last(id)
        self._desk.park(id, reason)

    def retry(self, id: str) -> None:
        """Treat a parked message as if it arrived now."""
        self._desk.leave_last(id)
        self._desk.retry(id)

    def report(self) -> Report:
        """Return figures on the inbox's messages and on those that arrived early."""
        return self._desk.report()

    def relay(self, publish: Callable[[Outgoing], object], limit: int | None = None) -> int:
        """Publish what handlers sent, causes first; return how many were published.

        ``publish`` must return only when the message is safe elsewhere. After a crash a message may
        be published again, with the same id. If ``publish`` raises, effects of the message are kept
        too, others are published, and the first error is raised at the end.
        """
        self._desk.leave_last()
        check_callable("publish", publish)
        relay, is_more = Relay(self._desk, limit), True
        with relay.alone() as is_alone:
            while is_more and is_alone:
                try:
                    due = relay.begin()
                    for one in filter(relay.may_go, due):
                        with relay.going(one):
                            publish(one)
                finally:
                    relay.end()
                is_more = bool(due)
        return relay.result()

    def events(self, path: str | os.PathLike[str]) -> int:
        """Write what was handled as an event log for ``antecede audit``; return the event count."""
        return write_events(path, [self._desk.store])

    def close(self) -> None:
        """Close the store; calling again does nothing."""
        self._desk.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def inside(message: Message) -> str:
    """Return the error message for a call that an open handler blocks."""
    return (
        f"{message.key} is being handled, and SQLite has one writer; do this after the with block, "
        "or use transaction.send"
    )


def open_store(
    place: Place, name: str, topics: Iterable[str] | None, *, create: bool = True
) -> Store:
    """Open the store at a place."""
    check_topic(name, "name")
    if isinstance(topics, str | bytes) or not (topics is None or isinstance(topics, Iterable)):
        raise UsageError(f"topics is {shown(topics)}; give a set of names, such as {{'orders'}}")
    chosen = None if topics is None else {check_topic(topic) for topic in topics}
    if place is None:
        if not chosen:
            raise UsageError("say what the inbox subscribes to, such as topics={'orders'}")
        return MemoryStore(name, chosen)
    if not isinstance(place, str | os.PathLike) or not os.fspath(place):
        raise UsageError(f"the place of the inbox is {shown(place)}; give a file, a URL or None")
    from antecede.inbox.stores.sql import SqlStore

    text = os.fspath(place)
    if text == ":memory:" or "\0" in text:
        raise UsageError(f"the place of the inbox is {shown(text)}; give a file, a URL or None")
    if text.startswith(("postgresql://", "postgres://")):
        try:
            from antecede.inbox.stores.postgres import Postgres
        except ImportError as error:
            raise UsageError(
                f"PostgreSQL needs psycopg ({error}); run: pip install 'antecede[postgres]'"
            ) from error
        return SqlStore(Postgres(text, name, create=create), name, chosen)
    if "://" in text:
        raise UsageError(
            f"the place of the inbox is {shown(text)}; give a file or postgresql://..."
        )
    from antecede.inbox.stores.sqlite import Sqlite

    return SqlStore(Sqlite(place, create=create), name, chosen)
