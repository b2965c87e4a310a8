"""Nodes over NATS JetStream, with a real server."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
import base64
import logging
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from antecede import Codec
from antecede.errors import UsageError
from antecede.net import Limits, Node
from tests.support.nats_server import NatsServer

nats = pytest.importorskip("nats", reason="needs nats-py")
PATIENCE = 300.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "nats") as started:
        yield started


async def reached(condition: Callable[[], bool]) -> None:
    """Wait until a condition is true."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


async def expect(node: Node, count: int) -> list[bytes]:
    """Return the payloads of the next deliveries, all marked done."""
    found: list[bytes] = []
    async with asyncio.timeout(PATIENCE):
        async for delivery in node:
            found.append(delivery.payload)
            await delivery.done()
            if len(found) == count:
                return found
    raise AssertionError(found)


async def asked(server: NatsServer, work: Callable[[Any], Any]) -> Any:
    """Send JetStream a request over a separate connection."""
    client = await nats.connect(server.url())
    try:
        return await work(client.jetstream())
    finally:
        await client.close()


def test_wrong_calls_are_refused(server: NatsServer, tmp_path: Path) -> None:
    url = server.url("shop")

    async def opened(**settings: Any) -> None:
        async with Node("a", peers=["b"], **{"transport": url, **settings}):
            pass

    wrong: list[tuple[dict[str, Any], str]] = [
        ({"listen": "127.0.0.1:1"}, "is for TCP"),
        ({"transport": "nats://10.0.0.1/shop"}, "is not on loopback"),
        ({"transport": f"{url}?reader=c"}, "reader 'c' is not among the peers b"),
        ({"transport": f"{url}?replicas=9"}, "1 to 5 copies"),
        ({"limits": Limits(payload_bytes=1 << 21)}, "raise max_payload"),
    ]
    for settings, reason in wrong:
        with pytest.raises(UsageError, match=reason) as caught:
            asyncio.run(opened(**settings))
        assert "\n" not in str(caught.value)

    async def another(jetstream: Any) -> None:
        await jetstream.add_stream(name="taken-frames", subjects=["mine"])

    asyncio.run(asked(server, another))
    with pytest.raises(UsageError, match="is not one of antecede's"):
        asyncio.run(opened(transport=server.url("taken")))
    with (
        NatsServer(tmp_path / "plain", jetstream=False) as plain,
        pytest.raises(UsageError, match="has no JetStream"),
    ):
        asyncio.run(opened(transport=plain.url("shop")))
    with (
        NatsServer(tmp_path / "closed", "--user", "ann", "--pass", "secret") as closed,
        pytest.raises(UsageError, match="refuses the user or password"),
    ):
        asyncio.run(opened(transport=closed.url("shop")))


def test_messages_wait_in_the_server_for_a_node_that_is_away(server: NatsServer) -> None:
    """The sender need not be there any more when the receiver starts."""

    async def main() -> None:
        limits = Limits(linger_seconds=0)
        url, peers = server.url("shop"), ["a", "b c"]
        async with Node("a", peers=peers, transport=url, limits=limits) as a:
            for number in range(3):
                await a.send(["b c"], b"%d" % number)
        async with Node("b c", peers=peers, transport=url, limits=limits) as b:
            assert await expect(b, 3) == [b"0", b"1", b"2"]

    asyncio.run(main())


def test_a_frame_is_acknowledged_to_the_server_after_it_is_saved(
    server: NatsServer, tmp_path: Path
) -> None:
    """What was handed out and not saved is there again at once for the node's next run."""

    async def left(jetstream: Any) -> int:
        return int((await jetstream.stream_info("shop-frames")).state.messages)

    async def main() -> None:
        url, peers = server.url("shop"), ["a", "b"]
        async with Node("a", peers=peers, transport=url, store=tmp_path / "a.db") as a:
            b = Node("b", peers=peers, transport=url, store=tmp_path / "b.db")
            await b.__aenter__()
            assert b._driver is not None
            b._driver.saving.schedule = lambda: None  # type: ignore[method-assign]  # a slow disk
            await a.send(["b"], b"hello")
            await reached(lambda: b._driver is not None and bool(b._driver.machine.inbox))
            await asyncio.sleep(0.1)
            assert await asked(server, left) == 1
            await b._transport.close()  # the crash: nothing was saved
            assert b._store is not None
            await b._store.close()
            async with Node("b", peers=peers, transport=url, store=tmp_path / "b.db") as again:
                assert await expect(again, 1) == [b"hello"]
                await a.flush()
                end = time.monotonic() + PATIENCE
                while await asked(server, left):  # a node that has ended takes no frames
                    assert time.monotonic() < end

    asyncio.run(main())


