"""Causal order over NATS JetStream with nats-py: a producer that stamps, a consumer that waits.

Needs ``pip install 'antecede[nats]'``. A stream is a log. The instances of a group share one
durable consumer per stream, so a stream is not processed in order: a record also waits for its
causes in its own stream, and the group's progress is the consumer's acknowledgement floor.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import nats
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import NotFoundError

from antecede.errors import BrokerError, UsageError
from antecede.logs import reader as reading
from antecede.logs.aio import Started, Tasks, writing
from antecede.logs.positions import HEADER, Context, Log, as_text, tag_of
from antecede.logs.reader import (
    Instance,
    OnLimit,
    Order,
    checked_config,
    is_time,
    log,
    refuse,
    start_without,
)  # fmt: skip

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext

#: Seconds between two look-ups of the group's progress.
PACE: Final = 0.01
#: The most messages of a stream that an instance has at a time.
HOLD_MAX: Final = 256
FETCHED_MAX: Final = 64
#: Seconds to wait for the server.
PATIENCE: Final = 30.0
#: Seconds until the outcome of a write counts as unknown and its handler fails.
PUBLISH_PATIENCE: Final = 10.0
#: Seconds until a returned message is redelivered.
BACK_AFTER: Final = 0.5
TAG_AGE_MAX: Final = 60.0
_OURS: Final = ("durable", "filters", "ack_wait")
_FAILURES: Final = (NatsError, TimeoutError, OSError)

Key = tuple[str, int]


async def _connect(config: Mapping[str, Any]) -> Client:
    """Connect, and reconnect whenever the connection breaks."""
    options = {key: value for key, value in config.items() if key not in _OURS}
    options = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.2, **options}

    async def told(error: Exception) -> None:
        log.info("nats: %r", error)

    options.setdefault("error_cb", told)
    try:
        return await nats.connect(**options)
    except _FAILURES as error:
        raise BrokerError(
            f"cannot connect to NATS at {config.get('servers')!r}: {error!r}"
        ) from error


def _header_of(message: Msg) -> bytes | None:
    text = (message.headers or {}).get(HEADER)
    return None if text is None else text.encode()


class _Streams:
    """The tags of streams, which distinguish a stream from a deleted one of the same name."""

    def __init__(self, stream: JetStreamContext) -> None:
        self._stream = stream
        self._known: dict[str, tuple[bytes, float]] = {}

    async def tag(self, name: str, *, fresh: bool = False) -> bytes:
        """Return a stream's tag; empty if the server does not report one."""
        known = self._known.get(name)
        if known is not None and not fresh and time.monotonic() - known[1] < TAG_AGE_MAX:
            return known[0]
        info = await self._stream.stream_info(name)
        tag = tag_of(info.created.isoformat() if info.created else None)
        self._known[name] = (tag, time.monotonic())
        return tag

    async def exists(self, name: str) -> bool:
        """Return whether a stream exists."""
        try:
            await self._stream.stream_info(name)
        except NotFoundError:
            return False
        return True


