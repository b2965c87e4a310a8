"""How many files a reader has to open for one message: calls from one of our files into another."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import FrameType

import pytest

import antecede
from antecede.net import Limits, Node
from antecede.testing import Disk, Network, run

OURS = str(Path(antecede.__file__).parent)
HOPS_MAX = 60
"""From ``send`` until the message is delivered, marked done and acknowledged, on both sides."""


def is_ours(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    return path.startswith(OURS) and "testing" not in path


@pytest.mark.parametrize("is_durable", [True, False])
def test_one_message_takes_few_hops_between_files(is_durable: bool) -> None:
    hops: list[str] = []

    def count(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or not is_ours(frame):
            return
        caller = frame.f_back
        while caller is not None and not is_ours(caller):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != frame.f_code.co_filename:
            hops.append(f"{caller.f_code.co_qualname} -> {frame.f_code.co_qualname}")

    async def main() -> None:
        network, limits = Network(seed=1), Limits(linger_seconds=0)

        def node(name: str) -> Node:
            store = Disk(network).view() if is_durable else None
            transport = network.transport(name)
            return Node(name, peers="ab", transport=transport, store=store, limits=limits, seed=1)

        async def say(source: Node, dest: Node) -> None:
            await source.send([dest.process], b"hello")
            await (await anext(dest)).done()
            await asyncio.sleep(5)

        async with node("a") as a, node("b") as b:
            await say(a, b)
            await say(b, a)
            sys.setprofile(count)
            await say(a, b)
            sys.setprofile(None)

    try:
        run(main())
    finally:
        sys.setprofile(None)
    assert any("Endpoint.receive" in hop for hop in hops)
    assert len(hops) <= HOPS_MAX, "\n".join(hops)
