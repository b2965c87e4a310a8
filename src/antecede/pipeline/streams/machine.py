"""The state machine of one bucket of destinations: what is held, and what is delivered when.

It knows no Spark, no clock and no strings. A message is a key (64 bits that stand for its
destination and id), a channel (the same for destination and source) with a sequence number, and the
keys of its causes at the same destination. A row is told apart by chunk and row, where its columns
lie. Times are in microseconds.

Rows of a batch must be offered in an order that depends on their contents alone: then a batch that
is repeated gives the same positions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from antecede.pipeline.streams.memory import Memory
from antecede.pipeline.streams.runs import Came, Runs

TOO_LATE = "came later than the horizon; it may be a duplicate"


class Arrival(NamedTuple):
    """A row that arrives, as numbers."""

    row: int
    dest: int
    key: int
    channel: int
    seq: int
    causes: list[int]


@dataclass(slots=True)
class Message:
    """A message that is held, or on its way out. ``lacking`` are the causes still to come."""

    chunk: int
    row: int
    dest: int
    key: int
    causes: list[int]
    arrived: int
    lacking: set[int]


class Out(NamedTuple):
    """A row that leaves: delivered at a position, or rejected for a reason."""

    chunk: int
    row: int
    position: int
    held: int
    released: bool
    late: bool
    rejected: str | None = None


@dataclass(slots=True)
class Changes:
    """What a batch changed, for the state's journal."""

    runs: list[tuple[int, int, int]] = field(default_factory=list)
    dests: set[int] = field(default_factory=set)
    keys: list[int] = field(default_factory=list)
    left: list[tuple[int, int]] = field(default_factory=list)
    overdue: list[int] = field(default_factory=list)
    settled: list[int] = field(default_factory=list)