class Producer(Started):
    """A producer that stamps what it publishes with what the running handler has seen and written.

    ``config`` are the arguments of ``nats.connect``; ``horizon`` is the age in seconds from which
    positions are left out.
    """

    def __init__(self, config: Mapping[str, Any], *, horizon: float | None = None) -> None:
        if horizon is not None and not is_time(horizon):
            raise UsageError(f"horizon is {horizon!r}; expected seconds greater than 0, or None")
        self.horizon = horizon
        self._config = checked_config(config)
        self.client: Client | None = None
        self._stream: JetStreamContext | None = None
        self._streams: _Streams | None = None
        self._last: dict[str, int] = {}

    async def start(self) -> None:
        """Connect."""
        self.client = await _connect(self._config)
        self._stream = self.client.jetstream(timeout=PATIENCE)
        self._streams = _Streams(self._stream)

    async def close(self) -> None:
        """Disconnect."""
        if self.client is not None:
            await self.client.close()

    async def send(
        self,
        subject: str,
        value: bytes,
        *,
        headers: Mapping[str, str] | None = None,
        context: Context | None = None,
    ) -> int:
        """Publish a message as an effect of what the context has seen and written.

        Returns its number in its stream, once it is acknowledged.
        """
        if self._stream is None or self._streams is None:
            raise UsageError("the producer is not started; use it as `async with Producer(...)`")
        target = Log(subject, -1)
        async with writing(target, context, own=True, horizon=self.horizon) as (stamp, past):
            stamped = {**(headers or {}), HEADER: as_text(stamp)}
            try:
                ack = await self._stream.publish(
                    subject, value, headers=stamped, timeout=PUBLISH_PATIENCE
                )
                is_back = ack.seq <= self._last.get(ack.stream, 0) and not ack.duplicate
                tag = await self._streams.tag(ack.stream, fresh=is_back)
            except _FAILURES as error:
                raise BrokerError(f"cannot publish to {subject!r}: {error!r}") from error
        self._last[ack.stream] = max(ack.seq, 0 if is_back else self._last.get(ack.stream, 0))
        past.report(target, ack.seq, time.time(), at=Log(ack.stream, 0, tag))
        return int(ack.seq)


class Record(reading.Record):
    """A message of a stream that its group may process now."""

    __slots__ = ()

    raw: Msg

    @property
    def subject(self) -> str:
        """The message's subject."""
        return str(self.raw.subject)

    @property
    def value(self) -> bytes:
        """The message's data."""
        return bytes(self.raw.data)

    @property
    def headers(self) -> dict[str, str]:
        """The message's headers, except the one with the positions."""
        return {k: v for k, v in (self.raw.headers or {}).items() if k != HEADER}


