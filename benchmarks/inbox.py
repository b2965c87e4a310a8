"""Inboxes against the same program without ordering: insert and delete in the same store.

A message is 200 bytes of JSON; its cause is the message before it in the same order of the shop.
The program takes each message, and writes a row of its own for each message that is ready.
``plain`` is the same program with a queue in place of the inbox: it inserts the message, takes the
oldest and deletes it, with as many transactions. Rates are messages per second: of processor time
in memory and in groups, where one process does all the work; by the clock if commits wait for the
disk or a server. PostgreSQL runs as a server on loopback, and each instance is a process. Needs
psycopg and the server of PostgreSQL for that part.
"""

from __future__ import annotations

import contextlib
import functools
import json
import multiprocessing as mp
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from antecede.inbox import Inbox
from antecede.inbox.stores.sqlite import INSERT_PENDING
from benchmarks._tables import judge, record

TOPICS = {"orders", "payments", "shipments"}
LEAST_RATIO = 0.5
#: The most that a million remembered ids may cost of an empty inbox's rate.
FLAT = 0.7
GROUP = 200


def messages(count: int, name: str = "m") -> list[tuple[str, str, bytes, list[str]]]:
    """Return messages in threes (order, payment, shipment), each naming the one before."""
    found = []
    for number in range(count):
        order, step = divmod(number, 3)
        topic = ("orders", "payments", "shipments")[step]
        before = [f"{('orders', 'payments')[step - 1]}/{name}-{order}"] if step else []
        body = json.dumps({"order": order, "step": step, "note": "x" * 150}).encode()
        found.append((topic, f"{name}-{order}", body, before))
    return found


Handle = Callable[[Any, str, bytes], None]


def keep(execute: Any, key: str, body: bytes) -> None:
    execute("INSERT INTO mine VALUES (?, ?)", (key, json.loads(body)["order"]))


def keep_pg(execute: Any, key: str, body: bytes) -> None:
    execute("INSERT INTO mine VALUES (%s, %s)", (key, json.loads(body)["order"]))


def run_inbox(inbox: Any, given: list[Any], mine: Callable[[Any, str, bytes], None]) -> None:
    """The program: it runs with an inbox, or with a queue in its place."""
    for topic, name, body, causes in given:
        for message in inbox.offer(name, body, causes=causes, topic=topic):
            with message as transaction:
                mine(transaction.execute, message.key, message.body)


class Plain:
    """A message of a plain queue."""

    __slots__ = ("body", "execute", "key", "number", "queue")

    def __init__(self, queue: Any, number: int, key: str, body: bytes) -> None:
        self.queue, self.number, self.key, self.body = queue, number, key, body
        self.execute = queue.tables.execute

    def __enter__(self) -> Plain:
        self.queue.begin()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.queue.finish(self)
        else:
            self.queue.fail(self)


class PlainMemory:
    """A queue in memory, safe for threads: insert under a key, take the oldest, delete it."""

    def __init__(self) -> None:
        self.lock, self.user = threading.RLock(), threading.Lock()
        self.kept: dict[str, Plain] = {}
        self.queue: deque[Plain] = deque()
        self.tables = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.tables.execute("CREATE TABLE mine(key TEXT, value INTEGER)")

    def offer(self, name: str, body: bytes, *, causes: Any, topic: str) -> Iterator[Plain]:
        key = f"{topic}/{name}"
        with self.lock:
            if key not in self.kept:
                message = self.kept[key] = Plain(self, 0, key, body)
                self.queue.append(message)
        return self.ready()

    def ready(self) -> Iterator[Plain]:
        while self.queue:
            with self.lock:
                message = self.queue.popleft()
            yield message

    def begin(self) -> None:
        self.user.acquire()
        self.tables.execute("BEGIN")

    def finish(self, message: Plain) -> None:
        self.tables.execute("COMMIT")
        self.user.release()
        with self.lock:
            del self.kept[message.key]

    def fail(self, message: Plain) -> None:
        self.tables.execute("ROLLBACK")
        self.user.release()
        with self.lock:
            self.queue.append(message)


