"""Causal order over Kafka with aiokafka: a producer that stamps, a consumer that waits.

Needs ``pip install 'antecede[kafka]'``. aiokafka does not report the ids of topics, so a topic that
was deleted and recreated looks like the old one.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, Final

from aiokafka import (
    AIOKafkaConsumer,
    AIOKafkaProducer,
    ConsumerRebalanceListener,
    ConsumerRecord,
    TopicPartition,
)
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import IllegalStateError, KafkaError, UnknownTopicOrPartitionError

from antecede.errors import BrokerError, ContextEndedError, UsageError
from antecede.logs import reader as reading
from antecede.logs.aio import Started, Tasks, writing
from antecede.logs.murmur import murmur2
from antecede.logs.positions import HEADER, Context, Log, as_text
from antecede.logs.reader import (
    MARK,
    Instance,
    OnLimit,
    Order,
    Place,
    Reader,
    checked_config,
    foreign,
    is_time,
)  # fmt: skip

#: Seconds between two commits, and between two look-ups of the group's progress.
PACE: Final = 0.01
#: Seconds between two look-ups of the ends of logs.
LOOK_PACE: Final = 0.5
#: Seconds to wait for the ends of logs.
PATIENCE: Final = 10.0
FETCHED_MAX: Final = 500
_CONNECTION: Final = (
    "bootstrap_servers",
    "client_id",
    "request_timeout_ms",
    "retry_backoff_ms",
    "security_protocol",
    "ssl_context",
    "sasl_",
    "connections_max_idle_ms",
)


def _connection(config: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key.startswith(_CONNECTION)}


class Producer(Started):
    """A producer that stamps what it writes with what the running handler has seen and written.

    Each write is acknowledged before ``send`` returns. ``config`` are the arguments of
    ``AIOKafkaProducer``; ``horizon`` is the age in seconds from which positions are left out, and
    ``text`` writes the header as text.
    """

    def __init__(
        self, config: Mapping[str, Any], *, horizon: float | None = None, text: bool = False
    ) -> None:
        config = checked_config(config)
        if config.get("enable_idempotence", True) is not True:
            raise UsageError("enable_idempotence is off; order needs it: leave it out")
        if config.get("acks", "all") not in ("all", -1):
            raise UsageError(f"acks is {config['acks']!r}; order needs 'all': leave it out")
        if horizon is not None and not is_time(horizon):
            raise UsageError(f"horizon is {horizon!r}; expected seconds greater than 0, or None")
        self.horizon, self.text = horizon, text
        self._has_partitioner = "partitioner" in config
        self._config = {**config, "enable_idempotence": True, "acks": "all"}
        #: The client's own producer, once started.
        self.client: AIOKafkaProducer | None = None

    async def start(self) -> None:
        """Connect."""
        self.client = AIOKafkaProducer(**self._config)
        await self.client.start()

    async def close(self) -> None:
        """Send what is queued, and disconnect."""
        if self.client is not None:
            await self.client.stop()

    async def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        context: Context | None = None,
    ) -> int:
        """Write a record as an effect of what the context has seen and written.

        Returns its offset, once it is acknowledged.
        """
        if self.client is None:
            raise UsageError("the producer is not started; use it as `async with Producer(...)`")
        if partition is None:
            partition = await self._partition(topic, key)
        target = Log(topic, partition)
        own = [(name, data) for name, data in headers if name != HEADER]
        async with writing(target, context, horizon=self.horizon) as (stamp, past):
            own.append((HEADER, as_text(stamp).encode() if self.text else stamp))
            try:
                sent = await self.client.send_and_wait(
                    topic, value, key, partition=None if partition < 0 else partition, headers=own
                )
            except KafkaError as error:
                raise BrokerError(f"cannot write to {topic}: {error!r}") from error
            if sent.offset < 0:
                raise ContextEndedError(
                    f"the broker had a record of {topic} already and does not tell its offset"
                )
        past.report(target, sent.offset, time.time(), at=Log(topic, sent.partition))
        return int(sent.offset)

    async def _partition(self, topic: str, key: bytes | None) -> int:
        """Return the partition that the client would choose; -1 if only it knows."""
        assert self.client is not None
        if key is None or self._has_partitioner:
            return -1
        try:
            found = sorted(await self.client.partitions_for(topic))
        except KafkaError as error:
            raise BrokerError(
                f"cannot write to topic {topic!r}: {error!r}; create it first"
            ) from error
        return int(found[(murmur2(key) & 0x7FFFFFFF) % len(found)])


class Record(reading.Record):
    """A Kafka record that its group may process now."""

    __slots__ = ()

    raw: ConsumerRecord[Any, Any]

    @property
    def value(self) -> Any:
        """The record's value."""
        return self.raw.value

    @property
    def key(self) -> Any:
        """The record's key."""
        return self.raw.key

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """The record's headers, except the one with the positions."""
        return [(name, data) for name, data in self.raw.headers if name != HEADER]


