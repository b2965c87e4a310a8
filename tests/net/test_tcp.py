"""Nodes over real TCP: hostile connections, TLS, reconnection, SQLite."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from antecede.errors import StoreError, UsageError
from antecede.net import Limits, Node, Tls
from antecede.net.transports import tcp
from antecede.net.transports import tcp as tcp_module
from antecede.net.transports.certs import make_certificates

SECONDS = 300


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(count)]
        for sock in held:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in held]


class Group:
    """Addresses of a few nodes on loopback, and a function that makes these nodes."""

    def __init__(self, names: Iterable[str], **shared: Any) -> None:
        self.names = tuple(names)
        ports = free_ports(len(self.names))
        self.addresses = {
            name: f"127.0.0.1:{port}" for name, port in zip(self.names, ports, strict=True)
        }
        self.shared = shared

    def port(self, name: str) -> int:
        return int(self.addresses[name].rpartition(":")[2])

    def node(self, name: str, **given: Any) -> Node:
        return Node(
            name, listen=self.addresses[name], peers=self.addresses, **(self.shared | given)
        )


async def expect(node: Node, count: int) -> list[bytes]:
    taken: list[bytes] = []
    async with asyncio.timeout(SECONDS):
        while len(taken) < count:
            delivery = await anext(node)
            taken.append(delivery.payload)
            await delivery.done()
    return taken


async def until(condition: Any) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 - a test may look again and again
            await asyncio.sleep(0.01)


def test_three_nodes_over_tls_and_sqlite(tmp_path: Path) -> None:
    async def main() -> None:
        make_certificates(tmp_path / "certs", "abc")
        group = Group("abc", tls=tmp_path / "certs")
        stores = {name: tmp_path / f"{name}.db" for name in "abc"}
        payloads = [b"%d" % number for number in range(200)]
        async with (
            group.node("a", store=stores["a"]) as a,
            group.node("b", store=stores["b"]) as b,
        ):
            await asyncio.gather(*(a.send(["b", "c"], payload) for payload in payloads))
            assert await expect(b, 200) == payloads
            await b.send(["c"], b"reply")
        async with (
            group.node("c", store=stores["c"]) as c,
            group.node("b", store=stores["b"]),
            group.node("a", store=stores["a"]) as a,
        ):
            assert await expect(c, 201) == [*payloads, b"reply"]
            await asyncio.wait_for(a.flush(), SECONDS)

    asyncio.run(main())


def test_a_broken_connection_is_opened_again_and_nothing_is_lost() -> None:
    async def main() -> None:
        group = Group("ab")
        async with group.node("a") as a, group.node("b") as b:
            for number in range(5):
                await a.send(["b"], b"%d" % number)
                assert await expect(b, 1) == [b"%d" % number]
                transport = a._transport
                assert isinstance(transport, tcp_module.TcpTransport)
                transport._outbound["b"].abort()
            assert 'antecede_reconnects_total{process="a"}' in a.metrics()

    asyncio.run(main())


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Return whether the other side closes the connection without an answer."""
    async with asyncio.timeout(SECONDS):
        try:
            said = await reader.read()
            return said in (b"", framed(tcp.unknown(0)))
        except ConnectionError:
            return True


def framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


async def attack(group: Group) -> None:
    """Send nonsense of many kinds to node a; every connection must be closed."""
    host, port = "127.0.0.1", group.port("a")
    frame = tcp.greeting("b", "a")
    greeted = len(frame).to_bytes(4, "big") + frame
    stranger = tcp.greeting("mallory", "a")
    lost = tcp.greeting("b", "z")
    for data in (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes(100),
        b"\x00\x00\x00\x04\xff\xff\xff\xff",
        (2 << 30).to_bytes(4, "big") + b"x",
        len(stranger).to_bytes(4, "big") + stranger,
        len(lost).to_bytes(4, "big") + lost,
    ):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(data)
        assert await is_closed(reader), data
        writer.close()
    # A peer that sends a frame of 2 GiB, garbage as a frame, and an invalid packet.
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(greeted)
    async with asyncio.timeout(SECONDS):
        await reader.readexactly(4 + len(tcp.greeting("a", "b")))
    writer.write(b"\x00\x00\x00\x07garbage")
    writer.write((2 << 30).to_bytes(4, "big"))
    assert await is_closed(reader)
    writer.close()


