"""Adapters with the real thing on loopback: uvicorn and httpx, RabbitMQ, Redis, NATS, Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from antecede.errors import PeerError, UsageError
from antecede.inbox import AsyncInbox, Inbox, Offer, Outgoing
from antecede.inbox import headers as heads
from antecede.inbox.cloudevents import event_of, offer_of
from tests.inbox import brokers
from tests.logs.brokers import Kafka

PATIENCE = 120.0


# HTTP: uvicorn serves a shop's application; senders use httpx.


def shop(seen: list[tuple[str, str]]) -> Any:
    """An application that ignores order and keeps what it receives."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        event = await receive()
        transaction = scope.get("antecede.transaction")
        body = event["body"].decode()
        status = 500 if body == "fails" and len(seen) < 2 else 200
        if transaction is not None:
            await transaction.execute("CREATE TABLE IF NOT EXISTS seen(path TEXT, body TEXT)")
            await transaction.execute("INSERT INTO seen VALUES (?, ?)", (scope["path"], body))
        seen.append((scope["path"], body))
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": b"thanks"})

    return app


@contextlib.contextmanager
def served(app: Callable[[], Any]) -> Iterator[str]:
    """Serve an application, made inside its loop, by uvicorn in a thread."""
    uvicorn = pytest.importorskip("uvicorn")
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            app, factory=True, lifespan="off", log_level="warning", ws="none", http="h11"
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            end = time.monotonic() + PATIENCE
            while not server.started and time.monotonic() < end:
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(PATIENCE)


def test_requests_reach_the_application_after_their_causes(tmp_path: Path) -> None:
    httpx = pytest.importorskip("httpx")
    from antecede.inbox.asgi import CausalRequests
    from antecede.inbox.httpx import publisher

    seen: list[tuple[str, str]] = []
    store = tmp_path / "shop.db"

    def app() -> Any:
        return CausalRequests(shop(seen), AsyncInbox(store, topics={"orders", "payments"}))

    source = Inbox(None, topics={"clicks"})
    for message in source.offer("1", topic="clicks"):
        with message as transaction:
            order = transaction.send("orders", "a book", id="17")
            transaction.send("payments", "12.50", id="17", causes=[order])
    with served(app) as url, httpx.Client() as client:
        outs: list[Outgoing] = []
        source.relay(outs.append)
        publish = publisher(client, lambda topic: f"{url}/{topic}")
        early = client.post(
            f"{url}/payments?x=1", content=b"12.50", headers=heads.headers_of(outs[1])
        )
        assert (early.status_code, early.text) == (202, "waiting\n")
        publish(outs[0])
        assert seen == [("/orders", "a book"), ("/payments", "12.50")]
        publish(outs[0])
        assert len(seen) == 2
        assert client.get(f"{url}/page").text == "thanks"
        assert client.post(f"{url}/plain", content=b"no message").text == "thanks"
        bad = client.post(url, content=b"", headers={heads.ID: "no JSON"})
        assert bad.status_code == 400
        assert "antecede-id" in bad.text
        unknown = heads.written("1", "nowhere", (), 0.0)
        assert client.post(url, headers=unknown).status_code == 400
    with Inbox(store) as inbox:
        assert inbox.report().done == 2


def test_an_application_that_fails_is_asked_again(tmp_path: Path) -> None:
    httpx = pytest.importorskip("httpx")
    from antecede.inbox.asgi import CausalRequests

    seen: list[tuple[str, str]] = []

    def read(headers: Any, body: bytes) -> Offer | None:
        return Offer(headers["x-id"], topic="hooks") if "x-id" in headers else None

    def app() -> Any:
        return CausalRequests(
            shop(seen), AsyncInbox(tmp_path / "x.db", topics={"hooks"}), read=read,
            body_bytes_max=1000,
        )  # fmt: skip

    with served(app) as url, httpx.Client() as client:
        failed = client.post(url, content=b"fails", headers={"x-id": "1"})
        assert failed.status_code == 500
        failed = client.post(url, content=b"fails", headers={"x-id": "1"})
        assert failed.status_code == 500
        again = client.post(url, content=b"fails", headers={"x-id": "1"})
        assert (again.status_code, again.text) == (200, "thanks")
        assert client.post(url, content=b"x", headers={"x-id": "1"}).text == "duplicate\n"
        assert client.post(url, content=bytes(1001), headers={"x-id": "2"}).status_code == 413
    with Inbox(tmp_path / "x.db") as inbox:
        (message,) = list(inbox.offer("check", topic="hooks"))
        with message as transaction:
            rows = transaction.execute("SELECT body FROM seen").fetchall()
    assert rows == [("fails",)]


