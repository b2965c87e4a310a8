"""The examples built on nodes: on a bad network in virtual time, and once over TCP."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from antecede.net import Node
from antecede.testing import Network, run
from examples.lock import Lock
from examples.monitor import cash, shop, watch
from examples.node_chat import chat
from examples.references import Heap
from examples.snapshot import Account

NAMES = ("ann", "bob", "cat")
SEEDS = range(5)


def bad_network(seed: int) -> Network:
    return Network(seed=seed, delay=(0.001, 2.0), loss=0.1, duplication=0.1)


@asynccontextmanager
async def three(network: Network) -> AsyncIterator[dict[str, Node]]:
    async with AsyncExitStack() as stack:
        nodes = {}
        for name in NAMES:
            node = Node(name, peers=NAMES, transport=network.transport(name), seed=1)
            nodes[name] = await stack.enter_async_context(node)
        yield nodes


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("store", "about the photo b'of the lake'"),
        ("monitor", "ordered tea"),
        ("snapshot", "all the money: 300"),
        ("lock", "bob has the lock"),
        ("references", "freed ann/picture"),
    ],
)
def test_an_example_runs(name: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(importlib.import_module(f"examples.{name}").main())
    assert told in capsys.readouterr().out


@pytest.mark.parametrize("seed", SEEDS)
def test_an_answer_is_shown_after_its_question(seed: int) -> None:
    async def main() -> list[str]:
        async with three(bad_network(seed)) as nodes:
            seen: list[str] = []
            asked, done = asyncio.Event(), asyncio.Event()

            async def question() -> AsyncIterator[str]:
                yield "question"
                yield "@nobody hello"
                await done.wait()

            async def answer() -> AsyncIterator[str]:
                await asked.wait()
                yield "answer"
                yield "@cat psst"
                await done.wait()

            async def silence() -> AsyncIterator[str]:
                await done.wait()
                for line in list[str]():
                    yield line

            def show(_who: str, text: str) -> None:
                seen.append(text)
                if len(seen) == 3:
                    done.set()

            await asyncio.gather(
                chat(nodes["ann"], question(), lambda *_: None),
                chat(nodes["bob"], answer(), lambda *_: asked.set()),
                chat(nodes["cat"], silence(), show),
            )
            return seen

    assert run(main()) == ["question", "answer", "psst"]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_monitor_never_cries_wolf(seed: int) -> None:
    async def main() -> list[str]:
        async with three(bad_network(seed)) as nodes:
            till = asyncio.create_task(cash(nodes["bob"], "cat"))
            await shop(nodes["ann"], "cat", "bob", ["tea", "coffee", "milk"])
            seen = await watch(nodes["cat"], 6)
            till.cancel()
            return seen

    seen = run(main())
    assert not [text for text in seen if text.startswith("alarm")]
    assert len(seen) == 6


@pytest.mark.parametrize("seed", SEEDS)
def test_no_money_appears_or_vanishes(seed: int) -> None:
    async def main() -> None:
        network = bad_network(seed)
        async with three(network) as nodes, AsyncExitStack() as stack:
            accounts = [
                await stack.enter_async_context(Account(nodes[name], 100)) for name in NAMES
            ]

            async def trade(account: Account) -> None:
                for _ in range(20):
                    await account.pay(network.random.choice(NAMES), network.random.randrange(50))
                    await asyncio.sleep(network.random.random())

            trades = asyncio.gather(*map(trade, accounts))
            for account in accounts:
                assert await account.total() == 300
            await trades
            assert await accounts[0].total() == 300

    run(main())


@pytest.mark.parametrize("seed", SEEDS)
def test_one_at_a_time_has_the_lock_and_everyone_gets_it(seed: int) -> None:
    inside: list[str] = []
    turns: list[str] = []

    async def work(lock: Lock) -> None:
        for _ in range(3):
            async with lock.held():
                inside.append(lock.node.process)
                assert len(inside) == 1
                await asyncio.sleep(0.5)
                turns.append(inside.pop())

    async def main() -> None:
        async with three(bad_network(seed)) as nodes, AsyncExitStack() as stack:
            locks = [await stack.enter_async_context(Lock(nodes[name])) for name in NAMES]
            await asyncio.gather(*map(work, locks))
            await asyncio.sleep(60)

    run(main())
    assert sorted(turns) == sorted(NAMES * 3)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_freed_too_early_and_everything_in_the_end(seed: int) -> None:
    async def main() -> None:
        async with three(bad_network(seed)) as nodes, AsyncExitStack() as stack:
            ann, bob, cat = [await stack.enter_async_context(Heap(nodes[name])) for name in NAMES]
            references = [ann.create(f"object {number}") for number in range(3)]
            for reference in references:
                await ann.share(reference, "bob")
                await ann.drop(reference)
                await bob.taken(reference)
                await bob.share(reference, "cat")
                await bob.drop(reference)
                await cat.taken(reference)
                await cat.drop(reference)
            await asyncio.sleep(600)
            assert sorted(ann.freed) == references
            for heap in (ann, bob, cat):
                assert not heap._task.done()

    run(main())