class Consumer(Instance, Started):
    """One instance of a group: yields messages after their causes.

    Parameters
    ----------
    config
        The arguments of ``nats.connect``, and ``durable``: the name of the group's durable
        consumers, which are made if they are not there; ``filters``: for some streams, the subject
        that the group reads; ``ack_wait``: seconds until an unfinished message of an instance that
        is gone comes again (30).
    topics
        The names of the streams.
    order, limit, on_limit, events
        As those of the consumer in :mod:`antecede.logs.confluent`.
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
        if not config.get("durable"):
            raise UsageError(
                "the config has no durable; give the name of the group's durable consumers"
            )
        super().__init__(
            str(config["durable"]),
            topics, order=order, limit=limit, on_limit=on_limit, events=events, ordered=False,
        )  # fmt: skip
        self._config = dict(config)
        self._filters: dict[str, str] = dict(config.get("filters") or {})
        #: The subjects that the durable consumer of each stream has.
        self._subjects: dict[str, list[str]] = {}
        self._ack_wait = float(config.get("ack_wait", 30.0))
        self._records: dict[str, dict[int, Record]] = {name: {} for name in self._topics}
        self._held: dict[Key, Record] = {}
        self._ready: deque[Record] = deque()
        self._finished: deque[tuple[Record, bool]] = deque()
        self._floors: dict[Log, int] = {}
        self._work = asyncio.Event()
        self._tasks = Tasks(self._topics)
        self.client: Client | None = None
        self._stream: JetStreamContext | None = None
        self._streams: _Streams | None = None

    async def start(self) -> None:
        """Connect, and create the durable consumers that do not exist."""
        self.client = await _connect(self._config)
        self._stream = self.client.jetstream(timeout=PATIENCE)
        self._streams = _Streams(self._stream)
        try:
            for name in self._topics:
                await self._require_durable(name)
            await self._identify()
        except BaseException:
            await self.client.close()
            raise
        pulls = [partial(self._pull, name) for name in self._topics]
        self._tasks.start(self._tend, self._beat, *pulls)

    async def _require_durable(self, name: str) -> None:
        assert self._stream is not None
        assert self._streams is not None
        subject = self._filters.get(name)
        try:
            info = await self._stream.consumer_info(name, self.group)
        except NotFoundError:
            if not await self._streams.exists(name):
                raise UsageError(f"there is no stream {name!r}; create it first") from None
            made = ConsumerConfig(
                durable_name=self.group,
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=self._ack_wait,
                filter_subject=subject,
            )
            info = await self._stream.add_consumer(name, made)
        if info.config.ack_policy not in (AckPolicy.EXPLICIT, "explicit"):
            raise UsageError(
                f"consumer {self.group!r} of stream {name!r} acknowledges {info.config.ack_policy}"
                "; order needs one that acknowledges each message: ack_policy explicit"
            )
        self._ack_wait = min(self._ack_wait, info.config.ack_wait or self._ack_wait)
        one = info.config.filter_subject
        found = list(info.config.filter_subjects or ([one] if one else []))
        if subject and found != [subject]:
            raise UsageError(
                f"consumer {self.group!r} of stream {name!r} is there with the filter "
                f"{', '.join(found) or '>'}, not {subject}; leave the filter out, or change one"
            )
        self._subjects[name] = found or [">"]

    async def _identify(self) -> None:
        assert self._streams is not None
        asked, tags = time.monotonic(), {}
        for name in self._topics:
            with suppress(*_FAILURES):
                tags[name] = await self._streams.tag(name, fresh=True)
        self._gate.identify(tags, asked)

    def stop(self) -> None:
        """End the iteration over records."""
        self._tasks.stop()

    async def close(self) -> None:
        """Acknowledge what is processed, return the rest and disconnect."""
        await self._tasks.end()
        if self.client is not None:
            with suppress(*_FAILURES):
                await self._acknowledge()
                for records in self._records.values():
                    for record in records.values():
                        await record.raw.nak()
            with suppress(*_FAILURES):
                await self.client.close()
        if self._events is not None:
            self._events.close()
            self._events = None

    def __aiter__(self) -> AsyncIterator[Record]:
        """Yield records until :meth:`stop`; several may be handled at the same time."""
        return self._tasks.iterate(self._take)

    def _take(self) -> Record | None:
        if not self._ready:
            return None
        self.metrics.records += 1
        return self._ready.popleft()

    def _finish(self, record: Record, is_done: bool) -> None:
        self._finished.append((record, is_done))
        self._tasks.wake(self._work)

    async def _pull(self, name: str) -> None:
        """Fetch a stream's messages, as many as there is room for."""
        assert self._stream is not None
        pull = await self._stream.pull_subscribe_bind(self.group, name)
        while True:
            here = self._records[name]
            room = HOLD_MAX - len(here)
            if room <= 0 and any((name, number) not in self._held for number in here):
                await asyncio.sleep(PACE)  # until handlers make room
                continue
            try:
                found = await pull.fetch(max(1, min(FETCHED_MAX, room)), timeout=1)
            except TimeoutError:
                continue
            except _FAILURES as error:
                self.metrics.errors += 1
                self._remark(f"cannot fetch from {name}, and tries again: {error!r}")
                await asyncio.sleep(0.2)
                continue
            for message in found:
                await self._arrived(name, message)
            if room <= 0:
                await asyncio.sleep(0.1)

    async def _arrived(self, name: str, message: Msg) -> None:
        details = message.metadata
        number = details.sequence.stream
        here = self._records[name]
        if number in here:  # redelivered while we have it: answer to the newer one
            here[number].raw = message
            return
        place = self._gate.log(name, 0)
        moment = details.timestamp.timestamp()
        record = Record(place, number, message, _header_of(message), moment, self._finish)
        record.attempts = max(0, details.num_delivered - 1)
        here[number] = record
        needs = record.needs
        if record.fault:
            refuse(record, self.metrics)
        if self._order == "off":
            self._start(record)
            return
        missing = self._gate.offer(place, number, needs, time.monotonic(), (name, number))
        record.early = missing is not None
        if missing is None or self._gate.shadow:
            self._start(record)
            self._work.set()  # a shadow looks up whether it was early
            return
        self._held[name, number] = record
        self._work.set()
        if len(here) > HOLD_MAX:
            await self._give_back(name)

    async def _give_back(self, name: str) -> None:
        """Return the youngest waiting message of a stream: the oldest can start first."""
        number = max(number for stream, number in self._held if stream == name)
        record = self._held.pop((name, number))
        del self._records[name][number]
        self._gate.drop((name, number))
        with suppress(*_FAILURES):
            await record.raw.nak(delay=BACK_AFTER)

    def _start(self, record: Record) -> None:
        self._ready.append(record)
        self._tasks.wake()

    async def _tend(self) -> None:
        """Acknowledge what is finished; look up what records wait for; start what is ready."""
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                await self._acknowledge()
                asked = time.monotonic()
                if self._held or self._gate.has_uncounted:
                    await self._look_up()
                self._gate.count(asked)
            except _FAILURES as error:
                self.metrics.failed_look_ups += 1
                self._remark(f"a look-up failed and is repeated: {error!r}")
                await asyncio.sleep(0.1)
            for key, unmet, gave_up in self._gate.ready(time.monotonic()):
                self._start_held(key, unmet, gave_up=gave_up)  # type: ignore[arg-type] # as offered
            if self._held or self._finished or self._gate.has_uncounted:
                self._work.set()
                await asyncio.sleep(PACE)

    def _start_held(self, key: Key, unmet: dict[Log, int], *, gave_up: bool) -> None:
        record = self._held.pop(key)
        self._start(record)
        error = start_without(record, unmet, self._gate, self._on_limit, gave_up=gave_up)
        if error is not None:
            self._tasks.fail(error)

    async def _acknowledge(self) -> None:
        while self._finished:
            record, _ = self._finished[0]
            here = self._records[record.log.topic]
            if here.get(record.offset) is not record:
                self._finished.popleft()  # answered already
                continue
            if any(is_done for other, is_done in self._finished if other is record):
                await record.raw.ack()
                self.metrics.commits += 1
                if self._events is not None:
                    self._events.processed(record.log, record.offset, record.needs)
            else:
                await record.raw.nak(delay=BACK_AFTER)
            self._finished.popleft()
            here.pop(record.offset, None)

    async def _look_up(self) -> None:
        """Ask for the floor of each stream that a record waits for, and look into its gaps."""
        assert self._streams is not None
        gate = self._gate
        if gate.strangers():
            await self._identify()
        for place in gate.ask():
            asked = time.monotonic()
            self.metrics.look_ups += 1
            try:
                await self._look_at(place, asked)
            except NotFoundError as error:
                self.metrics.failed_look_ups += 1
                self._remark(
                    f"stream {place.topic!r} or its consumer {self.group!r} was deleted: {error!r}"
                )
                if not await self._streams.exists(place.topic):
                    gate.gone([place], asked)

    async def _look_at(self, place: Log, asked: float) -> None:
        assert self._stream is not None
        info = await self._stream.consumer_info(place.topic, self.group)
        floor = (info.ack_floor.stream_seq if info.ack_floor else 0) + 1
        self._gate.learn({place: floor})
        wanted = [h.missing[place] for h in self._gate.heads.values() if place in h.missing]
        if wanted and floor < min(wanted) and self._floors.get(place) == floor:
            await self._look_into_gap(place, floor, asked)
        self._floors[place] = floor

    async def _look_into_gap(self, place: Log, floor: int, asked: float) -> None:
        """Find the next message that the group would get from the floor on (rule G).

        The messages in between are filtered out, deleted or expired.
        """
        assert self._stream is not None
        self.metrics.look_ups += 1
        state = (await self._stream.stream_info(place.topic)).state
        reached = state.last_seq + 1
        for subject in self._subjects[place.topic]:
            with suppress(NotFoundError):
                found = await self._stream.get_msg(
                    place.topic, seq=floor, subject=subject, next=True
                )
                reached = min(reached, int(found.seq or floor))
        self._gate.learn({place: reached})
        if self._gate.doubts(asked):
            self._gate.ends({place: state.last_seq + 1}, asked)

    async def _beat(self) -> None:
        """Tell the server that messages are still being worked on."""
        while True:
            await asyncio.sleep(self._ack_wait / 3)
            with suppress(*_FAILURES):
                for records in list(self._records.values()):
                    for record in list(records.values()):
                        await record.raw.in_progress()
