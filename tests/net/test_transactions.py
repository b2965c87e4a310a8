"""Answers are neither lost nor duplicated, even if messages never come."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import Any

import pytest

from antecede.errors import UsageError
from antecede.net import Limits, Node
from antecede.testing import Disk, Host, Network, run
from tests.net.test_node import node_on, take, three

ORDERS = 60
LIMITS = Limits(linger_seconds=0)


async def shop(handle: Any, seed: int) -> list[bytes]:
    """Let b answer orders of a, and crash repeatedly; return the answers that a got."""
    network = Network(seed=seed)
    host, invoices = Host(network, "b"), list[bytes]()

    async def serve(host: Host) -> None:
        async with node_on(network, "b", store=host.store, limits=LIMITS) as b:
            async for delivery in b:
                await handle(b, delivery)

    async with node_on(network, "a", limits=LIMITS) as a:
        host.start(serve)

        async def collect() -> None:
            async for delivery in a:
                invoices.append(delivery.payload)
                await delivery.done()

        collecting = asyncio.create_task(collect())
        for number in range(ORDERS):
            await a.send(["b"], b"order %d" % number)
            await asyncio.sleep(network.random.uniform(0, 0.05))
            if number % 2 == 0:
                host.crash()
                host.start(serve)
        await asyncio.sleep(600)
        collecting.cancel()
        host.crash()
    return invoices


async def in_a_transaction(node: Node, delivery: Any) -> None:
    del node
    async with delivery as transaction:
        await transaction.send(["a"], b"invoice for " + delivery.payload)


async def one_after_the_other(node: Node, delivery: Any) -> None:
    await node.send(["a"], b"invoice for " + delivery.payload)
    await delivery.done()


def test_sixty_orders_get_sixty_invoices_whenever_the_shop_crashes() -> None:
    expected = [b"invoice for order %d" % number for number in range(ORDERS)]
    for seed in range(5):
        assert run(shop(in_a_transaction, seed)) == expected
    assert any(len(run(shop(one_after_the_other, seed))) > ORDERS for seed in range(5))


def test_with_a_database_of_ones_own_each_effect_happens_once() -> None:
    """The recipe of docs/nodes.md: keep the message's id with the row."""
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE invoice (message TEXT PRIMARY KEY, text TEXT)")

    async def into_the_database(node: Node, delivery: Any) -> None:
        del node
        with base:
            base.execute(
                "INSERT INTO invoice VALUES (?, ?) ON CONFLICT DO NOTHING",
                (str(delivery.message), delivery.payload.decode()),
            )
        await delivery.done()

    run(shop(into_the_database, 1))
    rows = [text for (text,) in base.execute("SELECT text FROM invoice ORDER BY rowid")]
    base.close()
    assert rows == [f"order {number}" for number in range(ORDERS)]


def test_a_transaction_is_one_entry_of_the_journal_or_nothing() -> None:
    async def main() -> None:
        network = Network(seed=1)
        disk = Disk(network)
        async with (
            node_on(network, "a", store=disk.view(), limits=LIMITS) as a,
            node_on(network, "b", limits=LIMITS) as b,
        ):
            await b.send(["a"], b"1")
            delivery = await anext(a)
            await asyncio.sleep(1)
            writes = disk.writes
            async with delivery as transaction:
                await transaction.send(["b"], b"x")
                await transaction.send(["b", "c"], b"y")
            assert disk.writes == writes + 1
            assert [one.seq for one in transaction.sent] == [1, 2]
            assert await take(b, 2) == [b"x", b"y"]
            with pytest.raises(UsageError, match="done already"):
                async with delivery as transaction:
                    await transaction.send(["b"], b"again")
            await b.send(["a"], b"2")
            delivery = await anext(a)
            for wrong in (["b"], b"x" * (2 << 20)), (["nobody"], b""), (["b"], "text"):
                with pytest.raises(UsageError):  # noqa: PT012
                    async with delivery as transaction:
                        await transaction.send(["b"], b"not sent")
                        await transaction.send(*wrong)
            with pytest.raises(ValueError, match="the handler failed"):  # noqa: PT012
                async with delivery as transaction:
                    await transaction.send(["b"], b"not sent")
                    msg = "the handler failed"
                    raise ValueError(msg)
            assert (await a.send(["b"], b"third")).seq == 3
            assert await take(b, 1) == [b"third"]

    run(main())


