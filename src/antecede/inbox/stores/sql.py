"""An inbox in a database: the rule of :mod:`antecede.inbox.causes` as statements.

A message is a row for as long as its id is remembered; ``antecede_lacks`` has a row for each cause
that it still waits for, and ``lacking`` counts them. A handler's writes, what it sends and "done"
are one transaction, which begins when the message is taken: a handler that dies leaves no trace.

What differs between databases is in a :class:`Database`: connections, transactions, who may take a
message, and the two steps that every message takes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from antecede.errors import StoreError, UsageError
from antecede.inbox.causes import (
    DONE,
    PARKED,
    READY,
    STATES,
    WAITING,
    Entry,
    cycle_reason,
    joined,
    needed,
    not_held,
)
from antecede.inbox.records import (
    Handled,
    Kept,
    Outgoing,
    Parked,
    Report,
    Upkeep,
    Waiting,
    pack,
    unpack,
)

#: The version of the tables; :meth:`Database.migrate` updates older ones to it.
VERSION: Final = 1
BATCH: Final = 1000
#: The tables of version 1; the parts in braces differ between databases.
TABLES: Final = """
CREATE TABLE {schema}antecede_meta(name TEXT PRIMARY KEY, value TEXT NOT NULL) {end};
CREATE TABLE {schema}antecede_messages(
  n {number}, key TEXT NOT NULL UNIQUE, causes TEXT NOT NULL, state {small} NOT NULL,
  lacking INTEGER NOT NULL, came {real} NOT NULL, sent {real} NOT NULL, form {small} NOT NULL,
  body {blob}, late {small} NOT NULL, early {small} NOT NULL, unmet TEXT NOT NULL DEFAULT '',
  reason TEXT NOT NULL DEFAULT '', failures INTEGER NOT NULL DEFAULT 0,
  asked INTEGER NOT NULL DEFAULT 0, waited {real}, handled {big}, done {real});
CREATE INDEX antecede_ready ON {schema}antecede_messages(failures, n) WHERE state = 1;
CREATE INDEX antecede_waiting ON {schema}antecede_messages(came, n) WHERE state = 0;
CREATE INDEX antecede_parked ON {schema}antecede_messages(n) WHERE state = 2;
CREATE INDEX antecede_handled ON {schema}antecede_messages(handled) WHERE state = 3;
CREATE INDEX antecede_early ON {schema}antecede_messages(n) WHERE early = 1;
CREATE INDEX antecede_unmet ON {schema}antecede_messages(n) WHERE unmet <> '';
CREATE TABLE {schema}antecede_lacks(cause TEXT, n {big}, PRIMARY KEY(cause, n)) {end};
CREATE INDEX antecede_lacks_n ON {schema}antecede_lacks(n);
CREATE TABLE {schema}antecede_missed(key TEXT PRIMARY KEY, at {real} NOT NULL) {end};
CREATE TABLE {schema}antecede_outbox(
  n {sends}, key TEXT NOT NULL UNIQUE, causes TEXT NOT NULL, form {small} NOT NULL,
  body {blob}, made {real} NOT NULL, published {real});
