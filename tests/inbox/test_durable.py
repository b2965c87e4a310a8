"""Crashes, races, full disks, absent servers, other versions, and other people's bugs."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing as mp
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from antecede.errors import StoreError, UsageError
from antecede.inbox import AsyncInbox, Inbox, Offer
from antecede.inbox.stores import sql, sqlite
from tests.inbox.conftest import place_of
from tests.inbox.soak import soak
from tests.inbox.test_inbox import Clock, handle
from tests.support.postgres_server import PostgresServer
from tests.support.rounds import TIMES

if TYPE_CHECKING:
    from tests.inbox.conftest import Make

ROOT = Path(__file__).resolve().parents[2]


def test_a_worker_may_be_killed_at_any_statement(
    durable: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = "sqlite" if durable == "sqlite" else request.getfixturevalue("postgres").url()
    every = max(1, (3 if durable == "sqlite" else 10) // TIMES)  # `make soak` tries all of them
    done = subprocess.run(
        [sys.executable, "-m", "tests.inbox.steps", place, str(tmp_path), str(every)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > 40


def test_a_few_seconds_of_the_soak(tmp_path: Path) -> None:
    found = soak(str(tmp_path / "inbox.db"), tmp_path, 5, 2, 7)
    assert found["messages"] > 0


def race(url: str, name: str, part: int, parts: int, count: int) -> None:
    """Offer every n-th link of a chain, effects first; handle ready messages."""
    with Inbox(url, name=name, topics={"a"}) as inbox:
        for n in reversed(range(part, count, parts)):
            for message in inbox.offer(str(n), causes=[f"a/{n - 1}"] if n else [], topic="a"):
                with message as transaction:
                    values = (name, int(message.id))
                    transaction.execute("INSERT INTO chain(name, n) VALUES (%s, %s)", values)


def test_processes_that_race_handle_a_chain_once_and_in_order(
    postgres: PostgresServer, request: pytest.FixtureRequest
) -> None:
    import psycopg

    url, more = place_of("postgresql", request)
    name, count = more["name"], 80
    with psycopg.connect(url, autocommit=True) as link:
        link.execute("CREATE TABLE IF NOT EXISTS chain(at BIGSERIAL, name TEXT, n INTEGER)")
    Inbox(url, name=name, topics={"a"}).close()
    spawn = mp.get_context("spawn")
    jobs = [spawn.Process(target=race, args=(url, name, part, 4, count)) for part in range(4)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(600)
    assert [job.exitcode for job in jobs] == [0] * 4
    with Inbox(url, name=name) as inbox:
        handle(inbox.ready())
        assert inbox.waiting() == []
        assert inbox.report().done == count
    with psycopg.connect(url) as link:
        rows = link.execute("SELECT n FROM chain WHERE name = %s ORDER BY at", (name,)).fetchall()
    assert [n for (n,) in rows] == list(range(count))


def hang(url: str, name: str, is_in: Any) -> None:
    with Inbox(url, name=name) as inbox:
        for message in inbox.ready():
            with message:
                is_in.set()
                time.sleep(600)


def test_a_message_is_with_one_instance_and_comes_back_from_a_dead_one(
    postgres: PostgresServer, request: pytest.FixtureRequest
) -> None:
    url, more = place_of("postgresql", request)
    with Inbox(url, **more, topics={"a"}) as inbox:
        inbox.offer("1", "body", topic="a")
        spawn = mp.get_context("spawn")
        is_in = spawn.Event()
        job = spawn.Process(target=hang, args=(url, more["name"], is_in))
        job.start()
        assert is_in.wait(300)
        assert list(inbox.ready()) == []
        assert job.pid is not None
        os.kill(job.pid, signal.SIGKILL)
        job.join()
        end = time.monotonic() + 300
        while not (found := handle(inbox.ready())) and time.monotonic() < end:
            time.sleep(0.05)
        assert found == ["a/1"]


def test_the_server_may_be_away_for_a_while() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,  # not tmp_path: see the fixture of the server
        PostgresServer(Path(folder) / "server") as server,
        Inbox(server.url(), topics={"a"}) as inbox,
    ):
        handle(inbox.offer("0", topic="a"))
        inbox.offer("2", causes=["a/1"], topic="a")
        message = next(inbox.offer("3", topic="a"))
        with pytest.raises(StoreError, match="cannot write to the inbox"), message:
            server.stop()
        for step in (
                lambda: inbox.offer("4", topic="a"), lambda: list(inbox.ready()), inbox.waiting,
            ):  # fmt: skip
            with pytest.raises(StoreError, match="try again when the server answers"):
                step()
        server.start()
        assert handle(inbox.offer("4", topic="a")) == ["a/3", "a/4"]
        assert handle(inbox.offer("1", topic="a")) == ["a/1", "a/2"]


def test_a_handler_that_hides_an_error_of_the_database_is_told(
    postgres: PostgresServer, request: pytest.FixtureRequest
) -> None:
    import psycopg

    url, more = place_of("postgresql", request)
    with Inbox(url, **more, topics={"a"}) as inbox:
        message = next(inbox.offer("1", topic="a"))
        hidden = contextlib.suppress(psycopg.Error)
        ended = pytest.raises(UsageError, match="failed or was ended inside its handler")
        with ended, message as transaction, hidden:
            transaction.execute("SELECT 1/0")
        assert handle(inbox.ready()) == ["a/1"]


def test_a_full_disk_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = Inbox(tmp_path / "x.db", topics={"a"})
    inbox.offer("2", "waits", causes=["a/1"], topic="a")
    link = inbox._desk.store._base._writer.connection  # type: ignore[attr-defined]
    (pages,) = link.execute("PRAGMA page_count").fetchone()
    link.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="full; make room, then offer again"):
        inbox.offer("big", bytes(1 << 20), topic="a")
    message = next(inbox.offer("1", topic="a"))
    with pytest.raises(sqlite3.OperationalError, match="full"), message as transaction:
        transaction.execute("CREATE TABLE mine AS SELECT zeroblob(1 << 20)")
    link.execute("PRAGMA max_page_count = 1000000")
    assert handle(inbox.offer("big", bytes(1 << 20), topic="a")) == ["a/big", "a/1", "a/2"]
    inbox.close()


def test_another_version_is_refused(make_durable: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make_durable()
    with first._desk.store._base.writing() as link:  # type: ignore[attr-defined]
        link.run("UPDATE antecede_meta SET value = '99' WHERE name = 'version'")
    with pytest.raises(StoreError, match="has tables of version 99, this antecede knows 1"):
        make_durable(again=True)


def test_tables_are_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Inbox(tmp_path / "x.db", topics={"a"}) as inbox:
        inbox.offer("2", causes=["a/1"], topic="a")
    step = "ALTER TABLE antecede_messages ADD COLUMN colour TEXT"
    monkeypatch.setattr(sqlite, "MIGRATIONS", (*sqlite.MIGRATIONS, step))
    for module in (sqlite, sql):
        monkeypatch.setattr(module, "VERSION", 2)
    with Inbox(tmp_path / "x.db") as inbox:
        assert handle(inbox.offer("1", topic="a")) == ["a/1", "a/2"]
    link = sqlite3.connect(tmp_path / "x.db")
    assert link.execute("SELECT colour FROM antecede_messages").fetchall() == [(None,)] * 2
    link.close()


def test_files_that_are_no_inbox_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("not a database, for sure; " * 100)
    for place in (text, tmp_path, tmp_path / "no" / "folder"):
        with pytest.raises(StoreError, match="cannot open the inbox"):
            Inbox(place, topics={"a"})
    with pytest.raises(UsageError, match="this inbox is new; say what it subscribes to"):
        Inbox(tmp_path / "new.db")
    with pytest.raises(StoreError, match=r"cannot open the inbox at 127\.0\.0\.1"):
        Inbox("postgresql://u:secret@127.0.0.1:1/x", topics={"a"})


def test_an_error_never_tells_the_password() -> None:
    with pytest.raises(StoreError) as refused:
        Inbox("postgresql://u:secret@127.0.0.1:1/x", topics={"a"})
    assert "secret" not in str(refused.value)


# Bugs that others have published, replayed.


@pytest.mark.parametrize("turn", range(8))
def test_two_workers_with_parent_and_child_at_once(make: Make, turn: int) -> None:
    """Prefect: each worker looked before the other had written, and the child was stranded."""
    inbox = make()
    gate = threading.Barrier(2)
    handled: list[str] = []

    def work(name: str, causes: list[str]) -> None:
        gate.wait()
        for message in inbox.offer(name, causes=causes, topic="a"):
            with message:
                handled.append(message.key)

    jobs = [("parent", []), ("child", ["a/parent"])]
    threads = [threading.Thread(target=work, args=job) for job in jobs[:: 1 - 2 * (turn % 2)]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handled += handle(inbox.ready())
    assert handled == ["a/parent", "a/child"]
    assert inbox.waiting() == []


def test_a_parent_that_comes_after_the_limit(make: Make) -> None:
    """Prefect: a parent that came after the look-back was lost, or its child never ran."""
    clock = Clock()
    inbox = make(patience=900, then="release", remember=900, clock=clock)
    assert handle(inbox.offer("child", causes=["a/parent"], topic="a")) == []
    clock.now += 901
    (child,) = list(inbox.ready())
    with child:
        pass
    (parent,) = list(inbox.offer("parent", topic="a"))
    assert parent.late
    with parent:
        pass
    assert handle(inbox.offer("next", causes=["a/parent"], topic="a")) == ["a/next"]


def test_a_child_whose_parent_is_processed_already_does_not_stall(make: Make) -> None:
    """Prefect: such a child waited for its parent for fifteen minutes."""
    inbox = make()
    assert handle(inbox.offer("parent", topic="a")) == ["a/parent"]
    assert handle(inbox.offer("child", causes=["a/parent"], topic="a")) == ["a/child"]
    # Neither does one that came while the parent was in the hands of its handler.
    if inbox._desk.store.is_exclusive:
        return
    for message in inbox.offer("second", topic="a"):
        with message:
            if message.id == "second":
                inbox.offer("after", causes=["a/second"], topic="a")
    handle(inbox.ready())
    assert inbox.report().done == 4


# asyncio.


def test_the_form_for_asyncio(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    place, more = place_of(kind, request)
    mark = "%s" if kind == "postgresql" else "?"

    async def fetch(missing: list[str]) -> list[Offer]:
        return [Offer("9", topic="a")] if "a/9" in missing else []

    async def run() -> None:
        clock = Clock()
        options: dict[str, Any] = {"fetch": fetch, "clock": clock, "patience": 60, "then": "park"}
        async with AsyncInbox(place, topics={"a", "b"}, **more, **options) as inbox:
            assert await inbox.offer("2", "body", causes=["a/1"], topic="b") == "waiting"
            order = []

            async def one(name: str) -> None:
                async for message in inbox.offer(name, topic="a"):
                    async with message as transaction:
                        table = "CREATE TABLE IF NOT EXISTS mine_async(x TEXT)"
                        await transaction.execute(table)
                        await transaction.execute(
                            f"INSERT INTO mine_async VALUES ({mark})", (message.key,)
                        )
                        transaction.send("out", message.body)
                        order.append(message.key)

            if kind == "postgresql":
                await one("1")
                await one("3")
            else:
                await asyncio.gather(one("1"), one("3"))
            async for message in inbox.ready():
                async with message:
                    order.append(message.key)
            assert sorted(order) == ["a/1", "a/3", "b/2"]
            assert order.index("a/1") < order.index("b/2")
            await inbox.offer("4", topic="a")
            async for message in inbox.ready():
                with contextlib.suppress(ZeroDivisionError):
                    async with message:
                        _ = 1 / 0
            async for message in inbox.ready():
                assert message.attempt == 2
            out: list[Any] = []

            async def publish(one: Any) -> None:
                out.append(one.body)

            assert await inbox.relay(publish) == len(out) >= 2
            await inbox.offer("5", causes=["a/9"], topic="a")
            assert (await inbox.waiting())[0].key == "a/5"
            clock.now += 2
            keys = [message.key async for message in inbox.ready()]
            assert sorted(keys) == ["a/4", "a/9"]
            await inbox.park("a/9", "no")
            await inbox.release("5")
            await inbox.retry("9")
            assert await inbox.parked() == []
            assert (await inbox.report()).ready == 3
            assert await inbox.events(tmp_path / "log.jsonl") > 5
            if kind == "sqlite":
                async with inbox.group():
                    assert await inbox.offer("6", topic="a") == "ready"
                assert (await inbox.report()).ready == 4

    asyncio.run(run())


def test_an_asyncio_loop_over_messages_may_use_the_inbox(
    kind: str, request: pytest.FixtureRequest
) -> None:
    place, more = place_of(kind, request)

    async def run() -> list[str]:
        seen = []
        async with AsyncInbox(place, topics={"a"}, **more) as inbox:
            await inbox.offer("1", topic="a")
            async for message in inbox.offer("2", topic="a"):
                if message.id == "1":  # without a with block: it is given back, and parked
                    await inbox.park(message.id)
                    await inbox.park(message.id, "once more")
                    continue
                async with message:
                    seen.append(message.key)
                if len(seen) < 3:
                    await inbox.offer(str(len(seen) + 2), topic="a")
            assert [one.reason for one in await inbox.parked()] == ["once more"]
        return seen

    assert asyncio.run(asyncio.wait_for(run(), 30)) == ["a/2", "a/3", "a/4"]


async def sent(inbox: AsyncInbox, name: str) -> None:
    async for message in inbox.offer(name, topic="a"):
        async with message as transaction:
            transaction.send("out", id=message.id)


def test_two_asyncio_relays_take_turns_and_a_cancelled_one_keeps_nothing(
    kind: str, request: pytest.FixtureRequest
) -> None:
    place, more = place_of(kind, request)

    async def run() -> list[str]:
        went: list[str] = []
        begun, go_on = asyncio.Event(), asyncio.Event()

        async def publish(one: Any) -> None:
            begun.set()
            await go_on.wait()
            went.append(one.id)

        async with AsyncInbox(place, topics={"a"}, **more) as inbox:
            await sent(inbox, "1")
            first = asyncio.create_task(inbox.relay(publish))
            await begun.wait()
            second, third = (asyncio.create_task(inbox.relay(publish)) for _ in range(2))
            await asyncio.sleep(0.1)
            second.cancel()
            go_on.set()
            await asyncio.wait([first, second, third])
            assert first.result() == 1
            await sent(inbox, "2")
            assert await inbox.relay(publish) == 1
        return went

    assert asyncio.run(asyncio.wait_for(run(), 60)) == ["1", "2"]


def test_a_task_that_is_cancelled_at_any_moment_keeps_nothing(
    kind: str, request: pytest.FixtureRequest
) -> None:
    place, more = place_of(kind, request)

    async def run() -> None:
        went: set[str] = set()

        async def publish(one: Any) -> None:
            await asyncio.sleep(0)
            went.add(one.id)

        async with AsyncInbox(place, topics={"a"}, **more) as inbox:
            for number in range(40):

                async def work(name: str = f"{number}") -> None:
                    await sent(inbox, name)
                    await inbox.relay(publish)

                task = asyncio.create_task(work())
                await asyncio.sleep(number % 20 / 4000)
                task.cancel()
                await asyncio.wait([task])
            for number in range(40):
                await sent(inbox, f"{number}")
            await inbox.relay(publish)
            report = await inbox.report()
        assert (report.done, report.ready, report.outbox) == (40, 0, 0)
        assert went == {f"{number}" for number in range(40)}

    asyncio.run(asyncio.wait_for(run(), 60))


def test_each_relay_finds_the_outbox_free_after_the_one_before(make_durable: Make) -> None:
    inbox = make_durable()
    for number in range(15):
        for message in inbox.offer(f"{number}", topic="a"):
            with message as transaction:
                transaction.send("out", id=f"{number}")
    assert [inbox.relay(lambda out: None, limit=1) for _ in range(15)] == [1] * 15
