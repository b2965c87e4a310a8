"""Wrong types, closed inboxes, forks and files of others: refused in one line, nothing done."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from antecede.errors import AntecedeError, StoreError, UsageError
from antecede.inbox import AsyncInbox, Inbox, Offer
from tests.inbox.test_inbox import Clock, handle

if TYPE_CHECKING:
    from tests.inbox.conftest import Make
    from tests.support.postgres_server import PostgresServer


def refused(call: Any, said: str, error: type[AntecedeError] = UsageError) -> None:
    with pytest.raises(error) as found:
        call()
    assert said in str(found.value)
    assert "\n" not in str(found.value)


@pytest.mark.parametrize("name", ["fetch", "causes", "clock"])
def test_what_is_called_must_be_a_function(name: str) -> None:
    options: Any = {name: 5}
    refused(lambda: Inbox(None, topics={"a"}, **options), f"{name} is 5; give a function")


@pytest.mark.parametrize(
    "found", [5, [5], "xy", {"a": 1}, [None], Offer("1", topic="a"), [Offer("1", topic="a"), ()]]
)
def test_what_fetch_returns_must_be_offers(found: Any) -> None:
    clock = Clock()
    inbox = Inbox(None, topics={"a"}, fetch=lambda _: found, clock=clock)
    inbox.offer("2", causes=["1"])
    clock.now += 2
    refused(inbox.ready, "return a list of Offer, or None")
    assert handle(inbox.ready()) == []


@pytest.mark.parametrize("limit", [-1, "x", 1.5, True])
def test_a_limit_must_be_a_number(limit: Any, make: Make) -> None:
    inbox = make()
    for call in (inbox.waiting, inbox.parked, lambda most: inbox.relay(print, most)):
        refused(lambda call=call: call(limit), f"limit is {limit!r}")


def test_other_arguments_must_be_of_their_types(make: Make) -> None:
    inbox: Any = make()
    inbox.offer("1", topic="a")
    reason: Any
    for reason in (5, None, []):
        refused(lambda reason=reason: inbox.park("1", reason), f"reason is {reason!r}; give text")
    inbox.park("1", "two\nlines \udcff\0")
    assert [one.reason for one in inbox.parked()] == ["two\\nlines \\udcff\\x00"]
    for path in (5, None, "", "/"):
        refused(lambda path=path: inbox.events(path), f"event log is {path!r}")
    refused(lambda: inbox.relay(None), "publish is None; give a function")
    refused(lambda: Inbox(None, topics={"a"}, name=5), "name is 5")  # type: ignore[arg-type]


@pytest.mark.parametrize("causes", [5, "a/1", b"a"])
def test_causes_of_a_send_must_be_a_list(causes: Any, make: Make) -> None:
    for message in make().offer("1", topic="a"):
        with message as transaction:
            refused(lambda: transaction.send("b", causes=causes), "give a list of ids")
            assert transaction.send("b", causes=None).causes == ("a/1",)


@pytest.mark.parametrize("place", [":memory:", "a\0b", "postgresql://[x"])
def test_a_place_that_cannot_be_is_refused(place: str) -> None:
    with pytest.raises(UsageError):
        Inbox(place, topics={"a"})


def test_postgresql_says_what_it_cannot_hold(postgres: PostgresServer) -> None:
    for name in ("joe's", '"', "50%", "who?", "$$", "a\\"):
        refused(lambda name=name: Inbox(postgres.url(), name=name, topics={"a"}), "has none of")
    long = "\N{SNOWMAN}" * 1024
    with Inbox(postgres.url(), name="long names", topics={"a"}) as inbox:
        refused(lambda: inbox.offer(long), "has 3,074 bytes; in PostgreSQL")
        refused(lambda: inbox.offer("1", causes=[long]), "has 3,074 bytes; in PostgreSQL")
        assert handle(inbox.offer("x" * 1024)) == ["a/" + "x" * 1024]


@pytest.mark.parametrize("version", [None, "abc"])
def test_a_table_of_ours_without_a_version_is_refused(version: Any, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.db") as link:
        link.execute("CREATE TABLE antecede_meta(name, value)")
        link.execute("INSERT INTO antecede_meta VALUES ('version', ?)", (version,))
    refused(lambda: Inbox(tmp_path / "x.db", topics={"a"}), "it is damaged or not ours", StoreError)


def test_a_closed_inbox_publishes_nothing(make_durable: Make) -> None:
    inbox = make_durable()
    for message in inbox.offer("1", topic="a"):
        with message as transaction:
            transaction.send("b")
    inbox.close()
    went: list[Any] = []
    for call in (lambda: inbox.relay(went.append), inbox.waiting, inbox.ready):
        refused(lambda call=call: list(call()), "is closed; open it again")
    assert went == []


def test_an_inbox_of_the_parent_process_is_of_no_use(make_durable: Make) -> None:
    inbox = make_durable()
    for message in inbox.offer("1", topic="a"):
        with message as transaction:
            transaction.send("b")
    went: list[Any] = []
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for call in (lambda: inbox.relay(went.append), inbox.waiting):
                refused(call, "was opened before a fork")
            status = len(went)
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert inbox.relay(went.append) == 1


def test_a_closed_inbox_of_asyncio_says_so() -> None:
    async def use() -> None:
        inbox = AsyncInbox(None, topics={"a"})
        await inbox.close()
        await inbox.close()
        await inbox.offer("1")

    refused(lambda: asyncio.run(use()), "this AsyncInbox is closed; open it again")
