"""The state machine of one bucket of destinations: what is held, and what is delivered when.

It does not depend on Spark, a clock or strings. A message is a key (64 bits that stand for its
destination and id), a channel (the same for destination and source) with a sequence number, and the
keys of its causes at the same destination. A row is identified by its chunk and its index there,
where its columns are stored. Times are in microseconds.

The rows of a batch must be offered in an order that depends on their contents alone, so that a
repeated batch gives the same positions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import numpy as np

from antecede.arrays import Flags, Ints
from antecede.reorder.compiled_rows import Rows, by_channel, count_on, find, pairs, ready, stretches
from antecede.reorder.delivered_keys import Memory

Run = tuple[int, int, int]


class Came(Enum):
    """Whether a number is new, a duplicate, or too old to tell."""

    NEW = "new"
    SEEN = "seen"
    FORGOTTEN = "forgotten"


class Runs:
    """The numbers received on one channel, as runs; ``dest`` is the channel's destination."""

    __slots__ = ("_highs", "_lows", "_times", "dest", "floor")

    def __init__(self, dest: int = 0) -> None:
        self.dest = dest
        self.floor: int | None = None
        self._lows: list[int] = []
        self._highs: list[int] = []
        self._times: list[int] = []

    def add(self, number: int, now: int) -> Came:
        """Record a number; return whether it is new."""
        highs = self._highs
        if highs and number == highs[-1] + 1:
            highs[-1], self._times[-1] = number, now
            return Came.NEW
        at = bisect_right(self._lows, number)
        if at and number <= highs[at - 1]:
            return Came.SEEN
        if self.floor is not None and number <= self.floor:
            return Came.FORGOTTEN
        self._insert(at, number, number, now)
        return Came.NEW

    def is_new(self, low: int, high: int) -> bool:
        """Return whether none of the numbers from ``low`` to ``high`` has been received."""
        at = bisect_right(self._lows, high)
        if at and self._highs[at - 1] >= low:
            return False
        return self.floor is None or low > self.floor

    def add_run(self, low: int, high: int, now: int) -> None:
        """Record all numbers from ``low`` to ``high``, none of which has been received before."""
        self._insert(bisect_right(self._lows, low), low, high, now)

    def _insert(self, at: int, low: int, high: int, now: int) -> None:
        lows, highs, times = self._lows, self._highs, self._times
        joins_before = at > 0 and highs[at - 1] == low - 1
        joins_after = at < len(lows) and lows[at] == high + 1
        if joins_before and joins_after:
            highs[at - 1], times[at - 1] = highs[at], max(now, times[at])
            del lows[at], highs[at], times[at]
        elif joins_before:
            highs[at - 1], times[at - 1] = high, now
        elif joins_after:
            lows[at], times[at] = low, max(now, times[at])
        else:
            lows.insert(at, low)
            highs.insert(at, high)
            times.insert(at, now)

    def forget(self, before: int) -> None:
        """Replace the runs that last grew before this time, except the newest run, by a floor."""
        old = [at for at, time in enumerate(self._times[:-1]) if time < before]
        if not old:
            return
        last = old[-1]
        self.floor = self._highs[last]
        del self._lows[: last + 1], self._highs[: last + 1], self._times[: last + 1]

    def __iter__(self) -> Iterator[Run]:
        return iter(zip(self._lows, self._highs, self._times, strict=True))

    def __len__(self) -> int:
        return len(self._lows)


TOO_LATE = "came later than the horizon and may be a duplicate; to take such rows, raise horizon"
DROPPED = "dropped by hand"


@dataclass(slots=True)
class Message:
    """A message that is held or about to leave; ``lacking`` are its missing causes."""

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

    @classmethod
    def refused(cls, chunk: int, row: int, reason: str | None, held: int = 0) -> Out:
        """Return a row that leaves without a position, for a reason."""
        return cls(chunk, row, 0, held, released=False, late=False, rejected=reason)


