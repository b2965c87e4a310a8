"""Greetings, addresses and settings: which are accepted and understood."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from antecede.errors import NodeClosedError, PeerError, UsageError
from antecede.net import Node
from antecede.net.fields import Fields, put_number
from antecede.net.journal import number
from antecede.net.settings import Setup
from antecede.net.transports.addresses import parsed
from antecede.net.transports.tcp import Inbound, Outbound, greeting, names_in
from tests.net.test_tcp import SECONDS, Group, expect, until


def test_a_process_joins_and_leaves_over_tcp() -> None:
    async def main() -> None:
        group = Group("abd")
        first = {name: group.addresses[name] for name in "ab"}

        def node(name: str, **given: Any) -> Node:
            return Node(name, listen=group.addresses[name], peers=first, **given)

        async with asyncio.timeout(SECONDS), node("a") as a, node("b") as b:
            with pytest.raises(UsageError, match="is not understood"):
                await a.add("d", "nowhere")
            adding = asyncio.create_task(a.add("d", group.addresses["d"]))

            async def visit() -> None:
                async with node("d", joining=True) as d:
                    await adding
                    await until(lambda: {n.members for n in (a, b, d)} == {("a", "b", "d")})
                    await d.send(["a", "b"], b"hello")
                    assert await expect(a, 1) == await expect(b, 1) == [b"hello"]
                    await b.send(["d"], b"welcome")
                    assert await expect(d, 1) == [b"welcome"]
                    await d.flush()
                    await a.remove("d")
                    await expect(d, 1)  # nothing comes any more

            with pytest.raises(NodeClosedError, match="was removed"):
                await visit()
            await until(lambda: {n.members for n in (a, b)} == {("a", "b")})
            await a.send(["b"], b"only you")
            assert await expect(b, 1) == [b"only you"]

    asyncio.run(main())


def test_a_newcomer_with_another_protocol_is_told_so() -> None:
    async def main() -> None:
        group = Group("abd")
        first = {name: group.addresses[name] for name in "ab"}

        def node(name: str, **given: Any) -> Node:
            return Node(name, listen=group.addresses[name], peers=first, **given)

        async with asyncio.timeout(SECONDS), node("a") as a, node("b"):
            adding = asyncio.create_task(a.add("d", group.addresses["d"]))
            with pytest.raises(UsageError, match="the group runs another protocol"):
                async with node("d", protocol="matrix", joining=True):
                    pass
            adding.cancel()
            await asyncio.gather(adding, return_exceptions=True)

    asyncio.run(main())


class Line:
    """The part of a transport that a connection uses."""

    def __init__(self) -> None:
        self.sent, self.is_open = b"", True

    def get_extra_info(self, name: str) -> object:
        certificate = {"subject": ((("commonName", "eve"),),)}
        return {"peercert": certificate, "peername": "somewhere"}.get(name)

    def get_write_buffer_size(self) -> int:
        return len(self.sent)

    def write(self, data: bytes) -> None:
        self.sent += data

    def is_closing(self) -> bool:
        return not self.is_open

    def abort(self) -> None:
        self.is_open = False


def framed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def met(wire: Any) -> Line:
    line = Line()
    wire.connection_made(line)
    return line


def test_whoever_is_not_the_peer_we_called_is_turned_away() -> None:
    async def main() -> list[str]:
        told = []
        for has_tls, answers in (
            (True, ()),
            (False, (framed(greeting("eve", "a")),)),
            (False, (framed(b"GET / HTTP/1.1"),)),
            (False, (b"\x7f\xff\xff\xff",)),
        ):
            wire = Outbound("a", "b", has_tls=has_tls)
            line = met(wire)
            for answer in answers:
                wire.data_received(answer)
            assert not line.is_open
            wire.data_received(b"ignored")
            told.append(str(wire.welcome.exception()))
        talker = Outbound("a", "b", has_tls=False)
        line = met(talker)
        assert talker.write(bytes(1 << 24))
        assert not talker.write(b"more"), "too much waits to be sent"
        talker.data_received(framed(greeting("b", "a")))
        assert talker.welcome.done()
        talker.data_received(framed(b"anything"))
        assert not line.is_open
        assert not talker.write(b"more")
        return told

    words = ("for 'eve'", "claims to be 'eve'", "not a greeting", "at most")
    for told, word in zip(asyncio.run(main()), words, strict=True):
        assert told.startswith("turned 'b' away: ")
        assert word in told


def test_whoever_calls_us_by_another_name_is_turned_away() -> None:
    async def main() -> list[str]:
        told: list[str] = []
        for has_tls, frame in (
            (False, greeting("eve", "b")),
            (True, greeting("ann", "a")),
            (False, greeting("eve", "a") + b"x"),
        ):
            wire = Inbound(
                "a",
                has_tls=has_tls,
                admit=lambda _: None,
                greet=lambda *_: told.append("greeted"),
                receive=lambda *_: told.append("received"),
                refuse=lambda _, reason: told.append(reason),
                lost=lambda _: None,
            )
            assert wire.address is None
            line = met(wire)
            wire.data_received(framed(frame)[:3])
            wire.data_received(framed(frame)[3:])
            assert not line.is_open
        return told

    assert asyncio.run(main()) == [
        "it looks for 'b', but this is 'a'",
        "it claims to be 'ann', but its certificate says 'eve'",
        "the greeting does not name two processes",
    ]
    assert names_in(greeting("ann", "bob")) == ("ann", "bob")


def test_fields_that_end_early_or_hold_no_text_are_refused() -> None:
    for value in (0, 127, 128, 1 << 20):
        out = bytearray()
        put_number(out, value)
        assert number(value) == bytes(out)
        assert Fields(bytes(out), 0).number() == value
    with pytest.raises(PeerError, match="end too early"):
        Fields(b"", 0).byte()
    with pytest.raises(PeerError, match="not UTF-8"):
        Fields(b"\x02\xff\xfe", 0).text()


def test_options_agree_however_they_are_written() -> None:
    written: list[dict[str, Any]] = [
        {"groups": {"x": ["a", "b"], "y": ["a"]}},
        {"groups": {"y": ("a",), "x": ("a", "b")}},
    ]
    one, other = (Setup("a", ("a", "b"), "broadcast", options) for options in written)
    assert one.digest == other.digest
    assert one.rules == other.rules
    third = Setup("a", ("a", "b"), "broadcast", {"groups": {"x": {"b", "a"}, "y": ["a"]}})
    assert third.rules == one.rules
    assert Setup("a", ("a", "b"), "broadcast", {"groups": {"x": ["a"]}}).rules != one.rules


def test_an_address_by_name_is_not_known_to_be_loopback() -> None:
    assert parsed("localhost:1").is_loopback
    assert parsed("[::1]:7001").is_loopback
    assert str(parsed("[::1]:7001")) == "[::1]:7001"
    assert not parsed("node.example:7001").is_loopback


def test_an_authority_that_we_did_not_make_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    from antecede.net.transports.certs import make_certificates

    make_certificates(tmp_path, ["a"])
    key = ed25519.Ed25519PrivateKey.generate()
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path = tmp_path / "ca-key.pem"
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    with pytest.raises(UsageError, match="is not a key that"):
        make_certificates(tmp_path, ["b"])
    path.write_bytes(b"nonsense")
    with pytest.raises(UsageError, match="cannot use the authority"):
        make_certificates(tmp_path, ["b"])


def test_nats_takes_no_address_and_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "nats://127.0.0.1:4222/shop"
    with pytest.raises(UsageError, match=r"listen=.* is for TCP"):
        Node("a", listen="127.0.0.1:7001", peers=["b"], transport=url)
    monkeypatch.setitem(sys.modules, "antecede.net.transports.nats", None)
    with pytest.raises(UsageError, match=r"pip install 'antecede\[nats\]'"):
        Node("a", peers=["b"], transport=url)


def test_a_stream_of_packets_that_does_not_fit_is_told() -> None:
    pytest.importorskip("nats")
    from antecede.net import frames
    from antecede.net.transports.nats import Readers
    from antecede.net.transports.nats_names import Names

    told: list[str] = []
    readers = Readers(
        "a", ["archive"], ["a", "archive"], Names("shop"), lambda _, text: told.append(text)
    )
    session: Any = SimpleNamespace(put=lambda *_, **__: False)

    def offered(source: bytes, dest: bytes = b"") -> bool:
        frame: Any = SimpleNamespace(
            head=frames.Head(b"", source, dest), packets=[(1, b"damaged")], notes=[]
        )
        return readers.store("archive", frame, session)

    async def answered(data: bytes) -> None:
        message: Any = SimpleNamespace(subject="inbox.0.1", data=data)
        await readers._acknowledged(message)

    assert not offered(b"one")
    assert not offered(b"two")
    assert not offered(b"one", b"an older stream")
    asyncio.run(answered(b'{"error": {"description": "it is full"}}'))
    asyncio.run(answered(b""))
    assert [text.split(";")[0].split(": ")[0] for text in told] == [
        "cannot give archive a packet",
        "the stream 'shop-packets' has packets for 'archive' from this process with another store",
        "the stream 'shop-packets' was made anew since 'archive' got its first packets",
        "the stream 'shop-packets' refuses packets",
        "the stream 'shop-packets' refuses packets",
    ]
    assert told[-2].endswith("it is full")
    assert told[-1].endswith("no stream answers")
