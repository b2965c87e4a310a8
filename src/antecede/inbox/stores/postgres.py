"""PostgreSQL as the database of an inbox, for any number of instances.

A message is taken by ``FOR UPDATE SKIP LOCKED`` in the transaction in which it is handled: only one
instance has it, and if that dies, the server rolls back and another gets it. This needs no leases
and no clocks.

The only race is between "done" of a cause and the offer of its effect: each could miss the other.
So an offer that lacks a cause takes a shared lock on the cause's key and looks again, and "done"
takes that lock exclusively before it looks for what waits. An offer that has to wait also locks its
own key exclusively, so that of several messages that together close a cycle one sees the others.
Locks are taken in the order of the keys, and last in a transaction, so they cannot deadlock.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import psycopg

from antecede.errors import StoreError, UsageError, shown
from antecede.inbox.causes import Entry
from antecede.inbox.stores.sql import (
    COLUMNS,
    SET_META,
    TABLES,
    VERSION,
    Link,
    entry_of,
    refuse_other,
    version_in,
)

T = TypeVar("T")
#: PostgreSQL's names have at most 63 bytes.
NAME_BYTES_MAX: Final = 50
#: What an entry of its indexes holds of a key.
KEY_BYTES_MAX: Final = 2600
OPTIONS: Final[dict[str, Any]] = {
    "application_name": "antecede inbox",
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}

IDENTITY: Final = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
#: What every offer and every "done" runs; {s} is the schema, {q} the prefix of its locks.
FUNCTIONS: Final = """
CREATE SEQUENCE {s}.antecede_order;

CREATE FUNCTION {s}.antecede_lock(_key TEXT, _alone BOOLEAN) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
  IF _alone THEN
    PERFORM pg_advisory_xact_lock(hashtextextended({q} || _key, 0));
  ELSE
    PERFORM pg_advisory_xact_lock_shared(hashtextextended({q} || _key, 0));
  END IF;
END $$;

CREATE FUNCTION {s}.antecede_lacking(_needs TEXT[], _is_old BOOLEAN, _is_shadow BOOLEAN)
RETURNS TEXT[] LANGUAGE sql VOLATILE AS $$
  SELECT COALESCE(array_agg(need.key ORDER BY need.key), '{{}}')
  FROM unnest(_needs) AS need(key) LEFT JOIN {s}.antecede_messages m ON m.key = need.key
  WHERE CASE WHEN m.n IS NULL THEN NOT _is_old
        ELSE m.state <> 3 OR (_is_shadow AND m.lacking > 0) END
$$;

