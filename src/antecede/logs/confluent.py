"""Causal order over Kafka with confluent-kafka: a producer that stamps, a consumer that waits.

Needs ``pip install 'antecede[kafka]'``.
"""

from __future__ import annotations

import os
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Final, Self, TypeVar

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka import Producer as Writer
from confluent_kafka.admin import AdminClient

from antecede.errors import BrokerError, UsageError
from antecede.logs import reader as reading
from antecede.logs.murmur import murmur2
from antecede.logs.positions import HEADER, Context, Log, as_text, current, tag_of
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
#: Seconds between two look-ups of the ends of logs, and of topics that may have been recreated.
LOOK_PACE: Final = 0.5
#: Seconds after which a producer asks again for a topic's id and number of partitions.
TOPIC_AGE_MAX: Final = 60.0
#: Seconds to wait for a broker.
PATIENCE: Final = 30.0
#: The most records taken from the client at once while others are ready to be handled.
FETCHED_MAX: Final = 500
#: Seconds after which the client is polled although records are still ready.
POLL_PACE: Final = 0.05
#: The client chooses the partition of a record without a key; we change it after this many records.
STICKY: Final = 64

T = TypeVar("T")

_CRC = {"consistent", "consistent_random"}
_MURMUR = {"murmur2", "murmur2_random"}
#: Errors after which no more records can arrive.
_FINAL = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,
    KafkaError._AUTO_OFFSET_RESET,
    KafkaError._FATAL,
)

_UNKNOWN = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._UNKNOWN_TOPIC,
)