def test_hostile_connections_are_turned_away_and_logged_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp_module, "SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(tcp_module, "GREETING_SECONDS_MAX", 0.3)
    monkeypatch.setattr(tcp_module, "SILENCE_SECONDS_MAX", 0.3)
    caplog.set_level(logging.WARNING)

    async def main() -> None:
        group = Group("abc")
        async with group.node("a", limits=Limits(linger_seconds=0)) as a, group.node("c") as c:
            await a.send(["c"], b"before")
            await attack(group)
            await attack(group)
            half, quiet = [
                await asyncio.open_connection("127.0.0.1", group.port("a")) for _ in range(2)
            ]
            half[1].write(b"\x00\x00")
            assert await is_closed(half[0])
            assert await is_closed(quiet[0])
            for _, writer in (half, quiet):
                writer.close()
            await a.send(["c"], b"after")
            assert await expect(c, 2) == [b"before", b"after"]

    asyncio.run(main())
    told = [text for text in caplog.messages if "turned away" in text]
    assert 5 <= len(told) <= 12, told
    assert any("a frame claims 2147483648 bytes" in text for text in told)
    assert any("'mallory' is not a peer" in text for text in told)


def test_a_thousand_connections_at_once_keep_nobody_from_serving(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tcp_module, "SWEEP_SECONDS", 0.05)
    monkeypatch.setattr(tcp_module, "GREETING_SECONDS_MAX", 1.0)
    caplog.set_level(logging.WARNING)

    async def main() -> None:
        group = Group("abc")
        async with group.node("a", limits=Limits(linger_seconds=0)) as a, group.node("c") as c:
            await a.send(["c"], b"before")
            knocks = [asyncio.open_connection("127.0.0.1", group.port("a")) for _ in range(1000)]
            many = await asyncio.gather(*knocks, return_exceptions=True)
            await c.send(["a"], b"meanwhile")
            assert await expect(a, 1) == [b"meanwhile"]
            opened = [one for one in many if not isinstance(one, BaseException)]
            assert all(await asyncio.gather(*(is_closed(reader) for reader, _ in opened)))
            for _, writer in opened:
                writer.close()
            await a.send(["c"], b"after")
            assert await expect(c, 2) == [b"before", b"after"]

    asyncio.run(main())
    told = [text for text in caplog.messages if "connections have not said who" in text]
    assert len(told) == 1, told


def test_only_the_right_certificate_opens_the_door(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_certificates(tmp_path / "ours", ["a", "b", "c"])
    make_certificates(tmp_path / "theirs", ["b"])

    async def knock(group: Group, tls: Tls | None, name: str) -> bool:
        """Greet node a as ``name``; return whether we are accepted."""
        context = tls.context(is_server=False) if tls else None
        frame = tcp.greeting(name, "a")
        try:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", group.port("a"), ssl=context
            )
            writer.write(len(frame).to_bytes(4, "big") + frame)
            answer = await asyncio.wait_for(reader.read(100), SECONDS)
            writer.close()
        except (OSError, ssl.SSLError):
            return False
        return tcp.greeting("a", name) in answer

    async def main() -> None:
        group = Group("ab")
        no_certificate = ssl.create_default_context(cafile=str(tmp_path / "ours" / "ca.pem"))
        no_certificate.check_hostname = False
        async with group.node("a", tls=tmp_path / "ours", limits=Limits(linger_seconds=0)):
            assert await knock(group, Tls.of(tmp_path / "ours", "b"), "b")
            assert not await knock(group, None, "b")
            assert not await knock(group, Tls.of(tmp_path / "theirs", "b"), "b")
            assert not await knock(group, Tls.of(tmp_path / "ours", "c"), "c")
            assert not await knock(group, Tls.of(tmp_path / "ours", "c"), "b")
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", group.port("a"), ssl=no_certificate
                )
                assert await is_closed(reader)
                writer.close()

    asyncio.run(main())
    text = caplog.text
    assert "'c' is not a peer of 'a'" in text
    assert "it claims to be 'b', but its certificate says 'c'" in text
    assert "the TLS handshake failed" in text