@dataclass(slots=True)
class Changes:
    """What a batch changed, for the state's journal."""

    runs: list[tuple[int, int, int, int]] = field(default_factory=list)
    dests: set[int] = field(default_factory=set)
    keys: list[int] = field(default_factory=list)
    held: list[Message] = field(default_factory=list)
    left: list[tuple[int, int]] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    overdue: list[int] = field(default_factory=list)
    settled: list[int] = field(default_factory=list)
    fresh: Ints = field(default_factory=lambda: np.empty(0, np.int64))


class Ready(NamedTuple):
    """Rows delivered together, in order: where they are, their positions and waiting times."""

    chunk: Ints
    row: Ints
    position: Ints
    held: Ints


class RowMachine:
    """Holds messages until their causes are delivered, or until ``timeout`` has passed.

    Its behaviour depends only on the state that is saved. So ``held`` is ordered by arrival and
    key, also after loading. Without ``numbered``, channels and sequence numbers mean nothing.
    """

    def __init__(self, *, timeout: int | None = None, numbered: bool = True) -> None:
        self.timeout = timeout
        self.numbered = numbered
        self.positions: dict[int, int] = {}
        #: When each destination got its first and its last row.
        self.since: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.seen: dict[int, Runs] = {}
        self.memory = Memory()
        self.held: dict[int, Message] = {}
        self.waiting: dict[int, dict[int, Message]] = {}
        #: Causes without which an effect was released, and when.
        self.overdue: dict[int, int] = {}
        #: Messages that a person dropped, and when.
        self.dropped: dict[int, int] = {}
        self.changes = Changes()
        self.duplicates = 0
        self._queue: deque[Message] = deque()

    def offer(self, rows: Rows, chunk: int, now: int) -> tuple[Ready, list[Out]]:
        """Take the rows of a batch; return those that leave, in the order of delivery."""
        found, rest = self._take_plain(rows, chunk, now)
        return found, self._take_each(rows.part(rest), chunk, now)

    def _take_plain(self, rows: Rows, chunk: int, now: int) -> tuple[Ready, Ints]:
        """Deliver new rows whose causes are delivered or in this batch, and hold other new rows.

        Return also the rows that need a closer look: duplicates, late causes, and effects of
        dropped messages.
        """
        messages = self._woken(rows.key)
        first = len(messages)
        whole = _with_held(messages, rows)
        is_known = np.zeros(whole.row.size, np.bool_)
        is_known[first:] = self.memory.has(rows.key)
        good = ~is_known
        good[first:] &= self._new_rows(rows)
        if self.overdue:
            good &= find(np.fromiter(self.overdue, np.int64), whole.key) < 0
        if self.dropped:
            good &= self._keeps_all_causes(messages, whole)
        done, missing = ready(whole, good, is_known, self.memory.has)
        positions = self._place(whole.dest[done], now)
        self.changes.fresh = whole.key[done]
        chunks, held = np.full(whole.row.size, chunk), np.zeros(whole.row.size, np.int64)
        chunks[:first] = [message.chunk for message in messages]
        held[:first] = [now - message.arrived for message in messages]
        for at in done[done < first].tolist():
            self._let_go(messages[at])
        new = good[first:]
        if self.numbered:
            self._note_runs(rows.dest[new], rows.channel[new], rows.seq[new], now)
        is_done = np.zeros(good.size, np.bool_)
        is_done[done] = True
        lacked, held_back = set(missing.tolist()), np.flatnonzero(new & ~is_done[first:])
        for row, dest, key, _, _, causes in rows.part(held_back).arrivals():
            self._hold(Message(chunk, row, dest, key, causes, now, lacked.intersection(causes)))
        return Ready(chunks[done], whole.row[done], positions, held[done]), np.flatnonzero(~new)

    def _woken(self, keys: Ints) -> list[Message]:
        """Return the held messages that lack nothing but these keys and each other, in order.

        This spares the others from being examined in every batch. If no more messages are held than
        have arrived, examining all of them is quicker than choosing.
        """
        if len(self.held) <= keys.size:
            return list(self.held.values())
        waiting, lacking, found = self.waiting, dict[int, int](), list[Message]()
        queue = list(waiting.keys() & keys.tolist())
        while queue:
            for waiter in waiting.get(queue.pop(), {}).values():
                left = lacking.get(waiter.key, len(waiter.lacking)) - 1
                lacking[waiter.key] = left
                if not left:
                    found.append(waiter)
                    queue.append(waiter.key)
        return _ordered(found)

    def _keeps_all_causes(self, messages: list[Message], whole: Rows) -> Flags:
        """Return, for held messages and then ``whole`` rows, whether no cause was dropped."""
        keeps = np.ones(whole.row.size, np.bool_)
        lost = find(np.fromiter(self.dropped, np.int64), whole.causes) >= 0
        keeps[np.repeat(np.arange(whole.row.size), np.diff(whole.offsets))[lost]] = False
        for at, message in enumerate(messages):
            keeps[at] &= self.dropped.keys().isdisjoint(message.causes)
        return keeps

    def _place(self, dests: Ints, now: int) -> Ints:
        """Return the next position at each of these destinations."""
        found, last = count_on(dests, lambda dest: self.positions.get(dest, 0))
        self.positions.update(last)
        self.changes.dests.update(last)
        self.since.update(dict.fromkeys(last.keys() - self.since.keys(), now))
        self.last.update(dict.fromkeys(last, now))
        return found

    def _let_go(self, message: Message) -> None:
        """Remove a message from those that are held."""
        self.changes.left.append((message.chunk, message.row))
        self._forget_held(message)

    def _forget_held(self, message: Message) -> None:
        del self.held[message.key]
        waiting, key = self.waiting, message.key
        for cause in message.lacking:
            waiters = waiting[cause]
            if len(waiters) > 1:
                del waiters[key]
            else:
                del waiting[cause]

    def _new_rows(self, rows: Rows) -> Flags:
        """Return which rows, of those not remembered, are new by id and by sequence number."""
        good = np.ones(rows.row.size, np.bool_)
        if again := _named(self.held, rows.key):
            good &= find(np.array(again), rows.key) < 0
        columns = [rows.key]
        if self.numbered:
            columns.append(pairs(rows.channel, rows.seq))
        for column in columns:
            ordered = np.sort(column)
            if (ordered[1:] == ordered[:-1]).any():
                _, first, counts = np.unique(column, return_index=True, return_counts=True)
                once = np.zeros(column.size, np.bool_)
                once[first[counts == 1]] = True
                good &= once
        if not self.numbered:
            return good
        order = by_channel(rows.channel, rows.seq)
        for at, stop, channel, low, high in stretches(rows.channel[order], rows.seq[order]):
            runs = self.seen.get(channel)
            if runs is not None and not runs.is_new(low, high):
                good[order[at:stop]] = False
        return good

    def _note_runs(self, dests: Ints, channels: Ints, seqs: Ints, now: int) -> None:
        order = by_channel(channels, seqs)
        seen, noted = self.seen, self.changes.runs
        for at, _, channel, low, high in stretches(channels[order], seqs[order]):
            runs = seen.get(channel)
            if runs is None:
                runs = seen[channel] = Runs(int(dests[order[at]]))
            runs.add_run(low, high, now)
            noted.append((channel, low, high, runs.dest))

    def _take_each(self, rows: Rows, chunk: int, now: int) -> list[Out]:
        """Take rows one by one, after waking what waited for the rows delivered together."""
        fresh, out = self.changes.fresh, list[Out]()
        keys = np.concatenate((rows.key, rows.causes))
        known = self.memory.known(keys)
        known.update(keys[find(fresh, keys) >= 0].tolist())
        for key in _named(self.waiting, fresh):
            self._wake(key)
            self._drain(out, known, now)
        for row, dest, key, channel, seq, causes in rows.arrivals():
            if key in known or key in self.held:
                self.duplicates += 1
                continue
            came = self._note(dest, channel, seq, now) if self.numbered else Came.NEW
            if came is not Came.NEW and not self._is_wanted(key):
                if came is Came.FORGOTTEN:
                    out.append(Out.refused(chunk, row, TOO_LATE))
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
        self._order_held()
        return out

    def _order_held(self) -> None:
        """Sort the messages that this batch held as they would be after loading."""
        held, new = self.held, self.changes.held
        self.changes.held = new = _ordered(m for m in new if held.get(m.key) is m)
        for message in new:
            del held[message.key]
        held.update((message.key, message) for message in new)

    def release(self, key: int, now: int) -> list[Out]:
        """Deliver a held message without its missing causes; do nothing if it is not held."""
        out: list[Out] = []
        if key in self.held:
            self._force(self.held[key], out, now)
        return out

    def drop(self, key: int, now: int) -> list[Out]:
        """Drop a message that is held or waited for, so that nothing waits for it any more."""
        out: list[Out] = []
        message = self.held.get(key)
        if message is not None:
            self._let_go(message)
            held = now - message.arrived
            out.append(Out.refused(message.chunk, message.row, DROPPED, held))
        elif key not in self.waiting:
            return out
        self.dropped[key] = now
        self.changes.dropped.append(key)
        self._settle(key, None)
        self._drain(out, None, now)
        return out

    def expire(self, now: int) -> list[Out]:
        """Release what was held for the timeout, after those of its causes that have arrived."""
        out: list[Out] = []
        if self.timeout is not None:
            for message in _ordered(self._overdue(now - self.timeout)):
                self._force(message, out, now)
        return out

    def flush(self, now: int) -> list[Out]:
        """Release everything that is held: no more rows will arrive."""
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

    def forget(self, now: int, horizon: int) -> list[int]:
        """Forget what is older than the horizon; return the numbers of the dropped generations."""
        before = now - horizon
        idle = self._idle(before, horizon)
        for dest in idle:
            del self.positions[dest], self.since[dest], self.last[dest]
        if idle:
            self.seen = {c: runs for c, runs in self.seen.items() if runs.dest not in idle}
        for runs in self.seen.values():
            runs.forget(before)
        for times in (self.overdue, self.dropped):
            for key in [key for key, time in times.items() if time < before]:
                del times[key]
        named = {cause for message in self.held.values() for cause in message.causes}
        self.memory.pinned &= named
        return self.memory.forget(before, named)

    def _idle(self, before: int, horizon: int) -> set[int]:
        """Return destinations in use no longer than the horizon, and idle for at least as long."""
        since = self.since
        found = {d for d, at in self.last.items() if at < before and at - since[d] <= horizon}
        return found - {message.dest for message in self.held.values()} if found else found

    def restore(self, messages: Iterable[Message]) -> None:
        """Hold these messages, oldest first, as when the state was saved."""
        self.held.clear()
        self.waiting.clear()
        self._hold_loaded(_ordered(messages))

    def follow(
        self, keys: list[int], messages: Iterable[Message], left: Iterable[tuple[int, int, int]]
    ) -> None:
        """Repeat what another copy did: ``keys`` were delivered, and ``messages`` held since.

        A message that is held already has moved to a new place. ``left`` are chunk, row and key of
        rows that are no longer there.
        """
        new = []
        for message in messages:
            found = self.held.get(message.key)
            if found is None:
                new.append(message)
            else:
                found.chunk, found.row = message.chunk, message.row
        for cause in self.waiting.keys() & keys:
            for waiter in self.waiting.pop(cause).values():
                waiter.lacking.discard(cause)
        for chunk, row, key in left:
            found = self.held.get(key)
            if found is not None and (found.chunk, found.row) == (chunk, row):
                self._forget_held(found)
        self._hold_loaded(_ordered(new))

    def _hold_loaded(self, messages: list[Message]) -> None:
        asked = {cause for message in messages for cause in message.causes}
        known = self.memory.known(np.fromiter(asked, np.int64, len(asked)))
        for message in messages:
            message.lacking = {cause for cause in message.causes if cause not in known}
            self._hold(message)
        self.changes.held.clear()

    def _note(self, dest: int, channel: int, seq: int, now: int) -> Came:
        runs = self.seen.get(channel)
        if runs is None:
            runs = self.seen[channel] = Runs(dest)
        came = runs.add(seq, now)
        if came is Came.NEW:
            noted = self.changes.runs
            if noted and noted[-1][0] == channel and noted[-1][2] == seq - 1:
                noted[-1] = (channel, noted[-1][1], seq, dest)
            else:
                noted.append((channel, seq, seq, dest))
        return came

    def _is_wanted(self, key: int) -> bool:
        return key in self.waiting or key in self.overdue

    def _hold(self, message: Message) -> None:
        self.held[message.key] = message
        self.changes.held.append(message)
        for cause in message.lacking:
            self.waiting.setdefault(cause, {})[message.key] = message

    def _drain(self, out: list[Out], known: set[int] | None, now: int) -> None:
        """Deliver what is ready, and what becomes ready by that."""
        queue = self._queue
        while queue:
            message = queue.popleft()
            out.append(self._delivered(message, now, released=False))
            self._settle(message.key, known)

    def _delivered(self, message: Message, now: int, *, released: bool) -> Out:
        dest = message.dest
        if self.held.pop(message.key, None) is not None:
            self.changes.left.append((message.chunk, message.row))
        late = self.overdue.pop(message.key, None) is not None
        if late:
            self.changes.settled.append(message.key)
        if self.dropped and not self.dropped.keys().isdisjoint(message.causes):
            released = True
        position = self.positions[dest] = self.positions.get(dest, 0) + 1
        self.since.setdefault(dest, now)
        self.last[dest] = now
        self.changes.dests.add(dest)
        held = now - message.arrived
        return Out(message.chunk, message.row, position, held, released=released, late=late)

    def _settle(self, key: int, known: set[int] | None) -> None:
        """Remember a delivered key, and queue the messages that waited for nothing else."""
        self.changes.keys.append(key)
        if known is not None:
            known.add(key)
        self._wake(key)

    def _wake(self, key: int) -> None:
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
        """Deliver a message now, after those of its causes that have arrived, in causal order."""
        for each in self._ancestry(message):
            if self.held.get(each.key) is not each:
                continue
            missing = sorted(each.lacking)
            self._let_go(each)
            self.overdue.update(dict.fromkeys(missing, now))
            self.changes.overdue += missing
            out.append(self._delivered(each, now, released=bool(missing)))
            self._settle(each.key, None)
            self._drain(out, None, now)

    def _ancestry(self, message: Message) -> list[Message]:
        """Return this message after the held messages that it waits for, causes first."""
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