class Consumer(Instance, Started):
    """One instance of a group: yields records after their causes.

    ``config`` are the arguments of ``AIOKafkaConsumer``, with ``group_id``; the other parameters
    are those of the consumer in :mod:`antecede.logs.confluent`.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        topics: Sequence[str],
        *,
        order: Order = "enforce",
        limit: float | None = None,
        on_limit: OnLimit = "mark",
        events: str | os.PathLike[str] | None = None,
    ) -> None:
        config = checked_config(config)
        if not config.get("group_id"):
            raise UsageError("the config has no group_id; give the name of the consumer group")
        if config.get("enable_auto_commit", False):
            raise UsageError(
                "enable_auto_commit is on; only what is processed may be committed: leave it out"
            )
        super().__init__(
            str(config["group_id"]),
            topics, order=order, limit=limit, on_limit=on_limit, events=events,
        )  # fmt: skip
        self._config = {"auto_offset_reset": "earliest", **config, "enable_auto_commit": False}
        self._reader: Reader[Record] = Reader(self._gate, order, on_limit, self._events)
        self._tasks = Tasks(self._topics)
        self._marks: dict[Place, int] = {}
        #: Logs taken over, until we know what the group has published for them.
        self._fresh: set[Place] = set()
        self.client: AIOKafkaConsumer | None = None
        self._admin: AIOKafkaAdminClient | None = None
        self._ends: AIOKafkaConsumer | None = None

    @property
    def assigned(self) -> list[Log]:
        """The logs assigned to this instance now."""
        return self._reader.assigned

    async def start(self) -> None:
        """Connect and join the group."""
        self.client = AIOKafkaConsumer(**self._config)
        self.client.subscribe(self._topics, listener=_Listener(self._assigned, self._revoked))
        self._admin = AIOKafkaAdminClient(**_connection(self._config))
        try:
            await self._admin.start()
            await self.client.start()
        except BaseException:
            await self.close()
            raise
        self._tasks.start(self._pump, self._look, self._doubt)

    def stop(self) -> None:
        """End the iteration over records."""
        self._tasks.stop()

    async def close(self) -> None:
        """Commit what is processed, leave the group and disconnect."""
        await self._tasks.end()
        if self.client is not None:
            self._reader.settle()
            await self._commit()
            await self.client.stop()
        if self._admin is not None:
            await self._admin.close()
        if self._ends is not None:
            await self._ends.stop()
        self._reader.close()

    def __aiter__(self) -> AsyncIterator[Record]:
        """Yield records until :meth:`stop`; several may be handled at the same time."""
        return self._tasks.iterate(lambda: self._reader.take(time.monotonic()))

    def _finish(self, record: Record, is_done: bool) -> None:
        self._reader.finish(record, is_done)
        self._tasks.wake()

    async def _pump(self) -> None:
        """Fetch, record how far each log was fetched, commit, pause and resume."""
        assert self.client is not None
        reader, client = self._reader, self.client
        while True:
            is_urgent = reader.holds or self._gate.has_news or not reader.is_idle
            found = await client.getmany(
                timeout_ms=int(1000 * PACE) if is_urgent else 100, max_records=FETCHED_MAX
            )
            for one, messages in found.items():
                place = (one.topic, one.partition)
                self._take_over(place)
                for message in messages:
                    reader.put(place, self._record(place, message))
            await self._mark()
            self._tasks.wake()
            reader.settle()
            await self._commit()
            full, room = reader.pauses()
            with suppress(IllegalStateError):
                client.pause(*(TopicPartition(*place) for place in full))
                client.resume(*(TopicPartition(*place) for place in room))

    def _record(self, place: Place, message: ConsumerRecord[Any, Any]) -> Record:
        header = next((data for name, data in reversed(message.headers) if name == HEADER), None)
        moment = message.timestamp / 1000 if message.timestamp >= 0 else None
        return Record(Log(*place), message.offset, message, header, moment, self._finish)

    async def _mark(self) -> None:
        """Record how far each log was fetched (rule G): offsets without a record are empty."""
        assert self.client is not None
        for one in self.client.assignment():
            place = (one.topic, one.partition)
            epoch = self._reader.epoch(place)
            try:
                position = await asyncio.wait_for(self.client.position(one), PACE)
            except (KafkaError, ValueError, TimeoutError):
                continue  # a rebalance, or not known yet
            if not epoch or epoch != self._reader.epoch(place):
                continue  # it was reassigned meanwhile, and came back with another position
            if self._marks.get(place) != position:
                self._marks[place] = position
                self._reader.put(place, position)

    async def _look(self) -> None:
        """Ask for the progress of the group's other instances."""
        while True:
            await asyncio.sleep(PACE)
            if not self._reader.holds:
                continue
            gate, asked = self._gate, time.monotonic()
            wanted = gate.ask()
            with self._asking() if wanted else nullcontext():
                if wanted:
                    places = [(one.topic, one.partition) for one in wanted]
                    gate.learn(await self._published(places, warns=True))
                gate.count(asked)
            self._tasks.wake()

    async def _doubt(self) -> None:
        """Ask for the ends of logs that may have been truncated, ignoring open transactions."""
        assert self._admin is not None
        gate = self._gate
        while True:
            await asyncio.sleep(LOOK_PACE)
            asked = time.monotonic()
            doubts = gate.doubts(asked)
            if not doubts:
                continue
            with self._asking():
                # The client's list of partitions may be an hour old, so ask a broker for it first.
                known = await self._admin.describe_topics(sorted({k.topic for k in doubts}))
                clear = (0, UnknownTopicOrPartitionError.errno)
                parts = {
                    one["topic"]: {part["partition"] for part in one["partitions"]}
                    for one in known
                    if one["error_code"] in clear
                }
                gate.gone([k for k in doubts if k.partition not in parts.get(k.topic, {-1})], asked)
                there = [k for k in doubts if k.partition in parts.get(k.topic, ())]
                gate.ends(await asyncio.wait_for(self._end_offsets(there), PATIENCE), asked)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Count a request to the broker; a failed one will be repeated."""
        self.metrics.look_ups += 1
        try:
            yield
        except (KafkaError, TimeoutError) as error:
            self.metrics.failed_look_ups += 1
            self._remark(f"a look-up failed and is repeated: {error!r}")

    async def _published(self, places: Sequence[Place], *, warns: bool) -> dict[Log, int | None]:
        assert self._admin is not None
        partitions = [TopicPartition(*place) for place in places]
        found = await self._admin.list_consumer_group_offsets(self.group, partitions=partitions)
        published: dict[Log, int | None] = {}
        for one, answer in found.items():
            if answer.offset < 0:
                continue
            place = Log(one.topic, one.partition)
            published[place] = answer.offset
            if warns and answer.metadata != MARK:
                self.metrics.foreign_commits += 1
                self._remark(foreign(place))
        return published

    async def _end_offsets(self, logs: Sequence[Log]) -> dict[Log, int]:
        if not logs:
            return {}
        if self._ends is None:
            client = AIOKafkaConsumer(**_connection(self._config))
            try:
                await client.start()
            except BaseException:  # the next question starts another one
                await client.stop()
                raise
            self._ends = client
        found = await self._ends.end_offsets([TopicPartition(k.topic, k.partition) for k in logs])
        return {Log(one.topic, one.partition): end for one, end in found.items()}

    async def _commit(self) -> None:
        assert self.client is not None
        gate = self._gate
        found = gate.publish()
        # What we knew of a log that comes back may be below what others have committed since.
        fresh = [place for place in found if place[:2] in self._fresh]
        gate.not_published(fresh)
        for place in fresh:
            del found[place]
        if not found:
            return
        self.metrics.commits += 1
        offsets = {TopicPartition(k.topic, k.partition): (n, MARK) for k, n in found.items()}
        try:
            await self.client.commit(offsets)
        except (KafkaError, ValueError):  # a rebalance: repeated if the log is still ours
            self.metrics.failed_commits += 1
            gate.not_published(found)

    async def _assigned(self, partitions: set[TopicPartition]) -> None:
        places = [(one.topic, one.partition) for one in partitions]
        for place in places:
            self._take_over(place)
        if places:
            try:
                with suppress(KafkaError, TimeoutError):  # the first fetch will show it
                    found = await self._published(places, warns=False)
                    self._gate.learn(found)
            finally:
                self._fresh.difference_update(places)

    def _take_over(self, place: Place) -> None:
        """Take over a log, before the first await: the client fetches while it calls us.

        Records fetched and dropped would be skipped by the next commit, and so be lost.
        """
        assert self.client is not None
        is_ours = TopicPartition(*place) in self.client.assignment()
        if is_ours and Log(*place) not in self._reader.assigned:
            self._marks.pop(place, None)
            self._fresh.add(place)
            self._reader.assign(*place, None)

    async def _revoked(self, partitions: set[TopicPartition]) -> None:
        try:
            self._reader.settle()
            await self._commit()
        finally:
            for one in partitions:
                self._fresh.discard((one.topic, one.partition))
                self._reader.revoke(one.topic, one.partition)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc] # the client has no types
    """Passes changes of the group's assignment to the consumer."""

    def __init__(self, assigned: Callable[[Any], Any], revoked: Callable[[Any], Any]) -> None:
        self._assigned, self._revoked = assigned, revoked

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Take over logs."""
        await self._assigned(assigned)

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Give up logs."""
        await self._revoked(revoked)
