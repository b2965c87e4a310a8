"""A shop whose webhooks come in the wrong order, in shadow mode and with order enforced.

A payment provider posts three webhooks for each order: created, paid, shipped. Each takes its own
way, so some overtake. ``python examples/webhooks.py shadow`` handles them as they come and counts
what came early; ``python examples/webhooks.py enforce`` handles each after its cause.
"""

from __future__ import annotations

import random
import sqlite3
import sys
from collections.abc import Iterator
from typing import Any

from antecede.inbox import Inbox, Transaction

ORDERS = 200
TOPICS = {"created", "paid", "shipped"}


class Clock:
    """Time in the simulated shop."""

    now = 1_700_000_000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def webhooks() -> Iterator[tuple[float, str, dict[str, Any]]]:
    """Return when each webhook arrives, its id and its payload: some overtake others."""
    rng = random.Random(17)
    found = []
    for order in range(ORDERS):
        sent = order * 2.0
        for kind in ("created", "paid", "shipped"):
            event = {"type": kind, "order": f"order-{order}"}
            found.append((sent + rng.expovariate(1.0), f"evt-{order}-{kind}", event))
            sent += 1.0
    yield from sorted(found, key=lambda one: one[0])


def causes(event: dict[str, Any]) -> list[str]:
    """Return what a webhook follows. The provider does not say it; the payload tells."""
    number = event["order"].removeprefix("order-")
    before = {"paid": "created", "shipped": "paid"}.get(event["type"])
    return [f"{before}/evt-{number}-{before}"] if before else []


def handle(transaction: Transaction, event: dict[str, Any]) -> bool:
    """Move an order on; return whether it was in the state that it has to be in."""
    needed = {"created": None, "paid": "created", "shipped": "paid"}[event["type"]]
    row = transaction.execute("SELECT state FROM orders WHERE id = ?", (event["order"],)).fetchone()
    transaction.execute(
        "INSERT INTO orders VALUES (?, ?) ON CONFLICT(id) DO UPDATE SET state = excluded.state",
        (event["order"], event["type"]),
    )
    return (row[0] if row else None) == needed


def main() -> None:
    """Run the shop."""
    mode = sys.argv[1]
    clock, wrong = Clock(), 0
    place = f"{mode}.db"
    with sqlite3.connect(place) as tables:  # The shop's own tables are in the inbox's file.
        tables.execute("CREATE TABLE orders(id TEXT PRIMARY KEY, state TEXT)")
    tables.close()
    with Inbox(place, topics=TOPICS, name="shop", mode=mode, causes=causes, clock=clock) as inbox:
        for clock.now, name, event in webhooks():
            for message in inbox.offer(name, event, topic=event["type"]):
                with message as transaction:
                    wrong += not handle(transaction, message.body)
        report = inbox.report()
        print(f"{report.done} webhooks handled, {wrong} found their order in a wrong state")
        if report.early:
            print(f"{report.early} came early; they would have waited")
            print(
                f"{report.early_seconds_mean:.1f} s on average, "
                f"{report.early_seconds_max:.1f} s at most"
            )


if __name__ == "__main__":
    main()