def test_requests_of_a_handler_carry_its_causes() -> None:
    httpx = pytest.importorskip("httpx")
    from antecede.inbox.httpx import carry

    sent: list[Any] = []

    def answer(request: Any) -> Any:
        sent.append(dict(request.headers))
        return httpx.Response(200)

    hooks = {"request": [carry]}
    client = httpx.Client(transport=httpx.MockTransport(answer), event_hooks=hooks)
    client.post("http://x/")
    assert heads.ID not in sent[0]
    inbox = Inbox(None, topics={"a"})
    for message in inbox.offer("1", causes=["z/9"], topic="a"):
        with message:
            client.post("http://x/", headers={heads.TOPIC: json.dumps("b")})
    offer = heads.offer_in(sent[1], b"")
    assert offer is not None
    assert (offer.topic, offer.causes) == ("b", ["a/1", "z/9"])


# FastStream.


async def run_faststream(
    make: Callable[[Any], Any], folder: Path, options: dict[str, Any]
) -> list[tuple[str, Any]]:
    """Publish a shipment, a payment and an order, effects first; return the handled ones."""
    from faststream import Context

    from antecede.inbox.faststream import CausalMessages, publisher

    inbox = AsyncInbox(folder / "inbox.db", topics={"orders", "payments", "shipments"})
    seen: list[tuple[str, Any]] = []
    broker = make([CausalMessages(inbox)])
    done = asyncio.Event()

    def subscribe(topic: str) -> None:
        @broker.subscriber(topic, **options)  # type: ignore[untyped-decorator]
        async def handle(body: dict[str, int], transaction: Any = Context()) -> None:  # noqa: B008
            await transaction.execute("CREATE TABLE IF NOT EXISTS seen(topic TEXT)")
            await transaction.execute("INSERT INTO seen VALUES (?)", (topic,))
            seen.append((topic, body["n"]))
            if topic == "payments":
                transaction.send("done", body)
            if len(seen) == 6:
                done.set()

    for topic in ("orders", "payments", "shipments"):
        subscribe(topic)

    @broker.subscriber("plain", **options)  # type: ignore[untyped-decorator]
    async def plain(body: str) -> None:
        seen.append(("plain", body))

    async with broker:
        await broker.start()
        await asyncio.sleep(0.5)
        for n in range(2):
            for topic, causes in (
                ("shipments", (f"payments/{n}",)),
                ("payments", (f"orders/{n}",)),
                ("orders", ()),
            ):
                headers = heads.written(str(n), topic, causes, time.time())
                await broker.publish({"n": n}, topic, headers=headers)
                await asyncio.sleep(0.2)
        await asyncio.wait_for(done.wait(), PATIENCE)
        await asyncio.sleep(0.2)
        assert await inbox.relay(publisher(broker)) == 2
    report = await inbox.report()
    assert (report.done, report.waiting, report.ready) == (6, 0, 0)
    await inbox.close()
    return seen


WANTED = [(topic, n) for n in range(2) for topic in ("orders", "payments", "shipments")]


def check_order(seen: list[tuple[str, Any]]) -> None:
    for n in range(2):
        assert [one for one in seen if one[1] == n] == [one for one in WANTED if one[1] == n]


