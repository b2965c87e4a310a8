"""The gate: whether a group may start a record now, and what to wait for, look up and publish.

One gate serves one instance of a group. It knows how far the group has come in each log: from what
this instance processed, and what the others published. A record starts when the group has come as
far in each of its logs as the record's sender had. There is no I/O, no clock and no thread here;
times are seconds that the caller passes in.

Rules
-----
P: an instance publishes only what is processed. G: it publishes progress over offsets that hold no
record for it. C: it publishes before it waits. S: a waiting record stops only its own log. W and T
are the sender's, in :mod:`antecede.logs.positions`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from heapq import heappop, heappush
from typing import Final, NamedTuple

from antecede.logs.positions import Log

#: After a record has waited this many seconds, ask the broker whether the log reaches that far.
DOUBT_AFTER: Final = 1.0
#: A broker may not know a new log yet; after this many seconds such a log counts as deleted.
GONE_AFTER: Final = 10.0
#: The most uncounted records of a shadow before the group's progress is looked up.
UNCOUNTED_MAX: Final = 1000


@dataclass(slots=True)
class Metrics:
    """What an instance has counted since it started."""

    #: Records that were handed out, some of them more than once.
    records: int = 0
    #: Records that arrived before the group was known to have processed one of their causes.
    early: int = 0
    #: The total of seconds that records have waited; 0 in a shadow, where none waits.
    waited: float = 0.0
    #: Records that were handed out after the limit, although a cause was missing.
    gave_up: int = 0
    #: Positions beyond the end of their log: it was truncated, or deleted and recreated.
    lost: int = 0
    #: Questions to the broker about the group's progress.
    look_ups: int = 0
    #: Questions that failed; each is asked again.
    failed_look_ups: int = 0
    commits: int = 0
    failed_commits: int = 0
    #: Records whose header could not be read.
    refused: int = 0
    #: Commits of this group that were not made by antecede.
    foreign_commits: int = 0
    #: Errors that the client reported and survived.
    errors: int = 0

    def __getitem__(self, name: str) -> float:
        if name not in self.keys():
            raise KeyError(name)
        value: float = getattr(self, name)
        return value

    @staticmethod
    def keys() -> list[str]:
        """Return the names of the figures."""
        return [field.name for field in fields(Metrics)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def as_dict(self) -> dict[str, float]:
        """Return the figures by name."""
        return asdict(self)


@dataclass(slots=True)
class Head:
    """A record that waits: what it needs, and what it still lacks."""

    log: Log
    offset: int
    needs: dict[Log, int]
    since: float
    missing: dict[Log, int]
    lost: dict[Log, int]


class Ready(NamedTuple):
    """A record that waited and may start; ``unmet`` are positions that it no longer waits for."""

    key: Hashable
    unmet: dict[Log, int]
    gave_up: bool


class Gate:
    """Decides which records an instance may start, and what it must publish and look up.

    Parameters
    ----------
    topics
        The topics that the group reads. Positions in other topics do not count.
    ordered
        One instance at a time processes a log, in its order (partitions of Kafka), so that a record
        need not wait for its own log. Otherwise (a consumer of JetStream that instances share) it
        waits there too.
    shadow
        Count early records, and wait for nothing. :meth:`count` counts those that depend on other
        instances, after a look-up.
    limit
        How many seconds a record waits at most; None: for ever.
    """

    def __init__(
        self,
        topics: Collection[str],
        *,
        ordered: bool = True,
        shadow: bool = False,
        limit: float | None = None,
    ) -> None:
        self.topics = frozenset(topics)
        self.ordered = ordered
        self.shadow = shadow
        self.limit = limit
        self.metrics = Metrics()
        #: Per log: every visible record below this offset is processed by the group.
        self.progress: dict[Log, int] = {}
        self.mine: set[Log] = set()
        #: The tag of each topic whose id the broker reports.
        self.tags: dict[str, bytes] = {}
        self.heads: dict[Hashable, Head] = {}
        self._watch: dict[Log, list[tuple[int, int, Hashable]]] = {}
        self._serial = 0
        self._woken: dict[Hashable, None] = {}
        self._dirty: set[Log] = set()
        self._uncounted: deque[tuple[float, Log, Mapping[Log, int]]] = deque()

    def log(self, topic: str, partition: int) -> Log:
        """Return the log of a topic's partition, with the tag if it is known."""
        return Log(topic, partition, self.tags.get(topic, b""))

    # Progress of the group.

    def assign(self, log: Log, committed: int | None) -> None:
        """Take over a log for which the group has published ``committed``."""
        self.mine.add(log)
        known = self.progress.get(log, -1)
        published = -1 if committed is None else committed
        self._advance(log, published)
        if known > published:
            self._dirty.add(log)  # processed here before, but that commit was lost: repeat it

    def revoke(self, log: Log) -> None:
        """Give up a log. What is known of its progress remains true."""
        self.mine.discard(log)
        self._dirty.discard(log)
        if self.ordered:
            self.drop(log)

    def reached(self, log: Log, offset: int) -> None:
        """Record that everything below ``offset`` is done in a log of this instance (rule G).

        The log's next visible record, or its end, is at ``offset``; below are no further records
        for us, only markers, aborted, compacted, deleted or filtered ones.
        """
        if self._advance(log, offset):
            self._dirty.add(log)

    def done(self, log: Log, offset: int) -> None:
        """Record that the record at ``offset`` and all before it in its log are processed."""
        if offset >= self.progress.get(log, -1):
            self._advance(log, offset + 1)
            self._dirty.add(log)

    def learn(self, published: Mapping[Log, int | None]) -> None:
        """Take in the group's published progress, as the broker reports it."""
        for log, offset in published.items():
            if offset is not None:
                self._advance(log, offset)

    def publish(self) -> dict[Log, int]:
        """Return what to publish now; call this before waiting (rule C)."""
        # A topic that was recreated meanwhile is ours, without any progress yet.
        found = {
            log: self.progress[log]
            for log in self._dirty
            if log in self.mine and log in self.progress
        }
        self._dirty.clear()
        return found

    def not_published(self, logs: Iterable[Log]) -> None:
        """Record that publishing failed, as in a rebalance, so that it is repeated."""
        self._dirty.update(log for log in logs if log in self.mine)

    @property
    def has_news(self) -> bool:
        """Whether there is something to publish."""
        return bool(self._dirty)

    # What the broker reports about logs.

    def ends(self, ends: Mapping[Log, int], asked: float) -> None:
        """Stop waiting for positions beyond the end of their log: it was truncated or recreated.

        ``asked`` is when the question was asked. The answer applies only to records that were
        waiting by then.
        """
        for key, head in self.heads.items():
            if head.since > asked:
                continue
            for log in [k for k, n in head.missing.items() if k in ends and n > ends[k]]:
                self._lose(head, log)
                self._woken[key] = None

    def gone(self, logs: Iterable[Log], asked: float) -> None:
        """Stop waiting for logs that the broker still does not know after enough time."""
        self.ends(dict.fromkeys(logs, 0), asked - GONE_AFTER)

    def identify(self, tags: Mapping[str, bytes], asked: float) -> None:
        """Take in the tags of topics. A topic with another tag is gone, with all its records."""
        for topic, tag in tags.items():
            before = self.tags.get(topic, b"")
            if topic not in self.tags or before != tag:
                self.tags[topic] = tag
                self.mine = {self.log(*k[:2]) if k.topic == topic else k for k in self.mine}
                for log in [k for k in self.progress if k.topic == topic and k.tag != tag]:
                    offset = self.progress.pop(log)
                    if log.tag == before == b"":  # its id was not known before: the same topic
                        self.reached(self.log(*log[:2]), offset)
        for key, head in self.heads.items():
            for log in [k for k in head.missing if k.topic in tags]:
                self._woken[key] = None
                if head.since <= asked and log.tag and log.tag != self.tags[log.topic]:
                    self._lose(head, log)

    def _lose(self, head: Head, log: Log) -> None:
        self.metrics.lost += 1
        position = head.missing.pop(log)
        for need, wanted in list(head.needs.items()):
            is_same = need.tag == log.tag or not (need.tag and log.tag)
            if need[:2] == log[:2] and is_same and wanted == position:
                head.lost[need] = head.needs.pop(need)

    # Records.

    def missing(self, log: Log, needs: Mapping[Log, int]) -> dict[Log, int]:
        """Return the positions that the group has not reached yet."""
        known = self.progress
        found: dict[Log, int] = {}
        for need, position in needs.items():
            if known.get(need, -1) >= position or need.topic not in self.topics:
                continue
            if self.ordered and need[:2] == log[:2]:
                continue
            tag = self.tags.get(need.topic, b"")
            if need.tag and tag and need.tag != tag:
                found[need] = position  # gone, or newer than what we know: ask the broker
                continue
            mine = Log(need.topic, need.partition, tag)
            if known.get(mine, -1) < position:
                found[mine] = max(position, found.get(mine, 0))
        return found

    def offer(
        self, log: Log, offset: int, needs: Mapping[Log, int], now: float, key: Hashable = None
    ) -> dict[Log, int] | None:
        """Return None if a record may start now; otherwise what is missing, and make it wait.

        A shadow also returns what is missing, but nothing waits. ``ready`` names the record by
        ``key``, or by its log if records of a log come one after the other.
        """
        if self.ordered and offset > self.progress.get(log, -1):
            self._advance(log, offset)
            self._dirty.add(log)
        missing = self.missing(log, needs)
        if not missing:
            return None
        if self.shadow and len(self._uncounted) < UNCOUNTED_MAX and all(map(self._asks, missing)):
            self._uncounted.append((now, log, needs))
            return missing
        self.metrics.early += 1
        if not self.shadow:
            key = log if key is None else key
            self.heads[key] = Head(log, offset, dict(needs), now, missing, {})
            self._wait(key, missing)
        return missing

    @property
    def has_uncounted(self) -> bool:
        """Whether a shadow must look up the group's progress to know which records were early."""
        return bool(self._uncounted)

    def count(self, asked: float) -> None:
        """Count a shadow's early records, after a look-up made at ``asked``."""
        while self._uncounted and self._uncounted[0][0] <= asked:
            _, log, needs = self._uncounted.popleft()
            self.metrics.early += bool(self.missing(log, needs))

    def ready(self, now: float) -> list[Ready]:
        """Return the records that waited and may start now, each once."""
        found: list[Ready] = []
        while self._woken:
            key, _ = self._woken.popitem()
            head = self.heads.get(key)
            if head is None:
                continue
            head.missing = self.missing(head.log, head.needs)
            if head.missing:
                self._wait(key, head.missing)
            else:
                self._leave(key, now)
                found.append(Ready(key, head.lost, gave_up=False))
        if self.limit is not None:
            for key, head in list(self.heads.items()):  # longest waiting first
                if now - head.since < self.limit:
                    break
                self._leave(key, now)
                self.metrics.gave_up += 1
                found.append(Ready(key, head.lost | head.missing, gave_up=True))
        return found

    def drop(self, key: Hashable) -> None:
        """Forget a waiting record that this instance gives back."""
        self.heads.pop(key, None)

    def ask(self) -> set[Log]:
        """Return the logs of other instances whose published progress is needed."""
        found = {log for head in self.heads.values() for log in head.missing if self._asks(log)}
        return found.union(*(self.missing(log, needs) for _, log, needs in self._uncounted))

    def _asks(self, log: Log) -> bool:
        """Return whether a look-up can help: other instances have the log, and it is not gone."""
        is_ours = self.ordered and log in self.mine
        return not is_ours and log.tag == self.tags.get(log.topic, b"")

    def doubts(self, now: float) -> set[Log]:
        """Return the logs waited for so long that their ends should be looked up."""
        return {
            log
            for head in self.heads.values()
            if now - head.since >= DOUBT_AFTER
            for log in head.missing
        }

    def waiting(self, now: float) -> dict[str, tuple[float, dict[Log, int]]]:
        """Return, for each waiting record, for how long and for which positions it waits."""
        return {
            f"{head.log}@{head.offset}": (now - head.since, dict(head.missing))
            for head in list(self.heads.values())  # also called from other threads
        }

    def strangers(self) -> set[str]:
        """Return the topics for which a waiting record has another tag than we do."""
        return {
            log.topic
            for head in self.heads.values()
            for log in head.missing
            if log.tag and log.tag != self.tags.get(log.topic, b"")
        }

    def _wait(self, key: Hashable, missing: dict[Log, int]) -> None:
        """Let a record wait until the first log that it lacks has been processed far enough."""
        log, position = next(iter(missing.items()))
        self._serial += 1
        heappush(self._watch.setdefault(log, []), (position, self._serial, key))

    def _leave(self, key: Hashable, now: float) -> None:
        head = self.heads.pop(key)
        self.metrics.waited += max(0.0, now - head.since)

    def _advance(self, log: Log, offset: int) -> bool:
        if offset <= self.progress.get(log, -1):
            return False
        self.progress[log] = offset
        watch = self._watch.get(log)
        if watch is not None:
            while watch and watch[0][0] <= offset:
                self._woken[heappop(watch)[2]] = None
            if not watch:
                del self._watch[log]
        return True