CREATE INDEX antecede_unpublished ON {schema}antecede_outbox(n) WHERE published IS NULL;
"""


class Link(Protocol):
    """A connection to a database, with a transaction open."""

    @property
    def run(self) -> Callable[..., Any]:
        """The function that runs a statement of ours, where ``?`` is a value; it gives a cursor."""

    def execute(self, statement: str, values: Sequence[Any]) -> Any:
        """Run a user's statement, in the database's SQL dialect."""


class Database(Protocol):
    """What differs between databases."""

    is_exclusive: bool

    def writing(self) -> contextlib.AbstractContextManager[Link]:
        """Run the block in one transaction; roll back if it raises."""

    def reading(self) -> contextlib.AbstractContextManager[Link]:
        """Show the block one consistent state of the database."""

    def offer(self, entry: Entry) -> str:
        """Take a message; return its state, or ``"duplicate"``."""

    def take(self, left: Collection[str], only: str | None) -> Entry | None:
        """Open a transaction, and take a ready message in it that no one else has."""

    def done(self, link: Link, taken: Entry, now: float, sends: Sequence[Any]) -> None:
        """Mark a message as done, wake what waited for it, add rows to the outbox, commit."""

    def settle(self, link: Link) -> None:
        """Write what is only in memory, before any other access."""

    def undo(self, link: Link) -> None:
        """Roll back without raising."""

    def lock_rows(self, link: Link, numbers: Iterable[int]) -> None:
        """Lock messages against changes until the transaction ends."""

    def relaying(self) -> contextlib.AbstractContextManager[Link | None]:
        """Lock out other relays inside the block; give None if there is one already."""

    def group(self) -> contextlib.AbstractContextManager[None]:
        """Commit everything that this thread does inside the block at once, at its end."""

    def close(self) -> None:
        """Close all connections."""


SET_META: Final = (
    "INSERT INTO antecede_meta(name, value) VALUES (?, ?) "
    "ON CONFLICT(name) DO UPDATE SET value = excluded.value"
)
COLUMNS: Final = "n, key, causes, form, body, came, sent, unmet, late, failures"


def entry_of(row: Any, link: Link) -> Entry:
    """Return the entry in the COLUMNS of a message; ``link`` has its transaction open."""
    number, key, causes, form, body, came, sent, unmet, late, failures = row
    entry = Entry(key, _split(causes), came, sent, form, body)
    entry.number, entry.link = number, link
    entry.unmet, entry.late, entry.failures = _split(unmet), bool(late), failures
    return entry


class SqlStore:
    """An inbox in a database."""

    def __init__(self, database: Database, name: str, topics: Iterable[str] | None) -> None:
        self._base = database
        self.is_exclusive = database.is_exclusive
        with database.reading() as link:
            known = dict(link.run("SELECT name, value FROM antecede_meta").fetchall())
        self.name = known.get("name", name)
        self.topics = frozenset(known.get("topics", "").split("\n")) - {""}
        wanted = self.topics if topics is None else frozenset(topics)
        if not wanted:
            raise UsageError(
                "this inbox is new; say what it subscribes to, such as topics={'orders'}"
            )
        if wanted != self.topics or "name" not in known:
            self._resubscribe(name, wanted)
            self.name = name

    def _resubscribe(self, name: str, topics: frozenset[str]) -> None:
        """Subscribe to other topics: every message here waits for what it needs from now on."""
        with self._base.writing() as link:
            for key, value in (("name", name), ("topics", "\n".join(sorted(topics)))):
                link.run(SET_META, (key, value))
            old, self.topics = self.topics, topics
            held = link.run(
                "SELECT n, key, causes, unmet FROM antecede_messages WHERE state <> 3"
            ).fetchall()
            self._base.lock_rows(link, [row[0] for row in held])
            for number, _, causes, unmet in held if old else ():
                self._need_again(link, number, _split(causes), _split(unmet))
            for _, key, _, _ in held if old else ():
                park_cycle(link, key)

    def _need_again(
        self, link: Link, number: int, causes: tuple[str, ...], unmet: tuple[str, ...]
    ) -> None:
        needs = [cause for cause in needed(causes, self.topics) if cause not in unmet]
        states = _states(link, needs)
        lacks = [cause for cause in needs if states.get(cause) != DONE]
        link.run("DELETE FROM antecede_lacks WHERE n = ?", (number,))
        for cause in lacks:
            link.run("INSERT INTO antecede_lacks(cause, n) VALUES (?, ?)", (cause, number))
        link.run(
            "UPDATE antecede_messages SET lacking = ?, state = CASE WHEN state = 2 THEN 2 "
            "WHEN ? > 0 AND early = 0 THEN 0 ELSE 1 END WHERE n = ? AND state <> 3",
            (len(lacks), len(lacks), number),
        )

    # Steps of every message.

    def offer(self, entry: Entry) -> str:
        entry.needs = needed(entry.causes, self.topics)
        return self._base.offer(entry)

    def would_wait(self, entry: Entry) -> bool:
        needs = needed(entry.causes, self.topics)
        if not needs:
            return False
        with self._base.reading() as link:
            states = _states(link, [entry.key, *needs])
        missing = DONE if entry.is_old else WAITING
        return entry.key not in states and any(states.get(c, missing) != DONE for c in needs)

    def begin(self, left: Collection[str], only: str | None = None) -> Entry | None:
        return self._base.take(left, only)

    def execute(self, taken: Entry, statement: str, values: Sequence[Any]) -> Any:
        return taken.link.execute(statement, values)

    def finish(self, taken: Entry, sends: Sequence[Outgoing], now: float) -> None:
        rows = [(one.key, "\n".join(one.causes), *pack(one.body), one.time) for one in sends]
        self._base.done(taken.link, taken, now, rows)

    def abandon(self, taken: Entry) -> None:
        self._base.undo(taken.link)

    def fail(self, taken: Entry, error: str, tries: int | None) -> bool:
        self._base.undo(taken.link)
        count = taken.failures + 1
        is_last = tries is not None and count >= tries
        with contextlib.suppress(StoreError), self._base.writing() as link:
            # Nothing changes if someone else has it by now, or has done it.
            link.run(
                "UPDATE antecede_messages SET failures = ?, reason = ?, "
                "state = CASE WHEN ? = 1 THEN 2 ELSE 1 END WHERE key = ? AND state = 1",
                (count, f"failed {count} times; the last: {error}", int(is_last), taken.key),
            )
            return is_last
        return False

    def causes_of(self, taken: Entry, key: str) -> tuple[str, ...]:
        self._base.settle(taken.link)
        for table in ("antecede_messages", "antecede_outbox"):
            statement = f"SELECT causes FROM {table} WHERE key = ?"
            found = taken.link.run(statement, (key,)).fetchone()
            if found is not None:
                return _split(found[0])
        return ()

    def group(self) -> contextlib.AbstractContextManager[None]:
        return self._base.group()

    # Upkeep.

    def keep_up(self, upkeep: Upkeep) -> Kept:
        kept, now = Kept(), upkeep.now
        with self._base.reading() as link:
            ahead = _numbers(
                link, "SELECT n FROM antecede_messages WHERE state IN (0, 2) AND came > ?", (now,)
            )
            overdue = (
                link.run(
                    # What was released is due again if a cause was parked since then.
                    "SELECT n, key FROM antecede_messages m WHERE state = 0 AND came <= ? "
                    "AND (reason <> 'released' OR EXISTS (SELECT 1 FROM antecede_lacks l "
                    "JOIN antecede_messages c ON c.key = l.cause WHERE l.n = m.n "
                    f"AND c.state = 2)) ORDER BY came, n LIMIT {BATCH}",
                    (upkeep.overdue,),
                ).fetchall()
                if upkeep.overdue is not None and upkeep.then != "wait"
                else []
            )
        if ahead:
            with self._base.writing() as link:
                self._base.lock_rows(link, ahead)
                link.run("UPDATE antecede_messages SET came = ? WHERE came > ?", (now, now))
        for number, key in overdue:
            with self._base.writing() as link, contextlib.suppress(UsageError):
                if upkeep.then == "park":
                    self._park_overdue(link, number, now)
                    kept.parked.append(key)
                else:
                    kept.released += self._release(link, key, now)
        if upkeep.forget is not None:
            self._outdate(upkeep.forget)
            kept.forgotten = self._forget(upkeep.forget)
        return kept

    def _park_overdue(self, link: Link, number: int, now: float) -> None:
        self._base.lock_rows(link, [number])
        lacks = [cause for _, cause in _lacks(link, [number])]
        link.run(
            "UPDATE antecede_messages SET state = 2, reason = 'waited ' || "
            "CAST(CAST(? - came AS INTEGER) AS TEXT) || ? WHERE n = ? AND state = 0",
            (now, f" s for {', '.join(lacks[:3])}", number),
        )

    def _outdate(self, before: float) -> None:
        """Count missing causes as done, for messages that were sent or came before a time."""
        query = "SELECT n FROM antecede_messages WHERE state = 0 AND (sent < ? OR came < ?)"
        with self._base.reading() as link:
            old = _numbers(link, query, (before, before))
        for number in old:
            with self._base.writing() as link:
                self._base.lock_rows(link, [number])
                lacks = [cause for _, cause in _lacks(link, [number])]
                here = _states(link, lacks)
                self._waive(link, number, [cause for cause in lacks if cause not in here])

    def _forget(self, before: float) -> int:
        count = 0
        for _ in range(100):  # The rest is forgotten next time.
            with self._base.writing() as link:
                gone = link.run(
                    "DELETE FROM antecede_messages WHERE n IN (SELECT n FROM antecede_messages "
                    f"WHERE state = 3 ORDER BY handled LIMIT {BATCH}) AND done < ? "
                    "RETURNING n, lacking",
                    (before,),
                ).fetchall()
                for number in [number for number, lacking in gone if lacking]:  # in shadow mode
                    link.run("DELETE FROM antecede_lacks WHERE n = ?", (number,))
                link.run("DELETE FROM antecede_missed WHERE at < ?", (before,))
                link.run("DELETE FROM antecede_outbox WHERE published < ?", (before,))
            count += len(gone)
            if len(gone) < BATCH:
                break
        return count

    def missing(self, now: float, after: float) -> list[str]:
        with self._base.writing() as link:
            due = _numbers(
                link,
                "SELECT n FROM antecede_messages WHERE state = 0 AND came <= ? - ? * (1 << asked) "
                f"ORDER BY came LIMIT {BATCH}",
                (now, after),
            )
            self._base.lock_rows(link, due)
            lacks = list(dict.fromkeys(cause for _, cause in _lacks(link, due)))
            here = _states(link, lacks)
            for number in due:
                link.run("UPDATE antecede_messages SET asked = asked + 1 WHERE n = ?", (number,))
        return [cause for cause in lacks if cause not in here]

    # Actions of a person.

    def release(self, key: str, now: float) -> None:
        with self._base.writing() as link:
            self._release(link, key, now)

    def _release(self, link: Link, key: str, now: float) -> list[str]:
        first = _held(link, key, (WAITING, PARKED))
        ancestry = [first]
        edge = [first]
        while edge:
            causes = [cause for _, cause in _lacks(link, edge)]
            edge = [
                number for number in _numbers_of(link, causes, WAITING) if number not in ancestry
            ]
            ancestry += edge
        self._base.lock_rows(link, sorted(ancestry))
        _held(link, key, (WAITING, PARKED))
        released = []
        for number in ancestry:
            lacks = [cause for _, cause in _lacks(link, [number])]
            states = _states(link, lacks)
            gone = [c for c in lacks if states.get(c, PARKED) == PARKED]
            own = link.run(
                "SELECT key, unmet FROM antecede_messages WHERE n = ?", (number,)
            ).fetchone()
            for cause in gone:
                if cause != own[0]:
                    link.run(
                        "INSERT INTO antecede_missed(key, at) VALUES (?, ?) "
                        "ON CONFLICT(key) DO UPDATE SET at = excluded.at",
                        (cause, now),
                    )
                    link.run("UPDATE antecede_messages SET late = 1 WHERE key = ?", (cause,))
            unmet = "\n".join(joined(_split(own[1]), gone))
            link.run(
                "UPDATE antecede_messages SET unmet = ?, state = 0, reason = 'released' "
                "WHERE n = ? AND state IN (0, 2)",
                (unmet, number),
            )
            self._waive(link, number, gone)
            if gone:
                released.append(own[0])
        return released

    def _waive(self, link: Link, number: int, causes: list[str]) -> None:
        """Remove some causes from those that a message, which is locked, waits for."""
        count = 0
        for cause in causes:
            count += link.run(
                "DELETE FROM antecede_lacks WHERE cause = ? AND n = ?", (cause, number)
            ).rowcount
        link.run(
            "UPDATE antecede_messages SET lacking = lacking - ?, "
            "state = CASE WHEN lacking = ? THEN 1 ELSE 0 END WHERE n = ? AND state = 0",
            (count, count, number),
        )

    def park(self, key: str, reason: str) -> None:
        with self._base.writing() as link:
            number = _held(link, key, (WAITING, PARKED, READY))
            self._base.lock_rows(link, [number])
            _held(link, key, (WAITING, PARKED, READY))
            link.run(
                "UPDATE antecede_messages SET state = 2, reason = ? WHERE n = ?", (reason, number)
            )

    def retry(self, key: str, now: float) -> None:
        with self._base.writing() as link:
            number = _held(link, key, (WAITING, PARKED))
            self._base.lock_rows(link, [number])
            state, lacking, is_early = link.run(
                "SELECT state, lacking, early FROM antecede_messages WHERE n = ?", (number,)
            ).fetchone()
            must_wait = lacking > 0 and not is_early
            if state != PARKED:
                raise UsageError(
                    f"{key} is {STATES[state]}, not parked; only what is parked can be retried"
                )
            link.run(
                "UPDATE antecede_messages SET state = ?, came = ?, failures = 0, reason = '' "
                "WHERE n = ?",
                (WAITING if must_wait else READY, now, number),
            )
            if must_wait:
                park_cycle(link, key)

    # Questions of a person.

    def waiting(self, now: float, limit: int | None) -> list[Waiting]:
        with self._base.reading() as link:
            rows = link.run(
                "SELECT n, key, came FROM antecede_messages WHERE state = 0 "
                "ORDER BY came, n LIMIT ?",
                (1 << 62 if limit is None else limit,),
            ).fetchall()
            lacks: dict[int, list[str]] = {number: [] for number, _, _ in rows}
            for number, cause in _lacks(link, list(lacks)):
                lacks[number].append(cause)
            states = _states(link, list({c for causes in lacks.values() for c in causes}))
        return [
            Waiting(
                key,
                came,
                max(0.0, now - came),
                {
                    cause: STATES[states[cause]] if cause in states else "not here"
                    for cause in sorted(lacks[number])
                },
            )
            for number, key, came in rows
        ]

    def parked(self, limit: int | None) -> list[Parked]:
        with self._base.reading() as link:
            rows = link.run(
                "SELECT key, came, reason FROM antecede_messages WHERE state = 2 "
                "ORDER BY n LIMIT ?",
                (1 << 62 if limit is None else limit,),
            ).fetchall()
        return [Parked(*row) for row in rows]

    def keys(self, name: str) -> list[str]:
        wanted = [f"{topic}/{name}" for topic in sorted(self.topics)]
        with self._base.reading() as link:
            states = _states(link, wanted)
        return [key for key in wanted if states.get(key, DONE) != DONE]

    def report(self) -> Report:
        with self._base.reading() as link:
            counts = dict(
                link.run("SELECT state, COUNT(*) FROM antecede_messages GROUP BY state").fetchall()
            )
            (outbox,) = link.run(
                "SELECT COUNT(*) FROM antecede_outbox WHERE published IS NULL"
            ).fetchone()
            (released,) = link.run(
                "SELECT COUNT(*) FROM antecede_messages WHERE unmet <> ''"
            ).fetchone()
            early, resolved, mean, longest = link.run(
                "SELECT COUNT(*), COUNT(waited), AVG(waited), MAX(waited) "
                "FROM antecede_messages WHERE early = 1"
            ).fetchone()
        return Report(
            self.name, "", sorted(self.topics),
            waiting=counts.get(WAITING, 0), ready=counts.get(READY, 0),
            parked=counts.get(PARKED, 0), done=counts.get(DONE, 0), outbox=outbox,
            released=released, early=early, early_unresolved=early - resolved,
            early_seconds_mean=mean, early_seconds_max=longest,
        )  # fmt: skip

    # The outbox.

    @contextlib.contextmanager
    def outgoing(self, limit: int) -> Iterator[list[Outgoing]]:
        with self._base.relaying() as link:
            rows = (
                []
                if link is None
                else link.run(
                    "SELECT key, causes, form, body, made, n FROM antecede_outbox "
                    "WHERE published IS NULL ORDER BY n LIMIT ?",
                    (limit,),
                ).fetchall()
            )
            yield [
                Outgoing(key, _split(causes), unpack(form, body), made, number)
                for key, causes, form, body, made, number in rows
            ]

    def published(self, sent: Sequence[Outgoing], now: float) -> None:
        with self._base.writing() as link:
            for one in sent:
                link.run(
                    "UPDATE antecede_outbox SET published = ?, body = NULL WHERE n = ?",
                    (now, one.number),
                )

    # For the event log.

    def handled(self) -> Iterator[Handled]:
        for _, key, causes, at, unmet in self._all(
            "SELECT handled, key, causes, done, unmet FROM antecede_messages "
            "WHERE state = 3 AND handled > ? ORDER BY handled"
        ):
            yield Handled(key, _split(causes), at, _split(unmet))

    def sent(self) -> Iterator[Outgoing]:
        for number, key, causes, made in self._all(
            "SELECT n, key, causes, made FROM antecede_outbox WHERE n > ? ORDER BY n"
        ):
            yield Outgoing(key, _split(causes), None, made, number)

    def _all(self, query: str) -> Iterator[Any]:
        """Yield all rows in portions; the query continues after a number, its first column."""
        rows = [(0,)]
        while rows:
            last = rows[-1][0]
            with self._base.reading() as link:
                rows = link.run(f"{query} LIMIT {BATCH}", (last,)).fetchall()
            yield from rows

    def close(self) -> None:
        self._base.close()


def _split(text: str) -> tuple[str, ...]:
    """Return the keys in a column; keys have no line breaks."""
    return tuple(text.split("\n")) if text else ()


def _numbers(link: Link, query: str, values: Sequence[Any]) -> list[int]:
    return [row[0] for row in link.run(query, values).fetchall()]


def _rows_in(link: Link, query: str, values: Sequence[Any], *more: Any) -> Iterator[Any]:
    """Yield rows of a query that ends in IN, in portions that fit into one statement."""
    for at in range(0, len(values), 500):
        part = values[at : at + 500]
        yield from link.run(f"{query} ({', '.join('?' * len(part))})", (*more, *part)).fetchall()


def _states(link: Link, keys: Sequence[str]) -> dict[str, int]:
    """Return the states of the keys that are known."""
    return dict(_rows_in(link, "SELECT key, state FROM antecede_messages WHERE key IN", keys))


def _numbers_of(link: Link, keys: Sequence[str], state: int) -> list[int]:
    """Return the numbers of the messages that are in a state."""
    query = "SELECT n FROM antecede_messages WHERE state = ? AND key IN"
    return [row[0] for row in _rows_in(link, query, keys, state)]


def _lacks(link: Link, numbers: Sequence[int]) -> list[tuple[int, str]]:
    """Return the number and the cause of each missing cause of some messages."""
    query = "SELECT n, cause FROM antecede_lacks WHERE n IN"
    return sorted(tuple(row) for row in _rows_in(link, query, numbers))


def _held(link: Link, key: str, states: Sequence[int]) -> int:
    """Return the number of a message in one of the states; refuse another state."""
    row = link.run("SELECT n, state FROM antecede_messages WHERE key = ?", (key,)).fetchone()
    if row is not None and row[1] in states:
        return int(row[0])
    raise UsageError(not_held(key, "not here" if row is None else STATES[row[1]]))


UP: Final = (
    "WITH RECURSIVE up(key) AS (SELECT l.cause FROM antecede_lacks l JOIN antecede_messages m "
    "ON m.n = l.n WHERE m.key = ? AND m.state <> 3 UNION "
    "SELECT l.cause FROM up JOIN antecede_messages m ON m.key = up.key AND m.state <> 3 "
    "JOIN antecede_lacks l ON l.n = m.n) "
)
DOWN: Final = (
    ", down(key) AS (SELECT m.key FROM antecede_lacks l JOIN antecede_messages m ON m.n = l.n "
    "WHERE l.cause = ? AND m.state <> 3 UNION "
    "SELECT m.key FROM down JOIN antecede_lacks l ON l.cause = down.key "
    "JOIN antecede_messages m ON m.n = l.n AND m.state <> 3) "
)


def park_cycle(link: Link, key: str) -> bool:
    """Park a message that waits for itself, with all others on its cycle."""
    awaited = link.run("SELECT 1 FROM antecede_lacks WHERE cause = ? LIMIT 1", (key,)).fetchone()
    if awaited is None:
        return False
    if link.run(UP + "SELECT 1 FROM up WHERE key = ?", (key, key)).fetchone() is None:
        return False
    rows = link.run(
        UP + DOWN + "SELECT up.key FROM up JOIN down ON down.key = up.key ORDER BY up.key",
        (key, key),
    ).fetchall()
    cycle = [row[0] for row in rows]
    for one in cycle:
        link.run(
            "UPDATE antecede_messages SET state = 2, reason = ? WHERE key = ? AND state <> 2",
            (cycle_reason(one, cycle), one),
        )
    return True


def version_in(row: Any, place: str) -> int:
    """Return the version of the tables; refuse a table of ours that does not have one."""
    try:
        return int(row[0])
    except (TypeError, ValueError):
        raise StoreError(
            f"{place!r} has a table antecede_meta without a version: it is damaged or not ours; "
            "name another place"
        ) from None


def refuse_other(version: int, place: str) -> None:
    """Refuse tables of a version that this antecede does not support."""
    if version > VERSION:
        raise StoreError(
            f"the inbox {place!r} has tables of version {version}, this antecede knows "
            f"{VERSION}; use the antecede that wrote it, or a later one"
        )