class Machine:
    """Holds messages until their causes are delivered, or until ``timeout`` has passed."""

    def __init__(self, *, timeout: int | None = None) -> None:
        self.timeout = timeout
        self.positions: dict[int, int] = {}
        self.seen: dict[int, Runs] = {}
        self.memory = Memory()
        self.held: dict[int, Message] = {}
        self.waiting: dict[int, dict[int, Message]] = {}
        #: Causes that some effect was released without, and when.
        self.overdue: dict[int, int] = {}
        self.changes = Changes()
        self.duplicates = 0
        self._queue: deque[Message] = deque()

    def offer(self, arrivals: Iterable[Arrival], chunk: int, now: int) -> list[Out]:
        """Take the rows of a batch; return those that leave, in the order of delivery."""
        arrivals = list(arrivals)
        asked = {key for arrival in arrivals for key in arrival.causes}
        asked.update(arrival.key for arrival in arrivals)
        known = self.memory.known(np.fromiter(asked, np.int64, len(asked)))
        out: list[Out] = []
        for arrival in arrivals:
            row, dest, key, channel, seq, causes = arrival
            if key in known or key in self.held:
                self.duplicates += 1
                continue
            came = self._note(channel, seq, now)
            if came is not Came.NEW and not self._is_wanted(key):
                if came is Came.FORGOTTEN:
                    out.append(Out(chunk, row, 0, 0, released=False, late=False, rejected=TOO_LATE))
                else:
                    self.duplicates += 1
                continue
            if came is Came.SEEN:
                # Delivered so long ago that its id is forgotten: its effects need not wait.
                self.duplicates += 1
                self._settle(key, known)
                self._drain(out, known, now)
                continue
            lacking = {cause for cause in causes if cause not in known}
            message = Message(chunk, row, dest, key, causes, now, lacking)
            if lacking:
                self._hold(message)
            else:
                self._queue.append(message)
                self._drain(out, known, now)
        return out

    def expire(self, now: int) -> list[Out]:
        """Release what has been held for the timeout, after those of its causes that are here."""
        out: list[Out] = []
        if self.timeout is not None:
            for message in _ordered(self._overdue(now - self.timeout)):
                self._force(message, out, now)
        return out

    def flush(self, now: int) -> list[Out]:
        """Release everything that is held: no more rows will come."""
        out: list[Out] = []
        for message in _ordered(self.held.values()):
            self._force(message, out, now)
        return out

    def deadline(self) -> int | None:
        """Return when the next held message is to be released, if any."""
        if self.timeout is None or not self.held:
            return None
        return next(iter(self.held.values())).arrived + self.timeout

    def oldest(self) -> int | None:
        """Return when the message that is held longest arrived."""
        return next(iter(self.held.values())).arrived if self.held else None

    def forget(self, before: int) -> list[int]:
        """Forget what is older than the horizon; return the generations that went."""
        for runs in self.seen.values():
            runs.forget(before)
        for key in [key for key, time in self.overdue.items() if time < before]:
            del self.overdue[key]
        named = {cause for message in self.held.values() for cause in message.causes}
        self.memory.pinned &= named
        return self.memory.forget(before, named)

    def restore(self, messages: Iterable[Message]) -> None:
        """Hold again, oldest first, what was held when the state was written."""
        messages = _ordered(messages)
        asked = {cause for message in messages for cause in message.causes}
        known = self.memory.known(np.fromiter(asked, np.int64, len(asked)))
        for message in messages:
            message.lacking = {cause for cause in message.causes if cause not in known}
            self._hold(message)

    def _note(self, channel: int, seq: int, now: int) -> Came:
        runs = self.seen.get(channel)
        if runs is None:
            runs = self.seen[channel] = Runs()
        came = runs.add(seq, now)
        if came is Came.NEW:
            noted = self.changes.runs
            if noted and noted[-1][0] == channel and noted[-1][2] == seq - 1:
                noted[-1] = (channel, noted[-1][1], seq)
            else:
                noted.append((channel, seq, seq))
        return came

    def _is_wanted(self, key: int) -> bool:
        return key in self.waiting or key in self.overdue

    def _hold(self, message: Message) -> None:
        self.held[message.key] = message
        for cause in message.lacking:
            self.waiting.setdefault(cause, {})[message.key] = message

    def _drain(self, out: list[Out], known: set[int] | None, now: int) -> None:
        """Deliver what is ready, and what becomes ready by it."""
        queue, positions, changes = self._queue, self.positions, self.changes
        while queue:
            message = queue.popleft()
            out.append(self._delivered(message, now, released=False))
            changes.dests.add(message.dest)
            positions[message.dest] = out[-1].position
            self._settle(message.key, known)

    def _delivered(self, message: Message, now: int, *, released: bool) -> Out:
        if self.held.pop(message.key, None) is not None:
            self.changes.left.append((message.chunk, message.row))
        late = self.overdue.pop(message.key, None) is not None
        if late:
            self.changes.settled.append(message.key)
        position = self.positions.get(message.dest, 0) + 1
        held = now - message.arrived
        return Out(message.chunk, message.row, position, held, released=released, late=late)

    def _settle(self, key: int, known: set[int] | None) -> None:
        """Remember a delivered key, and queue the messages that waited for nothing else."""
        self.changes.keys.append(key)
        if known is not None:
            known.add(key)
        # By key, because a state that is loaded holds messages in another order.
        for _, waiter in sorted(self.waiting.pop(key, {}).items()):
            waiter.lacking.discard(key)
            if not waiter.lacking:
                self._queue.append(waiter)

    def _overdue(self, before: int) -> Iterator[Message]:
        for message in self.held.values():  # In the order of arrival.
            if message.arrived > before:
                return
            yield message

    def _force(self, message: Message, out: list[Out], now: int) -> None:
        """Deliver a message now; first the causes of it that are here, in causal order."""
        for each in self._ancestry(message):
            if self.held.get(each.key) is not each:
                continue
            missing = sorted(each.lacking)
            for cause in missing:
                waiters = self.waiting[cause]
                del waiters[each.key]
                if not waiters:
                    del self.waiting[cause]
                self.overdue[cause] = now
                self.changes.overdue.append(cause)
            out.append(self._delivered(each, now, released=bool(missing)))
            self.changes.dests.add(each.dest)
            self.positions[each.dest] = out[-1].position
            self._settle(each.key, None)
            self._drain(out, None, now)

    def _ancestry(self, message: Message) -> list[Message]:
        """Return the held messages that this one waits for, causes first, and itself."""
        order: list[Message] = []
        visited = {message.key}
        stack = [(message, iter(sorted(message.lacking)))]
        while stack:
            top, causes = stack[-1]
            for cause in causes:
                found = self.held.get(cause)
                if found is not None and cause not in visited:
                    visited.add(cause)
                    stack.append((found, iter(sorted(found.lacking))))
                    break
            else:
                order.append(top)
                stack.pop()
        return order


def _ordered(messages: Iterable[Message]) -> list[Message]:
    return sorted(messages, key=lambda message: (message.arrived, message.key))
