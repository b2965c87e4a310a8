"""An inbox in memory: the machine of :mod:`antecede.inbox.causes` with bodies and an outbox.

Nothing survives the process. Statements of handlers run on a private SQLite database, so that tests
of handlers need no other store.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from antecede.errors import StoreError
from antecede.inbox.causes import STATES, Causes, Entry, needed
from antecede.inbox.records import Handled, Kept, Outgoing, Parked, Report, Upkeep, Waiting

#: Seconds to wait for another handler's statements.
PATIENCE: Final = 60.0


class MemoryStore:
    """Keeps everything in memory; any number of threads."""

    is_exclusive = False

    def __init__(self, name: str, topics: Iterable[str]) -> None:
        self.name = name
        self.topics = frozenset(topics)
        self._causes = Causes(self.topics)
        self._lock = threading.RLock()
        self._tables: sqlite3.Connection | None = None
        self._user = threading.Lock()
        self._outbox: dict[int, Outgoing] = {}
        self._sent: list[Outgoing] = []
        self._numbers = 0
        self._relay = threading.Lock()

    def offer(self, entry: Entry) -> str:
        with self._lock:
            return STATES[entry.state] if self._causes.add(entry) else "duplicate"

    def would_wait(self, entry: Entry) -> bool:
        with self._lock:
            causes = self._causes
            return not (entry.is_old or causes.is_known(entry.key)) and any(
                cause not in causes.past for cause in needed(entry.causes, self.topics)
            )

    def begin(self, left: Collection[str], only: str | None = None) -> Entry | None:
        """Hand over the message that became ready first."""
        causes = self._causes
        if not causes.ready:
            return None
        with self._lock:
            return causes.take(left) if only is None else causes.take_one(only)

    def execute(self, taken: Entry, statement: str, values: Sequence[Any]) -> Any:
        """Run a statement on the private database; from then on, only one handler may."""
        tables = taken.link
        if tables is None:
            if not self._user.acquire(timeout=PATIENCE):
                raise StoreError(
                    f"another handler has run statements for {PATIENCE:.0f} s; in memory, leave "
                    "its with block before another does"
                )
            if self._tables is None:
                self._tables = sqlite3.connect(
                    ":memory:", isolation_level=None, check_same_thread=False
                )
            tables = taken.link = self._tables
            tables.execute("BEGIN")
        return tables.execute(statement, values)

    def _end(self, taken: Entry, word: str) -> bool:
        """Let the next handler run statements; return whether the transaction was open."""
        tables, taken.link = taken.link, None
        try:
            is_open: bool = tables.in_transaction
            if is_open:
                tables.execute(word)
            return is_open
        finally:
            self._user.release()

    def finish(self, taken: Entry, sends: Sequence[Outgoing], now: float) -> None:
        if taken.link is not None and not self._end(taken, "COMMIT"):
            self.abandon(taken)
            raise StoreError(
                f"the transaction of {taken.key} is not open any more; the handler ended it; "
                "leave COMMIT and ROLLBACK to the inbox"
            )
        with self._lock:
            self._causes.done(taken, now)
            for one in sends:
                self._numbers += 1
                number = self._numbers
                out = Outgoing(one.key, one.causes, one.body, one.time, number)
                self._outbox[number] = out
                self._sent.append(Outgoing(one.key, one.causes, None, one.time, number))

    def abandon(self, taken: Entry) -> None:
        if taken.link is not None:
            self._end(taken, "ROLLBACK")
        with self._lock:
            self._causes.put_back(taken.key)

    def fail(self, taken: Entry, error: str, tries: int | None) -> bool:
        with self._lock:
            self.abandon(taken)
            taken.failures += 1
            if tries is not None and taken.failures >= tries:
                self._causes.park(taken.key, f"failed {taken.failures} times; the last: {error}")
                return True
        return False

    def causes_of(self, taken: Entry, key: str) -> tuple[str, ...]:
        with self._lock:
            past = self._causes.past.get(key)
        if past is not None:
            return past[0]
        return next((out.causes for out in reversed(self._sent) if out.key == key), ())

    @contextlib.contextmanager
    def group(self) -> Iterator[None]:
        """Do nothing: there is nothing to commit."""
        yield

    def keep_up(self, upkeep: Upkeep) -> Kept:
        causes, kept = self._causes, Kept()
        with self._lock:
            causes.clock(upkeep.now)
            if upkeep.overdue is not None:
                found = causes.expire(upkeep.overdue, upkeep.then, upkeep.now)
                (kept.parked if upkeep.then == "park" else kept.released).extend(found)
            if upkeep.forget is not None:
                causes.outdate(upkeep.forget)
                kept.forgotten = causes.forget(upkeep.forget)
                self._sent = [out for out in self._sent if out.time >= upkeep.forget]
        return kept

    def missing(self, now: float, after: float) -> list[str]:
        found: dict[str, None] = {}
        with self._lock:
            for entry in self._causes.waiting.values():
                if now - entry.came >= after * 2**entry.asked:
                    lacks = [c for c in sorted(entry.lacks) if c not in self._causes.entries]
                    entry.asked += bool(lacks)
                    found.update(dict.fromkeys(lacks))
        return list(found)

    def release(self, key: str, now: float) -> None:
        with self._lock:
            self._causes.release(key, now)

    def park(self, key: str, reason: str) -> None:
        with self._lock:
            self._causes.park(key, reason)

    def retry(self, key: str, now: float) -> None:
        with self._lock:
            self._causes.retry(key, now)

    def waiting(self, now: float, limit: int | None) -> list[Waiting]:
        causes = self._causes
        with self._lock:
            return [
                Waiting(
                    entry.key,
                    entry.came,
                    max(0.0, now - entry.came),
                    {cause: causes.state_of(cause) for cause in sorted(entry.lacks)},
                )
                for entry in list(causes.waiting.values())[:limit]
            ]

    def parked(self, limit: int | None) -> list[Parked]:
        with self._lock:
            found = list(self._causes.parked.values())[:limit]
            return [Parked(entry.key, entry.came, entry.reason) for entry in found]

    def keys(self, name: str) -> list[str]:
        with self._lock:
            return [key for key in self._causes.entries if key.partition("/")[2] == name]

    def report(self) -> Report:
        with self._lock:
            causes, waits = self._causes, self._causes.waits
            early = [entry for entry in causes.entries.values() if entry.early and entry.lacks]
            return Report(
                self.name, "", sorted(self.topics),
                waiting=len(causes.waiting), ready=len(causes.entries) - len(causes.waiting)
                - len(causes.parked), parked=len(causes.parked), done=len(causes.past),
                outbox=len(self._outbox),
                released=sum(bool(unmet) for _, _, unmet, _ in causes.past.values()),
                early=sum(early for _, _, _, early in causes.past.values())
                + sum(entry.early for entry in causes.entries.values()),
                early_unresolved=len(causes.early) + len(early),
                early_seconds_mean=sum(waits) / len(waits) if waits else None,
                early_seconds_max=max(waits, default=None),
            )  # fmt: skip

    @contextlib.contextmanager
    def outgoing(self, limit: int) -> Iterator[list[Outgoing]]:
        with self._relay:
            with self._lock:
                found = list(self._outbox.values())[:limit]
            yield found

    def published(self, sent: Sequence[Outgoing], now: float) -> None:
        with self._lock:
            for one in sent:
                self._outbox.pop(one.number, None)

    def handled(self) -> Iterator[Handled]:
        with self._lock:
            found = list(self._causes.past.items())
        for key, (causes, at, unmet, _) in found:
            yield Handled(key, causes, at, unmet)

    def sent(self) -> Iterator[Outgoing]:
        with self._lock:
            found = list(self._sent)
        yield from found

    def close(self) -> None:
        if self._tables is not None:
            self._tables.close()
            self._tables = None