class PlainSqlite:
    """A table as a queue: insert, take the oldest, delete."""

    def __init__(self, path: Path) -> None:
        self.tables = sqlite3.connect(path, isolation_level=None)
        self.grouped = False
        run = self.tables.execute
        run("PRAGMA journal_mode=WAL")
        run("PRAGMA synchronous=FULL")
        run("CREATE TABLE queue(n INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, body BLOB)")
        run("CREATE TABLE mine(key TEXT, value INTEGER)")

    def offer(self, name: str, body: bytes, *, causes: Any, topic: str) -> Iterator[Plain]:
        run = self.tables.execute
        if not self.grouped:
            run("BEGIN IMMEDIATE")
        run("INSERT INTO queue(key, body) VALUES (?, ?)", (f"{topic}/{name}", body))
        if not self.grouped:
            run("COMMIT")
        return self.ready()

    def ready(self) -> Iterator[Plain]:
        take = "SELECT n, key, body FROM queue ORDER BY n LIMIT 1"
        while (row := self.tables.execute(take).fetchone()) is not None:
            yield Plain(self, *row)

    def begin(self) -> None:
        self.tables.execute("SAVEPOINT one" if self.grouped else "BEGIN IMMEDIATE")

    def finish(self, message: Plain) -> None:
        self.tables.execute("DELETE FROM queue WHERE n = ?", (message.number,))
        self.tables.execute("RELEASE one" if self.grouped else "COMMIT")

    def fail(self, _message: Plain) -> None:
        self.tables.execute("ROLLBACK TO one" if self.grouped else "ROLLBACK")

    @contextlib.contextmanager
    def group(self) -> Iterator[None]:
        self.tables.execute("BEGIN IMMEDIATE")
        self.grouped = True
        try:
            yield
        finally:
            self.grouped = False
        self.tables.execute("COMMIT")


def run_grouped(inbox: Any, given: list[Any], *, grouped: bool) -> None:
    if not grouped:
        run_inbox(inbox, given, keep)
        return
    for at in range(0, len(given), GROUP):
        with inbox.group():
            run_inbox(inbox, given[at : at + GROUP], keep)


def plain_postgres(url: str, given: list[Any]) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as link:
        for topic, name, body, _ in given:
            link.execute("INSERT INTO queue(key, body) VALUES (%s, %s)", (f"{topic}/{name}", body))
            while True:
                with link.pipeline():
                    link.execute("BEGIN")
                    cursor = link.execute(
                        "SELECT n, key, body FROM queue ORDER BY n LIMIT 1 FOR UPDATE SKIP LOCKED"
                    )
                row = cursor.fetchone()
                if row is None:
                    link.execute("ROLLBACK")
                    break
                keep_pg(link.execute, row[1], row[2])
                with link.pipeline():
                    link.execute("DELETE FROM queue WHERE n = %s", (row[0],))
                    link.execute("COMMIT")


# Timing.


def rate(
    count: int, work: Callable[[], None], clock: Callable[[], float] = time.perf_counter
) -> float:
    begin = clock()
    work()
    return count / (clock() - begin)


def compare(
    name: str, count: int, ours: Callable[[], float], plain: Callable[[], float], rounds: int
) -> bool:
    """Run both in turn, and compare the medians."""
    found = [(ours(), plain()) for _ in range(rounds)]
    inbox = statistics.median(one for one, _ in found)
    bare = statistics.median(one for _, one in found)
    ratio = statistics.median(one / other for one, other in found)
    print(f"{name:28} {inbox:10,.0f}/s  plain {bare:10,.0f}/s  ratio {ratio:.2f}", flush=True)
    record("inbox", store=name, messages=count, inbox=inbox, plain=bare, ratio=ratio)
    return judge(f"inbox: {name} at least {LEAST_RATIO} of plain", ratio >= LEAST_RATIO)


def in_memory(count: int, rounds: int) -> bool:
    given = messages(count)

    def ours() -> float:
        with Inbox(None, topics=TOPICS) as inbox:
            for message in inbox.offer("tables", topic="orders"):
                with message as transaction:
                    transaction.execute("CREATE TABLE mine(key TEXT, value INTEGER)")
            return rate(count, lambda: run_inbox(inbox, given, keep), time.process_time)

    def plain() -> float:
        queue = PlainMemory()
        found = rate(count, lambda: run_inbox(queue, given, keep), time.process_time)
        queue.tables.close()
        return found

    return compare("memory", count, ours, plain, rounds)


def _tables(inbox: Inbox) -> None:
    for message in inbox.offer("tables", topic="orders"):
        with message as transaction:
            transaction.execute("CREATE TABLE IF NOT EXISTS mine(key TEXT, value INTEGER)")


def in_sqlite(folder: Path, count: int, rounds: int, *, grouped: bool) -> bool:
    given = messages(count)
    numbers = iter(range(1000))
    clock = time.process_time if grouped else time.perf_counter

    def ours() -> float:
        with Inbox(folder / f"ours{next(numbers)}{grouped}.db", topics=TOPICS) as inbox:
            _tables(inbox)

            return rate(count, lambda: run_grouped(inbox, given, grouped=grouped), clock)

    def plain() -> float:
        queue = PlainSqlite(folder / f"plain{next(numbers)}{grouped}.db")
        found = rate(count, lambda: run_grouped(queue, given, grouped=grouped), clock)
        queue.tables.close()
        return found

    name = f"SQLite, groups of {GROUP}" if grouped else "SQLite, each committed"
    return compare(name, count, ours, plain, rounds)


