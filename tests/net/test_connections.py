"""Connections of nodes that break, come twice, say nothing or come in pieces."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antecede.net import Tls, metrics
from antecede.net.metrics import MetricsServer, fetch_metrics
from antecede.net.transports import tcp as tcp_module
from antecede.net.transports.tcp import Inbound, TcpTransport, greeting, keep_alive
from tests.net.test_greetings import Line, framed, met
from tests.net.test_tcp import SECONDS, free_ports, is_closed, until

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Taken:
    """A receiver that keeps everything from its transport."""

    def __init__(self) -> None:
        self.frames: list[tuple[str, bytes]] = []

    def connected(self, peer: str) -> None: ...

    def refused(self, peer: str, view: int) -> None: ...

    def received(self, peer: str, frame: bytes) -> None:
        self.frames.append((peer, frame))


@asynccontextmanager
async def started(taken: Taken, tls: Tls | None = None) -> AsyncIterator[TcpTransport]:
    """Start the transport of a, whose peer b is not listening."""
    (port,) = free_ports(1)
    peers = {"b": f"127.0.0.1:{port}"}
    transport = TcpTransport("a", listen="127.0.0.1:0", peers=peers, tls=tls)
    assert transport.port == 0
    async with asyncio.timeout(SECONDS):
        await transport.start(taken)
        try:
            yield transport
        finally:
            await transport.close()


async def greeted(transport: TcpTransport) -> Connection:
    """Connect as b; return once we are accepted."""
    reader, writer = await asyncio.open_connection("127.0.0.1", transport.port)
    writer.write(framed(greeting("b", "a")))
    await reader.readexactly(4 + len(greeting("a", "b")))
    return reader, writer


def test_the_newest_connection_of_a_peer_counts_until_the_peer_leaves() -> None:
    async def main() -> None:
        taken = Taken()
        async with started(taken) as transport:
            older, newer = await greeted(transport), await greeted(transport)
            assert await is_closed(older[0])
            newer[1].write(framed(b"frame"))
            await until(lambda: taken.frames == [("b", b"frame")])
            transport.leave("b")
            assert await is_closed(newer[0])
            reader, writer = await asyncio.open_connection("127.0.0.1", transport.port)
            writer.write(framed(greeting("b", "a")))
            assert await is_closed(reader)
            assert transport.counters()["turned_away"] == 1
            for _, each in (older, newer, (reader, writer)):
                each.close()

    asyncio.run(main())


def test_a_peer_that_stops_within_a_frame_is_turned_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tcp_module, "SWEEP_SECONDS", 0.01)
    monkeypatch.setattr(tcp_module, "SILENCE_SECONDS_MAX", 0.05)

    async def main() -> None:
        async with started(Taken()) as transport:
            quiet, stuck = await greeted(transport), await greeted(transport)
            stuck[1].write(framed(b"frame")[:-1])
            assert await is_closed(stuck[0])
            for _, writer in (quiet, stuck):
                writer.close()

    asyncio.run(main())
    assert any("it stopped within a frame" in text for text in caplog.messages)


def test_a_system_that_cannot_accept_connections_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tcp_module, "SWEEP_SECONDS", 0.01)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        accept, failures = loop.sock_accept, [errno.EMFILE, errno.EMFILE]

        async def sometimes(listener: socket.socket) -> Any:
            if failures:
                number = failures.pop()
                raise OSError(number, os.strerror(number))
            return await accept(listener)

        monkeypatch.setattr(loop, "sock_accept", sometimes)
        async with started(Taken()) as transport:
            _, writer = await greeted(transport)
            writer.close()

    asyncio.run(main())
    told = [text for text in caplog.messages if "accept" in text]
    assert told == ["a: cannot accept connections: Too many open files"]


def test_a_handshake_under_way_ends_with_the_node(tmp_path: Path) -> None:
    certs = pytest.importorskip("antecede.net.transports.certs", reason="needs cryptography")
    certs.make_certificates(tmp_path, ["a"])

    async def main() -> None:
        async with started(Taken(), Tls.of(tmp_path, "a")) as transport:
            reader, writer = await asyncio.open_connection("127.0.0.1", transport.port)
            await until(lambda: len(transport._handshakes) == 1)
        assert await is_closed(reader)
        writer.close()

    asyncio.run(main())


def inbound(told: list[str], frames: list[bytes], *, has_tls: bool = False) -> Inbound:
    def greet(wire: Inbound, peer: str) -> None:
        wire.peer = peer

    return Inbound(
        "a",
        has_tls=has_tls,
        admit=lambda _: None,
        greet=greet,
        receive=lambda _, frame: frames.append(frame),
        refuse=lambda _, reason: told.append(reason),
        lost=lambda _: None,
    )


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_frames_are_the_same_however_the_bytes_are_cut(size: int) -> None:
    async def main() -> None:
        told: list[str] = []
        frames: list[bytes] = []
        wire = inbound(told, frames)
        assert not wire.write(b"nobody is there")
        wire.abort()
        line = met(wire)
        sent = [b"one", b"two" * 20, b"three"]
        data = b"".join(map(framed, [greeting("b", "a"), b"", *sent]))
        for place in range(0, len(data), size):
            wire.data_received(data[place : place + size])
        assert frames == sent
        assert line.is_open
        assert not told

    asyncio.run(main())


def test_a_certificate_without_a_name_is_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Line, "get_extra_info", lambda *_: None)

    async def main() -> list[str]:
        told: list[str] = []
        assert not met(inbound(told, [], has_tls=True)).is_open
        return told

    assert asyncio.run(main()) == ["its certificate has no common name"]


def test_a_system_without_all_options_gets_those_that_it_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(socket, "TCP_USER_TIMEOUT")
    with socket.socket() as sock:
        line: Any = Line()
        line.get_extra_info = {"socket": sock}.get
        keep_alive(line)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 3


def test_metrics_of_a_process_whose_name_is_not_utf_8_are_served() -> None:
    async def main() -> None:
        (port,) = free_ports(1)
        server = MetricsServer(f"127.0.0.1:{port}", {"/metrics": lambda: "of \udcff"})
        await server.start()
        try:
            assert await fetch_metrics(f"127.0.0.1:{port}") == r"of \udcff"
        finally:
            await server.close()

    asyncio.run(main())


def test_metrics_are_served_to_a_few_at_a_time_and_to_nobody_after_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "CONNECTIONS_MAX", 2)

    async def main() -> None:
        (port,) = free_ports(1)
        server = MetricsServer(f"127.0.0.1:{port}", {"": lambda: "figures"})
        await server.start()
        quiet = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        await until(lambda: len(server._tasks) == 2)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await is_closed(reader)
        await server.close()
        for one, _ in quiet:
            assert await is_closed(one)
        for _, each in (*quiet, (reader, writer)):
            each.close()

    asyncio.run(main())