def quietly(work: Any) -> Any:
    """Run without the warnings of other packages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return asyncio.run(work)


@contextlib.contextmanager
def kafka(folder: Path) -> Iterator[str]:
    with Kafka(folder) as server:
        server.create("orders", "payments", "shipments", "plain", "done", partitions=2)
        yield server.servers


@pytest.mark.parametrize(
    ("name", "broker", "server"),
    [("nats", "NatsBroker", brokers.nats), ("redis", "RedisBroker", brokers.redis),
     ("rabbit", "RabbitBroker", brokers.rabbit), ("kafka", "KafkaBroker", kafka)],
)  # fmt: skip
def test_faststream(name: str, broker: str, server: Any, tmp_path: Path) -> None:
    module = pytest.importorskip(f"faststream.{name}")
    with server(tmp_path / "server") as url:

        def make(wares: Any) -> Any:
            return getattr(module, broker)(url, middlewares=wares, logger=None)

        options = {"group_id": "shop", "auto_offset_reset": "earliest"} if name == "kafka" else {}
        check_order(quietly(run_faststream(make, tmp_path, options)))


def test_records_of_kafka_without_headers_are_told_apart() -> None:
    pytest.importorskip("faststream.kafka")
    from faststream.message import StreamMessage

    from antecede.inbox.faststream import CausalMessages

    ware = CausalMessages(AsyncInbox(None, topics={"orders"}))
    found = []
    for partition in range(2):  # FastStream's message_id is the same for both
        raw = SimpleNamespace(topic="orders", partition=partition, offset=5)
        found.append(ware.offer_in(StreamMessage(raw, b"", message_id="5-1700000000000")))
    assert [(one.topic, one.id) for one in found if one] == [("orders", "0-5"), ("orders", "1-5")]
    raw = SimpleNamespace(topic=lambda: "orders", partition=lambda: 1, offset=lambda: 5)
    assert ware.offer_in(StreamMessage(raw, b"")) == found[1]  # as confluent-kafka has it
    with pytest.raises(UsageError, match="batch"):
        ware.offer_in(StreamMessage((raw,), b""))


# CloudEvents.


def test_cloudevents_are_offered_and_made() -> None:
    event = {
        "specversion": "1.0", "id": "17", "source": "/payments", "type": "paid", "data": {"x": 1},
        "causationid": "orders/17 16", "time": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    offer = offer_of(event)
    assert (offer.id, offer.topic, offer.causes) == ("17", "payments", ["orders/17", "16"])
    assert offer.time == 1767225600.0
    inbox = Inbox(None, topics={"payments", "orders"})
    inbox.offer(**offer._asdict())
    assert set(inbox.waiting()[0].lacks) == {"orders/17", "payments/16"}
    assert offer_of(event, {"/payments": "p"}).topic == "p"
    out = Outgoing("stock/5", ("payments/17", "orders/17"), {"y": 2}, 0.0)
    assert offer_of(event_of(out, "shipped")) == Offer(
        "5", {"y": 2}, ["payments/17", "orders/17"], "stock", 0.0
    )


def test_cloudevents_of_the_package() -> None:
    core = pytest.importorskip("cloudevents.core.v1.event")
    event = core.CloudEvent(
        {"id": "1", "source": "orders", "type": "t", "specversion": "1.0", "causationid": "0"}, b"x"
    )
    assert offer_of(event)[:4] == ("1", b"x", ["0"], "orders")


@pytest.mark.parametrize(
    "event",
    [7, {}, {"id": 1, "source": "x"}, {"id": "1", "source": "x", "causationid": 5},
     {"id": "1", "source": "x", "time": "noon"}],
)  # fmt: skip
def test_what_is_no_cloudevent_is_refused(event: Any) -> None:
    with pytest.raises(PeerError):
        offer_of(event)


def test_headers_of_others_are_refused() -> None:
    for headers in ({heads.ID: "x"}, {heads.ID: "[]"}, {heads.ID: '"1"', heads.CAUSES: "{}"}):
        with pytest.raises(PeerError, match="must be JSON"):
            heads.offer_in(headers, b"")
    assert heads.offer_in({}, b"") is None
