"""Stamps on messages that other systems carry: Kafka's headers, HTTP's headers."""

from __future__ import annotations

import asyncio
import base64
import threading
import urllib.error
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from urllib.request import Request, urlopen

import pytest

import antecede
from antecede.net import Stamp
from examples.http_headers import HEADER, post, server
from examples.kafka_headers import deliveries, send

NAMES = ("ann", "bob", "cat")


@dataclass(frozen=True)
class Record:
    value: bytes
    headers: Sequence[tuple[str, bytes]] = ()


@dataclass
class Broker:
    """The part of Kafka that the example uses; records to a slow topic or producer come late."""

    topics: dict[str, asyncio.Queue[Record]] = field(
        default_factory=lambda: {name: asyncio.Queue() for name in NAMES}
    )
    late: list[Record] = field(default_factory=list)

    async def send_and_wait(
        self, topic: str, value: bytes, *, headers: Sequence[tuple[str, bytes]]
    ) -> None:
        if topic == "cat" and value == b"question":
            self.late.append(Record(value, headers))
        else:
            self.topics[topic].put_nowait(Record(value, headers))

    async def consume(self, topic: str) -> AsyncIterator[Record]:
        while True:
            yield await self.topics[topic].get()


def test_a_kafka_consumer_sees_the_question_first() -> None:
    async def main() -> list[bytes]:
        broker = Broker()
        ann, bob, cat = (Stamp(name, NAMES) for name in NAMES)
        await send(broker, ann, ["bob", "cat"], b"question")
        question = await anext(deliveries(broker.consume("bob"), broker, bob))
        assert question.payload == b"question"
        await send(broker, bob, ["cat"], b"answer")
        broker.topics["cat"].put_nowait(Record(b"from someone without a stamp"))
        broker.topics["cat"].put_nowait(Record(b"malformed", [("antecede", b"nonsense")]))
        (astray,) = ann.send(["bob"], b"in the topic of another")
        broker.topics["cat"].put_nowait(Record(astray.payload, [("antecede", astray.header)]))
        broker.topics["cat"].put_nowait(broker.late.pop())
        seen = deliveries(broker.consume("cat"), broker, cat)
        return [(await anext(seen)).payload for _ in range(2)]

    assert asyncio.run(main()) == [b"question", b"answer"]


def test_webhooks_are_handled_in_causal_order() -> None:
    ann, bob, cat = (Stamp(name, NAMES) for name in NAMES)
    seen: list[bytes] = []
    held = ann.send(["bob", "cat"], b"question")
    bob.receive(held[0].header, held[0].payload)
    running = server(cat, lambda delivery: seen.append(delivery.payload))
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    try:
        url = f"http://127.0.0.1:{running.server_address[1]}/"
        post(bob, {"cat": url}, ["cat"], b"answer")
        assert seen == []
        assert [str(need) for need in cat.waiting()[antecede.MessageId("bob", 1)]] == [
            "message 1 of ann"
        ]
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urlopen(Request(url, data=b"x", headers={HEADER: "nonsense"}), timeout=300)
        for_bob = base64.b64encode(held[0].header).decode()
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urlopen(Request(url, data=b"question", headers={HEADER: for_bob}), timeout=300)
        cat_copy = held[1]
        with pytest.raises(urllib.error.HTTPError, match="400"):
            urlopen(Request(url, data=b"x"), timeout=300)
        found = cat.receive(cat_copy.header, cat_copy.payload).deliveries
        seen += [delivery.payload for delivery in found]
    finally:
        running.shutdown()
        running.server_close()
        thread.join()
    assert seen == [b"question", b"answer"]


def test_a_stamp_goes_on_where_it_was_saved() -> None:
    ann, bob = (Stamp(name, NAMES) for name in NAMES[:2])
    first, second = (ann.send(["bob"], text)[0] for text in (b"1", b"2"))
    assert not bob.receive(second.header, second.payload).deliveries
    again = Stamp.restored(bob.save(), NAMES)
    assert len(again.waiting()) == 1
    found = again.receive(first.header, first.payload).deliveries
    assert [delivery.payload for delivery in found] == [b"1", b"2"]
    assert not again.receive(first.header, first.payload).deliveries, "a duplicate"


def test_what_was_stored_with_a_stamp_is_sent_again_after_a_crash() -> None:
    ann, bob = (Stamp(name, NAMES) for name in NAMES[:2])
    copies = ann.send(["bob"], b"1")
    stored = ann.save()  # in one transaction with the copies; then a crash, before they went out
    again = Stamp.restored(stored, NAMES)
    for copy in (*copies, *again.send(["bob"], b"2")):
        (delivery,) = bob.receive(copy.header, copy.payload).deliveries
        assert delivery.payload == copy.payload


def test_an_older_save_uses_a_number_again_and_receivers_drop_the_message() -> None:
    ann, bob = (Stamp(name, NAMES) for name in NAMES[:2])
    older = ann.save()
    (first,) = ann.send(["bob"], b"1")
    bob.receive(first.header, first.payload)
    (again,) = Stamp.restored(older, NAMES).send(["bob"], b"2")
    assert not bob.receive(again.header, again.payload).deliveries


def test_the_members_of_a_stamp_are_fixed() -> None:
    more = (*NAMES, "dan")
    (copy,) = Stamp("ann", more).send(["bob"], b"1")
    with pytest.raises(antecede.PeerError):
        Stamp("bob", NAMES).receive(copy.header, copy.payload)
    with pytest.raises(antecede.SnapshotError, match="of other members"):
        Stamp.restored(Stamp("ann", NAMES).save(), more)


def test_protocols_with_packets_of_their_own_get_them_sent() -> None:
    ann, bob = (Stamp(name, NAMES, protocol="buffered") for name in NAMES[:2])
    (copy,) = ann.send(["bob"], b"x")
    received = bob.receive(copy.header, copy.payload)
    (acknowledgement,) = received.outgoing
    assert acknowledgement.dest == "ann"
    assert not ann.receive(acknowledgement.header, acknowledgement.payload).deliveries
