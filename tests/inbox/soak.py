"""Workers of one inbox, killed again and again: ``python -m tests.inbox.soak --store postgresql``.

Each worker offers its part of an endless stream, shuffled and with duplicates, handles ready
messages, writes an effect and what it saw into its own tables in the same transaction, sends, and
relays. A monkey kills workers by ``kill -9`` and, with PostgreSQL, ends connections in the server.
Meanwhile the database is checked for messages that wait for finished ones. At the end everything
is offered once more and must have been handled once, after its causes.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from antecede.errors import StoreError
from antecede.inbox import Inbox

TOPICS = ("a", "b", "c")
EPOCH = 60
STUCK = (
    "SELECT COUNT(*) FROM {s}antecede_lacks l JOIN {s}antecede_messages c ON c.key = l.cause "
    "WHERE c.state = 3"
)
EMPTY = "SELECT COUNT(*) FROM {s}antecede_messages WHERE state = 0 AND lacking = 0"


def message(number: int) -> tuple[str, str, list[str]]:
    """Return a message's topic, id and causes: some of the forty before it, and an unknown one."""
    rng = random.Random(number)
    topic = rng.choice(TOPICS)
    low = max(0, number - 40)
    before = sorted({rng.randrange(low, number) for _ in range(rng.randrange(4))}) if number else []
    causes = [f"{random.Random(old).choice(TOPICS)}/{old}" for old in before]
    return topic, str(number), [*causes, "elsewhere/x"] if rng.random() < 0.2 else causes


def opened(place: str) -> Inbox:
    """Open the inbox, even if the monkey ends the connection meanwhile."""
    while True:
        with contextlib.suppress(StoreError):
            return Inbox(place, topics=set(TOPICS))


class Work:
    """The work of a worker."""

    def __init__(self, place: str, folder: Path, mine: int, workers: int, seed: int) -> None:
        self.folder, self.mine, self.workers = folder, mine, workers
        self.mark = "%s" if "://" in place else "?"
        self.rng = random.Random(seed)
        self.inbox = opened(place)
        self.progress = folder / f"progress-{mine}"
        self.published = os.open(
            folder / "published.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666
        )

    def run(self) -> None:
        epoch = int(self.progress.read_text()) if self.progress.exists() else 0
        while not (self.folder / "stop").exists():
            numbers = list(range(epoch * EPOCH, (epoch + 1) * EPOCH))
            own = [n for n in numbers if n % self.workers == self.mine]
            own += self.rng.sample(numbers, 3)
            self.rng.shuffle(own)
            while own:
                size = self.rng.choice([1, 1, 20]) if self.mark == "?" else 1
                chunk, own = own[:size], own[size:]
                if size > 1:
                    self.offer_group(chunk)
                for number in chunk:
                    self.offer(number)
            epoch += 1
            part = self.progress.with_suffix(".part")
            part.write_text(str(epoch))
            part.replace(self.progress)

    def offer_group(self, numbers: list[int]) -> None:
        """Offer and handle many messages in one commit."""
        with contextlib.suppress(StoreError), self.inbox.group():
            for number in numbers:
                topic, name, causes = message(number)
                for one in self.inbox.offer(name, {"n": number}, causes=causes, topic=topic):
                    self.handle(one)

    def offer(self, number: int) -> None:
        while True:
            topic, name, causes = message(number)
            try:
                for one in self.inbox.offer(name, {"n": number}, causes=causes, topic=topic):
                    self.handle(one)
                if number % 7 == 0:
                    self.inbox.relay(self.publish)
            except StoreError:
                time.sleep(0.02)
            except Exception as error:
                if type(error).__module__.partition(".")[0] not in ("psycopg", "sqlite3"):
                    raise
                time.sleep(0.02)
            else:
                return

    def handle(self, one: Any) -> None:
        with one as transaction:
            key, mark = one.key, self.mark
            for cause in one.causes:
                if cause.partition("/")[0] in TOPICS:
                    seen = transaction.execute(
                        f"SELECT 1 FROM effects WHERE key = {mark}", (cause,)
                    ).fetchone()
                    if seen is None:
                        transaction.execute(
                            f"INSERT INTO wrong VALUES ({mark}, {mark})", (key, cause)
                        )
            transaction.execute(f"INSERT INTO effects(key) VALUES ({mark})", (key,))
            if one.body["n"] % 5 == 0:
                first = transaction.send("out", one.body, id=f"{key} 1".replace("/", " "))
                transaction.send("out", one.body, id=f"{key} 2".replace("/", " "), causes=[first])

    def publish(self, out: Any) -> None:
        line = json.dumps({"key": out.key, "causes": out.causes}) + "\n"
        os.write(self.published, line.encode())


