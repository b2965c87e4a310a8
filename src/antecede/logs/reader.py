"""What the adapters of ordered logs share: records, their queues, and which to hand out next.

A reader has a queue for each log of this instance. It hands out at most one record of a log at a
time, each after its causes, and the next once that is finished. It does no I/O: an adapter puts in
what its client fetched, and does what the reader requests: commit, pause, look up.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Self, TypeVar, get_args

from antecede.errors import CauseMissingError, HeaderError, UsageError
from antecede.logs.events import Events
from antecede.logs.gate import Gate, Metrics
from antecede.logs.positions import SCOPE, Context, Log, Positions, Scope

if TYPE_CHECKING:
    from contextvars import Token

Order = Literal["enforce", "shadow", "off"]
OnLimit = Literal["mark", "raise"]
Place = tuple[str, int]

#: The metadata of an instance's commits, by which others recognise foreign commits.
MARK: Final = "antecede"
#: Fetching a log pauses when this many of its records are queued, and resumes at a quarter of that.
QUEUE_MAX: Final = 500
_NO_NEEDS: Final = Positions()

log = logging.getLogger("antecede.logs")


class Record:
    """A record that its group may process now: ``with record:`` handles it.

    Inside, producers stamp what they write as caused by it. At the end the record is completed, and
    its offset will be committed; if the handler fails, the record is handed out again.
    """

    __slots__ = (
        "_context",
        "_finish",
        "_needs",
        "_token",
        "attempts",
        "early",
        "fault",
        "header",
        "log",
        "offset",
        "raw",
        "time",
        "unmet",
    )

    def __init__(
        self,
        place: Log,
        offset: int,
        raw: Any,
        header: bytes | None,
        time: float | None,
        finish: Callable[[Any, bool], None],
    ) -> None:
        self.log, self.offset, self.header = place, offset, header
        #: The record in the client's form.
        self.raw = raw
        #: When it was written, by the broker's or the producer's clock; None if unknown.
        self.time = time
        #: Why its header cannot be read, or empty. Such a record waits for nothing.
        self.fault = ""
        #: The positions that it did not wait for: the limit had passed, or their log was truncated.
        self.unmet: dict[Log, int] = {}
        #: Whether this instance knew of a missing cause when it arrived; a shadow looks up later.
        self.early = False
        #: How often its handler has failed.
        self.attempts = 0
        self._needs: Positions | None = None
        self._context: Context | None = None
        self._token: Token[Scope | None] | None = None
        self._finish = finish

    @property
    def topic(self) -> str:
        """The topic, or the stream."""
        return self.log.topic

    @property
    def partition(self) -> int:
        """The partition; 0 in a stream."""
        return self.log.partition

    @property
    def needs(self) -> Positions:
        """The positions that it waits for, from its header; none without a header."""
        if self._needs is None:
            try:
                self._needs = _NO_NEEDS if self.header is None else Positions.decode(self.header)
            except HeaderError as error:
                self.fault, self._needs = str(error), _NO_NEEDS
        return self._needs

    @property
    def context(self) -> Context:
        """What its handler has seen and written so far."""
        if self._context is None:
            self._context = Context()
            self._context.read(self.log, self.offset, self.needs, self.time)
        return self._context

    def __enter__(self) -> Self:
        if self._token is not None:
            raise UsageError(f"record {self} is being handled already; handle each record once")
        self._token = SCOPE.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        token, self._token = self._token, None
        if token is not None:
            SCOPE.reset(token)
        is_done = False
        try:
            if kind is None:
                if self._context is not None:
                    self._context.settle()
                is_done = True
        finally:
            self._context = None
            self._finish(self, is_done)

    def complete(self) -> None:
        """Count the record as processed without handling it, for instance as a dead letter.

        What was written in its context is acknowledged before.
        """
        if self._context is not None:
            self._context.settle()
        self._finish(self, True)

    def __str__(self) -> str:
        return f"{self.log}@{self.offset}"


class Remarks:
    """Logs each warning once."""

    def __init__(self) -> None:
        self._made: set[str] = set()

    def __call__(self, text: str) -> None:
        """Log a warning, unless it was logged before."""
        if text not in self._made and len(self._made) < 1000:
            self._made.add(text)
            log.warning("%s", text)


def foreign(place: Log) -> str:
    """Return the warning about a foreign commit."""
    return (
        f"the commit of {place} was not made by antecede; an instance that commits what it has "
        "only fetched lets effects start early: stop old instances of this group"
    )


def refuse(record: Record, metrics: Metrics) -> None:
    """Count a record whose header cannot be read; log the first."""
    metrics.refused += 1
    if metrics.refused == 1:
        log.warning("%s is handed out without waiting: %s", record, record.fault)


def start_without(
    record: Record, unmet: dict[Log, int], gate: Gate, on_limit: OnLimit, *, gave_up: bool
) -> CauseMissingError | None:
    """Mark a record that no longer waits; return the error to raise for it, if any."""
    record.unmet = unmet
    if not unmet:
        return None
    shown = ", ".join(f"{k} {n}" for k, n in sorted(unmet.items())[:10])
    if len(unmet) > 10:
        shown += f" and {len(unmet) - 10} more"
    why = "the limit is over" if gave_up else "their log does not reach them"
    log.warning("%s starts without positions %s: %s", record, shown, why)
    if not gave_up or on_limit == "mark":
        return None
    return CauseMissingError(
        f"record {record} has waited for {gate.limit:g} s for {shown}; look at the "
        "instances that read these logs, or skip it with on_limit='mark'"
    )


R = TypeVar("R", bound=Record)


def is_time(value: object) -> bool:
    """Return whether an option is a number of seconds greater than 0."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9