CREATE FUNCTION {s}.antecede_park_cycle(_key TEXT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$
DECLARE
  _cycle TEXT[];
BEGIN
  WITH RECURSIVE up(key) AS (
    SELECT l.cause FROM {s}.antecede_lacks l JOIN {s}.antecede_messages m ON m.n = l.n
      WHERE m.key = _key AND m.state <> 3
    UNION
    SELECT l.cause FROM up JOIN {s}.antecede_messages m ON m.key = up.key AND m.state <> 3
      JOIN {s}.antecede_lacks l ON l.n = m.n
  ), down(key) AS (
    SELECT m.key FROM {s}.antecede_lacks l JOIN {s}.antecede_messages m ON m.n = l.n
      WHERE l.cause = _key AND m.state <> 3
    UNION
    SELECT m.key FROM down JOIN {s}.antecede_lacks l ON l.cause = down.key
      JOIN {s}.antecede_messages m ON m.n = l.n AND m.state <> 3
  )
  SELECT array_agg(up.key ORDER BY up.key) INTO _cycle FROM up JOIN down ON down.key = up.key;
  IF _cycle IS NULL OR NOT _key = ANY(_cycle) THEN
    RETURN FALSE;
  END IF;
  UPDATE {s}.antecede_messages m SET state = 2, reason = CASE
    WHEN cardinality(_cycle) = 1 THEN 'it names itself as a cause'
    ELSE 'it waits for itself, through '
      || array_to_string((array_remove(_cycle, m.key))[1:3], ', ')
      || CASE WHEN cardinality(_cycle) > 4
         THEN ' and ' || (cardinality(_cycle) - 4) || ' more' ELSE '' END END
    WHERE m.key = ANY(_cycle) AND m.state <> 2;
  RETURN TRUE;
END $$;

CREATE FUNCTION {s}.antecede_offer(
  _key TEXT, _causes TEXT, _needs TEXT[], _form SMALLINT, _body BYTEA, _now DOUBLE PRECISION,
  _sent DOUBLE PRECISION, _is_old BOOLEAN, _is_shadow BOOLEAN
) RETURNS TEXT LANGUAGE plpgsql AS $$
DECLARE
  _lacks TEXT[] := '{{}}';
  _one TEXT;
  _n BIGINT;
BEGIN
  IF cardinality(_needs) > 0 THEN
    _lacks := {s}.antecede_lacking(_needs, _is_old, _is_shadow);
    IF cardinality(_lacks) > 0 THEN
      FOR _one IN SELECT DISTINCT k FROM unnest(_lacks || _key) AS u(k) ORDER BY k LOOP
        PERFORM {s}.antecede_lock(_one, _one = _key);
      END LOOP;
      _lacks := {s}.antecede_lacking(_needs, _is_old, _is_shadow);
    END IF;
  END IF;
  INSERT INTO {s}.antecede_messages(
    key, causes, state, lacking, came, sent, form, body, late, early)
  VALUES (
    _key, _causes, CASE WHEN cardinality(_lacks) > 0 AND NOT _is_shadow THEN 0 ELSE 1 END,
    cardinality(_lacks), _now, _sent, _form, _body,
    CASE WHEN EXISTS (SELECT 1 FROM {s}.antecede_missed WHERE key = _key) THEN 1 ELSE 0 END,
    CASE WHEN _is_shadow AND cardinality(_lacks) > 0 THEN 1 ELSE 0 END)
  ON CONFLICT (key) DO NOTHING RETURNING n INTO _n;
  IF _n IS NULL THEN
    RETURN 'duplicate';
  END IF;
  IF cardinality(_lacks) = 0 THEN
    RETURN 'ready';
  END IF;
  INSERT INTO {s}.antecede_lacks(cause, n) SELECT k, _n FROM unnest(_lacks) AS u(k);
  IF _is_shadow THEN
    RETURN 'ready';
  END IF;
  IF EXISTS (SELECT 1 FROM {s}.antecede_lacks WHERE cause = _key)
     AND {s}.antecede_park_cycle(_key) THEN
    RETURN 'parked';
  END IF;
  RETURN 'waiting';
END $$;

CREATE FUNCTION {s}.antecede_done(_n BIGINT, _key TEXT, _now DOUBLE PRECISION)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
  _lacking INTEGER;
  _queue TEXT[];
  _effects BIGINT[];
BEGIN
  PERFORM {s}.antecede_lock(_key, TRUE);
  UPDATE {s}.antecede_messages
    SET state = 3, body = NULL, done = _now, handled = nextval('{s}.antecede_order')
    WHERE n = _n AND state = 1 RETURNING lacking INTO _lacking;
  IF _lacking IS NULL THEN
    RAISE EXCEPTION 'message % is not ready any more', _key;
  END IF;
  -- What came early in shadow mode, and would still wait, wakes no other such message.
  _queue := ARRAY[_key];
  WHILE cardinality(_queue) > 0 LOOP
    _effects := ARRAY(
      SELECT l.n FROM {s}.antecede_lacks l JOIN {s}.antecede_messages m ON m.n = l.n
      WHERE l.cause = _queue[1] AND (_lacking = 0 OR m.early = 0));
    IF cardinality(_effects) > 0 THEN
      PERFORM 1 FROM {s}.antecede_messages WHERE n = ANY(_effects) ORDER BY n FOR UPDATE;
      WITH gone AS (
        DELETE FROM {s}.antecede_lacks WHERE cause = _queue[1] AND n = ANY(_effects) RETURNING n
      ), woken AS (
        UPDATE {s}.antecede_messages m SET lacking = m.lacking - 1,
          state = CASE WHEN m.state = 0 AND m.lacking = 1 THEN 1 ELSE m.state END,
          waited = CASE WHEN m.early = 1 AND m.lacking = 1
                   THEN GREATEST(0, _now - m.came) ELSE m.waited END
        FROM gone WHERE m.n = gone.n RETURNING m.key, m.state, m.lacking
      )
      SELECT _queue || COALESCE(array_agg(key) FILTER (WHERE state = 3 AND lacking = 0), '{{}}')
        INTO _queue FROM woken;
    END IF;
    _queue := _queue[2:];
  END LOOP;
END $$;
"""

OFFER: Final = (
    "SELECT antecede_offer(?, ?, ?::text[], ?::smallint, ?::bytea, ?::float8, ?::float8, ?, ?)"
)
TAKE: Final = (
    f"SELECT {COLUMNS} FROM antecede_messages WHERE state = 1 "
    "ORDER BY failures, n LIMIT 1 FOR UPDATE SKIP LOCKED"
)
TAKE_OTHERS: Final = TAKE.replace("state = 1", "state = 1 AND key <> ALL(?)")
TAKE_ONE: Final = TAKE.replace("state = 1", "state = 1 AND key = ?")
DONE: Final = "SELECT antecede_done(?, ?, ?::float8)"
SEND: Final = (
    "INSERT INTO antecede_outbox(key, causes, form, body, made) VALUES (?, ?, ?, ?::bytea, ?) "
    "ON CONFLICT (key) DO NOTHING"
)
READ: Final = "read"
WRITE: Final = "write to"


class PostgresLink:
    """A connection."""

    __slots__ = ("_known", "_schema", "connection")

    def __init__(
        self, connection: psycopg.Connection[Any], schema: str, known: dict[str, str]
    ) -> None:
        self.connection = connection
        self._schema, self._known = schema, known

    def run(self, statement: str, values: Sequence[Any] = ()) -> psycopg.Cursor[Any]:
        """Run one of our statements: ``?`` stands for a value, and tables are in our schema."""
        text = self._known.get(statement)
        if text is None:
            text = re.sub(r"\bantecede_", f"{self._schema}.antecede_", statement)
            text = self._known[statement] = text.replace("?", "%s")
        return self.connection.execute(text, values)

    def execute(self, statement: str, values: Sequence[Any]) -> psycopg.Cursor[Any]:
        """Run a statement of the user."""
        return self.connection.execute(statement, values or None)


class Postgres:
    """A schema of a database."""

    is_exclusive = False

    def __init__(self, url: str, name: str, *, create: bool = True) -> None:
        if len(name.encode()) > NAME_BYTES_MAX:
            raise UsageError(
                f"name is {name!r}; a name of at most {NAME_BYTES_MAX} bytes fits PostgreSQL"
            )
        if odd := "".join(sorted(set(name) & set("'\"$%?\\"))):
            raise UsageError(f"name is {name!r}; a name in PostgreSQL has none of {odd}")
        self._url = url
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise UsageError(f"the address of PostgreSQL cannot be read: {error}") from None
        self._place = f"{parts.hostname or 'localhost'}{parts.path}"
        self._bare = f"antecede_{name}"
        self.schema = '"' + self._bare.replace('"', '""') + '"'
        self._known: dict[str, str] = {}
        self._free: list[PostgresLink] = []
        self._lock = threading.Lock()
        self._is_closed = False
        self._pid = os.getpid()
        with self._told("open"):
            self._migrate(create=create)

    def _connect(self) -> PostgresLink:
        connection = psycopg.connect(self._url, autocommit=True, **self._options())
        return PostgresLink(connection, self.schema, self._known)

    def _options(self) -> dict[str, Any]:
        """Return default options, except those that the address has itself."""
        return {key: value for key, value in OPTIONS.items() if f"{key}=" not in self._url}

    def _migrate(self, *, create: bool) -> None:
        """Create the tables, or update them to this version; refuse those of a later one."""
        link = self._connect()
        try:
            run = link.connection.execute
            there = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
            if not create and run(there, (self._bare,)).fetchone() is None:
                raise UsageError(
                    f"there is no inbox {self._bare[9:]!r} at {self._place}; give its --name"
                )
            with link.connection.transaction():
                run("SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))", (self._bare,))
                version = 0
                if run(there, (self._bare,)).fetchone() is None:
                    run(f"CREATE SCHEMA {self.schema}")
                if run("SELECT to_regclass(%s)", (f"{self.schema}.antecede_meta",)).fetchone() != (
                    None,
                ):
                    row = link.run("SELECT value FROM antecede_meta WHERE name = 'version'")
                    version = version_in(row.fetchone(), self._place)
                refuse_other(version, self._place)
                for step in self._migrations()[version:]:
                    run(step)
                link.run(SET_META, ("version", str(VERSION)))
        finally:
            link.connection.close()

    def _migrations(self) -> tuple[str, ...]:
        """Return the statements that lead from each version of the tables to the next."""
        tables = TABLES.format(
            schema=f"{self.schema}.", number=IDENTITY, sends=IDENTITY, big="BIGINT",
            small="SMALLINT", real="DOUBLE PRECISION", blob="BYTEA", end="",
        )  # fmt: skip
        quoted = "'" + self._bare.replace("'", "''") + "/'"
        return (tables + FUNCTIONS.format(s=self.schema, q=quoted),)

    @contextlib.contextmanager
    def _told(self, doing: str) -> Iterator[None]:
        """Say in one line what PostgreSQL could not do, and what to do."""
        try:
            yield
        except psycopg.Error as error:
            raise self._problem(doing, error) from error

    def _problem(self, doing: str, error: psycopg.Error) -> StoreError:
        text = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if isinstance(error, psycopg.errors.DiskFull):
            advice = "make room, then offer again"
        elif isinstance(error, psycopg.errors.OutOfMemory):  # a lock for each missing cause
            advice = "name fewer causes, or raise max_locks_per_transaction of the server"
        elif isinstance(error, psycopg.errors.LockNotAvailable):
            advice = "the message is being handled; try again when that is done"
        elif isinstance(error, psycopg.OperationalError):
            advice = "what was committed is safe; try again when the server answers"
        else:
            advice = "nothing was changed"
        return StoreError(f"cannot {doing} the inbox at {self._place}: {text}; {advice}")

    def _acquire(self, *, is_new: bool = False) -> PostgresLink:
        """Return a connection; a new one if others turned out to be dead."""
        self._require_open()
        with self._lock:
            if is_new:
                old, self._free = self._free, []
                for link in old:
                    link.connection.close()
            while self._free:
                link = self._free.pop()
                if not link.connection.closed:
                    return link
        return self._connect()

    def _require_open(self) -> None:
        """Refuse the use of a closed inbox, and of one of another process."""
        if self._is_closed:
            raise UsageError(f"the inbox at {self._place} is closed; open it again")
        if self._pid != os.getpid():
            raise UsageError(
                f"the inbox at {self._place} was opened before a fork; open it in each process"
            )

    def _return(self, link: PostgresLink) -> None:
        """Keep a connection for the next use; close one in an unknown state."""
        status = link.connection.info.transaction_status
        if status != psycopg.pq.TransactionStatus.IDLE or self._is_closed:
            link.connection.close()
        elif not link.connection.closed:
            with self._lock:
                self._free.append(link)

    def _try(self, doing: str, work: Callable[[PostgresLink], T]) -> tuple[PostgresLink, T]:
        """Do something on a connection; if that turns out to be dead, again on a new one."""
        for is_new in (False, True):
            link = None
            try:
                link = self._acquire(is_new=is_new)
                return link, work(link)
            except BaseException as error:
                self.undo(link)
                if isinstance(error, psycopg.OperationalError) and link is not None and not is_new:
                    continue
                if isinstance(error, psycopg.Error):
                    raise self._problem(doing, error) from error
                raise
        raise AssertionError

    def _open(self, doing: str, *words: Any) -> tuple[PostgresLink, psycopg.Cursor[Any]]:
        """Begin a transaction with a statement."""

        def begin(link: PostgresLink) -> psycopg.Cursor[Any]:
            with link.connection.pipeline():
                link.connection.execute("BEGIN")
                return link.run(*words)

        return self._try(doing, begin)

    @contextlib.contextmanager
    def writing(self) -> Iterator[PostgresLink]:
        link, _ = self._open(WRITE, "SELECT 1")
        try:
            with self._told(WRITE):
                yield link
                link.connection.execute("COMMIT")
        except BaseException:
            self.undo(link)
            raise
        self._return(link)

    @contextlib.contextmanager
    def reading(self) -> Iterator[PostgresLink]:
        link, _ = self._open(READ, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        try:
            with self._told(READ):
                yield link
        finally:
            self.undo(link)

    def offer(self, entry: Entry) -> str:
        _check_keys(entry.key, *entry.needs)
        values = (entry.key, "\n".join(entry.causes), list(entry.needs), entry.form, entry.body,
                  entry.came, entry.sent, entry.is_old, entry.is_shadow)  # fmt: skip
        # Repeating the offer is harmless: if the first attempt succeeded, this one is a duplicate.
        link, row = self._try(WRITE, lambda link: link.run(OFFER, values).fetchone())
        self._return(link)
        return str(row[0]) if row is not None else ""

    def take(self, left: Collection[str], only: str | None) -> Entry | None:
        """Begin a transaction with the earliest ready message that no one else has."""
        words: tuple[Any, ...] = (TAKE_OTHERS, (list(left),)) if left else (TAKE,)
        if only is not None:
            words = (TAKE_ONE, (only,))
        link, cursor = self._open(WRITE, *words)
        row = cursor.fetchone()
        if row is None:
            self.undo(link)
            return None
        return entry_of(row, link)

    def settle(self, link: Link) -> None:
        """Do nothing: everything is written immediately."""

    def done(self, link: Link, taken: Entry, now: float, sends: Sequence[Any]) -> None:
        assert isinstance(link, PostgresLink)
        try:
            _check_keys(*(row[0] for row in sends))
            with self._told(WRITE):
                if link.connection.info.transaction_status != psycopg.pq.TransactionStatus.INTRANS:
                    self._refuse_transaction(link, taken)
                with link.connection.pipeline():
                    for row in sends:
                        link.run(SEND, row)
                    link.run(DONE, (taken.number, taken.key, now))
                    link.connection.execute("COMMIT")
        except BaseException:
            self.undo(link)
            raise
        self._return(link)

    def _refuse_transaction(self, link: PostgresLink, taken: Entry) -> None:
        """Say why a transaction cannot be committed: the handler hid an error or ended it."""
        if link.connection.closed:
            raise StoreError(
                f"cannot write to the inbox at {self._place}: the connection is lost; try again"
            )
        raise UsageError(
            f"the transaction of {taken.key} failed or was ended inside its handler; let errors "
            "of the database out of the with block, and do not commit there"
        )

    def undo(self, link: Link | None) -> None:
        if link is None:
            return
        assert isinstance(link, PostgresLink)
        with contextlib.suppress(psycopg.Error):
            status = link.connection.info.transaction_status
            if status == psycopg.pq.TransactionStatus.IDLE:
                pass
            elif status in (
                psycopg.pq.TransactionStatus.INTRANS,
                psycopg.pq.TransactionStatus.INERROR,
            ):
                link.connection.execute("ROLLBACK")
            self._return(link)
            return
        with contextlib.suppress(psycopg.Error):
            link.connection.close()

    def lock_rows(self, link: Link, numbers: Iterable[int]) -> None:
        """Lock messages against changes until the transaction ends; wait a minute at most."""
        link.run("SET LOCAL lock_timeout = '60s'")
        link.run(
            "SELECT n FROM antecede_messages WHERE n = ANY(?) ORDER BY n FOR UPDATE",
            (sorted(numbers),),
        )

    @contextlib.contextmanager
    def relaying(self) -> Iterator[PostgresLink | None]:
        self._require_open()
        with self._told(READ):
            link = self._connect()
            run, name = link.connection.execute, (self._bare,)
            try:
                row = run("SELECT pg_try_advisory_lock(hashtextextended(%s, 2))", name).fetchone()
                is_alone = row == (True,)
                yield link if is_alone else None
                if is_alone:  # The server notices a closed connection only after some time.
                    run("SELECT pg_advisory_unlock(hashtextextended(%s, 2))", name)
            finally:
                link.connection.close()

    def group(self) -> contextlib.AbstractContextManager[None]:
        """Refuse: the server itself combines the commits of many instances into one write."""
        raise UsageError(
            "group() is for SQLite; PostgreSQL groups the commits of several instances itself"
        )

    def close(self) -> None:
        """Close all connections that are not in use."""
        with self._lock:
            self._is_closed = True
            old, self._free = self._free, []
        for link in old:
            link.connection.close()


def _check_keys(*keys: str) -> None:
    """Refuse a key that no index can hold."""
    for key in keys:
        if len(key) * 4 > KEY_BYTES_MAX and len(key.encode()) > KEY_BYTES_MAX:
            raise UsageError(
                f"{shown(key)} has {len(key.encode()):,} bytes; in PostgreSQL, a topic and an id "
                f"have at most {KEY_BYTES_MAX:,} together"
            )