def test_a_server_with_the_certificate_of_another_process_is_not_trusted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_certificates(tmp_path, ["a", "b", "c"])

    async def main() -> None:
        group = Group("ab")
        context = Tls.of(tmp_path, "c")
        assert context is not None
        heard: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                heard.append(await reader.read())
            writer.close()

        server = await asyncio.start_server(
            serve, "127.0.0.1", group.port("b"), ssl=context.context(is_server=True)
        )
        async with group.node("a", tls=tmp_path, limits=Limits(linger_seconds=0)) as a:
            await a.send(["b"], b"secret")
            await until(lambda: "its certificate is for 'c'" in caplog.text)
        server.close()
        assert b"secret" not in b"".join(heard)

    asyncio.run(main())


def test_a_port_that_is_taken_and_missing_certificates_are_said_in_one_line(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        group = Group("ab")
        async with group.node("a", limits=Limits(linger_seconds=0)):
            with pytest.raises(UsageError, match=r"cannot listen on .*use another"):
                async with group.node("a"):
                    pass
        with pytest.raises(UsageError, match="`antecede node certs` makes some"):
            group.node("a", tls=tmp_path)

    asyncio.run(main())


def test_certificates_are_never_replaced(tmp_path: Path) -> None:
    first = make_certificates(tmp_path, ["a"])
    assert sorted(path.name for path in first) == ["a-key.pem", "a.pem", "ca-key.pem", "ca.pem"]
    assert (tmp_path / "a-key.pem").stat().st_mode & 0o077 == 0
    more = make_certificates(tmp_path, ["b"])
    assert sorted(path.name for path in more) == ["b-key.pem", "b.pem"]
    with pytest.raises(UsageError, match="exists already"):
        make_certificates(tmp_path, ["b"])
    for name in ("ca", "", "x/y", "n" * 65):
        with pytest.raises(UsageError, match="cannot be a certificate name"):
            make_certificates(tmp_path, [name])


def test_one_store_serves_one_node_and_damage_is_noticed(tmp_path: Path) -> None:
    async def main() -> None:
        path = tmp_path / "a.db"
        async with Node("a", store=path) as node:
            await node.send(["a"], b"x")
            with pytest.raises(StoreError, match="another node uses it"):
                async with Node("a", store=path):
                    pass
        async with Node("a", store=path) as node:
            assert (await anext(node)).payload == b"x"
        data = path.read_bytes()
        place = data.index(b"a of a (optimal)")
        path.write_bytes(data[:place] + b"b" + data[place + 1 :])
        with pytest.raises(StoreError, match="does not match its checksum"):
            async with Node("a", store=path):
                pass
        path.write_bytes(b"something else entirely " * 100)
        with pytest.raises(StoreError, match="the file is damaged"):
            async with Node("a", store=path):
                pass
        with pytest.raises(StoreError, match="check that the folder exists"):
            async with Node("a", store=tmp_path / "no" / "a.db"):
                pass

    asyncio.run(main())


def test_a_full_disk_stops_the_node_with_a_clear_error_and_loses_nothing(tmp_path: Path) -> None:
    async def fill(node: Node) -> int:
        sent = 0
        with contextlib.suppress(StoreError):
            while sent < 10_000:
                await node.send(["a"], bytes(5000))
                sent += 1
        return sent

    async def main() -> None:
        path = tmp_path / "a.db"
        sent = 0

        async def program() -> None:
            nonlocal sent
            limits = Limits(inbox_count=20_000, inbox_bytes=1 << 30)
            async with Node("a", store=path, limits=limits) as node:
                store: Any = node._store
                store._base.execute("PRAGMA max_page_count=100")
                sent = await fill(node)

        with pytest.raises(StoreError, match="database or disk is full; make room"):
            await program()
        assert 10 < sent < 1000
        async with Node("a", store=path) as node:
            assert len(await expect(node, sent)) == sent

    asyncio.run(main())
