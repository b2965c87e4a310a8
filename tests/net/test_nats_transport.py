"""The NATS transport without a server: remarks of JetStream, lost connections, full queues."""

# White box: it looks into private attributes.
# ruff: noqa: SLF001

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

import antecede
from antecede.errors import UsageError
from antecede.net import frames
from antecede.net.parcels import ALONE

pytest.importorskip("nats", reason="needs nats-py")

from nats.errors import ConnectionClosedError
from nats.js import api
from nats.js.errors import APIError, NotFoundError

from antecede.net.transports import nats as nats_module
from antecede.net.transports.nats import (
    ACK,
    PULL_FRAMES,
    TERM,
    TRIES_MAX,
    NatsTransport,
    Readers,
    Session,
)
from antecede.net.transports.nats_names import Names

URL = "nats://127.0.0.1:4222/shop"
NAMES = ("a", "archive", "b")


class Client:
    """The part of a client that a session uses; it keeps published messages."""

    def __init__(self) -> None:
        self.published: list[tuple[str, bytes]] = []
        self.is_broken = False

    def new_inbox(self) -> str:
        return "inbox"

    async def subscribe(self, subject: str, cb: object) -> None: ...

    async def publish(self, subject: str, data: bytes, **_: object) -> None:
        if self.is_broken:
            raise ConnectionClosedError
        self.published.append((subject, data))


class Opened:
    """A session with such a client."""

    def __init__(self) -> None:
        self.client, self.ended = Client(), asyncio.Event()
        self.frames: list[tuple[str, bytes, int]] = []
        client: Any = self.client
        self.session = Session(client, self._arrived, self.ended)

    def _arrived(self, _: Session, peer: str, data: bytes, reply: str, tries: int) -> None:
        self.frames.append((peer, data, tries))

    async def hear(self, subject: str = "", reply: str = "", **headers: str) -> None:
        metadata = SimpleNamespace(num_delivered=1)
        message: Any = SimpleNamespace(
            subject=subject, reply=reply, headers=headers, data=b"frame", metadata=metadata
        )
        await self.session._receive(message)

    async def pulls(self) -> int:
        """Return how often the server was asked for frames."""
        await self.session._is_idle.wait()
        asked = [data for subject, data in self.client.published if subject.endswith("shop.a")]
        assert all(json.loads(data)["batch"] == PULL_FRAMES for data in asked)
        return len(asked)


def opened(program: Any) -> None:
    async def main() -> None:
        one = Opened()
        await one.session.subscribe("shop", "a")
        async with one.session:
            await program(one)

    asyncio.run(main())


def test_a_session_asks_for_more_when_all_has_come_or_nothing_came() -> None:
    async def program(one: Opened) -> None:
        assert await one.pulls() == 1
        for status, pulls in (("404", 2), ("408", 3)):
            await one.hear(Status=status)
            assert await one.pulls() == pulls
        for _ in range(PULL_FRAMES):
            await one.hear("shop.frames.a.b", "reply")
        assert await one.pulls() == 4
        assert one.frames == [("b", b"frame", 1)] * PULL_FRAMES
        one.session._last_pull -= nats_module.PULL_SECONDS * 2
        one.session._watch()
        assert await one.pulls() == 5
        assert not one.ended.is_set()

    opened(program)


def test_a_session_ends_when_its_consumer_is_gone_or_its_connection_breaks() -> None:
    async def replaced(one: Opened) -> None:
        await one.hear(Status="409")
        assert one.ended.is_set()
        assert not one.session.put("subject", b"data")

    async def broken(one: Opened) -> None:
        one.client.is_broken = True
        assert one.session.put("subject", b"data")
        await asyncio.wait_for(one.ended.wait(), 60)

    opened(replaced)
    opened(broken)


