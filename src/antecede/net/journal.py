"""A node's journal and checkpoints: the records in them, and the stores that keep them.

A journal entry is a sequence of records, one per input of the node. Every checkpoint ends with a
checksum, and so does every entry, over itself and the checksum before it: so damage on the disk, or
an entry that is missing, repeated or in another place, cannot look like a valid history.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar, runtime_checkable

from antecede.endpoint.messages import MessageId
from antecede.errors import PeerError, StoreError
from antecede.net.fields import (
    Fields,
    put_bytes,
    put_names,
    put_number,
    put_text,
)

T = TypeVar("T")
CHECKSUM_BYTES: Final = 8
SEND, ARRIVE, ACKNOWLEDGED, DONE, MEET, SKIP, CHANGE = b"SAKDMXG"
PROMISE, ACCEPT, WISH, UNWISH, LEARN, RELAY, REPORT, ANSWERED, KNOWN = b"pawulrcxk"
"""The kinds of inputs that concern the group."""
_ARRIVE, _ACKNOWLEDGED, _DONE = (bytes((kind,)) for kind in (ARRIVE, ACKNOWLEDGED, DONE))


class Input(NamedTuple):
    """An input that concerns the group; what its fields mean depends on its kind.

    Votes: ``name`` and ``b`` are the ballot, ``data`` the change. A change learnt: ``data``.
    Wishes: ``name`` joins at the address ``data`` if ``b`` is 1; otherwise ``name``, which joined
    in view ``a``, leaves. Copies passed on: ``name`` is the removed process, ``a`` the number of
    the packet, ``data`` the parcel. Reports: ``name`` is the reporter, ``data`` the note.
    ANSWERED: ``name`` passed on everything up to view ``a``. KNOWN: ``name`` knows our store.
    """

    kind: int
    name: str = ""
    a: int = 0
    b: int = 0
    data: bytes = b""


class Logged(NamedTuple):
    """A send or a delivery for the event log; ``dests`` is None for a delivery."""

    event: int
    message: MessageId
    dests: tuple[str, ...] | None


def sealed(body: bytes, before: bytes = b"") -> bytes:
    """Return ``body`` with its checksum; ``before`` is the entry or checkpoint that it follows."""
    key = before[-CHECKSUM_BYTES:]
    return body + hashlib.blake2b(body, digest_size=CHECKSUM_BYTES, key=key).digest()


def unsealed(data: bytes, before: bytes = b"") -> Fields:
    """Return a reader of a sealed body; refuse damaged bytes."""
    body = data[:-CHECKSUM_BYTES]
    if len(data) < CHECKSUM_BYTES or sealed(body, before) != data:
        what = "a journal entry" if before else "the checkpoint"
        msg = (
            f"{what} of {len(data)} bytes does not match its checksum: the store is damaged; "
            "remove this process from the group and add it again with an empty store"
        )
        raise StoreError(msg)
    return Fields(body)


def number(value: int) -> bytes:
    """Return what :func:`put_number` appends."""
    if value < len(_NUMBERS):
        return _NUMBERS[value]
    out = bytearray()
    put_number(out, value)
    return bytes(out)


_NUMBERS: Final = tuple(
    bytes((value,)) if value < 0x80 else bytes((value & 0x7F | 0x80, value >> 7))
    for value in range(1 << 14)
)


@lru_cache(maxsize=1024)
def names(listed: tuple[str, ...]) -> bytes:
    """Return what :func:`put_names` appends; cached, as the same names recur."""
    out = bytearray()
    put_names(out, listed)
    return bytes(out)


def put_logged(out: bytearray, logged: Logged) -> None:
    """Append an event for the event log."""
    put_number(out, logged.event)
    put_text(out, logged.message.sender)
    put_number(out, logged.message.seq)
    out.append(logged.dests is not None)
    put_names(out, logged.dests or ())


def get_logged(reader: Fields) -> Logged:
    """Read what :func:`put_logged` wrote."""
    event, sender, seq = reader.number(), reader.text(), reader.number()
    is_send, dests = reader.byte(), reader.names()
    return Logged(event, MessageId(sender, seq), dests if is_send else None)


def send_record(dests: Iterable[str] | str, payload: bytes, after: int | None) -> bytes:
    """Return the record of a call of ``send``."""
    is_group = isinstance(dests, str)
    listed = (dests,) if isinstance(dests, str) else tuple(dests)
    head = bytes((SEND, is_group, after is not None))
    return b"".join((head, names(listed), number(after or 0), number(len(payload)), payload))


def arrive_record(peer: str, n: int, packet: bytes) -> bytes:
    """Return the record of a packet that was accepted."""
    return b"".join((_ARRIVE, names((peer,)), number(n), number(len(packet)), packet))


def acknowledged_record(view: int, peer: str, packets: Iterable[int]) -> bytes:
    """Return the record of packets that ``peer`` has saved."""
    listed = sorted(packets)
    steps = [number(n - before) for before, n in pairwise((0, *listed))]
    return b"".join((_ACKNOWLEDGED, number(view), names((peer,)), number(len(listed)), *steps))


def done_record(event: int) -> bytes:
    """Return the record of a delivery that the application has handled."""
    return _DONE + number(event)


def meet_record(peer: str, identity: bytes, opening: int, mark: int) -> bytes:
    """Return the record of a peer's store, which the first frame of a peer's run shows."""
    out = bytearray((MEET,))
    put_text(out, peer)
    put_bytes(out, identity)
    put_number(out, opening)
    put_number(out, mark)
    return bytes(out)


def skip_record(process: str, upto: int | None) -> bytes:
    """Return the record of messages that were declared lost."""
    out = bytearray((SKIP, upto is not None))
    put_text(out, process)
    put_number(out, upto or 0)
    return bytes(out)


def change_record(given: Input) -> bytes:
    """Return the record of an input about the group."""
    out = bytearray((CHANGE, given.kind))
    put_text(out, given.name)
    put_number(out, given.a)
    put_number(out, given.b)
    put_bytes(out, given.data)
    return bytes(out)


def records(entry: bytes, before: bytes) -> Iterator[tuple[int, tuple[object, ...]]]:
    """Yield the kind and fields of each record of an entry, which follows ``before``."""
    reader = unsealed(entry, before)
    try:
        while reader.left:
            kind = reader.byte()
            yield kind, _fields(kind, reader)
    except PeerError as error:
        msg = f"the journal cannot be read ({error}); it was made by another version of antecede"
        raise StoreError(msg) from error


def _fields(kind: int, reader: Fields) -> tuple[object, ...]:
    if kind == SEND:
        is_group, has_after = reader.byte(), reader.byte()
        names, after, payload = reader.names(), reader.number(), reader.bytes()
        return (names[0] if is_group else names, payload, after if has_after else None)
    if kind == ARRIVE:
        (peer,) = reader.names()
        return peer, reader.number(), reader.bytes()
    if kind == ACKNOWLEDGED:
        view, (peer,) = reader.number(), reader.names()
        return view, peer, reader.numbers()
    return _other_fields(kind, reader)


def _other_fields(kind: int, reader: Fields) -> tuple[object, ...]:
    if kind == DONE:
        return (reader.number(),)
    if kind == CHANGE:
        return reader.byte(), reader.text(), reader.number(), reader.number(), reader.bytes()
    if kind == SKIP:
        has_upto, process, upto = reader.byte(), reader.text(), reader.number()
        return process, upto if has_upto else None
    if kind != MEET:
        reader.fail(f"hold a record of kind {kind}")
    return reader.text(), reader.bytes(), reader.number(), reader.number()


# Stores: one checkpoint, and the entries appended since. A write that has returned is durable; one
# that was under way when the process died is stored whole, or not at all.


class Saved(NamedTuple):
    """The contents of a store: no checkpoint means that it is new."""

    checkpoint: bytes | None
    journal: list[bytes]


@runtime_checkable
class Store(Protocol):
    """Where a node keeps the state that must survive a crash."""

    async def open(self) -> Saved:
        """Open the store and return what it holds; only one node at a time may do so."""

    async def append(self, entry: bytes) -> None:
        """Add an entry to the journal; return when it is durable."""

    async def replace(self, checkpoint: bytes) -> None:
        """Replace the old checkpoint and all entries by a new checkpoint, in one step."""

    def size(self) -> int:
        """Return the bytes that the store takes, for the metrics."""

    async def close(self) -> None:
        """Close the store."""


_TABLES: Final = """
CREATE TABLE IF NOT EXISTS checkpoint (id INTEGER PRIMARY KEY CHECK (id = 1), data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS journal (id INTEGER PRIMARY KEY AUTOINCREMENT, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS rest (id INTEGER PRIMARY KEY AUTOINCREMENT, data BLOB NOT NULL);
"""
_CONTENTS: Final = (
    "SELECT data FROM (SELECT 0 AS id, data FROM checkpoint UNION ALL SELECT id, data FROM rest)",
    "SELECT data FROM journal",
)
ROW_BYTES: Final = 1 << 28
"""SQLite allows at most a billion bytes in a row: a longer checkpoint takes several rows."""
_APPLICATION: Final = 0x616E7465  # "ante": marks a database as ours


class SqliteStore:
    """A store in one SQLite file, in WAL mode; each entry is one transaction and one fsync.

    SQLite runs in a thread of its own, so the event loop never waits for the disk. Inputs that come
    in meanwhile share the next transaction.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="antecede-store")
        self._base: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._is_closed = False

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
                first = checkpoint[:ROW_BYTES]
                base.execute("INSERT OR REPLACE INTO checkpoint VALUES (1, ?)", (first,))
                base.execute("DELETE FROM rest")
                for begin in range(ROW_BYTES, len(checkpoint), ROW_BYTES):
                    part = checkpoint[begin : begin + ROW_BYTES]
                    base.execute("INSERT INTO rest (data) VALUES (?)", (part,))
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
        if not self._is_closed:  # after a cancelled opening, which goes on in its thread
            self._is_closed = True
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
            checkpoint, journal = [_rows(base, query) for query in _CONTENTS]
        except BaseException:
            base.close()
            raise
        self._base = base
        self._file = _file_at(self.path)
        return Saved(b"".join(checkpoint) if checkpoint else None, journal)

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
        if self._file != _file_at(self.path):
            msg = (
                f"the store {str(self.path)!r} was deleted or replaced while it was open; what was "
                "saved since is lost: remove this process and add it again with an empty store"
            )
            raise StoreError(msg)
        return self._base

    def _execute(self, statement: str, values: tuple[bytes, ...]) -> None:
        self._opened().execute(statement, values)

    def _close(self) -> None:
        if self._base is not None:
            self._base.close()
            self._base = None


def _rows(base: sqlite3.Connection, query: str) -> list[bytes]:
    rows = [data for (data,) in base.execute(f"{query} ORDER BY id")]
    if not all(type(data) is bytes for data in rows):
        msg = "malformed: a row holds no bytes"
        raise sqlite3.DatabaseError(msg)
    return rows


def _file_at(path: Path) -> tuple[int, int] | None:
    """Return the device and number of the file that a path names, or None."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _sentence(path: Path, error: Exception) -> str:
    """Return what went wrong and what to do."""
    text = str(error)
    if "locked" in text:
        advice = "another node uses it; give each node its own store, or stop the other"
    elif "full" in text:
        advice = "make room on the disk and start the node again; what was saved is safe"
    elif "not a database" in text or "malformed" in text:
        advice = (
            "the file is damaged; remove this process from the group and add it again with an "
            "empty store"
        )
    elif "unable to open" in text or isinstance(error, OSError):
        advice = "check that the folder exists and can be written"
    else:
        advice = "check the disk and start the node again; what was saved is safe"
    return f"the store {str(path)!r} failed: {text}; {advice}"