def test_a_node_starts_without_the_server_and_goes_on_when_it_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = NatsServer(tmp_path / "nats")

    async def main() -> None:
        url, peers = server.url("shop"), ["a", "b"]
        async with (
            Node("a", peers=peers, transport=url) as a,
            Node("b", peers=peers, transport=url) as b,
        ):
            await a.send(["b"], b"early")
            with server:
                assert await expect(b, 1) == [b"early"]
                await a.flush()
                told.extend(record.message for record in caplog.records)

    told: list[str] = []
    with caplog.at_level(logging.WARNING, logger="antecede.net"):
        asyncio.run(main())
    assert len(told) == 4
    assert all("cannot connect to nats://127.0.0.1" in line for line in told[:2])
    assert sorted(told[2:]) == [f"{name}: connected to {server.url('shop')}" for name in "ab"]


def test_strangers_and_garbage_are_turned_away(
    server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def intrude(client: Any) -> None:
        for subject in ("b.mallory", "b.=zz", "b.a"):
            for _ in range(3):
                await client.publish(f"shop.frames.{subject}", b"garbage")
        await client.flush()

    async def main() -> None:
        url, peers = server.url("shop"), ["a", "b"]
        async with (
            Node("a", peers=peers, transport=url) as a,
            Node("b", peers=peers, transport=url) as b,
        ):
            client = await nats.connect(server.url())
            await intrude(client)
            await client.close()
            await a.send(["b"], b"hello")
            assert await expect(b, 1) == [b"hello"]
            await a.flush()
            assert b._driver is not None
            assert b._driver.counts["refused"] == 3
            assert b._transport.counters()["turned_away"] == 3

    with caplog.at_level(logging.WARNING, logger="antecede.net"):
        asyncio.run(main())
    told = sorted(record.message for record in caplog.records)
    assert len(told) == 2
    assert "a frame came from 'mallory', which is not among the peers" in told[0]
    assert "turned away what a sent" in told[1]


def test_a_reader_gets_payloads_with_what_the_order_needs(
    server: NatsServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    members = ("a", "archive", "b")
    url = server.url("shop?reader=archive")

    def node(name: str, **settings: Any) -> Node:
        return Node(name, peers=members, transport=url, **settings)

    async def packets(jetstream: Any) -> list[Any]:
        count = (await jetstream.stream_info("shop-packets")).state.last_seq
        return [await jetstream.get_msg("shop-packets", seq=n + 1) for n in range(count)]

    async def main() -> list[Any]:
        async with (
            node("a", store=tmp_path / "a.db") as a,
            node("b", store=tmp_path / "b.db") as b,
        ):
            await a.send(["b", "archive"], b"question")
            assert await expect(b, 1) == [b"question"]
            await b.send(["a", "archive"], b"reply")
            await a.flush()
            await b.flush()
        async with node("a", store=tmp_path / "a.db") as a:  # nothing is stored twice
            await a.send(["archive"], b"more")
            await a.flush()
        async with node("a", limits=Limits(linger_seconds=0.2)) as a:  # another store
            await a.send(["archive"], b"from 1 again")
        return list(await asked(server, packets))

    with caplog.at_level(logging.WARNING, logger="antecede.net"):
        found = asyncio.run(main())
    assert [m.data for m in found] == [b"question", b"reply", b"more"]
    assert [m.headers["Antecede-Message"] for m in found] == ["a:1", "b:1", "a:2"]
    assert [m.subject.rsplit(".", 2)[1:] for m in found] == [["archive", x] for x in "aba"]
    codec = Codec(members)
    packet = codec.decode(base64.b64decode(found[1].headers["Antecede-Packet"]))
    assert (packet.source, packet.dest, str(packet.message)) == ("b", "archive", "b:1")
    told = [record.message for record in caplog.records]
    assert any("has packets for 'archive' from this process with another store" in t for t in told)


def test_nodes_prove_who_they_are_to_a_server_with_tls(tmp_path: Path) -> None:
    certs = pytest.importorskip("antecede.net.transports.certs", reason="needs cryptography")
    certs.make_certificates(tmp_path / "certs", ["a", "b", "nats"])
    folder = tmp_path / "certs"
    words = ["--tlsverify", "--tlscert", str(folder / "nats.pem")]
    words += ["--tlskey", str(folder / "nats-key.pem"), "--tlscacert", str(folder / "ca.pem")]

    async def main(server: NatsServer) -> None:
        url, peers = server.url("shop?server=nats"), ["a", "b"]
        async with (
            Node("a", peers=peers, transport=url, tls=folder) as a,
            Node("b", peers=peers, transport=url, tls=folder) as b,
        ):
            await a.send(["b"], b"hello")
            assert await expect(b, 1) == [b"hello"]
            await a.flush()
        other = server.url("shop?server=b")  # the server has another name
        async with Node("a", peers=peers, transport=other, tls=folder) as a:
            assert a._transport.counters()["connects"] == 0

    with NatsServer(tmp_path / "nats", *words) as server:
        asyncio.run(main(server))


def test_a_user_can_publish_only_as_itself_with_the_printed_permissions(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "nats.md").read_text()
    (printed,) = re.findall(r"```text\n(permissions.*?)```", page, flags=re.DOTALL)
    users = [
        f"{{user: {name}, password: pw, {printed.replace('ann', name)} }}"
        for name in ("ann", "bob")
    ]
    config = tmp_path / "nats.conf"
    config.write_text(f"authorization: {{ users: [ {', '.join(users)} ] }}")

    async def main(server: NatsServer) -> None:
        ann, bob = (server.url("shop").replace("//", f"//{name}:pw@") for name in ("ann", "bob"))
        async with (
            Node("ann", peers=["bob"], transport=ann) as a,
            Node("bob", peers=["ann"], transport=bob) as b,
        ):
            await a.send(["bob"], b"hello")
            assert await expect(b, 1) == [b"hello"]
            await a.flush()
            heard: list[Exception] = []

            async def hear(error: Exception) -> None:
                heard.append(error)

            client = await nats.connect(ann.rpartition("/")[0], error_cb=hear)
            await client.publish("shop.frames.ann.bob", b"forged")
            await client.flush()
            await reached(lambda: bool(heard))
            assert "permissions violation" in str(heard[0]).lower()
            await client.close()

    with NatsServer(tmp_path / "nats", "-c", str(config)) as server:
        asyncio.run(main(server))


def test_processes_join_and_leave(server: NatsServer, tmp_path: Path) -> None:
    async def main() -> None:
        url = server.url("shop")

        def node(name: str, peers: str, **settings: Any) -> Node:
            return Node(name, peers=peers, transport=url, store=tmp_path / name, **settings)

        async with node("a", "b") as a, node("b", "a") as b:
            await a.send(["b"], b"before")
            assert await expect(b, 1) == [b"before"]
            adding = asyncio.create_task(a.add("c"))
            async with node("c", "a", joining=True) as c:
                await adding
                await reached(lambda: b.members == ("a", "b", "c"))
                await b.send(["a", "c"], b"welcome")
                assert await expect(c, 1) == [b"welcome"]
                assert await expect(a, 1) == [b"welcome"]
                thanks = await c.send(["a", "b"], b"thanks")
                assert await expect(a, 1) == [b"thanks"]
                assert await expect(b, 1) == [b"thanks"]
                await c.flush()
            await a.remove("c")
            assert a.members == ("a", "b")
            await a.send(["b"], b"after")
            assert await expect(b, 1) == [b"after"]
            (tmp_path / "c").unlink()
            adding = asyncio.create_task(b.add("c"))
            async with node("c", "b", joining=True) as c:  # without its store: a newcomer
                await adding
                message = await c.send(["b"], b"back again")
                assert message != thanks
                assert await expect(b, 1) == [b"back again"]
                await b.send(["a", "c"], b"good")
                assert await expect(c, 1) == [b"good"]
                assert await expect(a, 1) == [b"good"]
            await a.flush()
        async with Node("x", peers=["r"], transport=server.url("other?reader=r")) as x:
            with pytest.raises(UsageError, match="a group with readers cannot change"):
                await x.add("y")

    asyncio.run(main())


def test_the_printed_program_sends(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "nats.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)[0]
    code = code.replace("127.0.0.1:4222", f"127.0.0.1:{server.port}")
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        async with Node("bob", peers=["ann"], transport=server.url("shop")) as bob:
            sending = asyncio.to_thread(exec, compile(code, "nats.md", "exec"), {})
            found, _ = await asyncio.gather(expect(bob, 1), sending)
            assert found == [b"hello"]

    asyncio.run(main())


def test_frames_that_a_node_cannot_take_do_not_block_the_others(server: NatsServer) -> None:
    """A peer with another setup fills its own subject; what others send still arrives."""

    async def main() -> None:
        url = server.url("shop")
        limits = Limits(linger_seconds=0)
        async with (
            Node("a", peers=["b", "c"], transport=url) as a,
            Node("b", peers=["a", "c"], transport=url) as b,
            Node("c", peers=["b"], transport=url, limits=limits) as c,  # it does not know a
        ):
            await c.send(["b"], b"not for you")
            await a.send(["b"], b"hello")
            assert await expect(b, 1) == [b"hello"]
            assert b._driver is not None
            await reached(lambda: b._driver is not None and b._driver.counts["refused"] > 0)
            await a.flush()

    asyncio.run(main())


def test_a_node_from_a_file(tmp_path: Path, server: NatsServer) -> None:
    from antecede.net.config import node_from

    path = tmp_path / "a.toml"
    path.write_text(f'process = "a"\ntransport = "{server.url("shop")}"\npeers = ["b"]\n')

    async def main() -> None:
        async with node_from(path) as a:
            assert a.members == ("a", "b")

    asyncio.run(main())
    path.write_text('process = "a"\npeers = [1]\n')
    with pytest.raises(UsageError, match="expected a list of names"):
        node_from(path)