def test_a_transaction_whose_block_was_left_takes_nothing_more() -> None:
    async def main() -> None:
        network = Network(seed=1)
        async with node_on(network, "a", limits=LIMITS) as a:
            await a.send(["a"], b"question")
            delivery = await anext(a)
            async with delivery as transaction:
                pass
            with pytest.raises(UsageError, match="the block of this transaction was left"):
                await transaction.send(["a"], b"too late")

    run(main())


@pytest.mark.parametrize("protocol", ["optimal", "buffered"])
def test_a_transaction_waits_for_room(protocol: str) -> None:
    async def main() -> None:
        network = Network(seed=1)
        options = {"queue_max": 4} if protocol == "buffered" else {}
        limits = Limits(linger_seconds=0, outbox_count=3)
        given: Any = {"protocol": protocol, "options": options, "limits": limits}
        async with three(network, **given) as nodes:
            a, b, c = (nodes[name] for name in "abc")
            await b.send(["a"], b"question")
            delivery = await anext(a)
            network.partition(["a"], ["c"])
            for _ in range(3):
                await a.send(["c"], b"fills it")

            async def answer() -> None:
                async with delivery as transaction:
                    for number in range(3):
                        await transaction.send(["c"], b"%d" % number)

            task = asyncio.create_task(answer())
            await asyncio.sleep(20)
            assert not task.done()
            network.heal()
            assert await take(c, 6) == [b"fills it"] * 3 + [b"0", b"1", b"2"]
            await task

    run(main())


def test_what_never_comes_is_given_up_after_a_while(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        network = Network(seed=1)
        limits = Limits(linger_seconds=0, held_seconds_max=20, on_lost="mark")
        async with three(network, limits=limits) as nodes:
            a, b, c = (nodes[name] for name in "abc")
            network.partition(["a"], ["c"])
            await a.send(["b", "c"], b"question")
            assert await take(b, 1) == [b"question"]
            await b.send(["c"], b"answer")
            begin = asyncio.get_running_loop().time()
            delivery = await anext(c)
            assert 19 < asyncio.get_running_loop().time() - begin < 30
            assert [(need.process, need.number) for need in delivery.unmet] == [("a", 1)]
            network.heal()
            async with asyncio.timeout(100):
                await a.flush()  # what comes too late is acknowledged all the same
            await a.send(["c"], b"next")
            assert await take(c, 1) == [b"next"]

    run(main())
    assert "c: gave up on messages of a up to 1, which did not come for 20 s" in caplog.messages


def test_a_message_given_up_stays_given_up_after_a_restart() -> None:
    async def main() -> None:
        network = Network(seed=1)
        disk = Disk(network)
        async with node_on(network, "a", limits=LIMITS) as a, node_on(network, "b") as b:
            async with node_on(network, "c", store=disk.view()) as c:
                network.partition(["a"], ["c"])
                await a.send(["b", "c"], b"question")
                await take(b, 1)
                await b.send(["c"], b"answer")
                await asyncio.sleep(5)
                (held,) = c.waiting()
                await c.skip("a", held.needs[0].number)
                assert await take(c, 1) == [b"answer"]
            network.heal()
            async with node_on(network, "c", store=disk.view()) as c, asyncio.timeout(100):
                await a.flush()
                await a.send(["c"], b"next")
                assert await take(c, 1) == [b"next"]

    run(main())


def test_limits_of_waiting_need_each_other() -> None:
    wrongs: list[Any] = [{"held_seconds_max": 5}, {"on_lost": "mark"}, {"on_lost": "x"}]
    for wrong in wrongs:
        with pytest.raises(UsageError, match="on_lost"):
            Limits(**wrong)


def test_a_transaction_to_oneself_goes_on_when_the_inbox_is_full() -> None:
    async def main() -> None:
        limits = Limits(inbox_count=1, linger_seconds=0)
        async with node_on(Network(seed=1), "a", limits=limits) as a, asyncio.timeout(100):
            await a.send(["a"], b"0")
            for number in range(1, 4):
                async with await anext(a) as transaction:
                    await transaction.send(["a"], b"%d" % number)
            assert (await anext(a)).payload == b"3"

    run(main())
