"""The example of a replicated store, on many networks."""

from __future__ import annotations

import asyncio

import pytest

from antecede.testing import run
from examples.store import Client, Store

NAMES = ("ann", "bob", "cat")
WHERE = {"photo": ("ann", "cat"), "album": ("ann", "bob"), "comment": ("bob", "cat")}


@pytest.mark.parametrize("seed", range(5))
def test_effects_never_show_without_their_causes_and_all_agree(seed: int) -> None:
    async def comment(bob: Client, count: int) -> None:
        for _ in range(count):
            album = await bob.wait_for("album")
            await bob.put("comment", album)
            await asyncio.sleep(0.01)

    async def watch(cat: Client, count: int) -> None:
        for _ in range(count):
            about = int(await cat.wait_for("comment"))
            assert int(await cat.get("photo") or b"-1") >= about
            await asyncio.sleep(0.01)

    async def main() -> None:
        store = Store(NAMES, WHERE, seed)
        ann, bob, cat = store.clients.values()
        working = [
            asyncio.create_task(work(one, 20)) for work, one in ((comment, bob), (watch, cat))
        ]
        for number in range(20):
            await ann.put("photo", b"%d" % number)
            await ann.put("album", b"%d" % number)
            assert await ann.get("photo") == b"%d" % number
            album = int(await bob.get("album") or b"-1")
            assert int(await bob.get("photo") or b"-1") >= album
            await asyncio.sleep(0.005)
        await asyncio.gather(*working)
        await store.quiet()
        await asyncio.gather(*(one.put("all", one.replica.process.encode()) for one in (ann, cat)))
        await store.quiet()
        assert len({await one.get("all") for one in store.clients.values()}) == 1

    run(main())
