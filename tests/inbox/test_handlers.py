"""Handlers as they should not be: nested, used after their end, with errors that cannot be kept."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from antecede.errors import AntecedeError, StoreError, UsageError
from antecede.inbox import AsyncInbox, Inbox, Offer, Outgoing
from antecede.inbox.stores import memory, sqlite
from tests.inbox.test_inbox import handle

if TYPE_CHECKING:
    from tests.inbox.conftest import Make


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for another writer for a second, so that a test cannot hang."""
    monkeypatch.setattr(sqlite, "PATIENCE", 1.0)
    monkeypatch.setattr(memory, "PATIENCE", 1.0)


def test_the_next_message_does_not_end_the_one_that_is_being_handled(make: Make) -> None:
    inbox = make()
    for message in inbox.offer("0", topic="a"):
        with message as transaction:
            transaction.execute("CREATE TABLE IF NOT EXISTS nested(x TEXT)")
            transaction.execute("DELETE FROM nested")
    inbox.offer("1", topic="a")
    inbox.offer("2", topic="a")
    messages = inbox.ready()
    with contextlib.suppress(UsageError), next(messages) as transaction:
        transaction.execute("INSERT INTO nested VALUES ('a/1')")
        with next(messages):
            pass
    handle(inbox.ready())
    assert inbox.report().done == 3
    rows = []
    for message in inbox.offer("3", topic="a"):
        with message as transaction:
            rows = transaction.execute("SELECT x FROM nested").fetchall()
    # In SQLite the first handler failed as a whole, and `handle` writes nothing.
    assert rows == ([] if inbox._desk.store.is_exclusive else [("a/1",)])  # noqa: SLF001


def test_a_loop_that_ends_inside_a_block_does_not_end_the_block(make: Make) -> None:
    inbox = make()
    with contextlib.ExitStack() as stack:
        for message in inbox.offer("1", topic="a"):
            stack.enter_context(message).send("b", "kept")
            break
    assert inbox.report().done == 1
    assert inbox.relay(lambda out: None) == 1


def test_a_transaction_ends_with_its_block(make: Make) -> None:
    inbox = make()
    for message in inbox.offer("1", topic="a"):
        with message as transaction:
            pass
        with pytest.raises(UsageError, match="the with block of a/1 has ended"):
            transaction.send("b", "lost")
        with pytest.raises(UsageError, match="the with block of a/1 has ended"):
            transaction.execute("SELECT 1")


class SilentError(Exception):
    def __str__(self) -> str:
        raise KeyError


@pytest.mark.parametrize("error", [OSError("\udcff"), ValueError("a\0b"), SilentError()])
def test_any_error_counts_as_a_failure(error: Exception, make: Make) -> None:
    inbox = make(tries=1)
    message = next(inbox.offer("1", topic="a"))
    with pytest.raises(type(error)), message:
        raise error
    assert [one.key for one in inbox.parked()] == ["a/1"]
    assert handle(inbox.offer("2", topic="a")) == ["a/2"]


def test_a_block_may_end_in_another_context(make: Make) -> None:
    inbox = make()
    message = next(inbox.offer("1", topic="a"))
    contextvars.copy_context().run(message.__enter__)
    contextvars.copy_context().run(message.__exit__, None, None, None)
    assert inbox.report().done == 1


def test_messages_of_a_list_are_handled_one_at_a_time(tmp_path: Path) -> None:
    with Inbox(tmp_path / "x.db", topics={"a"}) as inbox:
        inbox.offer("1", topic="a")
        first, second = inbox.offer("2", topic="a")
        with first:
            with pytest.raises(UsageError, match="a/1 is being handled"):
                inbox.offer("3", topic="a")
            with pytest.raises(UsageError, match="a/1 is being handled"), second:
                pass
        assert handle(inbox.ready()) == ["a/2"]


def test_a_group_begins_and_ends_without_an_open_message(tmp_path: Path) -> None:
    with Inbox(tmp_path / "x.db", topics={"a"}) as inbox:
        messages = inbox.offer("1", topic="a")
        next(messages)
        with inbox.group():
            again = inbox.ready()
            message = next(again)
        with message:
            pass
        assert inbox.report().done == 1
        with contextlib.suppress(ZeroDivisionError), inbox.group():
            again = inbox.offer("2", topic="a")
            assert len(next(again).id) == 1 / 0
        del again
        assert handle(inbox.offer("3", topic="a")) == ["a/3"]
        with pytest.raises(UsageError, match="the group ended before the with block of a/4"):
            _outlive(inbox)
        assert handle(inbox.offer("4", topic="a")) == ["a/4"]