def checked_config(config: object) -> dict[str, Any]:
    """Return a client's configuration; refuse what is none."""
    if not isinstance(config, Mapping) or not all(isinstance(name, str) for name in config):
        raise UsageError(f"config is {config!r}; give the client's options by name")
    return dict(config)


def checked(order: str, limit: float | None, on_limit: str, topics: object) -> list[str]:
    """Return the topics; refuse invalid options."""
    if order not in get_args(Order):
        raise UsageError(f"order is {order!r}; expected one of {', '.join(get_args(Order))}")
    if on_limit not in get_args(OnLimit):
        raise UsageError(
            f"on_limit is {on_limit!r}; expected one of {', '.join(get_args(OnLimit))}"
        )
    if limit is not None and not is_time(limit):
        raise UsageError(
            f"limit is {limit!r}; expected seconds greater than 0, or None to wait for ever"
        )
    if isinstance(topics, str) or not hasattr(topics, "__iter__"):
        raise UsageError(
            f"topics is {topics!r}; give a list of names, as in ['orders', 'payments']"
        )
    names = list(dict.fromkeys(topics))
    if not names or not all(isinstance(name, str) and name for name in names):
        raise UsageError(f"topics is {names!r}; give the names of one topic or more")
    patterns = [name for name in names if name.startswith("^")]
    if patterns:
        raise UsageError(
            f"topic {patterns[0]!r} is a pattern; name the topics, because every instance of a "
            "group must know them all"
        )
    return names


class Instance:
    """What instances with any client share: checked options, gate and figures."""

    def __init__(
        self,
        group: str,
        topics: Sequence[str],
        *,
        order: Order,
        limit: float | None,
        on_limit: OnLimit,
        events: str | os.PathLike[str] | None,
        ordered: bool = True,
    ) -> None:
        self.group = group
        self._topics = checked(order, limit, on_limit, topics)
        self._order, self._on_limit = order, on_limit
        self._gate = Gate(self._topics, ordered=ordered, shadow=order != "enforce", limit=limit)
        self._events = None if events is None else Events(events, group, self._topics)
        self._remark = Remarks()

    @property
    def metrics(self) -> Metrics:
        """What this instance has counted: ``early``, ``waited``, ``gave_up``, ``lost`` ..."""
        return self._gate.metrics

    def waiting(self) -> dict[str, tuple[float, dict[Log, int]]]:
        """Return, for each waiting record, for how many seconds and which positions it waits."""
        return self._gate.waiting(time.monotonic())


