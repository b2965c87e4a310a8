"""The mock cluster of librdkafka: a broker inside this process, for demonstrations and tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from antecede.errors import BrokerError


@contextmanager
def cluster(topics: Sequence[str], *, partitions: int = 4) -> Iterator[str]:
    """Run a mock cluster with these topics; yield the address for ``bootstrap.servers``."""
    from confluent_kafka import KafkaException, Producer

    config = {"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0}
    config["test.mock.default.partitions"] = partitions
    try:
        broker = Producer(config)
    except KafkaException:  # older clients always create four
        del config["test.mock.default.partitions"]
        broker = Producer(config)
    found = broker.list_topics(timeout=30)
    servers = ",".join(f"{one.host}:{one.port}" for one in found.brokers.values())
    if not servers:
        raise BrokerError(
            "the mock cluster did not start; install a confluent-kafka of 2.4 or newer"
        )
    for topic in topics:
        broker.list_topics(topic, timeout=30)  # creates the topic
    yield servers
    broker.purge()
