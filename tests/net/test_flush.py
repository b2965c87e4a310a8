"""The end of views: with much to pass on and little room, and with addressed transports."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antecede.errors import UsageError
from antecede.net import Limits, Node, members
from antecede.testing import Host, Network, NetworkTransport, run
from tests.net.test_membership import newcomer
from tests.net.test_node import NAMES, node_on, take, three

HASTY = Limits(linger_seconds=0)
TEXTS = [b"%d" % number for number in range(6)]


@pytest.mark.parametrize(
    ("limits", "options", "is_short"),
    [
        (HASTY, {}, True),
        (Limits(linger_seconds=0, inbox_count=2), {}, False),
        (HASTY, {"held_max": 2}, False),
    ],
    ids=["in short answers", "to a full inbox", "to one that can hold little"],
)
def test_all_that_others_lack_of_a_removed_process_is_passed_on(
    limits: Limits,
    options: dict[str, object],
    is_short: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """b gets nothing from c, and a gets all; then c is removed."""
    if is_short:
        monkeypatch.setattr(members, "ANSWER_BYTES", 50)

    async def main() -> None:
        network = Network(seed=1)
        async with three(network, limits=limits, options=options) as nodes:
            network.partition(["b"], ["c"])
            for text in TEXTS:
                await nodes["c"].send(["a", "b"], text)
                assert await take(nodes["a"], 1) == [text]
            await nodes["a"].send(["b"], b"after them")
            network.partition(["a", "b"], ["c"])
            removing = asyncio.create_task(nodes["a"].remove("c"))
            await asyncio.sleep(30)
            assert await take(nodes["b"], len(TEXTS) + 1) == [*TEXTS, b"after them"]
            await removing

    run(main())


def test_two_calls_for_the_same_change_are_one_change() -> None:
    async def main() -> None:
        network = Network(seed=1)
        async with three(network, limits=HASTY) as nodes:
            a = nodes["a"]
            adding = asyncio.gather(a.add("d"), a.add("d"))
            async with newcomer(network, limits=HASTY):
                await adding
                assert (a.view, a.members) == (1, ("a", "b", "c", "d"))

    run(main())


class Picky(NetworkTransport):
    """A transport that must be given its peers, and does not understand every address."""

    def __init__(self, network: Network, name: str) -> None:
        super().__init__(network, name)
        self.told: list[tuple[str, str]] = []

    def check(self, address: str | None) -> None: ...

    def join(self, peer: str, address: str) -> None:
        if not address:
            msg = f"no address of {peer}"
            raise UsageError(msg)
        self.told.append(("join", peer))

    def leave(self, peer: str) -> None:
        self.told.append(("leave", peer))


def picky(network: Network, **given: Any) -> tuple[Node, Picky]:
    transport = Picky(network, "a")
    return Node("a", peers=NAMES, transport=transport, seed=1, **given), transport


def test_a_transport_parts_from_a_removed_process_after_a_while_unless_it_came_back() -> None:
    async def main() -> None:
        network = Network(seed=1)
        a, transport = picky(network, limits=HASTY)
        async with a, node_on(network, "b", limits=HASTY):
            await a.remove("c")
            await asyncio.sleep(members.LEAVE_SECONDS - 10)
            assert not transport.told
            await asyncio.sleep(20)
            assert transport.told == [("leave", "c")]
            adding = asyncio.create_task(a.add("c", "somewhere"))
            async with newcomer(network, "c", limits=HASTY):
                await adding
                assert transport.told[1:] == [("join", "c")]

    run(main())


def test_a_process_that_comes_back_at_once_keeps_its_connection() -> None:
    async def main() -> None:
        network = Network(seed=1)
        a, transport = picky(network, limits=HASTY)
        async with a, node_on(network, "b", limits=HASTY):
            await a.remove("c")
            adding = asyncio.create_task(a.add("c", "somewhere"))
            async with newcomer(network, "c", limits=HASTY) as c:
                await adding
                await asyncio.sleep(2 * members.LEAVE_SECONDS)
                assert transport.told == [("join", "c")]
                await c.send(["a"], b"still here")
                assert await take(a, 1) == [b"still here"]

    run(main())


def test_an_address_that_is_not_understood_is_logged_and_nothing_else_suffers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        network = Network(seed=1)
        host = Host(network, "a")
        async with node_on(network, "b", limits=HASTY) as b:
            a, _ = picky(network, store=host.disk.view())
            async with a:
                await b.remove("c")
                adding = asyncio.create_task(b.add("d"))
                async with newcomer(network, limits=HASTY) as d:
                    await adding
                    await b.send(["a"], b"hello")
                    assert await take(a, 1) == [b"hello"]
                    await d.flush()
            again, transport = picky(network, store=host.disk.view())
            async with again:
                assert transport.told == [("leave", "c")]

    run(main())
    told = [text for text in caplog.messages if "no address" in text]
    assert told == ["a: cannot reach d: no address of d", "a: cannot reach d yet: no address of d"]