class Reader(Generic[R]):
    """The queues of one instance, behind its gate."""

    def __init__(
        self, gate: Gate, order: Order = "enforce", on_limit: OnLimit = "mark",
        events: Events | None = None,
    ) -> None:  # fmt: skip
        self.gate, self.order, self.on_limit, self.events = gate, order, on_limit, events
        self._queues: dict[Place, deque[R | tuple[Log, int]]] = {}
        self._epochs: dict[Place, int] = {}
        self._next: dict[Place, int] = {}
        self._busy: dict[Place, R] = {}
        self._held: dict[Place, R] = {}
        self._open: dict[Place, None] = {}
        self._ready: deque[R] = deque()
        self._full: set[Place] = set()
        # Handlers may end in any thread; the consumer's own thread processes their results.
        self._finished: deque[tuple[R, bool]] = deque()

    @property
    def assigned(self) -> list[Log]:
        """The logs assigned to this instance."""
        return [self.gate.log(*place) for place in list(self._queues)]

    @property
    def holds(self) -> bool:
        """Whether a record waits for a cause, or a shadow needs a look-up to count a record."""
        return bool(self._held) or self.gate.has_uncounted

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to hand out, now or when handlers end."""
        return not (self._ready or self._open or self._finished)

    def assign(self, topic: str, partition: int, committed: int | None) -> None:
        """Take over a log."""
        place = (topic, partition)
        self._queues[place] = deque()
        self._epochs[place] = self._epochs.get(place, 0) + 1
        self._next[place] = committed or 0
        self.gate.assign(self.gate.log(topic, partition), committed)

    def revoke(self, topic: str, partition: int) -> None:
        """Give up a log, with all of its records that are queued, waiting or being handled."""
        place = (topic, partition)
        self._queues.pop(place, None)
        self._busy.pop(place, None)
        self._held.pop(place, None)
        self._open.pop(place, None)
        self._full.discard(place)
        self._ready = deque(r for r in self._ready if (r.log.topic, r.log.partition) != place)
        self.gate.drop(place)
        self.gate.revoke(self.gate.log(topic, partition))

    def goes_back(self, place: Place, offset: int) -> bool:
        """Return whether a log continues below its last offset: it was truncated or recreated.

        If so, ask for the ids of topics before putting the record in.
        """
        return offset < self._next.get(place, 0)

    def put(self, place: Place, item: R | int) -> None:
        """Queue a record, or the offset up to which a log was read, such as its end."""
        queue = self._queues.get(place)
        if queue is None:
            return  # fetched before a rebalance: the log's new owner gets it
        found = self.gate.log(*place)
        if isinstance(item, int):
            self._next[place] = item
            queue.append((found, item))
        else:
            self._next[place] = item.offset + 1
            item.log = found
            queue.append(item)
        if place not in self._busy and place not in self._held:
            self._open[place] = None

    def epoch(self, place: Place) -> int:
        """Return how often this instance was assigned a log; 0 if it does not have it."""
        return self._epochs[place] if place in self._queues else 0

    def close(self) -> None:
        """Close the event log."""
        if self.events is not None:
            self.events.close()
            self.events = None

    def pauses(self) -> tuple[list[Place], list[Place]]:
        """Return the logs to stop fetching, and those to resume."""
        full = [p for p, q in self._queues.items() if len(q) > QUEUE_MAX and p not in self._full]
        room = [p for p in self._full if len(self._queues[p]) <= QUEUE_MAX // 4]
        self._full.update(full)
        self._full.difference_update(room)
        return full, room

    def take(self, now: float) -> R | None:
        """Return a record that may start now, or None."""
        self.settle()
        if self._open:
            for place in list(self._open):
                self._look_at(place, now)
        if self._held:
            errors = [
                self._start_held(key, unmet, gave_up=gave_up)  # type: ignore[arg-type] # a place
                for key, unmet, gave_up in self.gate.ready(now)
            ]
            for error in filter(None, errors):  # only now: the others have left the gate too
                raise error
        if not self._ready:
            return None
        self.gate.metrics.records += 1
        return self._ready.popleft()

    def finish(self, record: R, is_done: bool) -> None:
        """Record that a record's handler ended, from any thread."""
        self._finished.append((record, is_done))

    def settle(self) -> None:
        """Process the results of handlers."""
        while self._finished:
            record, is_done = self._finished.popleft()
            place = (record.log.topic, record.log.partition)
            is_ours = self._busy.get(place) is record
            if is_done:
                # Even if another instance has the log now, the record is processed.
                self.gate.done(record.log, record.offset)
                if self.events is not None:
                    self.events.processed(record.log, record.offset, record.needs)
                if is_ours:
                    del self._busy[place]
                    if record.attempts and record in self._ready:
                        self._ready.remove(record)  # it failed, but was completed nevertheless
                    if self._queues[place]:
                        self._open[place] = None
            elif is_ours:
                record.attempts += 1
                if record not in self._ready:  # its handler may be called again and again at once
                    self._ready.append(record)

    def _look_at(self, place: Place, now: float) -> None:
        """Take the next record of a log from its queue."""
        self._open.pop(place, None)
        queue, gate = self._queues[place], self.gate
        while queue:
            item = queue.popleft()
            if isinstance(item, tuple):
                gate.reached(*item)
                continue
            missing, needs = None, item.needs
            if item.fault:
                refuse(item, gate.metrics)
            if self.order != "off":
                missing = gate.offer(item.log, item.offset, needs, now, place)
            item.early = missing is not None
            if missing is not None and not gate.shadow:
                self._held[place] = item
            else:
                self._busy[place] = item
                self._ready.append(item)
            return

    def _start_held(
        self, place: Place, unmet: dict[Log, int], *, gave_up: bool
    ) -> CauseMissingError | None:
        record = self._held.pop(place)
        self._busy[place] = record
        self._ready.append(record)
        return start_without(record, unmet, self.gate, self.on_limit, gave_up=gave_up)