class Base:
    """The database under test, seen from outside."""

    def __init__(self, place: str) -> None:
        self.place = place
        self.is_server = "://" in place
        self.schema = '"antecede_inbox".' if self.is_server else ""

    @contextlib.contextmanager
    def open(self) -> Iterator[Any]:
        if self.is_server:
            import psycopg

            with psycopg.connect(self.place, autocommit=True) as link:
                yield link
        else:
            file = sqlite3.connect(self.place, timeout=60, isolation_level=None)
            try:
                yield file
            finally:
                file.close()

    def one(self, query: str) -> Any:
        with self.open() as link:
            return link.execute(query.format(s=self.schema)).fetchone()[0]

    def all(self, query: str) -> list[Any]:
        with self.open() as link:
            found: list[Any] = link.execute(query.format(s=self.schema)).fetchall()
            return found

    def prepare(self) -> None:
        Inbox(self.place, topics=set(TOPICS)).close()
        serial = "BIGSERIAL" if self.is_server else "INTEGER PRIMARY KEY"
        with self.open() as link:
            link.execute(f"CREATE TABLE effects(n {serial}, key TEXT)")
            link.execute("CREATE INDEX effects_key ON effects(key)")
            link.execute("CREATE TABLE wrong(key TEXT, cause TEXT)")

    def end_a_connection(self) -> None:
        """End connections of workers in the server, whatever they are doing."""
        with self.open() as link:
            link.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                "application_name = 'antecede inbox' ORDER BY random() LIMIT 2"
            )


def soak(place: str, folder: Path, seconds: float, workers: int, seed: int) -> dict[str, Any]:
    """Run workers and a monkey; return figures. Raise AssertionError if anything is wrong."""
    rng, base = random.Random(seed), Base(place)
    base.prepare()
    kills = ended = looks = 0
    running: dict[int, subprocess.Popen[bytes]] = {}
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            for mine in range(workers):
                if mine not in running or running[mine].poll() is not None:
                    if mine in running:
                        code = running[mine].returncode
                        assert code == -signal.SIGKILL, f"worker {mine} ended with {code}"
                    words = [place, str(folder), str(mine), str(workers), str(rng.random())]
                    running[mine] = subprocess.Popen(
                        [sys.executable, "-m", "tests.inbox.soak", "--work", *words]
                    )
            time.sleep(rng.uniform(0.2, 3.0))
            if base.is_server and rng.random() < 0.4:
                base.end_a_connection()
                ended += 1
            elif rng.random() < 0.8:
                running[rng.randrange(workers)].kill()
                kills += 1
            assert base.one(STUCK) == 0, "something waits for what is done"
            assert base.one(EMPTY) == 0, "something waits for nothing"
            looks += 1
    finally:
        for process in running.values():
            process.kill()
            process.wait()
    figures = finish(base, folder)
    return {"kills": kills, "connections_ended": ended, "looks": looks, **figures}


def finish(base: Base, folder: Path) -> dict[str, Any]:
    """Offer everything once more, and judge."""
    last = max((int(path.read_text()) for path in folder.glob("progress-?")), default=0)
    count = (last + 1) * EPOCH
    work = Work(base.place, folder, 9, 1, 0)
    for number in range(count):
        work.offer(number)
    work.inbox.relay(work.publish)
    report = work.inbox.report()
    assert not work.inbox.waiting(), work.inbox.waiting(5)
    assert (report.waiting, report.ready, report.parked, report.outbox) == (0, 0, 0, 0), report
    work.inbox.close()
    assert base.all("SELECT * FROM wrong LIMIT 5") == []
    keys = [key for (key,) in base.all("SELECT key FROM effects")]
    assert len(keys) == len(set(keys)), "a message was handled twice"
    wanted = {f"{topic}/{name}" for topic, name, _ in map(message, range(count))}
    assert wanted <= set(keys), f"not handled: {sorted(wanted - set(keys))[:5]}"
    sent = published(folder / "published.jsonl")
    return {"messages": len(keys), "published": sent, "epochs": last}


def published(path: Path) -> int:
    """Check that each message was published after its causes; return how many there are."""
    seen: set[str] = set()
    for line in path.read_text().splitlines():
        one = json.loads(line)
        missing = [c for c in one["causes"] if c.startswith("out/") and c not in seen]
        assert not missing, f"{one['key']} was published before {missing}"
        seen.add(one["key"])
    return len(seen)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", nargs=5)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--steps", action="store_true", help="kill at every statement instead")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    if asked.work:
        place, folder, mine, workers, seed = asked.work
        Work(place, Path(folder), int(mine), int(workers), hash(seed)).run()
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print(f"seed {asked.seed}", flush=True)
        if asked.store == "sqlite":
            found = soak(
                str(folder / "inbox.db"), folder, asked.seconds, asked.workers or 2, asked.seed
            )
        else:
            from tests.support.postgres_server import PostgresServer

            with PostgresServer(folder / "postgres", durable=not asked.steps) as server:
                if asked.steps:
                    words = [sys.executable, "-m", "tests.inbox.steps", server.url(), str(folder)]
                    return subprocess.run(words, check=False).returncode
                workers = asked.workers or 4
                found = soak(server.url(), folder, asked.seconds, workers, asked.seed)
    print(json.dumps({"store": asked.store, "seconds": asked.seconds, **found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
