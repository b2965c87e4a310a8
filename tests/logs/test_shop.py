"""A short run of the shop: three instances per group, kill -9, and guests that come and go."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.logs.shop import Rows, diaries, judge, run


def sell(client: str, folder: Path, **options: Any) -> Any:
    """Run the shop without the unordered group; check the oracle's report."""
    report, shop = asyncio.run(
        run(client, folder, guests=1, every=2, groups=("shop", "view"), **options)
    )
    assert shop.orders > 20
    assert shop.kills > 0
    found = {group: (row["violations"], row["lost"]) for group, row in report.items()}
    assert found == {"shop": (0, 0), "view": (0, 0)}, report
    return shop


@pytest.mark.parametrize("client", ["confluent", "aiokafka"])
def test_kills_and_a_storm_of_rebalances_break_no_order_on_kafka(
    client: str, tmp_path: Path
) -> None:
    pytest.importorskip("aiokafka" if client == "aiokafka" else "confluent_kafka")
    shop = sell(client, tmp_path, seconds=6)
    assert shop.visits() >= 10, "eight workers, and guests who come again"


def test_kills_of_workers_and_of_the_server_break_no_order_on_jetstream(tmp_path: Path) -> None:
    pytest.importorskip("nats")
    sell("nats", tmp_path, seconds=6, instances=2)


def test_the_oracle_sees_what_is_early_and_what_is_lost(tmp_path: Path) -> None:
    rows: Rows = [
        {"group": "driver", "kind": "send", "message": "a", "topic": "orders", "after": []},
        {"group": "driver", "kind": "send", "message": "b", "topic": "payments", "after": ["a"]},
        {"group": "view", "kind": "start", "message": "b"},
        {"group": "view", "kind": "end", "message": "b"},
        {"group": "view", "kind": "start", "message": "a"},
    ]
    found = judge(rows, ["view"])["view"]
    assert (found["violations"], found["lost"], found["examples"]) == (1, 1, {"b": "a"})
    assert diaries(tmp_path) == []