def _named(known: Mapping[int, object], keys: Ints) -> list[int]:
    """Return the keys that are known, in order; compiled, unless very many are known."""
    if len(known) > keys.size:
        return sorted(known.keys() & keys.tolist())
    own = np.fromiter(known, np.int64, len(known))
    return np.sort(own[find(keys, own) >= 0]).tolist() if own.size else []


def _with_held(messages: list[Message], rows: Rows) -> Rows:
    """Return a batch's rows preceded by held messages, whose causes are the missing ones."""
    if not messages:
        return rows
    lists = [sorted(message.lacking) for message in messages]
    ends = np.cumsum([len(causes) for causes in lists])
    causes = np.array([cause for causes in lists for cause in causes], np.int64)
    nothing = np.zeros(len(messages), np.int64)
    return Rows(
        np.concatenate((np.array([m.row for m in messages], np.int64), rows.row)),
        np.concatenate((np.array([m.dest for m in messages], np.int64), rows.dest)),
        np.concatenate((np.array([m.key for m in messages], np.int64), rows.key)),
        np.concatenate((nothing, rows.channel)),
        np.concatenate((nothing, rows.seq)),
        np.concatenate(([0], ends, ends[-1] + rows.offsets[1:])).astype(np.int64),
        np.concatenate((causes, rows.causes)),
    )
