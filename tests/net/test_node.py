"""A node as an application uses it, on the test network and in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import antecede
from antecede import events as eventlog
from antecede.errors import NodeClosedError, StoreError, UsageError
from antecede.net import Limits, Node
from antecede.net.stamp import Stamp
from antecede.testing import Host, Network, run

NAMES = ("a", "b", "c")


def node_on(network: Network, name: str, **given: Any) -> Node:
    return Node(name, peers=NAMES, transport=network.transport(name), seed=1, **given)


@asynccontextmanager
async def three(network: Network, **given: Any) -> AsyncIterator[dict[str, Node]]:
    async with (
        node_on(network, "a", **given) as a,
        node_on(network, "b", **given) as b,
        node_on(network, "c", **given) as c,
    ):
        yield {"a": a, "b": b, "c": c}


async def take(node: Node, count: int) -> list[bytes]:
    taken = []
    async with asyncio.timeout(3600):
        async for delivery in node:
            taken.append(delivery.payload)
            await delivery.done()
            if len(taken) == count:
                break
    return taken


@pytest.mark.parametrize("protocol", sorted(antecede.PROTOCOLS))
def test_every_protocol_delivers_on_a_bad_network(protocol: str) -> None:
    info = antecede.PROTOCOLS[protocol]

    async def main() -> None:
        network = Network(seed=5, delay=(0.001, 0.3), loss=0.2, duplication=0.2)
        async with three(network, protocol=protocol) as nodes:
            for number in range(5):
                dests = ["b", "c"] if "multicast" in info.casts else ["b"]
                if info.casts == ("broadcast",) or "unicast" not in info.casts:
                    dests = list(NAMES)
                while True:
                    try:
                        await nodes["a"].send(dests, b"%d" % number)
                    except UsageError:  # a blocking protocol: the last message is under way
                        assert info.blocking
                        await asyncio.sleep(0.1)
                    else:
                        break
            assert await take(nodes["b"], 5) == [b"%d" % number for number in range(5)]

    run(main())


def test_a_reply_never_comes_before_its_question() -> None:
    async def main() -> None:
        network = Network(seed=3)
        async with three(network) as nodes:
            network.partition(["a"], ["c"])
            await nodes["a"].send(["b", "c"], b"question")
            assert await take(nodes["b"], 1) == [b"question"]
            await nodes["b"].send(["c"], b"answer")
            await asyncio.sleep(5)
            (held,) = nodes["c"].waiting()
            assert str(held) == "message b:1 has waited 5 s for message 1 of a"
            network.heal()
            assert await take(nodes["c"], 2) == [b"question", b"answer"]
            assert not nodes["c"].waiting()

    run(main())


def test_what_waits_long_is_logged_with_what_it_waits_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        network = Network(seed=3)
        async with three(network) as nodes:
            network.partition(["a"], ["c"])
            await nodes["a"].send(["b", "c"], b"question")
            await take(nodes["b"], 1)
            await nodes["b"].send(["c"], b"answer")
            await asyncio.sleep(45)
            network.heal()
            await take(nodes["c"], 2)

    run(main())
    assert caplog.messages == ["c: message b:1 has waited 30 s for message 1 of a"]


def test_a_slow_consumer_holds_up_the_sender_and_nobody_else() -> None:
    limits = Limits(outbox_count=10, inbox_count=10)
    sent = {"b": 0, "c": 0}

    async def keep_sending(node: Node, dest: str) -> None:
        while True:
            await node.send([dest], b"x")
            sent[dest] += 1

    async def main() -> None:
        network = Network(seed=1)
        async with three(network, limits=limits) as nodes:
            tasks = [asyncio.create_task(keep_sending(nodes["a"], dest)) for dest in sent]
            await take(nodes["c"], 200)
            await asyncio.sleep(60)
            assert sent["b"] == 20, "ten in the inbox of b, ten in the outbox of a"
            assert sent["c"] >= 200
            await take(nodes["b"], 5)
            await asyncio.sleep(60)
            assert sent["b"] == 25
            for task in tasks:
                task.cancel()
            await take(nodes["b"], 20)
            await take(nodes["c"], sent["c"] - 200)

    run(main())


def test_limits_hold_by_bytes_too() -> None:
    limits = Limits(outbox_bytes=1000, inbox_bytes=1000)

    async def main() -> None:
        async with three(Network(seed=1), limits=limits) as nodes:
            for _ in range(4 + 4):
                await asyncio.wait_for(nodes["a"].send(["b"], bytes(300)), timeout=60)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(nodes["a"].send(["b"], bytes(300)), timeout=60)
            assert len(await take(nodes["b"], 8)) == 8

    run(main())


def test_a_killed_node_comes_back_with_everything_it_promised() -> None:
    got: list[bytes] = []

    async def sender(host: Host) -> None:
        async with Node("a", peers=NAMES, transport=host.transport, store=host.store) as node:
            while node_sent[-1] < 100:
                await node.send(["b"], b"%d" % (node_sent[-1] + 1))
                node_sent.append(node_sent[-1] + 1)
            await node.flush()

    async def consumer(host: Host) -> None:
        async with Node("b", peers=NAMES, transport=host.transport, store=host.store) as node:
            async for delivery in node:
                got.append(delivery.payload)
                await delivery.done()

    node_sent = [0]

    async def main() -> None:
        network = Network(seed=8)
        a, b = Host(network, "a"), Host(network, "b")
        a.start(sender)
        b.start(consumer)
        for host, program in [(a, sender), (b, consumer)] * 5:
            await asyncio.sleep(0.05)
            host.crash()
            await asyncio.sleep(0.05)
            host.start(program)
        await a.wait()
        await asyncio.sleep(5)
        b.crash()
        await b.wait()

    run(main())
    numbers = [int(payload) for payload in dict.fromkeys(got)]
    assert numbers == list(range(1, 101))
    assert len(got) <= 100 + 5, "only what was not marked done comes again"


def test_deliveries_that_are_not_done_come_again_in_order() -> None:
    async def main() -> None:
        network = Network(seed=1)
        b = Host(network, "b")
        seen: list[list[bytes]] = []

        async def program(host: Host) -> None:
            async with Node("b", peers=NAMES, transport=host.transport, store=host.store) as node:
                seen.append([])
                async for delivery in node:
                    seen[-1].append(delivery.payload)
                    if delivery.payload in (b"1", b"3"):
                        await delivery.done()

        b.start(program)
        async with node_on(network, "a") as a:
            for number in range(5):
                await a.send(["b"], b"%d" % number)
            await asyncio.sleep(1)
            b.crash()
            b.start(program)
            await asyncio.sleep(1)
        b.crash()
        await b.wait()
        assert seen == [[b"0", b"1", b"2", b"3", b"4"], [b"0", b"2", b"4"]]

    run(main())


def test_the_event_log_has_every_event_once(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"

    async def program(host: Host) -> None:
        async with Node(
            host.name,
            peers=NAMES,
            transport=host.transport,
            store=host.store,
            events=path,
            limits=Limits(journal_bytes=500),
        ) as node:
            if host.name == "a":
                for _ in range(20 - host.crashes * 5):
                    await node.send(NAMES, b"x")
            async for delivery in node:
                await delivery.done()

    async def main() -> None:
        network = Network(seed=4)
        hosts = [Host(network, name) for name in NAMES]
        for host in hosts:
            host.start(program)
        for _ in range(3):
            for host in hosts:
                await asyncio.sleep(0.03)
                host.crash()
                await host.wait()
                host.start(program)
        await asyncio.sleep(20)
        for host in hosts:
            host.crash()
            await host.wait()

    run(main())
    events = list(eventlog.read(path))
    sends = [event.message for event in events if event.kind == "send"]
    assert len(sends) == len(set(sends)) >= 20
    for name in NAMES:
        mine = [event for event in events if event.process == name]
        assert [event.seq for event in mine] == list(range(1, len(mine) + 1))
        assert [event.message for event in mine if event.kind == "deliver"] == sends


def test_a_node_that_lost_its_memory_is_turned_away(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        network = Network(seed=1)
        async with node_on(network, "b") as b:
            async with Node("a", peers=NAMES, transport=network.transport("a"), seed=1) as a:
                await a.send(["b"], b"first life")
            assert await take(b, 1) == [b"first life"]
            limits = Limits(linger_seconds=1)
            async with Node(
                "a", peers=NAMES, transport=network.transport("a"), seed=2, limits=limits
            ) as a:
                await a.send(["b"], b"second life")
                await asyncio.sleep(100)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(100):
                    await anext(b)

    run(main())
    told = [text for text in caplog.messages if "lost its store" in text]
    assert any(
        text.startswith("b: turned away what a sent: 'a' has lost its store") for text in told
    )
    assert len([text for text in told if text.startswith("b:")]) == 1


def test_another_setup_is_turned_away(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        network = Network(seed=1)
        limits = Limits(linger_seconds=1)
        async with (
            node_on(network, "b", protocol="matrix"),
            node_on(network, "a", limits=limits) as a,
        ):
            await a.send(["b"], b"x")
            await asyncio.sleep(100)

    run(main())
    assert "b: turned away what a sent: 'a' runs another setup" in caplog.text


def test_wrong_calls_say_what_to_do(tmp_path: Path) -> None:
    async def main() -> None:
        network = Network()
        with pytest.raises(UsageError, match="unknown protocol"):
            node_on(network, "a", protocol="optimel")
        with pytest.raises(UsageError, match="is not open; use it in"):
            await node_on(network, "a").send(["b"])
        with pytest.raises(UsageError, match="give listen="):
            Node("a", peers={"b": "127.0.0.1:7001"})
        with pytest.raises(UsageError, match="has no address"):
            Node("a", peers=["b"], listen="127.0.0.1:7001")
        with pytest.raises(UsageError, match="not on loopback"):
            Node("a", peers={"b": "10.0.0.1:7001"}, listen="127.0.0.1:7001")
        with pytest.raises(UsageError, match="not on loopback"):
            Node("a", listen="0.0.0.0:7001")
        with pytest.raises(UsageError, match=r"write host:port"):
            Node("a", listen="7001")
        with pytest.raises(UsageError, match="is not a limit"):
            Limits(outbox_count=0)
        async with node_on(network, "a") as node:
            with pytest.raises(UsageError, match="at most 1048576 are allowed"):
                await node.send(["b"], bytes(1 << 21))
            with pytest.raises(UsageError, match="'z'"):
                await node.send(["z"], b"x")
            wrongs: list[Any] = [None, 5, [["b"]], [None]]
            for wrong in wrongs:
                with pytest.raises(UsageError, match=r"names|not a member"):
                    await node.send(wrong, b"x")
            await node.send(["a"], b"to myself")
            delivery = await anext(node)
            await delivery.done()
            await delivery.done()
        with pytest.raises(NodeClosedError, match="is closed"):
            await node.send(["a"])
        with pytest.raises(StopAsyncIteration):
            await anext(node)
        with pytest.raises(UsageError, match="started already"):
            await node.__aenter__()

    run(main())


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *[(name, 5.5) for name in ("process", "peers", "options", "tls", "events", "limits")],
        ("store", 5.5),
        ("transport", 5.5),
        ("seed", "x"),
        ("options", {"view": 3}),
        ("options", {"members": ["a", "b"]}),
        ("options", {1: 2}),
        ("peers", [1]),
        ("peers", [["b"]]),
        ("options", "b"),
        ("limits", {"outbox_count": 1}),
        ("tls", "\ud800"),
        ("tls", "\0"),
    ],
)
def test_arguments_of_a_wrong_kind_are_refused(name: str, wrong: Any) -> None:
    given: dict[str, Any] = {"process": "a", "listen": "127.0.0.1:0", "peers": {}}
    with pytest.raises(UsageError):
        Node(**given | {name: wrong})


def test_the_name_of_a_newcomer_is_a_string() -> None:
    async def main() -> None:
        async with node_on(Network(), "a", limits=Limits(linger_seconds=0)) as node:
            with pytest.raises(UsageError, match="expected its name"):
                await node.add(["c"])  # type: ignore[arg-type] # that is the point

    run(main())


def test_a_store_of_another_setup_or_a_damaged_one_is_refused() -> None:
    async def main() -> None:
        network = Network()
        host = Host(network, "a")
        async with node_on(network, "a", store=host.disk.view()) as node:
            await node.send(["a"], b"x")
        with pytest.raises(StoreError, match=r"belongs to a of a, b, c \(optimal\), not to"):
            async with node_on(network, "a", store=host.disk.view(), protocol="matrix"):
                pass
        assert host.disk.checkpoint is not None
        host.disk.checkpoint = host.disk.checkpoint[:-1] + b"?"
        with pytest.raises(StoreError, match="does not match its checksum"):
            async with node_on(network, "a", store=host.disk.view()):
                pass

    run(main())


def test_a_store_that_fails_stops_the_node_and_loses_nothing() -> None:
    async def main() -> None:
        network = Network()
        host = Host(network, "a")

        async def program() -> None:
            async with node_on(network, "a", store=host.store) as node:
                await node.send(["a"], b"kept")
                host.store.is_dead = True
                with pytest.raises(StoreError):
                    await node.send(["a"], b"not kept")
                with pytest.raises(NodeClosedError, match="has stopped: the host has crashed"):
                    await node.send(["a"], b"later")

        with pytest.raises(StoreError, match="crashed"):
            await program()
        async with node_on(network, "a", store=host.disk.view()) as node:
            assert (await anext(node)).payload == b"kept"
            assert 'antecede_inbox{process="a"} 1' in node.metrics()

    run(main())


def test_a_node_is_not_entered_without_async() -> None:
    with (
        pytest.raises(UsageError, match="async with Node"),
        Node("a", peers=NAMES, transport=Network(seed=1).transport("a")),
    ):
        pass


@pytest.mark.parametrize("given", [("abc", b""), (None, b""), (b"abc", "x")])
def test_a_stamp_takes_only_bytes(given: tuple[Any, Any]) -> None:
    with pytest.raises(UsageError, match="expected the bytes that send"):
        Stamp("a", NAMES).receive(*given)