def _pg_ours(url: str, name: str, given: list[Any], gate: Any) -> None:
    with Inbox(url, name=name, topics=TOPICS) as inbox:
        gate.wait()
        run_inbox(inbox, given, keep_pg)


def _pg_plain(url: str, _name: str, given: list[Any], gate: Any) -> None:
    gate.wait()
    plain_postgres(url, given)


def in_postgres(url: str, count: int, rounds: int, instances: int) -> bool:
    import psycopg

    spawn = mp.get_context("spawn")
    numbers = iter(range(1000))
    given = messages(count)
    parts = [given[at::instances] for at in range(instances)]

    def timed(work: Any) -> float:
        name = f"bench {instances} {next(numbers)}"
        with psycopg.connect(url, autocommit=True) as link:
            link.execute("DROP TABLE IF EXISTS mine, queue")
            link.execute("CREATE TABLE mine(key TEXT, value INTEGER)")
            link.execute(
                "CREATE TABLE queue(n BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
                "key TEXT NOT NULL UNIQUE, body BYTEA)"
            )
            Inbox(url, name=name, topics=TOPICS).close()
            gate = spawn.Barrier(instances + 1)
            jobs = [spawn.Process(target=work, args=(url, name, part, gate)) for part in parts]
            for job in jobs:
                job.start()
            gate.wait()
            begin = time.perf_counter()
            for job in jobs:
                job.join()
            seconds = time.perf_counter() - begin
            (rows,) = link.execute("SELECT COUNT(*) FROM mine").fetchone() or (0,)
            assert rows == count, f"{rows} of {count} messages were handled"
        return count / seconds

    def ours() -> float:
        return timed(_pg_ours)

    def plain() -> float:
        return timed(_pg_plain)

    label = f"PostgreSQL, {instances} instance{'s' * (instances > 1)}"
    return compare(label, count, ours, plain, rounds)


def remember(path: Path, first: int, last: int) -> None:
    """Put ids into an inbox as if their messages had been handled, which would take longer."""
    link = sqlite3.connect(path, isolation_level=None)
    link.execute("BEGIN IMMEDIATE")
    link.executemany(
        INSERT_PENDING,
        (
            (f"orders/old-{n}", f"payments/old-{n - 1}", 0.0, 0.0, 1, f"orders/old-{n}", n, 0.0)
            for n in range(first + 1, last + 1)
        ),
    )
    link.execute("COMMIT")
    link.close()


def remembered(folder: Path, sizes: tuple[int, ...], count: int) -> bool:
    """Measure the rate with more and more remembered ids."""
    rates: dict[int, float] = {}
    with Inbox(folder / "remembered.db", topics=TOPICS) as inbox:
        _tables(inbox)
        there = 0
        for size in sizes:
            remember(folder / "remembered.db", there, size)
            there = size
            given = messages(count, f"at{size}")

            rates[size] = rate(
                count,
                functools.partial(run_grouped, inbox, given, grouped=True),
                time.process_time,
            )
            print(f"{size:>12,} ids remembered: {rates[size]:10,.0f}/s", flush=True)
            record("inbox_remembered", ids=size, rate=rates[size])
    first, last = rates[sizes[0]], rates[sizes[-1]]
    print(f"last to first: {last / first:.2f}")
    return judge(f"inbox: {sizes[-1]:,} ids at least {FLAT} of none", last >= FLAT * first)


@contextlib.contextmanager
def server(folder: Path) -> Iterator[str | None]:
    """Start PostgreSQL, if it is installed; yield its address."""
    try:
        from tests.support.postgres_server import PostgresServer

        running = PostgresServer(folder)
    except BaseException as error:  # noqa: BLE001 - a skip of pytest is one
        print(f"PostgreSQL is left out: {error}", file=sys.stderr)
        yield None
        return
    with running:
        yield running.url()


def main(*, quick: bool) -> bool:
    count, rounds = (300, 1) if quick else (30_000, 5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        met = in_memory(count, rounds)
        met &= in_sqlite(folder, count, rounds, grouped=True)
        met &= in_sqlite(folder, min(count, 1000), min(rounds, 3), grouped=False)
        with server(folder / "postgres") as url:
            if url is not None:
                met &= in_postgres(url, min(count, 1000), min(rounds, 3), 1)
                met &= in_postgres(url, min(count, 2000), min(rounds, 3), 4)
        met &= remembered(folder, (0, 3000) if quick else (0, 100_000, 1_000_000), count)
    return met or quick