def _outlive(inbox: Inbox) -> None:
    with contextlib.ExitStack() as stack, inbox.group():
        stack.enter_context(next(inbox.offer("4", topic="a")))


@pytest.mark.parametrize("place", [None, "x.db"])
def test_a_handler_that_commits_is_not_done(place: str | None, tmp_path: Path) -> None:
    with Inbox(place and tmp_path / place, topics={"a"}) as inbox:
        with (
            pytest.raises(StoreError, match="leave COMMIT and ROLLBACK to the inbox"),
            next(inbox.offer("1", topic="a")) as transaction,
        ):
            transaction.execute("COMMIT")
        assert handle(inbox.ready()) == ["a/1"]


def test_in_memory_two_handlers_that_write_do_not_wait_for_ever() -> None:
    inbox = Inbox(None, topics={"a"})
    refused: list[AntecedeError] = []

    def write(messages: Any, statement: str) -> None:
        for message in messages:
            with message as transaction:
                transaction.execute(statement)
                if message.id == "1":
                    with pytest.raises(StoreError, match="another handler") as error:
                        write(inbox.offer("2", topic="a"), "CREATE TABLE IF NOT EXISTS two(x)")
                    refused.append(error.value)

    write(inbox.offer("1", topic="a"), "CREATE TABLE IF NOT EXISTS one(x)")
    assert len(refused) == 1
    assert inbox.report().done == 2


def test_a_handler_may_offer_to_another_inbox_of_asyncio(tmp_path: Path) -> None:
    async def offer() -> str:
        state = ""
        async with (
            AsyncInbox(None, topics={"a"}) as here,
            AsyncInbox(tmp_path / "x.db", topics={"a"}) as there,
        ):
            async for message in here.offer("1"):
                async with message:
                    state = await there.offer("1")
        return state

    assert asyncio.run(offer()) == "ready"


@pytest.mark.parametrize("place", [None, "x.db"])
def test_messages_of_a_list_wait_for_their_turn_in_asyncio(
    place: str | None, tmp_path: Path
) -> None:
    async def run() -> None:
        async with AsyncInbox(place and tmp_path / place, topics={"a"}) as inbox:
            await inbox.offer("1")
            await inbox.offer("2")
            messages = [message async for message in inbox.ready()]

            async def write(message: Any) -> None:
                async with message as transaction:
                    await asyncio.sleep(0.05)
                    await transaction.execute("CREATE TABLE IF NOT EXISTS listed(x)")

            await asyncio.gather(*map(write, messages), inbox.take(Offer("3")))
            assert (await inbox.report()).done == 2

    asyncio.run(run())


def test_a_relay_inside_a_relay_leaves_the_outbox_to_it(make: Make) -> None:
    inbox = make()
    went: list[str] = []

    def publish(out: Outgoing) -> None:
        for message in inbox.offer(**out.offer()):
            with message as transaction:
                if message.id != "3":
                    transaction.send("b", id=str(int(message.id) + 1))
        assert inbox.relay(publish) == 0
        went.append(out.id)

    for message in inbox.offer("0", topic="a"):
        with message as transaction:
            transaction.send("b", id="1")
    assert inbox.relay(publish) == 3
    assert went == ["1", "2", "3"]


def test_a_relay_inside_a_relay_of_asyncio_leaves_the_outbox_to_it() -> None:
    async def run() -> None:
        async with AsyncInbox(None, topics={"a"}) as inbox:

            async def publish(_: Outgoing) -> None:
                assert await inbox.relay(publish) == 0

            async for message in inbox.offer("1"):
                async with message as transaction:
                    transaction.send("b")
            assert await asyncio.wait_for(inbox.relay(publish), 5) == 1

    asyncio.run(run())


def test_an_id_that_was_sent_before_is_dropped_not_an_error(make: Make) -> None:
    inbox, there = make(), Inbox(None, topics={"mails"})
    inbox.offer("1", topic="a")
    for message in inbox.offer("2", topic="a"):
        with message as transaction:
            transaction.send("mails", message.id, id="17")
            transaction.send("mails", "again", id="17")
    got: list[Any] = []
    inbox.relay(lambda out: got.extend(one.body for one in there.offer(**out.offer())))
    assert (got[0], inbox.report().done, there.report().ready) == ("1", 2, 1)