def _clients(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a consumer's or producer's config that suits another kind of client."""
    words = ("bootstrap.servers", "client.", "security.", "sasl.", "ssl.", "socket.", "broker.")
    plain = ("log_level", "debug", "logger", "error_cb", "oauth_cb", "stats_cb")
    return {k: v for k, v in config.items() if k.startswith(words) or k in plain}


def _made(kind: Callable[[dict[str, Any]], T], config: dict[str, Any]) -> T:
    """Return a client; refuse a configuration that it refuses."""
    try:
        return kind(config)
    except KafkaException as error:
        raise UsageError(f"the client refuses its config: {error.args[0].str()}") from error


def _ids(admin: AdminClient, client: Client | Writer, topics: Sequence[str]) -> dict[str, bytes]:
    """Return the tags of topics whose ids the broker reports.

    A consumer's client must not ask for a topic through ``admin``, which would create it.
    """
    cluster = client.list_topics(topics[0], timeout=PATIENCE)
    if cluster.controller_id not in cluster.brokers:
        return {}  # a cluster without a controller, such as a mock cluster, has no ids either
    found = {}
    answers = admin.describe_topics(TopicCollection(list(topics)), request_timeout=PATIENCE)
    for topic, answer in answers.items():
        try:
            found[topic] = tag_of(answer.result().topic_id)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                continue
            if error.args[0].code() == KafkaError._UNSUPPORTED_FEATURE:
                found[topic] = b""
                continue
            raise
    return found


def _own_headers(headers: object) -> list[tuple[str, Any]]:
    """Return a record's headers without the positions; refuse what is none."""
    found: Any = headers.items() if isinstance(headers, Mapping) else headers or ()
    try:
        own = [(name, data) for name, data in found if name != HEADER]
    except (TypeError, ValueError):
        own = [(None, None)]
    for name, data in own:
        if not isinstance(name, str) or not isinstance(data, bytes | str | None):
            raise UsageError(f"headers are {headers!r:.80}; give names with bytes or text")
    return own


class _Topic:
    """What a producer knows of a topic."""

    def __init__(self, partitions: int, tag: bytes, now: float) -> None:
        self.partitions, self.tag, self.since = partitions, tag, now
        self.last: dict[int, int] = {}  # the last acknowledged offset of each partition
        self.sticky, self.left = 0, 0


class Producer:
    """A producer that stamps what it writes with what the running handler has seen and written.

    It is idempotent and waits for all replicas, because a stamp names final offsets. Partitions are
    chosen as the client would; with a partitioner other than ``consistent``, ``murmur2`` and their
    ``_random`` forms, each write of a context waits for the one before it.

    Parameters
    ----------
    config
        The client's own configuration.
    horizon
        Leave out positions that are older than so many seconds. Order then holds for groups that
        lag less.
    text
        Write the header as text, for systems that read all headers as text.
    """

    def __init__(
        self, config: Mapping[str, Any], *, horizon: float | None = None, text: bool = False
    ) -> None:
        wanted = {"enable.idempotence": True, "acks": "all"}
        config = checked_config(config)
        allowed = {"enable.idempotence": (True, "true"), "acks": ("all", -1, "-1")}
        for name, values in allowed.items():
            if config.get(name, wanted[name]) not in values:
                raise UsageError(
                    f"{name} is {config[name]!r}; order needs {wanted[name]!r}: leave it out"
                )
        if horizon is not None and not is_time(horizon):
            raise UsageError(f"horizon is {horizon!r}; expected seconds greater than 0, or None")
        options = {"linger.ms": 0, **config, **wanted}
        self.horizon, self.text = horizon, text
        self._transactional = "transactional.id" in options
        self._partitioner = str(options.get("partitioner", "consistent_random"))
        #: The client's own producer, for everything that this class does not offer.
        self.client = _made(Writer, options)
        self._plain = _clients(options)
        self._admin = AdminClient(self._plain)
        self._topics: dict[str, _Topic] = {}
        if self._transactional:
            self.client.init_transactions(PATIENCE)

    def send(
        self,
        topic: str,
        value: bytes | str | None,
        key: bytes | str | None = None,
        *,
        partition: int | None = None,
        headers: Mapping[str, bytes] | Sequence[tuple[str, bytes]] | None = None,
        timestamp: int | None = None,
        context: Context | None = None,
        on_delivery: Callable[[Any, Message], None] | None = None,
    ) -> None:
        """Write a record as an effect of everything that the context has seen and written.

        It waits for earlier writes of the context to other logs (rule W), but not for this one: the
        end of the handler or :meth:`flush` does.
        """
        context = current() if context is None else context
        for what, data in (("value", value), ("key", key)):
            if not isinstance(data, bytes | str | None):
                raise UsageError(f"the {what} is of type {type(data).__name__}; give bytes or text")
        stamped = _own_headers(headers)
        known = self._topic(topic)
        if isinstance(key, str):
            key = key.encode()
        if partition is None:
            partition = self._partition(known, key)
        target = Log(topic, partition, known.tag)
        context.settled_by(self.settle)
        if context.must_wait(target):
            self._wait(context, target)
        now = time.time()
        stamp = context.begin(target, horizon=self.horizon, now=now)
        stamped.append((HEADER, as_text(stamp).encode() if self.text else stamp))

        def told(error: KafkaError | None, message: Message) -> None:
            self._told(context, target, known, error, message)
            if on_delivery is not None:
                on_delivery(error, message)

        options: dict[str, Any] = {"headers": stamped, "on_delivery": told}
        if timestamp is not None:
            options["timestamp"] = timestamp
        if partition >= 0:
            options["partition"] = partition
        try:
            self._produce(topic, value, key, options)
        except BaseException:
            context.report(target, None, now, "it was not handed to the client")
            raise
        self.client.poll(0)

    def _produce(self, topic: str, value: Any, key: Any, options: dict[str, Any]) -> None:
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self.client.produce(topic, value=value, key=key, **options)
            except BufferError:  # the client's queue is full: let it send
                if time.monotonic() > until:
                    raise
                self.client.poll(0.05)
            except KafkaException as error:
                raise BrokerError(f"cannot write to {topic}: {error.args[0].str()}") from error
            else:
                return

    def _told(
        self,
        context: Context,
        target: Log,
        known: _Topic,
        error: KafkaError | None,
        message: Message,
    ) -> None:
        """Process the client's report on a write, in whichever thread polls it."""
        now = time.time()
        if error is not None:
            context.report(target, None, now, error.str())
            return
        partition, offset = message.partition(), message.offset()
        if partition is None or offset is None or offset < 0:
            # The broker had it already and does not say where; the end of the log is a safe offset.
            context.report(target, *self._end_of(target, now))
            return
        at = Log(target.topic, partition, known.tag)
        if offset <= known.last.get(partition, -1):
            known.since = float("-inf")  # Offsets went back, so the topic was recreated.
            try:
                tag = self._topic(target.topic).tag
            except BrokerError as failure:
                reason = f"written, but to which topic of this name is not known: {failure}"
                context.report(target, None, now, reason)
                return
            at = Log(target.topic, partition, tag)
        known.last[partition] = offset
        context.report(target, offset, now, at=at)

    def _end_of(self, target: Log, now: float) -> tuple[int | None, float, str]:
        # Beyond open transactions, such as the one that this write may be a part of.
        beyond = {"group.id": "antecede-ends", "isolation.level": "read_uncommitted"}
        client = Client({**self._plain, **beyond})
        try:
            _, end = client.get_watermark_offsets(
                TopicPartition(target.topic, target.partition), timeout=PATIENCE
            )
        except KafkaException as error:
            return None, now, f"written, but its place is not known: {error}"
        finally:
            client.close()
        return end - 1, now, ""

    def _topic(self, topic: str) -> _Topic:
        known, now = self._topics.get(topic), time.monotonic()
        if known is not None and now - known.since < TOPIC_AGE_MAX:
            return known
        try:
            found = self.client.list_topics(topic, timeout=PATIENCE).topics[topic]
            tag = b"" if found.error else _ids(self._admin, self.client, [topic]).get(topic, b"")
        except KafkaException as error:
            raise BrokerError(f"cannot write to topic {topic!r}: {error.args[0].str()}") from error
        if found.error is not None:
            raise BrokerError(
                f"cannot write to topic {topic!r}: {found.error.str()}; create it first"
            )
        if known is None or known.tag != tag:
            self._topics[topic] = known = _Topic(len(found.partitions), tag, now)
        known.partitions, known.since = len(found.partitions), now
        return known

    def _partition(self, known: _Topic, key: bytes | None) -> int:
        """Return the partition that the client would choose; -1 if we cannot know."""
        kind = self._partitioner
        if kind not in _CRC | _MURMUR:
            return -1
        if key is None or not (key or kind in _MURMUR):
            key = b"" if kind in ("consistent", "murmur2") else None
        if key is None:
            if known.left <= 0:
                known.left, known.sticky = STICKY, known.sticky + 1
            known.left -= 1
            return known.sticky % known.partitions
        found = zlib.crc32(key) if kind in _CRC else murmur2(key) & 0x7FFFFFFF
        return found % known.partitions

    def _wait(self, context: Context, target: Log | None) -> None:
        until = time.monotonic() + PATIENCE
        while context.must_wait(target):
            self.client.poll(0.01)
            if time.monotonic() > until + PATIENCE * 9:
                raise BrokerError(
                    f"a write was not acknowledged within {PATIENCE * 10:g} s; look at the broker"
                )

    def settle(self, context: Context | None = None) -> None:
        """Wait until all writes of a context are acknowledged; handlers do so at their end."""
        self._wait(current() if context is None else context, None)

    def flush(self, timeout: float = PATIENCE) -> None:
        """Wait until everything is acknowledged."""
        left = self.client.flush(timeout)
        if left:
            raise BrokerError(
                f"{left} writes were not acknowledged within {timeout:g} s; look at the broker"
            )

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write the block's records in one transaction, which is aborted if the block fails."""
        if not self._transactional:
            raise UsageError("a transaction needs transactional.id in the producer's config")
        self.client.begin_transaction()
        try:
            yield
            self.settle()
        except BaseException:
            self.client.abort_transaction(PATIENCE)
            raise
        self.client.commit_transaction(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.flush() if kind is None else self.client.flush(1)


class Record(reading.Record):
    """A Kafka record that its group may process now."""

    __slots__ = ()

    raw: Message

    @property
    def value(self) -> Any:
        """The record's value."""
        return self.raw.value()

    @property
    def key(self) -> Any:
        """The record's key."""
        return self.raw.key()

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """The record's headers, except the one with the positions."""
        found: Any = self.raw.headers() or ()
        return [(name, data) for name, data in found if name != HEADER]


def _header_of(message: Message) -> bytes | None:
    headers = message.headers()
    if headers:
        for name, data in reversed(headers):
            if name == HEADER:
                return data.encode() if isinstance(data, str) else bytes(data or b"")
    return None


def _time_of(message: Message) -> float | None:
    kind, milliseconds = message.timestamp()
    return milliseconds / 1000 if kind else None


class Consumer(Instance):
    """One instance of a group: yields records after their causes.

    Parameters
    ----------
    config
        The client's own configuration, with ``group.id``.
    topics
        The names of the topics that the group reads; the same for all of its instances.
    order
        ``"enforce"``; ``"shadow"``: count early records, wait for nothing; ``"off"``.
    limit
        How many seconds a record waits at most; None: for ever.
    on_limit
        What happens then: ``"mark"`` hands it out with ``unmet``; ``"raise"`` raises first.
    events
        A file to write the event log to that ``antecede audit`` reads.
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
        self._config = _checked_config(config)
        super().__init__(
            str(config["group.id"]),
            topics, order=order, limit=limit, on_limit=on_limit, events=events,
        )  # fmt: skip
        self._reader: Reader[Record] = Reader(self._gate, order, on_limit, self._events)
        self._finish = self._reader.finish
        self._closing = self._closed = False
        self._due = self._polled = self._looked = 0.0
        self.client = _made(Client, {**self._config, "on_commit": self._on_commit})
        self._looker = _Looker(self._config)
        self._identify(time.monotonic())
        self.client.subscribe(
            self._topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    @property
    def assigned(self) -> list[Log]:
        """The logs assigned to this instance now."""
        return self._reader.assigned

    def __iter__(self) -> Iterator[Record]:
        """Yield records until :meth:`close` or :meth:`stop`."""
        while not self._closing:
            record = self.poll(1.0)
            if record is not None:
                yield record

    def poll(self, timeout: float = 1.0) -> Record | None:
        """Return a record that may start now; None if there is none for ``timeout`` seconds.

        Records of different partitions may be handled at the same time, in any thread. Only one
        thread calls ``poll``.
        """
        if self._closed:
            raise UsageError("the consumer is closed; make a new one")
        reader, begin = self._reader, time.monotonic()
        now, until = begin, begin + timeout
        while True:
            if now - self._polled > POLL_PACE:
                self._fetch(0)
            record = reader.take(now)
            self._tend(now)
            if record is not None or now > until or self._closing:
                return record
            wait = max(0.0, until - now)
            if reader.holds or self._gate.has_news:
                wait = min(wait, PACE)
            self._fetch(min(wait, 0.1))
            now = time.monotonic()

    def stop(self) -> None:
        """End the iteration over records, from any thread or a signal handler."""
        self._closing = True

    def close(self) -> None:
        """Commit what is processed, leave the group and close the client."""
        if self._closed:
            return
        self._closing = self._closed = True
        self._looker.close()
        self._reader.settle()
        self._commit(waits=True)
        self.client.close()
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tend(self, now: float) -> None:
        """Do what is due: commit, look up, pause and resume."""
        reader, gate = self._reader, self._gate
        if now < self._due:
            return
        self._due = now + PACE
        self._commit(waits=False)  # rule C: especially while something waits
        full, room = reader.pauses()
        if full:
            self.client.pause([TopicPartition(*place) for place in full])
        if room:
            self.client.resume([TopicPartition(*place) for place in room])
        for answer in self._looker.answers():
            self._learn(answer)
        if not reader.holds or self._looker.is_asking:
            return
        doubts: set[Log] = set()
        if now - self._looked > LOOK_PACE:
            self._looked = now
            doubts = gate.doubts(now)
            if gate.strangers():
                self._identify(now)
        wanted = gate.ask()
        if wanted or doubts:
            self._looker.ask(wanted, doubts, now)
        else:
            gate.count(now)

    def _learn(self, answer: _Answer) -> None:
        gate, metrics = self._gate, self.metrics
        metrics.look_ups += answer.count
        if answer.failure:
            metrics.failed_look_ups += 1
            self._remark(f"a look-up failed and is repeated: {answer.failure}")
        gate.learn(answer.published)
        if not answer.failure:
            gate.count(answer.asked)
        gate.ends(answer.ends, answer.asked)
        gate.gone(answer.gone, answer.asked)
        for place in answer.foreign:
            metrics.foreign_commits += 1
            self._remark(foreign(place))

    def _identify(self, now: float) -> None:
        """Ask for the ids of the topics, which differ from those of deleted ones."""
        try:
            self._gate.identify(self._looker.tags(self._topics), now)
        except KafkaException as error:
            self._remark(f"cannot ask for the ids of topics: {error.args[0].str()}")

    def _fetch(self, wait: float) -> None:
        """Take records from the client one by one.

        Its ``consume`` may return records from before a rebalance that it handled in the same call;
        a later commit would skip them, and so lose them.
        """
        reader = self._reader
        put, finish, poll = reader.put, self._finish, self.client.poll
        for _ in range(FETCHED_MAX):
            message = poll(wait)
            if message is None:
                break
            wait = 0
            error = message.error()
            place: Place = (message.topic(), message.partition())  # type: ignore[assignment] # both
            offset: int = message.offset()  # type: ignore[assignment] # it has one
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                self._failed(error)
                continue
            if reader.goes_back(place, offset):
                self._identify(time.monotonic())
            if error is not None:
                put(place, offset)
                continue
            record = Record(
                Log(*place), offset, message, _header_of(message), _time_of(message), finish
            )
            put(place, record)
        self._polled = time.monotonic()

    def _failed(self, error: KafkaError) -> None:
        if error.fatal() or error.code() in _FINAL:
            raise BrokerError(f"cannot read {', '.join(self._topics)}: {error.str()}")
        self.metrics.errors += 1
        self._remark(f"the client reports {error.name()}: {error.str()}")

    def _commit(self, *, waits: bool) -> None:
        gate = self._gate
        found = gate.publish()
        if not found:
            return
        self.metrics.commits += 1
        offsets = [
            TopicPartition(place.topic, place.partition, offset, MARK)
            for place, offset in found.items()
        ]
        try:
            if waits:
                self.client.commit(offsets=offsets, asynchronous=False)
            else:
                self.client.commit(offsets=offsets, asynchronous=True)
        except KafkaException:
            self.metrics.failed_commits += 1
            gate.not_published(found)

    def _on_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        bad = [p for p in partitions if error is not None or p.error is not None]
        if bad:
            self.metrics.failed_commits += 1
            self._gate.not_published([self._gate.log(p.topic, p.partition) for p in bad])

    def _assigned(self, client: Client, partitions: list[TopicPartition]) -> None:
        self._identify(time.monotonic())
        committed: dict[Place, int | None] = {}
        try:
            for found in client.committed(partitions, timeout=PATIENCE):
                if found.error is None and found.offset >= 0:
                    committed[found.topic, found.partition] = found.offset
        except KafkaException as error:  # the first fetch will show it
            self._remark(f"cannot read the group's commits: {error.args[0].str()}")
        for one in partitions:
            place = (one.topic, one.partition)
            self._reader.assign(*place, committed.get(place))

    def _revoked(self, client: Client, partitions: list[TopicPartition]) -> None:
        self._reader.settle()
        self._commit(waits=True)
        self._lost(client, partitions)

    def _lost(self, client: Client, partitions: list[TopicPartition]) -> None:
        client.resume(partitions)  # or those that are paused stay so when they come back
        for one in partitions:
            self._reader.revoke(one.topic, one.partition)


def _checked_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the client's configuration; refuse settings that would break the order."""
    config = checked_config(config)
    if not config.get("group.id"):
        raise UsageError("the config has no group.id; give the name of the consumer group")
    for name in ("enable.auto.commit", "enable.auto.offset.store"):
        if config.get(name, False) not in (False, "false"):
            raise UsageError(
                f"{name} is {config[name]!r}; only what is processed may be committed: leave it out"
            )
    needed = {
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
    }
    return {"auto.offset.reset": "earliest", **config, **needed}


@dataclass(slots=True)
class _Answer:
    """The results of a look-up: progress, ends of logs, deleted logs, foreign commits."""

    asked: float
    count: int = 0
    published: dict[Log, int | None] = field(default_factory=dict)
    ends: dict[Log, int] = field(default_factory=dict)
    gone: list[Log] = field(default_factory=list)
    foreign: list[Log] = field(default_factory=list)
    failure: str = ""


class _Looker:
    """Asks the broker in its own thread with its own client, because questions block."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        plain = {k: v for k, v in config.items() if not k.startswith("group.instance")}
        # Ends are read beyond open transactions, which may hold the position that is waited for.
        self._client = Client({**plain, "isolation.level": "read_uncommitted"})
        self._admin = AdminClient(_clients(config))
        self._questions: SimpleQueue[tuple[set[Log], set[Log], float] | None] = SimpleQueue()
        self._answers: deque[_Answer] = deque()
        self._is_asking = False
        self._thread: threading.Thread | None = None

    def tags(self, topics: Sequence[str]) -> dict[str, bytes]:
        """Return the tags of topics."""
        return _ids(self._admin, self._client, topics)

    @property
    def is_asking(self) -> bool:
        """Whether a question is pending: there is one at a time."""
        return self._is_asking

    def ask(self, wanted: set[Log], doubts: set[Log], now: float) -> None:
        """Ask how far the group has processed some logs, and where others end."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, daemon=True, name="antecede-look-ups"
            )
            self._thread.start()
        self._is_asking = True
        self._questions.put((wanted, doubts, now))

    def answers(self) -> Iterator[_Answer]:
        """Yield the answers so far."""
        while self._answers:
            yield self._answers.popleft()

    def close(self) -> None:
        """End the thread and the client."""
        self._questions.put(None)
        if self._thread is not None:
            self._thread.join()
        self._client.close()

    def _work(self) -> None:
        while (question := self._questions.get()) is not None:
            self._answers.append(self._answer(*question))
            time.sleep(PACE)
            self._is_asking = False

    def _answer(self, wanted: set[Log], doubts: set[Log], asked: float) -> _Answer:
        answer = _Answer(asked)
        try:
            if wanted:
                answer.count += 1
                by_place = {(one.topic, one.partition): one for one in wanted}
                asked_for = [TopicPartition(*place) for place in by_place]
                for found in self._client.committed(asked_for, timeout=PATIENCE):
                    place = by_place[found.topic, found.partition]
                    if found.error is None and found.offset >= 0:
                        answer.published[place] = found.offset
                        if found.metadata != MARK:
                            answer.foreign.append(place)
            self._look_at_ends(doubts, answer)
        except KafkaException as error:
            answer.failure = error.args[0].str()
        return answer

    def _look_at_ends(self, doubts: set[Log], answer: _Answer) -> None:
        """Look at the ends of logs.

        A partition that the client does not know may be new, so the client asks again.
        """
        unknown: dict[str, list[Log]] = {}
        for place in doubts:
            answer.count += 1
            one = TopicPartition(place.topic, place.partition)
            try:
                _, end = self._client.get_watermark_offsets(one, timeout=PATIENCE)
            except KafkaException as error:
                if error.args[0].code() not in _UNKNOWN:
                    raise
                unknown.setdefault(place.topic, []).append(place)
            else:
                answer.ends[place] = int(end)
        for topic, places in unknown.items():
            answer.count += 1
            found = self._client.list_topics(topic, timeout=PATIENCE).topics[topic]
            if found.error is None or found.error.code() in _UNKNOWN:
                answer.gone += [one for one in places if one.partition not in found.partitions]
