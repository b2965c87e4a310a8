"""Processes join and leave a running group, with agreement and flush, despite failures."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest

import antecede
from antecede.errors import NodeClosedError, StoreError, UsageError
from antecede.net import Limits, Node
from antecede.testing import Host, Network, run
from tests.net.test_node import NAMES, node_on, take, three

PROTOCOLS = sorted(name for name, info in antecede.PROTOCOLS.items() if "liveness" in info.promises)


def newcomer(network: Network, name: str = "d", **given: Any) -> Node:
    given.setdefault("seed", 2)
    return Node(name, peers=NAMES, transport=network.transport(name), joining=True, **given)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_process_joins_and_takes_part(protocol: str) -> None:
    async def main() -> None:
        network = Network(seed=1, delay=(0.001, 0.2), loss=0.2, duplication=0.2)
        async with AsyncExitStack() as stack:
            nodes = await stack.enter_async_context(three(network, protocol=protocol))
            adding = asyncio.create_task(nodes["a"].add("d"))
            nodes["d"] = await stack.enter_async_context(newcomer(network, protocol=protocol))
            await adding
            await asyncio.sleep(100)
            assert {node.members for node in nodes.values()} == {("a", "b", "c", "d")}
            assert {node.view for node in nodes.values()} == {1}
            for name in nodes:
                dests = dests_from(name, protocol, nodes)
                await nodes[name].send(dests, name.encode())
            for name, node in nodes.items():
                expected = [n.encode() for n in nodes if name in dests_from(n, protocol, nodes)]
                assert not expected or sorted(await take(node, len(expected))) == expected

    run(main())


def dests_from(name: str, protocol: str, nodes: dict[str, Node]) -> list[str]:
    """Return destinations that the protocol allows."""
    casts, others = antecede.PROTOCOLS[protocol].casts, [n for n in nodes if n != name]
    if "multicast" in casts:
        return others
    return list(nodes) if "unicast" not in casts else others[:1]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_removed_process_holds_nobody_up(protocol: str) -> None:
    async def main() -> None:
        network = Network(seed=1, delay=(0.001, 0.2), loss=0.2)
        async with AsyncExitStack() as stack:
            nodes = await stack.enter_async_context(three(network, protocol=protocol))
            c = nodes.pop("c")
            network.partition(["a", "b"], ["c"])
            await nodes["a"].remove("c")
            await asyncio.sleep(100)
            assert {node.members for node in nodes.values()} == {("a", "b")}
            for name, node in nodes.items():
                await node.send(dests_from(name, protocol, nodes), name.encode())
            count = len([n for n in nodes if "b" in dests_from(n, protocol, nodes)])
            assert b"a" in await take(nodes["b"], count)
            network.heal()
            await c.send(["a"] if "unicast" in antecede.PROTOCOLS[protocol].casts else NAMES, b"x")
            await asyncio.sleep(100)
            with pytest.raises(NodeClosedError, match="was removed from its group"):
                await c.send(["a"], b"x")
            stack.pop_all()

    run(main())


def test_survivors_pass_on_what_the_removed_process_sent_to_some() -> None:
    """a gets c's message and answers it; b gets the answer, but c's copy to b is lost with c."""

    async def main() -> None:
        network = Network(seed=1)
        async with three(network, limits=Limits(linger_seconds=0)) as nodes:
            network.partition(["b"], ["c"])
            await nodes["c"].send(["a", "b"], b"question")
            assert await take(nodes["a"], 1) == [b"question"]
            await nodes["a"].send(["b"], b"answer")
            await asyncio.sleep(5)
            assert [str(one.message) for one in nodes["b"].waiting()] == ["a:1"]
            network.partition(["a", "b"], ["c"])
            await nodes["a"].remove("c")
            first, second = [await anext(nodes["b"]) for _ in range(2)]
            assert (first.source, first.payload) == ("c", b"question")
            assert (second.source, second.payload) == ("a", b"answer")
            assert not first.unmet
            assert not second.unmet

    run(main())


def test_what_nobody_has_is_waited_for_by_nobody() -> None:
    async def main() -> None:
        network = Network(seed=1)
        async with three(network, limits=Limits(linger_seconds=0)) as nodes:
            network.partition(["b"], ["c"])
            await nodes["c"].send(["b"], b"to b alone")
            await nodes["c"].send(["a"], b"to a")
            assert await take(nodes["a"], 1) == [b"to a"]
            await nodes["a"].send(["b"], b"answer")
            await asyncio.sleep(5)
            assert nodes["b"].waiting()
            network.partition(["a", "b"], ["c"])
            await nodes["b"].remove("c")
            delivery = await anext(nodes["b"])
            assert (delivery.payload, str(delivery.unmet[0])) == (b"answer", "message 1 of c")

    run(main())


def test_a_process_that_comes_back_never_uses_an_id_again() -> None:
    async def main() -> None:
        network = Network(seed=1)
        async with (
            node_on(network, "a", limits=Limits(linger_seconds=0)) as a,
            node_on(network, "b", limits=Limits(linger_seconds=0)) as b,
        ):

            async def first_life() -> None:
                async with node_on(network, "c") as c:
                    await c.send(["a"], b"first life")
                    assert await take(a, 1) == [b"first life"]
                    await a.remove("c")
                    await asyncio.sleep(5)
                    await c.send(["a"], b"never")

            with pytest.raises(NodeClosedError, match="joining=True"):
                await first_life()
            adding = asyncio.create_task(b.add("c"))
            async with newcomer(network, "c") as c:
                await adding
                await c.send(["a", "b"], b"second life")
                for node in (a, b):
                    delivery = await anext(node)
                    assert (delivery.source, delivery.payload) == ("c", b"second life")
                    assert str(delivery.message) == "c:2000000000001"
                await a.send(["c"], b"welcome back")
                assert await take(c, 1) == [b"welcome back"]

    run(main())


def test_nothing_of_a_removed_process_stays_after_its_last_view() -> None:
    """Not in the state, the figures or the control of messages."""

    async def main() -> None:
        network = Network(seed=1)
        limits = Limits(linger_seconds=0)
        given: Any = {"protocol": "matrix", "limits": limits, "peers": NAMES}
        async with AsyncExitStack() as stack:
            nodes = await enter_all(stack, network, NAMES, protocol="matrix")
            a, b = nodes["a"], nodes["b"]
            assert a._driver is not None
            machine, counts = a._driver.machine, a._driver.counts

            async def control_of_one() -> int:
                before = counts["control_bytes"]
                await a.send(["b"], b"x")
                await take(b, 1)
                return counts["control_bytes"] - before

            small = await control_of_one()
            zebra = Node("zebra", transport=network.transport("zebra"), joining=True, **given)
            async with AsyncExitStack() as life:
                adding = asyncio.create_task(a.add("zebra"))
                await life.enter_async_context(zebra)
                await adding
                await zebra.send(["a", "b", "c"], b"hello")
                for node in nodes.values():
                    await take(node, 1)
                assert await control_of_one() > small
                assert b"zebra" in machine.checkpoint()
                assert "zebra" in a.metrics()
                network.partition(NAMES, ["zebra"])
                life.pop_all()
            await a.remove("zebra")
            await asyncio.sleep(100)
            assert await control_of_one() == small
            assert "zebra" not in a.metrics()
            await a.remove("c")  # members that were away can hear of the last change alone
            await asyncio.sleep(100)
            assert b"zebra" not in machine.checkpoint()
            stack.pop_all()

    run(main())


@pytest.mark.parametrize("protocol", ["central", "optimal"])
def test_removing_a_relay_says_what_may_be_lost(
    protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        network = Network(seed=1)
        async with AsyncExitStack() as stack:
            nodes = await enter_all(stack, network, NAMES, protocol=protocol)
            network.partition(["a"], ["b", "c"])
            await nodes["b"].remove("a")
            stack.pop_all()

    run(main())
    told = [text for text in caplog.messages if "under way through a may be lost" in text]
    assert len(told) == (2 if protocol == "central" else 0)


async def enter_all(
    stack: AsyncExitStack, network: Network, names: Sequence[str], **given: Any
) -> dict[str, Node]:
    given.setdefault("limits", Limits(linger_seconds=0))
    nodes = {
        name: await stack.enter_async_context(
            Node(name, peers=names, transport=network.transport(name), seed=1, **given)
        )
        for name in names
    }
    await asyncio.sleep(1)  # so that they meet
    return nodes


def test_a_minority_keeps_sending_and_changes_nothing() -> None:
    async def main() -> None:
        network = Network(seed=1)
        names = ("a", "b", "c", "d", "e")
        async with AsyncExitStack() as stack:
            nodes = await enter_all(stack, network, names)
            network.partition(["a", "b"], ["c", "d", "e"])
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(300):
                    await nodes["a"].remove("c", "d", "e")
            await nodes["a"].send(["b", "c"], b"from the minority")
            assert await take(nodes["b"], 1) == [b"from the minority"]
            assert nodes["a"].view == 0
            network.heal()
            assert await take(nodes["c"], 1) == [b"from the minority"]

    run(main())


def test_a_change_waits_for_all_who_stay_and_says_for_whom(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        network = Network(seed=1)
        names = ("a", "b", "c", "d", "e")
        async with AsyncExitStack() as stack:
            nodes = await enter_all(stack, network, names)
            network.partition(["a", "b"], ["c", "d", "e"])
            adding = asyncio.create_task(nodes["c"].add("f"))
            await asyncio.sleep(100)
            assert nodes["c"].missing == ("a", "b")
            assert not adding.done()
            await nodes["c"].send(["d"], b"sends go on")
            assert await take(nodes["d"], 1) == [b"sends go on"]
            network.heal()
            f = await stack.enter_async_context(newcomer(network, "f"))
            await adding
            await asyncio.sleep(100)
            assert {node.members for node in (*nodes.values(), f)} == {(*names, "f")}
            assert not nodes["c"].missing

    run(main())
    assert "c: a change of the members waits for a, b" in caplog.messages


def test_a_change_goes_on_as_soon_as_the_one_that_it_waits_for_is_back() -> None:
    async def main() -> None:
        network, limits = Network(seed=1), Limits(linger_seconds=0, resend_seconds_max=1000.0)
        loop, disk = asyncio.get_running_loop(), Host(network, "b").disk
        async with AsyncExitStack() as stack:
            given: Any = {"peers": ("a", "b", "c", "d"), "seed": 1, "limits": limits}

            def node(name: str, **more: Any) -> Node:
                return Node(name, transport=network.transport(name), **given, **more)

            a, *_ = [await stack.enter_async_context(node(name)) for name in "acd"]
            async with node("b", store=disk.view()):
                await asyncio.sleep(1)
            removing = asyncio.create_task(a.remove("d"))
            await asyncio.sleep(3000)  # a asks every thousand seconds or so
            begin = loop.time()
            async with node("b", store=disk.view()):
                await removing
                assert loop.time() - begin < 10
            stack.pop_all()

    run(main())


def test_several_join_and_leave_at_once() -> None:
    async def main() -> None:
        network = Network(seed=1)
        names = ("a", "b", "c", "d", "e")
        async with AsyncExitStack() as stack:
            nodes = await enter_all(stack, network, names)
            network.partition(["a", "b", "c", "f", "g"], ["d", "e"])
            changing = asyncio.create_task(
                nodes["a"].change(add={"f": "", "g": ""}, remove=["d", "e"])
            )
            f, g = [await stack.enter_async_context(newcomer(network, name)) for name in "fg"]
            await changing
            assert nodes["a"].members == ("a", "b", "c", "f", "g")
            assert nodes["a"].view == 1
            await f.send(["a", "g"], b"hello")
            assert await take(nodes["a"], 1) == await take(g, 1) == [b"hello"]

    run(main())


def test_one_of_two_can_go_on_alone() -> None:
    async def main() -> None:
        network = Network(seed=1)
        async with AsyncExitStack() as stack:
            nodes = await enter_all(stack, network, ("a", "b"))
            a, b = nodes.values()
            network.partition(["a"], ["b"])
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(300):
                    await b.remove("a")
            await a.remove("b")
            assert a.members == ("a",)
            await a.send(["a"], b"alone")
            assert await take(a, 1) == [b"alone"]

    run(main())


def test_wrong_changes_say_what_to_do() -> None:
    async def program() -> None:
        network = Network(seed=1)
        async with three(network) as nodes:
            a = nodes["a"]
            with pytest.raises(UsageError, match="is a member already"):
                await a.add("b")
            with pytest.raises(UsageError, match="cannot be added: expected strings"):
                await a.add("")
            wrongs: list[Any] = [{"add": {"x": 5}}, {"add": ["x"]}, {"remove": 5}]
            for wrong in (*wrongs, {"remove": [["b"]]}):
                with pytest.raises(UsageError, match=r"expected|not a member|does not say where"):
                    await a.change(**wrong)
            with pytest.raises(UsageError, match="cannot remove itself"):
                await a.remove("a")
            with pytest.raises(UsageError, match="the members are a, b, c"):
                await a.remove("z")
            await a.remove("c")
            with pytest.raises(UsageError, match="cannot send to 'c': not a member"):
                await a.send(["c"], b"x")

    async def main() -> None:
        with pytest.raises(NodeClosedError, match="'c' was removed"):
            await program()

    run(main())


def test_a_removed_process_cannot_go_on_from_its_store() -> None:
    async def main() -> None:
        network = Network(seed=1)
        host = Host(network, "c")
        async with node_on(network, "a") as a, node_on(network, "b"):

            async def life() -> None:
                async with node_on(network, "c", store=host.store):
                    await a.remove("c")
                    await asyncio.sleep(5)

            with pytest.raises(NodeClosedError, match="was removed"):
                await life()
            with pytest.raises(StoreError, match="was removed from its group"):
                async with node_on(network, "c", store=host.disk.view()):
                    pass

    run(main())


ASKING = [name for name in ("optimal", "pruned", "matrix", "vectors") if name in PROTOCOLS]
"""Protocols that multicast and wait for messages that they have heard of."""


@pytest.mark.parametrize("first", ["q", "r"])
@pytest.mark.parametrize("protocol", ASKING)
def test_order_is_kept_between_messages_that_wait_for_lost_ones(protocol: str, first: str) -> None:
    """c holds m1 and m2, and all that they wait for is lost with q and r; m1 is a cause of m2."""
    names, limits = ("b", "c", "d", "q", "r"), Limits(linger_seconds=0)

    async def main() -> None:
        network = Network(seed=1)
        async with AsyncExitStack() as stack:
            nodes = {
                name: await stack.enter_async_context(
                    Node(
                        name,
                        peers=names,
                        protocol=protocol,
                        transport=network.transport(name),
                        limits=limits,
                    )
                )
                for name in names
            }
            b, c, d, _, r = nodes.values()
            network.partition(["c"], ["d", "q", "r"])
            await nodes[first].send(["c"], b"lost")
            await nodes[first].send(["d"], b"hello")
            await take(d, 1)
            await d.send(["b", "c"], b"m1")
            await d.send(["r"], b"hello")
            await take(r, 1)
            await take(b, 1)
            await r.send(["c"], b"lost too")
            await r.send(["b"], b"hello")
            await take(b, 1)
            await b.send(["c"], b"m2")
            await asyncio.sleep(5)
            network.partition(["b", "c", "d"], ["q", "r"])
            await asyncio.sleep(20)
            assert len(c.waiting()) == 2
            await asyncio.gather(b.remove("r"), b.remove("q"))
            assert await take(c, 2) == [b"m1", b"m2"]

    run(main())


def test_what_is_lost_can_be_given_up() -> None:
    async def main() -> None:
        network = Network(seed=1)
        async with three(network, limits=Limits(linger_seconds=0)) as nodes:
            network.partition(["b"], ["c"])
            await nodes["c"].send(["b"], b"lost")
            await nodes["c"].send(["a"], b"to a")
            assert await take(nodes["a"], 1) == [b"to a"]
            await nodes["a"].send(["b"], b"answer")
            await asyncio.sleep(5)
            (held,) = nodes["b"].waiting()
            (need,) = held.needs
            with pytest.raises(UsageError, match="nothing waits for that"):
                await nodes["b"].skip(need.process, 10**15)
            with pytest.raises(UsageError, match="nothing waits for that"):
                await nodes["b"].skip(need.process, need.number + 1)
            with pytest.raises(UsageError, match="is not a member"):
                await nodes["b"].skip("nobody", 1)
            await nodes["b"].skip(need.process, need.number)
            delivery = await anext(nodes["b"])
            assert (delivery.payload, delivery.unmet) == (b"answer", (need,))
            assert not nodes["b"].waiting()

    run(main())
