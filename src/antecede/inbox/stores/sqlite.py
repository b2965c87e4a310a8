"""SQLite as the database of an inbox: one writer at a time, many readers, no server.

A message is taken by beginning the transaction in which it is handled. So handlers of one file run
one after the other, and a process that dies has changed nothing. Every commit is on disk before it
returns; :meth:`Sqlite.group` makes one commit of many.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, cast

from antecede.errors import StoreError, UsageError
from antecede.inbox.causes import DONE, READY, STATES, WAITING, Entry
from antecede.inbox.stores.sql import (
    COLUMNS,
    SET_META,
    TABLES,
    VERSION,
    Link,
    entry_of,
    park_cycle,
    refuse_other,
    version_in,
)

#: Seconds to wait for another writer.
PATIENCE: Final = 60.0

READ: Final = "read"
WRITE: Final = "write to"

#: Statements that lead from each version of the tables to the next.
MIGRATIONS: Final = (
    TABLES.format(
        schema="", number="INTEGER PRIMARY KEY", sends="INTEGER PRIMARY KEY AUTOINCREMENT",
        big="INTEGER", small="INTEGER", real="REAL", blob="BLOB", end="WITHOUT ROWID",
    ),
)  # fmt: skip

INSERT: Final = (
    "INSERT INTO antecede_messages"
    "(key, causes, state, lacking, came, sent, form, body, late, early)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, EXISTS (SELECT 1 FROM antecede_missed WHERE key = ?), ?)"
    " ON CONFLICT(key) DO NOTHING"
)
TAKE: Final = (
    f"SELECT {COLUMNS} FROM antecede_messages WHERE state = 1 ORDER BY failures, n LIMIT 1"
)
TAKE_ONE: Final = TAKE.replace("state = 1", "state = 1 AND key = ?")
TAKE_OTHERS: Final = TAKE.replace(
    "state = 1", "state = 1 AND key NOT IN (SELECT value FROM json_each(?))"
)
KNOWN: Final = "SELECT 1 FROM antecede_messages WHERE key = ?"
FRESH: Final = (
    "SELECT (SELECT state FROM antecede_messages WHERE key = ?), "
    "(SELECT state FROM antecede_messages WHERE key = ?)"
)
INSERT_DONE: Final = (
    "INSERT INTO antecede_messages(key, causes, state, lacking, came, sent, form, late, early, "
    "handled, done) VALUES (?, ?, 3, 0, ?, ?, ?, EXISTS (SELECT 1 FROM antecede_missed "
    "WHERE key = ?), 0, ?, ?) RETURNING EXISTS (SELECT 1 FROM antecede_lacks WHERE cause = key)"
)
INSERT_PENDING: Final = INSERT_DONE.partition(" RETURNING")[0]
MARK: Final = (
    "UPDATE antecede_messages SET state = 3, body = NULL, done = ?, handled = ? WHERE n = ? "
    "RETURNING EXISTS (SELECT 1 FROM antecede_lacks WHERE cause = key)"
)


Run = Callable[..., sqlite3.Cursor]


class SqliteLink:
    """A connection."""

    __slots__ = ("connection", "last_handled", "run", "seen")

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.run: Run = connection.execute
        self.last_handled = -1
        self.seen = -1

    def execute(self, statement: str, values: Sequence[Any]) -> Any:
        """Run a statement of the user."""
        return self.connection.execute(statement, values)


class Sqlite:
    """A file."""

    is_exclusive = True

    def __init__(self, path: str | os.PathLike[str], *, create: bool = True) -> None:
        self.path = Path(path)
        if not create and not self.path.is_file():
            raise UsageError(f"there is no inbox {str(path)!r}; name the file of one")
        self._lock = threading.Lock()
        self._grouped: int | None = None
        #: In a group: a ready message that is not written until it is handled or given back.
        self._fresh: Entry | None = None
        #: In a group: messages that are done, as rows to write together.
        self._pending: dict[str, tuple[Any, ...]] = {}
        #: In a group: whether no other message is ready; whether any lacks a cause or was missed.
        self._is_dry = False
        self._has_lacks = self._has_missed = True
        self._relay = threading.Lock()
        self._readers: list[SqliteLink] = []
        self._pid = os.getpid()
        self._writer: SqliteLink | None = None
        with self._told("open"):
            link = self._connect()
            self._writer = link
            try:
                self._migrate(link, create=create)
            except BaseException:
                self.close()
                raise

    def _connect(self) -> SqliteLink:
        connection = sqlite3.connect(
            self.path,
            timeout=PATIENCE,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        return SqliteLink(connection)

    def _migrate(self, link: SqliteLink, *, create: bool) -> None:
        """Create the tables, or update them to this version; refuse those of a later one."""
        link.run("BEGIN IMMEDIATE")
        try:
            tables = link.run("SELECT 1 FROM sqlite_master WHERE name = 'antecede_meta'").fetchone()
            self._require(is_there=create or tables is not None)
            known = "SELECT value FROM antecede_meta WHERE name = 'version'"
            version = 0
            if tables is not None:
                version = version_in(link.run(known).fetchone(), str(self.path))
            refuse_other(version, str(self.path))
            for step in MIGRATIONS[version:]:
                for statement in step.split(";"):
                    if statement.strip():
                        link.run(statement)
            link.run(SET_META, ("version", str(VERSION)))
        except BaseException:
            link.run("ROLLBACK")
            raise
        link.run("COMMIT")

    def _require(self, *, is_there: bool) -> None:
        """Refuse a file that is not an inbox, unless one may be created in it."""
        if not is_there:
            raise UsageError(f"there is no inbox in {str(self.path)!r}; name the file of one")

    @contextlib.contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        """Say in one line what SQLite could not do, and what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._problem(doing, error) from error

    def _problem(self, doing: str, error: sqlite3.Error) -> StoreError:
        text = str(error)
        if "full" in text:
            advice = "make room, then offer again"
        elif "locked" in text:
            advice = "another program writes to it for long; try again"
        elif "not a database" in text:
            advice = "name another file"
        elif "unable to open" in text:
            advice = "check that its folder exists and may be written to"
        elif "no transaction" in text:
            advice = "the handler ended it; leave COMMIT and ROLLBACK to the inbox"
        else:
            advice = "what was committed is still there; try again"
        return StoreError(f"cannot {doing} the inbox {str(self.path)!r}: {text}; {advice}")

    def _acquire(self) -> SqliteLink:
        """Lock out other writers of this process; return the connection that writes."""
        self._require_open()
        if self._grouped != threading.get_ident() and not self._lock.acquire(timeout=PATIENCE):
            raise StoreError(
                f"the inbox {str(self.path)!r} is busy: a message has been open for "
                f"{PATIENCE:.0f} s; leave its with block before you go on"
            )
        if self._writer is None:
            self._free()
            self._require_open()
        assert self._writer is not None
        return self._writer

    def _require_open(self) -> None:
        """Refuse the use of a closed inbox, and of one of another process."""
        if self._pid != os.getpid():
            raise UsageError(
                f"the inbox {str(self.path)!r} was opened before a fork; open it in each process"
            )
        if self._writer is None:
            raise UsageError(f"the inbox {str(self.path)!r} is closed; open it again")

    def _free(self) -> None:
        if self._grouped != threading.get_ident():
            self._lock.release()

    def _begin(self, link: SqliteLink) -> None:
        link.run("BEGIN IMMEDIATE" if self._grouped is None else "SAVEPOINT antecede")

    def _commit(self, link: SqliteLink) -> None:
        link.run("COMMIT" if self._grouped is None else "RELEASE antecede")

    def _rollback(self, link: SqliteLink) -> None:
        with contextlib.suppress(sqlite3.Error):
            if self._grouped is None:
                if link.connection.in_transaction:
                    link.run("ROLLBACK")
            else:
                link.run("ROLLBACK TO antecede")
                link.run("RELEASE antecede")

    def settle(self, link: Link) -> None:
        """Write what a group has only in memory, before any other access."""
        assert isinstance(link, SqliteLink)
        if self._pending:
            rows, self._pending = self._pending, {}
            link.connection.executemany(INSERT_PENDING, rows.values())
        fresh, self._fresh = self._fresh, None
        self._is_dry = False
        if fresh is not None:
            self._insert(link, fresh, ())

    @contextlib.contextmanager
    def writing(self) -> Iterator[SqliteLink]:
        link = self._acquire()
        try:
            with self._told(WRITE):
                try:
                    if self._grouped is not None:
                        self.settle(link)
                        self._has_lacks = self._has_missed = True
                    self._begin(link)
                    yield link
                    self._commit(link)
                except BaseException:
                    self._rollback(link)
                    raise
        finally:
            self._free()

    @contextlib.contextmanager
    def reading(self) -> Iterator[SqliteLink]:
        """Show the block one consistent state of the file; a group sees its own changes."""
        self._require_open()
        if self._grouped == threading.get_ident():
            assert self._writer is not None
            with self._told(READ):
                self.settle(self._writer)
                yield self._writer
            return
        with self._told(READ):
            try:
                link = self._readers.pop()
            except IndexError:
                link = self._connect()
            try:
                link.run("BEGIN")
                yield link
            finally:
                if link.connection.in_transaction:
                    link.run("ROLLBACK")
                self._readers.append(link)

    def offer(self, entry: Entry) -> str:
        link = self._acquire()
        is_alone = self._grouped is None
        run = link.run
        try:
            if is_alone:
                run("BEGIN IMMEDIATE")
            state = self._offer(link, entry)
            if is_alone:
                run("COMMIT")
        except BaseException as error:
            if is_alone:
                self._rollback(link)
            if isinstance(error, sqlite3.Error):
                raise self._problem(WRITE, error) from error
            raise
        finally:
            self._free()
        return state

    def _offer(self, link: SqliteLink, entry: Entry) -> str:
        if self._grouped is not None:
            if self._fresh is not None:
                self.settle(link)
            if entry.key in self._pending:
                return "duplicate"
            if not entry.is_shadow and self._is_fresh(link, entry):
                self._fresh = entry
                return "ready"
            self.settle(link)
        needs = entry.needs
        return self._insert(link, entry, self._lacking(link, entry) if needs else needs)

    def _is_fresh(self, link: SqliteLink, entry: Entry) -> bool:
        """Return whether a message is new and ready, and can be written when it is handled."""
        needs, pending = entry.needs, self._pending
        if self._has_missed:
            return False  # It may be late.
        if len(needs) == 1 and needs[0] not in pending:
            return bool(link.run(FRESH, (entry.key, needs[0])).fetchone() == (None, DONE))
        if len(needs) > 1 and not pending.keys() >= set(needs):
            return False
        return link.run(KNOWN, (entry.key,)).fetchone() is None

    def _insert(self, link: SqliteLink, entry: Entry, lacks: Sequence[str]) -> str:
        key, is_shadow, count = entry.key, entry.is_shadow, len(lacks)
        state = WAITING if lacks and not is_shadow else READY
        self._is_dry = self._is_dry and state != READY
        values = (key, "\n".join(entry.causes), state, count, entry.came, entry.sent, entry.form,
                  entry.body, key, is_shadow and count > 0)  # fmt: skip
        cursor = link.run(INSERT, values)
        if cursor.rowcount == 0:
            return "duplicate"
        if lacks:
            self._has_lacks = True
            number = cursor.lastrowid
            link.connection.executemany(
                "INSERT INTO antecede_lacks(cause, n) VALUES (?, ?)",
                [(cause, number) for cause in lacks],
            )
            if not is_shadow and park_cycle(link, key):
                return "parked"
        return STATES[state]

    def _lacking(self, link: SqliteLink, entry: Entry) -> list[str]:
        needs, is_old, is_shadow = entry.needs, entry.is_old, entry.is_shadow
        rows = link.run(
            "SELECT key, state, lacking FROM antecede_messages "
            "WHERE key IN (SELECT value FROM json_each(?))",
            (json.dumps(needs),),
        )
        here = {key: (state, lacking) for key, state, lacking in rows}
        found = []
        for need in needs:
            state, lacking = here.get(need, (DONE if is_old else WAITING, 0))
            if state != DONE or (is_shadow and lacking):
                found.append(need)
        return found

    def take(self, left: Collection[str], only: str | None) -> Entry | None:
        """Begin a transaction with the earliest message that is ready."""
        query, values = TAKE, cast("tuple[str, ...]", ())
        if only is not None:
            query, values = TAKE_ONE, (only,)
        elif left:
            query, values = TAKE_OTHERS, (json.dumps(list(left)),)
        link = self._acquire()
        row = None
        try:
            if self._grouped is not None:
                if (fresh := self._fresh) is not None and not values:
                    link.run("SAVEPOINT antecede")
                    row, fresh.link = fresh, link
                    return fresh
                if self._fresh is not None:
                    self.settle(link)
                if self._is_dry and not values:
                    return None
            row = link.run(query, values).fetchone()
            self._is_dry = row is None and not values
            if row is not None:
                self._begin(link)
                if self._grouped is None:  # Another process may have been quicker.
                    row = link.run(query, values).fetchone()
                    if row is None:
                        self._rollback(link)
        except sqlite3.Error as error:
            row = None
            self._rollback(link)
            raise self._problem(WRITE, error) from error
        finally:
            if row is None:
                self._free()
        return None if row is None else entry_of(row, link)

    def done(self, link: Link, taken: Entry, now: float, sends: Sequence[Any]) -> None:
        assert isinstance(link, SqliteLink)
        try:
            if not link.connection.in_transaction:
                link.run("COMMIT")  # which raises, before anything is marked
            handled = self._next_handled(link)
            is_awaited = False
            if taken.number < 0:
                self._fresh = None
                values = (taken.key, "\n".join(taken.causes), taken.came, taken.sent, taken.form,
                          taken.key, handled, now)  # fmt: skip
                if self._has_lacks:
                    ((is_awaited,),) = link.run(INSERT_DONE, values)
                else:
                    self._pending[taken.key] = values
            else:
                ((is_awaited,),) = link.run(MARK, (now, handled, taken.number))
            if sends:
                link.connection.executemany(
                    "INSERT INTO antecede_outbox(key, causes, form, body, made) "
                    "VALUES (?, ?, ?, ?, ?) ON CONFLICT(key) DO NOTHING",
                    sends,
                )
            if is_awaited:
                self._is_dry = False
                _wake(link, taken, now)
            self._commit(link)
        except BaseException as error:
            self._rollback(link)
            link.last_handled = -1
            if isinstance(error, sqlite3.Error):
                raise self._problem(WRITE, error) from error
            raise
        finally:
            self._free()

    def _next_handled(self, link: SqliteLink) -> int:
        """Return the next number in the order of handling, which no other process has used."""
        if self._grouped is not None and link.last_handled >= 0:
            link.last_handled += 1
            return link.last_handled
        (seen,) = link.run("PRAGMA data_version").fetchone()
        if seen != link.seen or link.last_handled < 0:
            (last,) = link.run(
                "SELECT MAX(handled) FROM antecede_messages WHERE state = 3"
            ).fetchone()
            link.last_handled, link.seen = max(last or 0, link.last_handled), seen
        link.last_handled += 1
        return link.last_handled

    def undo(self, link: Link) -> None:
        assert isinstance(link, SqliteLink)
        self._rollback(link)
        self._free()

    def lock_rows(self, link: Link, numbers: Iterable[int]) -> None:
        """Do nothing: there is one writer."""

    @contextlib.contextmanager
    def relaying(self) -> Iterator[SqliteLink | None]:
        """Lock out other relays of this process."""
        self._require_open()
        with self._relay:
            link = self._connect()
            try:
                with self._told(READ):
                    yield link
            finally:
                link.connection.close()

    @contextlib.contextmanager
    def group(self) -> Iterator[None]:
        if self._grouped == threading.get_ident():
            raise UsageError("this group is in another; leave the inner one out")
        link = self._acquire()
        try:
            with self._told(WRITE):
                link.run("BEGIN IMMEDIATE")
                link.last_handled = -1
                self._grouped = threading.get_ident()
                self._is_dry = False
                ((self._has_lacks, self._has_missed),) = link.run(
                    "SELECT EXISTS (SELECT 1 FROM antecede_lacks), "
                    "EXISTS (SELECT 1 FROM antecede_missed)"
                )
                try:
                    yield
                    self.settle(link)
                    link.run("COMMIT")
                except BaseException:
                    link.last_handled = -1
                    if link.connection.in_transaction:
                        link.run("ROLLBACK")
                    raise
        finally:
            self._fresh = self._grouped = None
            self._pending = {}
            self._lock.release()

    def close(self) -> None:
        links = [link for link in (self._writer, *self._readers) if link is not None]
        self._writer = None
        self._readers.clear()
        for link in links:
            link.connection.close()


def _wake(link: SqliteLink, taken: Entry, now: float) -> None:
    """Wake what waited only for a message; in shadow mode also what was handled early."""
    ((lacking,),) = link.run("SELECT lacking FROM antecede_messages WHERE key = ?", (taken.key,))
    # What came early in shadow mode, and would still wait, wakes no other such message.
    only = "AND early = 0" if lacking else ""
    queue = [taken.key]
    while queue:
        cause = queue.pop()
        rows = link.run(
            "UPDATE antecede_messages SET lacking = lacking - 1, "
            "state = CASE WHEN state = 0 AND lacking = 1 THEN 1 ELSE state END, "
            "waited = CASE WHEN early = 1 AND lacking = 1 THEN MAX(0, ? - came) ELSE waited END "
            f"WHERE n IN (SELECT n FROM antecede_lacks WHERE cause = ?) {only} "
            "RETURNING n, key, state, lacking",
            (now, cause),
        ).fetchall()
        link.connection.executemany(
            "DELETE FROM antecede_lacks WHERE cause = ? AND n = ?",
            [(cause, row[0]) for row in rows],
        )
        queue += [key for _, key, state, lacking in rows if state == DONE and lacking == 0]