def test_frames_are_acknowledged_once_saved_and_given_up_after_many_attempts() -> None:
    async def program(one: Opened) -> None:
        session = one.session
        session.expect(("b", 0), "empty", [], 1)
        session.expect(("b", 0), "first", [1, 2], 1)
        session.expect(("b", 0), "often", [3], TRIES_MAX)
        session.saved(("b", 0), 1, ())
        session.saved(("b", 0), 1, [2])
        session.saved(("c", 0), 1, ())
        await one.hear("shop.frames.a.=zz", "nobody's")
        await one.pulls()
        assert one.client.published[1:] == [
            ("empty", ACK),
            ("often", TERM),
            ("first", ACK),
            ("nobody's", ACK),
        ]

    opened(program)


def test_what_does_not_fit_into_the_queue_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_module, "WRITE_BYTES_MAX", 1000)

    async def main() -> None:
        one = Opened()
        assert one.session.put("subject", bytes(1001))
        assert not one.session.put("subject", b"more")
        await one.session.__aexit__(None, None, None)  # it was never entered

    asyncio.run(main())


class Node:
    """A receiver that accepts everything from its transport."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, bytes]] = []
        self.reached: list[str] = []

    def connected(self, peer: str) -> None:
        self.reached.append(peer)

    def refused(self, peer: str, view: int) -> None: ...

    def received(self, peer: str, frame: bytes) -> None:
        self.taken.append((peer, frame))


def test_frames_that_come_again_are_counted_and_those_of_readers_are_not_taken() -> None:
    transport = NatsTransport("a", f"{URL}?reader=archive&replicas=3", peers=NAMES)
    assert transport._replicas == 3
    expected: list[tuple[tuple[str, int], list[int]]] = []
    session: Any = SimpleNamespace(expect=lambda peer, _, ns, __: expected.append((peer, ns)))
    frame = frames.encode(frames.Head(bytes(8), bytes(8), b""), 0, (), [(4, b"x"), (5, b"y")])
    transport.arrived(session, "b", frame, "reply", 1)  # nobody is there to take it
    assert not expected
    node = Node()
    transport._receiver = node
    transport.arrived(session, "b", frame, "reply", 2)
    transport.arrived(session, "archive", frame, "reply", 1)
    assert node.taken == [("b", frame)]
    assert expected == [(("b", 0), [4, 5]), (("archive", 0), [])]
    assert transport.counters()["redelivered"] == 1
    transport.leave("b")
    transport.arrived(session, "b", frame, "reply", 1)
    assert transport.counters()["turned_away"] == 2


def test_a_peer_that_joins_is_told_of_once_there_is_a_connection() -> None:
    async def main() -> None:
        transport, node = NatsTransport("a", URL, peers=["b"]), Node()
        transport.join("c", "")
        transport._receiver, transport._session = node, Opened().session
        transport.join("d", "")
        await asyncio.sleep(0)
        assert node.reached == ["d"]
        assert transport._known == {"b", "c", "d"}
        transport._session = None
        await transport.close()  # it was never started

    asyncio.run(main())


class Streams:
    """JetStream that has no stream and refuses to make one."""

    def __init__(self, code: int | None) -> None:
        self.code = code

    async def stream_info(self, name: str) -> None:
        raise NotFoundError

    async def add_stream(self, config: object) -> None:
        raise APIError(code=self.code, description="no room")


@pytest.mark.parametrize(("code", "error"), [(400, UsageError), (503, APIError), (None, APIError)])
def test_a_refused_stream_is_the_callers_fault_unless_the_server_is_in_trouble(
    code: int | None, error: type[Exception]
) -> None:
    transport = NatsTransport("a", URL, peers=["b"])
    config = api.StreamConfig(name="shop-frames", subjects=["shop.frames.*.*"])
    streams: Any = Streams(code)
    with pytest.raises(error) as caught:
        asyncio.run(transport._stream(streams, config))
    if error is UsageError:
        assert str(caught.value) == f"{transport.url} refuses the stream 'shop-frames': no room"


def test_a_server_that_changes_its_mind_is_told_once_and_asked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(nats_module, "BACK_OFF_MIN", 0.001)
    tries: list[int] = []

    async def main() -> None:
        transport, enough = NatsTransport("a", URL, peers=["b"]), asyncio.Event()

        async def connect(first: asyncio.Future[None]) -> None:
            tries.append(1)
            if not first.done():
                first.set_result(None)
                return
            if len(tries) == 4:
                enough.set()
            msg = "the server has no JetStream any more"
            raise UsageError(msg)

        monkeypatch.setattr(transport, "_connect", connect)
        await transport.start(Node())
        await asyncio.wait_for(enough.wait(), 60)
        await transport.close()

    asyncio.run(main())
    assert caplog.messages == ["a: the server has no JetStream any more"]


def test_a_failed_connection_is_closed_whatever_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[object] = []

    class Broken:
        async def connect(self, *_: object, **__: object) -> None:
            raise ConnectionResetError

        async def close(self) -> None:
            closed.append(self)

    async def end() -> None: ...

    monkeypatch.setattr(nats_module, "Client", Broken)
    with pytest.raises(ConnectionResetError):
        asyncio.run(NatsTransport("a", URL, peers=["b"])._client(end))
    assert len(closed) == 1


class Stored:
    """Readers, and a session that accepts their messages while there is room."""

    def __init__(self, room: int) -> None:
        self.told: list[str] = []
        self.put: list[tuple[bytes, dict[str, str]]] = []
        self.room = room
        self.session: Any = SimpleNamespace(put=self._put)
        self.readers = Readers("a", ["archive"], NAMES, Names("shop"), self._tell)

    def _tell(self, _: str, sentence: str) -> None:
        self.told.append(sentence)

    def _put(self, _: str, payload: bytes, *, reply: str, headers: dict[str, str]) -> bool:
        if len(self.put) == self.room:
            return False
        self.put.append((payload, headers))
        return True

    def store(self, packets: list[Any]) -> bool:
        codec = antecede.Codec(NAMES)
        data = [(packet.n, ALONE + codec.encode(packet)) for packet in packets]
        head = frames.Head(bytes(8), b"identity", b"")
        return self.readers.store("archive", frames.Frame(head, 0, [], data, []), self.session)

    def hear(self, n: int) -> Coroutine[Any, Any, None]:
        message: Any = SimpleNamespace(subject=f"inbox.0.{n}", data=b'{"seq": 1}')
        return self.readers._acknowledged(message)


def test_packets_under_way_to_the_stream_are_not_published_again() -> None:
    end = antecede.endpoint("optimal", process="a", members=NAMES)
    packets = [end.send(["archive"], text).packets[0] for text in (b"1", b"2", b"3")]
    stored = Stored(room=2)
    assert not stored.store(packets)
    stored.room = 9
    assert stored.store(packets)
    assert [payload for payload, _ in stored.put] == [b"1", b"2", b"3"]
    assert [headers["Antecede-Message"] for _, headers in stored.put] == ["a:1", "a:2", "a:3"]
    assert not stored.told


def test_control_packets_for_a_reader_have_no_message() -> None:
    ends = {n: antecede.endpoint("buffered", process=n, members=NAMES) for n in ("a", "archive")}
    data = ends["archive"].send(["a"], b"x").packets[0]
    (answer,) = ends["a"].receive(data).packets
    stored = Stored(room=9)
    assert stored.store([answer])
    ((_, headers),) = stored.put
    assert "Antecede-Packet" in headers
    assert "Antecede-Message" not in headers


def test_what_the_stream_has_is_told_to_the_node_that_asked_for_it() -> None:
    end = antecede.endpoint("optimal", process="a", members=NAMES)

    async def main() -> list[tuple[str, bytes]]:
        stored, node = Stored(room=9), Node()
        await stored.hear(1)
        await asyncio.sleep(0)  # there is no node yet
        stored.readers._receiver = node
        assert stored.store([end.send(["archive"], b"x").packets[0] for _ in range(2)])
        for n in (2, 1):
            await stored.hear(n)
        await asyncio.sleep(0)
        return node.taken

    ((reader, data),) = asyncio.run(main())
    assert reader == "archive"
    assert frames.decode(data).above == [1, 2]
