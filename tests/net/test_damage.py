"""Stores with cut or flipped bytes: a StoreError that says what to do, or no loss."""

from __future__ import annotations

import asyncio
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from antecede.errors import StoreError
from antecede.net import Limits, Node, SqliteStore, journal
from antecede.net.machine import Machine
from antecede.net.settings import Setup
from antecede.testing import Disk, Network, run

FOUR = ("a", "b", "c", "d")


def used(protocol: str) -> tuple[bytes, list[bytes]]:
    """Return the store of a node in the middle of its work: a view that ends, deliveries."""
    network = Network(seed=1)
    disk = Disk(network)
    limits = Limits(linger_seconds=0, journal_bytes=1)

    def node(name: str, **given: Any) -> Node:
        transport = network.transport(name)
        return Node(name, peers=FOUR, transport=transport, seed=1, protocol=protocol, **given)

    async def main() -> tuple[bytes, list[bytes]]:
        async with node("b", limits=limits) as b, node("c", limits=limits) as c:
            async with node("a", store=disk.view(), limits=limits) as a:
                await a.send(["b", "c", "d"], b"to all")
                await b.send(["a", "c"], b"to two")
                await c.send(["a"], b"to one")
                await asyncio.sleep(1)
                async with asyncio.timeout(1):
                    await (await anext(a)).done()
                removing = asyncio.create_task(b.remove("d"))
                await asyncio.sleep(0.5)
                await a.send(["b"], b"last")
                removing.cancel()
            async with node("a", store=disk.view()) as a:  # this one leaves a journal
                await a.send(["c"], b"once more")
                await b.send(["a"], b"answer")
                await asyncio.sleep(1)
                assert disk.checkpoint is not None
                assert disk.journal
                return disk.checkpoint, list(disk.journal)

    return run(main())


def opened(protocol: str, checkpoint: bytes, entries: list[bytes]) -> str:
    """Return the outcome of opening such a store, which may raise only StoreError."""
    try:
        machine, _ = Machine.restored(Setup("a", FOUR, protocol, {}), checkpoint, entries)
    except StoreError as error:
        return str(error)
    machine.checkpoint()
    return ""


def damaged(data: bytes, chance: random.Random) -> bytes:
    kind, place = chance.randrange(4), chance.randrange(len(data))
    if kind == 0:
        return data[:place]
    if kind == 1:
        return data[:place] + bytes((chance.randrange(256),)) + data[place + 1 :]
    if kind == 2:
        return data[:place] + chance.randbytes(chance.randrange(1, 9)) + data[place:]
    return data[:place] + data[place + chance.randrange(1, 9) :]


def sealed_all(bodies: list[bytes]) -> list[bytes]:
    """Return a checkpoint and the entries after it, with correct checksums."""
    made = [b""]
    for body in bodies:
        made.append(journal.sealed(body, made[-1]))
    return made[1:]


def damaged_stores(protocol: str, count: int, seed: int) -> int:
    """Damage a store ``count`` times, with correct checksums; return how many were refused."""
    checkpoint, entries = used(protocol)
    assert opened(protocol, checkpoint, entries) == ""
    chance, refused = random.Random(f"{protocol} {seed}"), 0
    bodies = [data[: -journal.CHECKSUM_BYTES] for data in (checkpoint, *entries)]
    for _ in range(count):
        place = chance.randrange(min(2, len(bodies))) and chance.randrange(1, len(bodies))
        changed = list(bodies)
        changed[place] = damaged(changed[place], chance)
        checkpoint, *entries = sealed_all(changed)
        refused += bool(opened(protocol, checkpoint, entries))
    return refused


@pytest.mark.parametrize("protocol", ["optimal", "matrix", "history", "permits"])
def test_bytes_that_are_damaged_behind_a_right_checksum_raise_only_store_errors(
    protocol: str,
) -> None:
    assert damaged_stores(protocol, 500, seed=0) > 70


def test_a_damage_that_raised_something_else_once() -> None:
    """An event of an earlier view had a higher number than there were events."""
    assert damaged_stores("permits", 200, seed=2950) > 30


def test_a_store_that_cannot_be_saved_again_is_refused() -> None:
    """Packet 99 waits in an outbox from which fewer were sent, so the next one is out of order."""
    checkpoint, entries = used("optimal")
    machine, _ = Machine.restored(Setup("a", FOUR, "optimal", {}), checkpoint, [])
    machine.sides[-1].channels["c"].outbox[99] = b"\0"
    bodies = [data[: -journal.CHECKSUM_BYTES] for data in (machine.checkpoint(), *entries)]
    checkpoint, *entries = sealed_all(bodies)
    assert "it is damaged" in opened("optimal", checkpoint, entries)


def test_files_that_are_damaged_raise_only_store_errors(tmp_path: Path) -> None:
    path, copy = tmp_path / "a.db", tmp_path / "copy.db"
    checkpoint, entries = used("optimal")

    async def fill() -> None:
        store = SqliteStore(path)
        await store.open()
        await store.replace(checkpoint)
        for entry in entries * 20:
            await store.append(entry)
        shutil.copy(path, tmp_path / "while-open.db")
        shutil.copy(f"{path}-wal", tmp_path / "while-open.db-wal")
        await store.close()

    async def look() -> str:
        store = SqliteStore(copy)
        try:
            saved = await store.open()
        except StoreError as error:
            return str(error)
        finally:
            await store.close()
        if saved.checkpoint is None:
            return "new"
        return opened("optimal", saved.checkpoint, saved.journal[: len(entries)])

    asyncio.run(fill())
    chance, found = random.Random(1), set[str]()
    for number in range(120):
        for name in tmp_path.glob("copy.db*"):
            name.unlink()
        if number % 2:
            copy.write_bytes(damaged(path.read_bytes(), chance))
        else:
            shutil.copy(tmp_path / "while-open.db", copy)
            wal = (tmp_path / "while-open.db-wal").read_bytes()
            Path(f"{copy}-wal").write_bytes(damaged(wal, chance))
        found.add(asyncio.run(look())[:20])
    assert len(found) > 2
