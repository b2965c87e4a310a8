"""Dead connections, slow links and lost peers: noticed, reported, repaired."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Self

import pytest

from antecede.errors import NodeClosedError
from antecede.net import Limits, Node, SqliteStore
from antecede.net.transports import tcp as tcp_module
from antecede.testing import Disk, Network, run
from tests.net.test_node import NAMES, node_on
from tests.net.test_tcp import SECONDS, Group, expect, free_ports


class Gap:
    """Passes bytes on to an address, until it is told to swallow all further bytes."""

    def __init__(self, port: int, target: int) -> None:
        self.port = port
        self.target = target
        self.swallows: set[str] = set()
        self.connections = 0
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        there, back = await asyncio.open_connection("127.0.0.1", self.target)

        async def pump(source: asyncio.StreamReader, to: asyncio.StreamWriter, way: str) -> None:
            while data := await source.read(1 << 16):
                if way not in self.swallows or number > 1:
                    to.write(data)
            to.close()

        for one, other, way in ((reader, back, "there"), (there, writer, "back")):
            self._tasks.append(asyncio.create_task(pump(one, other, way)))


@pytest.mark.parametrize("way", ["there", "back"])
def test_a_connection_that_swallows_bytes_is_replaced_also_while_the_peer_talks(
    way: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tcp_module, "SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(tcp_module, "HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(tcp_module, "SILENCE_SECONDS_MAX", 1.0)

    async def main() -> None:
        group, (port,) = Group("ab"), free_ports(1)
        peers = {"b": f"127.0.0.1:{port}"}
        async with (
            Gap(port, group.port("b")) as gap,
            Node("a", listen=group.addresses["a"], peers=peers) as a,
            group.node("b") as b,
        ):
            await a.send(["b"], b"before")
            assert await expect(b, 1) == [b"before"]
            gap.swallows.add(way)
            await a.send(["b"], b"after")

            async def talk() -> None:
                while True:
                    await b.send(["a"], b"I hear nothing")
                    assert await expect(a, 1)
                    await asyncio.sleep(0.05)

            talking = asyncio.create_task(talk())
            assert await expect(b, 1) == [b"after"]
            async with asyncio.timeout(SECONDS):
                while gap.connections < 2:  # noqa: ASYNC110 - nothing tells when
                    await asyncio.sleep(0.05)
            talking.cancel()
            await asyncio.sleep(2)
            assert gap.connections == 2

    asyncio.run(main())
    assert any("b does not answer; connecting again" in text for text in caplog.messages)


def test_what_is_sent_again_on_a_slow_link_is_bounded_in_bytes() -> None:
    async def main() -> None:
        network = Network(seed=1)
        async with node_on(network, "a", limits=Limits(linger_seconds=0)) as a:
            carried = 0

            def carry(source: str, dest: str, frame: bytes) -> None:
                nonlocal carried
                carried += len(frame)

            for _ in range(60):
                await a.send(["b"], bytes(100_000))
            await asyncio.sleep(0.1)
            network.carry = carry  # type: ignore[method-assign]
            await asyncio.sleep(60)
            assert 0 < carried <= 12 * (300_000 + 1000)

    run(main())


@pytest.mark.parametrize("restart", [True, False])
def test_a_removed_node_is_told_also_late_and_by_members_that_restarted(
    restart: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("antecede.net.members.LEAVE_SECONDS", 0.2)

    async def main() -> None:
        group = Group("abc")
        stores = {name: tmp_path / f"{name}.db" for name in "abc"}

        def node(name: str) -> Node:
            return group.node(name, store=stores[name])

        async with node("a") as a, node("b") as b, node("c") as c:
            await a.send(["b", "c"], b"hello")
            await expect(b, 1)
            await expect(c, 1)
        async with node("a") as a, node("b"):
            await a.remove("c")
            assert a.members == ("a", "b")
            await asyncio.sleep(1)
            if not restart:
                with pytest.raises(NodeClosedError, match="was removed from its group"):
                    async with node("c") as c:
                        await expect(c, 1)
        if restart:
            async with node("a"), node("b"):
                with pytest.raises(NodeClosedError, match="was removed from its group"):
                    async with node("c") as c:
                        await expect(c, 1)

    asyncio.run(main())


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 20])
def test_a_start_that_is_cancelled_leaves_the_store_free(tmp_path: Path, steps: int) -> None:
    async def main() -> None:
        group = Group("ab")
        path = tmp_path / "a.db"

        async def start() -> None:
            async with group.node("a", store=path, joining=steps > 4):
                await asyncio.sleep(SECONDS)

        task = asyncio.create_task(start())
        for _ in range(steps):
            await asyncio.sleep(0)
        if steps > 4:
            await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        store = SqliteStore(path)
        await store.open()
        await store.close()

    asyncio.run(main())


def test_a_start_that_is_cancelled_twice_leaves_the_store_free() -> None:
    async def main() -> None:
        network = Network(seed=1)
        disk = Disk(network)
        closed: list[bool] = []

        class View(type(disk.view())):  # type: ignore[misc]
            async def close(self) -> None:
                closed.append(True)

        class Slow(type(network.transport("a"))):  # type: ignore[misc]
            async def close(self) -> None:
                await asyncio.sleep(5)

        node = Node("a", peers=NAMES, transport=Slow(network, "a"), store=View(disk), joining=True)
        task = asyncio.create_task(node.__aenter__())
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert closed == [True]

    run(main())


@pytest.mark.parametrize("address", ["a..b:7001", "x" * 64 + ".example:1", "a\0b:1", "[::1%99]:1"])
def test_an_impossible_address_is_tried_again_and_again(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        (port,) = free_ports(1)
        peers = {"b": address}
        async with Node("a", listen=f"127.0.0.1:{port}", peers=peers, allow_plaintext=True) as node:
            await asyncio.sleep(0.5)
            transport = node._transport
            assert isinstance(transport, tcp_module.TcpTransport)
            assert not transport._connecting["b"].done()

    asyncio.run(main())
    assert any("cannot connect to b" in text for text in caplog.messages)
    assert all(text.encode() for text in caplog.messages)
