"""Old copies of a store: both sides notice before harm is done, and say how to continue."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from antecede.errors import NodeClosedError, StoreError
from antecede.net import Limits, Node, frames
from antecede.net.journal import SqliteStore
from antecede.testing import Disk, Host, Network, run
from tests.net.test_node import NAMES, node_on, take

WORDS = "remove 'a' from the group and add it again with an empty store"


def copy_of(disk: Disk) -> Disk:
    made = Disk(disk.network)
    made.checkpoint, made.journal = disk.checkpoint, list(disk.journal)
    return made


async def talk(network: Network, disk: Disk, *, peers: Any, count: int) -> None:
    """Let a run for a while with a store, and send to the others."""
    async with node_on(network, "a", store=disk.view()) as a:
        for number in range(count):
            await a.send([peer.process for peer in peers], b"%d" % number)
        await a.flush()
        for peer in peers:
            await take(peer, count)
            await peer.send(["a"], b"answer")
            await peer.flush()


@pytest.mark.parametrize("sends", [True, False])
def test_a_store_that_was_put_back_from_an_old_copy_stops_the_node(
    sends: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        network = Network(seed=1)
        host = Host(network, "a")
        async with node_on(network, "b") as b, node_on(network, "c") as c:
            await talk(network, host.disk, peers=(b, c), count=1)
            old = copy_of(host.disk)
            await talk(network, host.disk, peers=(b, c), count=10)

            async def go_back() -> None:
                async with node_on(network, "a", store=old.view()) as a:
                    if sends:
                        await a.send(["b"], b"lost")
                    async with asyncio.timeout(600):
                        while True:
                            await take(a, 1)

            with pytest.raises((StoreError, NodeClosedError), match=WORDS):
                await go_back()
            with pytest.raises(StoreError, match="an old copy, which others have found out"):
                await go_back()
            async with node_on(network, "a", store=host.disk.view()) as a:
                await a.send(["b"], b"the right one goes on")
                assert await take(b, 1) == [b"the right one goes on"]

    run(main())
    assert any("is older than what" in text for text in caplog.messages)


@pytest.mark.parametrize("is_alone", [False, True])
def test_a_store_that_is_empty_again_is_found_out_by_those_who_know_another(is_alone: bool) -> None:
    async def use(network: Network, seed: int) -> None:
        store, transport = Disk(network).view(), network.transport("a")
        async with Node("a", peers=NAMES, transport=transport, store=store, seed=seed) as a:
            await a.send(["b", "c"], b"x")
            await a.flush()

    async def main() -> None:
        network = Network(seed=1)
        stores = [Disk(network).view() for _ in range(2)]
        async with node_on(network, "b", store=stores[0]), node_on(network, "c", store=stores[1]):
            await use(network, 1)
            if is_alone:
                network.partition(["a", "b"], ["c"])
            async with asyncio.timeout(600):
                with pytest.raises((StoreError, NodeClosedError), match=WORDS):
                    await use(network, 2)

    run(main())


def test_a_journal_that_lost_its_end_is_found_out_by_what_peers_have() -> None:
    async def main() -> None:
        network = Network(seed=1)
        host = Host(network, "a")
        async with node_on(network, "b") as b, node_on(network, "c") as c:
            await talk(network, host.disk, peers=(b, c), count=1)

            async def killed() -> None:
                async with node_on(network, "a", store=host.store) as a:
                    for number in range(10):
                        await a.send(["b", "c"], b"%d" % number)
                    await a.flush()
                    host.store.is_dead = True
                    await a.send(["b"], b"x")

            with pytest.raises(StoreError):
                await killed()
            del host.disk.journal[-3:]

            async def go_on() -> None:
                async with node_on(network, "a", store=host.disk.view()) as a:
                    await asyncio.sleep(100)
                    await a.send(["b"], b"lost")

            with pytest.raises((StoreError, NodeClosedError), match=WORDS):
                await go_on()

    run(main())


def test_two_nodes_on_copies_of_one_store_are_found_out(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        network, other = Network(seed=1), Network(seed=2)
        host = Host(network, "a")
        async with node_on(network, "b") as b, node_on(network, "c") as c:
            await talk(network, host.disk, peers=(b, c), count=1)
            twin = copy_of(host.disk)
            async with node_on(network, "a", store=host.disk.view()) as a:
                await a.send(["b", "c"], b"first")
                await a.flush()

            async def second() -> None:
                given: Any = {"transport": network.transport("a"), "seed": 9}
                async with Node("a", peers=NAMES, store=twin.view(), **given) as a:
                    async with asyncio.timeout(600):
                        await take(a, 9)

            with pytest.raises(
                (StoreError, NodeClosedError), match=r"another node runs with a copy|is older than"
            ):
                await second()
            assert other.frames == 0

    run(main())
    words = "turned away what a sent: 'a' runs twice, with copies of one store; remove the process"
    assert {text[0] for text in caplog.messages if words in text} == {"b", "c"}


def test_one_member_alone_cannot_stop_a_node_by_saying_that_its_store_is_old() -> None:
    async def main() -> None:
        network = Network(seed=1)
        host = Host(network, "a")
        limits = Limits(linger_seconds=0)
        async with (
            node_on(network, "b", limits=limits) as b,
            node_on(network, "c", limits=limits) as c,
            node_on(network, "a", store=host.disk.view()) as a,
        ):
            await asyncio.sleep(1)
            assert a._driver is not None
            a._driver.received("c", lie(c))
            with pytest.raises(StoreError, match="is older than what 'c' has seen"):
                await a.send(["c"], b"x")
            with pytest.raises(StoreError, match="is older than what 'c' has seen"):
                await a.flush()
            await a.send(["b"], b"y")
            assert await take(b, 1) == [b"y"]

    run(main())


def test_a_node_in_memory_is_never_old_whatever_its_only_peer_says() -> None:
    async def main() -> None:
        network, pair = Network(seed=1), ("a", "b")
        async with Node("a", peers=pair, transport=network.transport("a"), seed=1) as a:
            assert a._driver is not None
            machine = a._driver.machine
            head = frames.Head(machine.group.digest, b"identity", machine.identity, known=99)
            a._driver.received("b", frames.encode(head, 0, (), []))
            assert a._driver.failure is None

    run(main())


@pytest.mark.parametrize("damage", ["lost", "lost first", "swapped", "twice"])
def test_entries_that_are_lost_or_stand_elsewhere_are_noticed(damage: str) -> None:
    async def main() -> None:
        network = Network(seed=1)
        disk = Disk(network)
        async with node_on(network, "a", store=disk.view()) as a:
            for number in range(6):
                await a.send(["b"], b"%d" % number)
            old = copy_of(disk)
        entries = old.journal
        assert len(entries) == 6
        if damage.startswith("lost"):
            del entries[0 if damage == "lost first" else 3]
        elif damage == "swapped":
            entries[-2:] = entries[-1], entries[-2]
        else:
            entries.append(entries[-1])
        with pytest.raises(StoreError, match="does not match its checksum"):
            async with node_on(network, "a", store=old.view()):
                pass

    run(main())


def lie(node: Node) -> bytes:
    """Return a frame of this node that acknowledges packets never sent."""
    assert node._driver is not None
    machine, mark = node._driver.machine, node._driver.outgoing.mark
    met = machine.met["a"]
    head = frames.Head(machine.group.digest, machine.identity, met.identity, mark=mark)
    return frames.encode(head, 1000, (), [])


def test_a_journal_without_a_checkpoint_is_not_taken_for_a_new_store() -> None:
    async def main() -> None:
        network = Network(seed=1)
        host = Host(network, "a")
        async with node_on(network, "a", store=host.disk.view()) as a:
            await a.send(["a"], b"x")
        host.disk.checkpoint, host.disk.journal = None, [b"entry"]
        with pytest.raises(StoreError, match="a journal without a checkpoint"):
            async with node_on(network, "a", store=host.disk.view()):
                pass

    run(main())


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_store_that_is_deleted_or_replaced_while_open_is_noticed(
    is_replaced: bool, tmp_path: Path
) -> None:
    async def main() -> None:
        path = tmp_path / "a.db"
        store = SqliteStore(path)
        await store.open()
        await store.replace(b"checkpoint")
        if is_replaced:
            shutil.copy(path, tmp_path / "copy.db")
            (tmp_path / "copy.db").rename(path)
        else:
            path.unlink()
        for work in (store.append(b"entry"), store.replace(b"checkpoint")):
            with pytest.raises(StoreError, match="was deleted or replaced while it was open"):
                await work
        await store.close()

    asyncio.run(main())
