"""A small shop over Kafka that shows the effect of order: ``antecede demo kafka`` runs it.

A customer writes orders. The till answers an order with a payment and a payment with a shipment.
The view, a group of two instances, reads all three topics. Orders take it longer than other
records, and every fourth order takes until it is shipped. It keeps a book of what it has processed,
by name, and so notices when something was processed before its cause.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from antecede.errors import BrokerError
from antecede.logs.positions import context
from antecede.logs.reader import Order

TOPICS: Final = ("orders", "payments", "shipments")
#: The kind of record that causes each kind.
CAUSE: Final = {"payment": "order", "shipment": "payment"}
PATIENCE: Final = 300.0
#: Seconds that the view takes for every fourth order after it was shipped.
SLOW: Final = 0.05
_QUICK: Final = {"session.timeout.ms": 6000, "heartbeat.interval.ms": 300, "fetch.wait.max.ms": 10}


@dataclass
class Book:
    """What the view has processed, and what it processed too early."""

    done: set[str] = field(default_factory=set)
    too_early: list[str] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def start(self, name: str) -> None:
        """Record a start; the causes are those that the view can see."""
        kind, _, number = name.partition("-")
        while kind in CAUSE:
            kind = CAUSE[kind]
            if f"{kind}-{number}" not in self.done:
                self.too_early.append(name)
                return


class Shop:
    """The till and the view in threads, over one broker."""

    def __init__(self, servers: str, orders: int, seed: int) -> None:
        self.servers, self.orders, self.seed = servers, orders, seed
        self._consumers: list[Any] = []
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []
        self._shipped: set[str] = set()

    def run(self, order: Order, events: str | os.PathLike[str]) -> Book:
        """Sell, with the given order for the view; write the view's event log."""
        from antecede.logs.confluent import Producer

        book, begin = Book(), time.monotonic()
        group = f"view-{order}"
        self._start(f"till-{order}", list(TOPICS[:2]), "enforce", None, self._till)
        for _ in range(2):
            self._start(group, list(TOPICS), order, events, lambda *a: self._view(book, *a))
        self._until(lambda: all(consumer.assigned for consumer in self._consumers))
        with Producer({"bootstrap.servers": self.servers, "log_level": 0}) as producer:
            for number in range(self.orders):
                with context():
                    producer.send("orders", f"order-{number}", key=f"{order}-{number}")
        self._until(lambda: len(book.done) == 3 * self.orders)
        for consumer in self._consumers:
            consumer.stop()
        for thread in self._threads:
            thread.join()
        for consumer in self._consumers:
            consumer.close()
            if consumer.group == group:
                for name, value in consumer.metrics.as_dict().items():
                    book.metrics[name] = book.metrics.get(name, 0) + value
        self._consumers, self._threads = [], []
        if self._failures:
            raise self._failures[0]
        book.seconds = time.monotonic() - begin
        return book

    def _until(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not condition() and not self._failures:
            time.sleep(0.05)
            if time.monotonic() > end:
                msg = f"the shop did not finish within {PATIENCE:g} s; try again"
                self._failures.append(BrokerError(msg))

    def _start(self, group: str, topics: list[str], order: Order, events: Any, handle: Any) -> None:
        from antecede.logs.confluent import Consumer

        config = {**_QUICK, "bootstrap.servers": self.servers, "group.id": group, "log_level": 0}
        consumer = Consumer(config, topics, order=order, events=events)
        source = random.Random(f"{self.seed}/{len(self._consumers)}")

        def work() -> None:
            try:
                for record in consumer:
                    with record:
                        handle(record.value.decode(), record.key.decode(), source)
            except BaseException as error:
                self._failures.append(error)

        thread = threading.Thread(target=work, daemon=True, name=group)
        self._consumers.append(consumer)
        self._threads.append(thread)
        thread.start()

    def _till(self, name: str, key: str, source: random.Random) -> None:
        from antecede.logs.confluent import Producer

        producer = getattr(self, "_producer", None)
        if producer is None:
            producer = self._producer = Producer(
                {"bootstrap.servers": self.servers, "log_level": 0}
            )
        kind, _, number = name.partition("-")
        topic, effect = ("payments", "payment") if kind == "order" else ("shipments", "shipment")
        producer.send(topic, f"{effect}-{number}", key=f"{key}/{source.random()}")
        if effect == "shipment":
            self._shipped.add(number)

    def _view(self, book: Book, name: str, _: str, source: random.Random) -> None:
        book.start(name)
        kind, _, number = name.partition("-")
        if kind == "order" and int(number) % 4 == 0:
            end = time.monotonic() + 100 * SLOW
            while number not in self._shipped and time.monotonic() < end:
                time.sleep(SLOW / 10)
            time.sleep(SLOW)
        time.sleep(source.expovariate(1 / (0.004 if kind == "order" else 0.001)))
        book.done.add(name)
