"""A worker that is killed at every statement in turn: ``python -m tests.inbox.steps PLACE FOLDER``.

For each number n, a child uses a fresh inbox until SIGKILL at its n-th statement; then another
child uses it undisturbed. For every n, each message has its effect once, after its causes, and
sent messages are published. Prints the number of statements. A third argument, k, tries only
every k-th statement.
"""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

from antecede.inbox import Inbox
from antecede.inbox.stores import sqlite

GIVEN = (("2", ("a/1",), "b"), ("1", (), "a"), ("1", (), "a"), ("3", ("b/2", "a/1"), "b"))
ORDER = ["a/1", "b/2", "b/3"]


class Killer:
    """Kills this process at its n-th statement, before or after it."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def watch(killer: Killer, *, is_server: bool) -> None:
    if is_server:
        import psycopg

        run = psycopg.Connection.execute

        def watched(*words: Any, **more: Any) -> Any:
            killer()
            found = run(*words, **more)
            killer()
            return found

        psycopg.Connection.execute = watched  # type: ignore[method-assign]
        return
    connect = sqlite3.connect

    def traced(*words: Any, **more: Any) -> sqlite3.Connection:
        link: sqlite3.Connection = connect(*words, **more)
        link.set_trace_callback(killer)
        return link

    sqlite.sqlite3.connect = traced  # type: ignore[attr-defined]


def work(place: str, name: str, published: Path, mark: str) -> None:
    """Offer all messages, handle ready ones, relay."""
    with Inbox(place, name=name, topics={"a", "b"}) as inbox:
        for number, causes, topic in GIVEN:
            for message in inbox.offer(number, causes=causes, topic=topic):
                handle(message, name, mark)
        for message in inbox.ready():
            handle(message, name, mark)
        with published.open("a") as file:

            def publish(out: Any) -> None:
                file.write(out.id + "\n")
                file.flush()

            inbox.relay(publish)


def handle(message: Any, name: str, mark: str) -> None:
    with message as transaction:
        transaction.execute("CREATE TABLE IF NOT EXISTS effects(name TEXT, key TEXT)")
        values = (name, message.key)
        transaction.execute(f"INSERT INTO effects VALUES ({mark}, {mark})", values)
        transaction.send("out", id=message.key.replace("/", " "))


def child(killed_at: int, place: str, name: str, published: Path, mark: str) -> int:
    """Work in a child; return its wait status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            watch(Killer(killed_at), is_server="://" in place)
            work(place, name, published, mark)
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1]


def check(place: str, name: str, published: Path, mark: str) -> None:
    with Inbox(place, name=name) as inbox:
        report = inbox.report()
        assert (report.waiting, report.ready, report.parked, report.outbox) == (0, 0, 0, 0), report
        (message,) = list(inbox.offer("check", topic="a"))
        with message as transaction:
            rows = transaction.execute(
                f"SELECT key FROM effects WHERE name = {mark}", (name,)
            ).fetchall()
    assert [key for (key,) in rows] == ORDER, rows
    went = list(dict.fromkeys(published.read_text().splitlines()))
    assert went == [key.replace("/", " ") for key in ORDER], went


def main() -> int:
    place, folder = sys.argv[1], Path(sys.argv[2])
    every = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    is_server = "://" in place
    mark = "%s" if is_server else "?"
    for at in itertools.count(1, every):
        name = f"step {at}"
        where = place if is_server else str(folder / f"{at}.db")
        published = folder / f"{at}.published"
        status = child(at, where, name, published, mark)
        assert status in (0, signal.SIGKILL), status
        assert child(-1, where, name, published, mark) == 0
        check(where, name, published, mark)
        if status == 0:
            print(at)
            return 0
    raise AssertionError


if __name__ == "__main__":
    sys.exit(main())
