"""The middleware of FastStream: shadow counts, enforce gives back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antecede.errors import UsageError
from antecede.logs.positions import context
from tests.logs.brokers import mock_cluster

pytest.importorskip("faststream", reason="needs faststream")
pytest.importorskip("confluent_kafka", reason="needs confluent-kafka, for its mock cluster")
COUNT = 60


async def sell(servers: str, order: Any) -> tuple[list[str], list[str], Any]:
    """Publish categories and their products; return the handled and the early ones."""
    from faststream import AckPolicy
    from faststream.kafka import KafkaBroker

    from antecede.logs.faststream import Causal

    causal = Causal(["products", "categories"], order=order, limit=60)
    broker = KafkaBroker(servers, middlewares=[causal], logger=None)
    done: list[str] = []
    early: list[str] = []
    failed: set[str] = set()
    finished = asyncio.Event()

    @broker.subscriber(  # type: ignore[untyped-decorator] # FastStream's
        "products",
        "categories",
        group_id=order,
        auto_offset_reset="earliest",
        ack_policy=AckPolicy.NACK_ON_ERROR,
        fetch_max_wait_ms=10,
    )
    async def handle(body: str) -> None:
        kind, number = body.split("-")
        if kind == "category" and body not in failed and int(number) % 10 == 0:
            failed.add(body)  # it comes again later, and its product may be faster
            raise RuntimeError(body)
        if kind == "product" and f"category-{number}" not in done:
            early.append(body)
        done.append(body)
        if len(set(done)) == 2 * COUNT:
            finished.set()

    await broker.connect()
    for number in range(COUNT):
        with context():
            await broker.publish(f"category-{number}", "categories", key=str(number).encode())
            await broker.publish(f"product-{number}", "products", key=str(number).encode())
    await broker.start()
    await asyncio.wait_for(finished.wait(), 120)
    await broker.stop()
    return done, early, causal.metrics


def test_shadow_counts_what_the_handlers_see() -> None:
    with mock_cluster("products", "categories") as servers:
        done, early, metrics = asyncio.run(sell(servers, "shadow"))
    assert len(set(done)) == 2 * COUNT
    assert metrics.early == len(early) > 0
    assert metrics.waited == 0


def test_enforce_gives_early_records_back() -> None:
    with mock_cluster("products", "categories") as servers:
        done, early, metrics = asyncio.run(sell(servers, "enforce"))
    assert len(set(done)) == 2 * COUNT
    assert early == []
    assert metrics.early > 0
    assert metrics.gave_up == 0


def test_what_a_middleware_cannot_do_is_refused() -> None:
    from antecede.logs.faststream import Causal

    with pytest.raises(UsageError, match="can only mark"):
        Causal(["a"], on_limit="raise")
    with pytest.raises(UsageError, match="order is 'on'"):
        Causal(["a"], order="on")  # type: ignore[arg-type] # that is the point


def test_what_a_handler_returns_follows_from_its_record_and_a_batch_counts_in_full() -> None:
    from aiokafka import AIOKafkaConsumer
    from faststream import AckPolicy
    from faststream.kafka import KafkaBroker

    from antecede.logs.faststream import Causal
    from antecede.logs.positions import HEADER, Positions

    async def main(servers: str) -> dict[str, dict[str, int]]:
        causal = Causal(["a"])
        broker = KafkaBroker(servers, middlewares=[causal], logger=None)

        @broker.subscriber(
            "a", group_id="g", auto_offset_reset="earliest", ack_policy=AckPolicy.NACK_ON_ERROR
        )
        @broker.publisher("b")
        async def handle(body: str) -> str:
            return body

        await broker.connect()
        with context():
            await broker.publish("x", "a", partition=0)
        with context():
            await broker.publish_batch("1", "2", "3", topic="c", partition=0)
            await broker.publish("after", "d")
        await broker.start()
        found: dict[str, dict[str, int]] = {}
        async with AIOKafkaConsumer(
            "b", "d", bootstrap_servers=servers, auto_offset_reset="earliest", group_id="look"
        ) as reader:
            while len(found) < 2:
                message = await reader.getone()
                needs = Positions.decode(dict(message.headers)[HEADER])
                found[message.topic] = {str(log): offset for log, offset in needs.items()}
        await broker.stop()
        assert list(causal.gate.progress.values()) == [1]
        return found

    with mock_cluster("a", "b", "c", "d") as servers:
        found = asyncio.run(asyncio.wait_for(main(servers), 60))
    assert found == {"b": {"a/0": 1}, "d": {"c/0": 3}}
