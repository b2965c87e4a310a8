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
