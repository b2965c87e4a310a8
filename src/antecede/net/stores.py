"""Stores: where a node keeps its checkpoint and its journal.

The store interface is small: one checkpoint, and the entries appended since. Whatever has returned
is durable; whatever was under way when the process died is there whole, or not at all.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar

from antecede.errors import StoreError

T = TypeVar("T")


class Saved(NamedTuple):
    """The contents of a store: no checkpoint means that it is new."""

    checkpoint: bytes | None
    journal: list[bytes]


class Store(Protocol):
    """Where a node keeps what must survive it."""

    async def open(self) -> Saved:
        """Open the store and return what it holds; only one node at a time may do so."""

    async def append(self, entry: bytes) -> None:
        """Add an entry to the journal; return when it is durable."""

    async def replace(self, checkpoint: bytes) -> None:
        """Put a checkpoint in place of the old one and of all entries, in one step."""

    def size(self) -> int:
        """Return the bytes that the store takes, for the metrics."""

    async def close(self) -> None:
        """Close the store."""


_TABLES: Final = """
CREATE TABLE IF NOT EXISTS checkpoint (id INTEGER PRIMARY KEY CHECK (id = 1), data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS journal (id INTEGER PRIMARY KEY AUTOINCREMENT, data BLOB NOT NULL);
"""
_APPLICATION: Final = 0x616E7465  # "ante", so that another program's database is not taken for ours


class SqliteStore:
    """A store in one SQLite file, in WAL mode; each entry is one transaction and one fsync.

    SQLite runs in a thread of its own, so that the event loop never waits for the disk. Inputs that
    come in meanwhile share the next transaction.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="antecede-store")
        self._base: sqlite3.Connection | None = None

    async def open(self) -> Saved:
        """Open the file, create it if absent, and lock out other processes."""
        return await self._run(self._open)

    async def append(self, entry: bytes) -> None:
        """Add an entry in one transaction."""
        await self._run(lambda: self._execute("INSERT INTO journal (data) VALUES (?)", (entry,)))

    async def replace(self, checkpoint: bytes) -> None:
        """Replace checkpoint and journal in one transaction."""

        def work() -> None:
            base = self._opened()
            base.execute("BEGIN IMMEDIATE")
            try:
                base.execute("INSERT OR REPLACE INTO checkpoint VALUES (1, ?)", (checkpoint,))
                base.execute("DELETE FROM journal")
                base.execute("COMMIT")
            except sqlite3.Error:
                if base.in_transaction:
                    base.execute("ROLLBACK")
                raise

        await self._run(work)

    def size(self) -> int:
        """Return the bytes of the file and of its write-ahead log."""
        paths = (self.path, Path(f"{self.path}-wal"))
        return sum(path.stat().st_size for path in paths if path.exists())

    async def close(self) -> None:
        """Close the file and end the thread; calling again does nothing."""
        if self._base is not None:
            await self._run(self._close)
        self._thread.shutdown(wait=False)

    async def _run(self, work: Callable[[], T]) -> T:
        """Do ``work`` in the store's thread to its end, even if the caller is cancelled."""
        running = asyncio.get_running_loop().run_in_executor(self._thread, self._translated, work)
        return await asyncio.shield(running)

    def _translated(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except (sqlite3.Error, OSError) as error:
            raise StoreError(_sentence(self.path, error)) from error

    def _open(self) -> Saved:
        base = sqlite3.connect(self.path, timeout=2, isolation_level=None, check_same_thread=False)
        try:
            base.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._check_owner(base)
            base.execute(f"PRAGMA application_id={_APPLICATION}")
            base.execute("PRAGMA journal_mode=WAL")
            base.execute("PRAGMA synchronous=FULL")
            base.executescript(_TABLES)
            row = base.execute("SELECT data FROM checkpoint").fetchone()
            journal = [data for (data,) in base.execute("SELECT data FROM journal ORDER BY id")]
        except BaseException:
            base.close()
            raise
        self._base = base
        return Saved(None if row is None else row[0], journal)

    def _check_owner(self, base: sqlite3.Connection) -> None:
        (application,) = base.execute("PRAGMA application_id").fetchone()
        (tables,) = base.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and application != _APPLICATION:
            msg = f"{str(self.path)!r} is the database of another program; use another path"
            raise StoreError(msg)

    def _opened(self) -> sqlite3.Connection:
        if self._base is None:
            msg = f"the store {str(self.path)!r} is closed"
            raise StoreError(msg)
        return self._base

    def _execute(self, statement: str, values: tuple[bytes, ...]) -> None:
        self._opened().execute(statement, values)

    def _close(self) -> None:
        if self._base is not None:
            self._base.close()
            self._base = None


def _sentence(path: Path, error: Exception) -> str:
    """Return what went wrong and what to do."""
    text = str(error)
    if "locked" in text:
        advice = "another node uses it; give each node its own store, or stop the other"
    elif "full" in text:
        advice = "make room on the disk and start the node again; what was saved is safe"
    elif "not a database" in text or "malformed" in text:
        advice = (
            "the file is damaged; put back a copy of it, or remove this process and add it under "
            "a new name"
        )
    elif "unable to open" in text or isinstance(error, OSError):
        advice = "check that the folder exists and can be written"
    else:
        advice = "check the disk and start the node again; what was saved is safe"
    return f"the store {str(path)!r} failed: {text}; {advice}"
