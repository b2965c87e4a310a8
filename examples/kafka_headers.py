"""Causal order over Kafka: a header on each record.

Each process reads one topic of its own, and writes to the topics of others. Kafka keeps the order
in which records were written to a partition, but two producers write the question and its answer.
The stamp travels in the header ``antecede``; the consumer hands records out in causal order.

The functions take a producer and a consumer with the interface of aiokafka
(``AIOKafkaProducer.send_and_wait(topic, value, headers=...)``, and records with ``value`` and
``headers``), so nothing here depends on a package. A real service stores ``stamp.save()`` with its
offsets, before it commits them, and with what ``stamp.send`` returned, before it writes that.
"""

import logging
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import Protocol

import antecede
from antecede import Delivery
from antecede.net import Stamp, Stamped

HEADER = "antecede"
logger = logging.getLogger(__name__)


class Producer(Protocol):
    """The part of aiokafka's producer that is used here."""

    async def send_and_wait(
        self, topic: str, value: bytes, *, headers: Sequence[tuple[str, bytes]]
    ) -> object:
        """Send a record and wait until the broker has it."""


class Record(Protocol):
    """The part of aiokafka's record that is used here."""

    @property
    def value(self) -> bytes:
        """The payload."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """The headers."""


async def send(producer: Producer, stamp: Stamp, dests: list[str], payload: bytes) -> None:
    """Send a message to the topics of other processes."""
    await _pass_on(producer, stamp.send(dests, payload))


async def deliveries(
    consumer: AsyncIterable[Record], producer: Producer, stamp: Stamp
) -> AsyncIterator[Delivery]:
    """Yield what a topic brings, in causal order; skip records without a stamp of ours."""
    async for record in consumer:
        header = dict(record.headers).get(HEADER)
        if header is None:
            continue
        try:
            received = stamp.receive(header, record.value)
        except (antecede.PeerError, antecede.UsageError) as error:
            logger.warning("skipped a record: %s", error)
            continue
        await _pass_on(producer, received.outgoing)
        for delivery in received.deliveries:
            yield delivery


async def _pass_on(producer: Producer, copies: tuple[Stamped, ...]) -> None:
    for copy in copies:
        await producer.send_and_wait(copy.dest, copy.payload, headers=[(HEADER, copy.header)])
